import copy
import shutil

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from vaswani_hf import Translator, train_tokenizer
from vaswani_hf.hub.folder import export
from vaswani_hf.translation.loading import (
    check_finite,
    forbidden_pieces,
    load_tokenizers,
    read_json,
)


@pytest.fixture(scope="module")
def folder(copier, tmp_path_factory):
    path = tmp_path_factory.mktemp("copier")
    export(*copier, path)
    return path


def test_the_target_has_the_tokenizer_of_its_subfolder(folder, tmp_path):
    tokenizer, target_tokenizer = load_tokenizers(folder)
    assert target_tokenizer is None and len(tokenizer("a b")["input_ids"]) == 3
    both = shutil.copytree(folder, tmp_path / "both")
    capitals = train_tokenizer(["A B"], 300, are_files=False, show_progress=False)
    capitals.save_pretrained(both / "target_tokenizer")
    assert load_tokenizers(both)[1].get_vocab() == capitals.get_vocab()


def test_a_folder_without_a_tokenizer_is_told_how_to_get_one(tmp_path):
    with pytest.raises(ValueError, match=rf"{tmp_path} holds no tokenizer.*save_pretrained"):
        load_tokenizers(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_not_finite_is_named(copier, value):
    model = copy.deepcopy(copier[0])
    check_finite(model)
    with torch.no_grad():
        model.model.encoder.layers[0].feed_forward.inner.weight[3, 5] = value
    message = r"1 of the 8192 values of model\.encoder\.layers\.0\.feed_forward\.inner\.weight of"
    with pytest.raises(ValueError, match=message):
        check_finite(model)


def test_forbidden_pieces_are_bad_words_and_suppressed_ones():
    config = {"bad_words_ids": [[5, 6], [7]], "suppress_tokens": [1]}
    assert forbidden_pieces(config) == [[5, 6], [7], [1]]
    assert forbidden_pieces({"bad_words_ids": None}) == []


def test_a_damaged_file_of_json_is_named(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"num_beams"')
    with pytest.raises(ValueError, match=r"generation_config\.json is not valid JSON"):
        read_json(tmp_path / "generation_config.json")


def test_a_missing_file_of_json_is_none(tmp_path):
    assert read_json(tmp_path / "none.json") is None


def test_a_model_whose_parts_lie_on_the_disk_says_the_same(folder, tmp_path):
    plain = Translator.from_pretrained(folder)
    memory = plain.model.get_memory_footprint() * 3 // 4
    model = AutoModelForSeq2SeqLM.from_pretrained(
        folder, device_map="auto", max_memory={"cpu": memory}, offload_folder=tmp_path
    )
    assert set(model.hf_device_map.values()) == {"cpu", "disk"}
    letters = ["a b c", "h g", "d e f a"]
    assert Translator(model, plain.tokenizer)(letters) == plain(letters)


def test_a_tensor_of_a_quantizer_is_not_asked_whether_it_is_finite(copier):
    class Quantized(torch.Tensor):  # as torchao's, which lacks most functions
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.isfinite:
                raise NotImplementedError(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    model = copy.deepcopy(copier[0])
    layer = model.model.encoder.layers[0].feed_forward.inner
    layer.weight = torch.nn.Parameter(layer.weight.data.as_subclass(Quantized))
    assert isinstance(layer.weight, Quantized)
    check_finite(model)
