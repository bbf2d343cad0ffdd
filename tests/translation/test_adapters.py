"""Adapters of PEFT: loaded, merged, and several on one base. PEFT's own forward is what they do."""

import argparse
import json
import shutil

import pytest
import torch

from tests.small_models import small_model
from vaswani_hf import Translator, VaswaniForConditionalGeneration
from vaswani_hf.cli import main
from vaswani_hf.cli.engines import load_translators
from vaswani_hf.cli.runs import describe_run, folders_of
from vaswani_hf.conversion import merge_adapter, to_ctranslate2
from vaswani_hf.hub.folder import check_folder, export


peft = pytest.importorskip("peft")
LETTERS = ["a b c", "h g", "d e f a"]


def adapt(base, folder, seed, **settings):
    """An adapter of drawn numbers, as PEFT writes it, and the logits of PEFT's own forward."""
    torch.manual_seed(seed)
    settings = {"target_modules": ["query_proj", "outer"], "r": 3, "lora_alpha": 12} | settings
    model = VaswaniForConditionalGeneration.from_pretrained(base)
    adapted = peft.get_peft_model(model, peft.LoraConfig(**settings))
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn_like(parameter))
    adapted.save_pretrained(folder)
    return logits(adapted)


@torch.no_grad()
def logits(model):
    ids = torch.randint(4, 12, (3, 7), generator=torch.Generator().manual_seed(0))
    return model.eval()(input_ids=ids, decoder_input_ids=ids).logits


@pytest.fixture(scope="module")
def adapters(copier, tmp_path_factory):
    """A base, two adapters on it, and the logits of each by PEFT."""
    place = tmp_path_factory.mktemp("adapters")
    export(*copier, place / "base")
    found = {name: adapt(place / "base", place / name, seed) for seed, name in enumerate("xy")}
    return place, found


def test_an_adapter_is_loaded_with_the_base_that_it_names(adapters):
    place, found = adapters
    for name, expected in found.items():
        translator = Translator.from_pretrained(place / name)
        torch.testing.assert_close(logits(translator.model), expected, atol=1e-5, rtol=1e-5)
        assert not any("lora" in name for name, _ in translator.model.named_modules())
        assert translator.folder == place / name


def test_adapters_share_what_they_leave_alone_and_do_not_change_their_base(adapters):
    place, found = adapters
    base = Translator.from_pretrained(place / "base")
    before = logits(base.model)
    adapted = {name: base.with_adapter(place / name, num_beams=2) for name in found}
    for name, expected in found.items():
        torch.testing.assert_close(logits(adapted[name].model), expected, atol=1e-5, rtol=1e-5)
        assert adapted[name].num_beams == 2
        theirs = dict(adapted[name].model.named_parameters())
        differing = {
            name.split(".")[-2]
            for name, parameter in base.model.named_parameters()
            if theirs[name].data_ptr() != parameter.data_ptr()
        }
        assert differing == {"query_proj", "outer"}
    assert torch.equal(logits(base.model), before)


def test_biases_of_an_adapter_do_not_reach_its_base(adapters, tmp_path):
    place, _ = adapters
    expected = adapt(place / "base", tmp_path / "adapter", 5, bias="all")
    base = Translator.from_pretrained(place / "base")
    before = logits(base.model)
    adapted = base.with_adapter(tmp_path / "adapter")
    torch.testing.assert_close(logits(adapted.model), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(logits(base.model), before)
    half = Translator.from_pretrained(tmp_path / "adapter", dtype="bfloat16")
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.bfloat16}


def test_a_server_holds_the_base_of_its_adapters_once(adapters):
    place, found = adapters
    arguments = argparse.Namespace(engine="transformers", threads=1, device="cpu")
    models = [[str(place / name)] for name in ("base", *found)]
    loaded = load_translators(arguments, *models)
    for translator, expected in zip(loaded[1:], found.values(), strict=True):
        torch.testing.assert_close(logits(translator.model), expected, atol=1e-5, rtol=1e-5)
    embeddings = {one.model.model.shared.weight.data_ptr() for one in loaded}
    assert len(loaded) == 3 and len(embeddings) == 1


@pytest.mark.parametrize("way", ["target_modules", "modules_to_save"])
def test_merged_is_the_adapter_where_the_embedding_is_tied_too(adapters, tmp_path, way):
    place, _ = adapters
    settings = {"target_modules": ["value_proj"]} | {way: ["shared"]}
    expected = adapt(place / "base", tmp_path / "adapter", 3, **settings)
    merge_adapter(tmp_path / "adapter", tmp_path / "merged")
    merged = Translator.from_pretrained(tmp_path / "merged").model
    torch.testing.assert_close(logits(merged), expected, atol=1e-5, rtol=1e-5)
    assert not merged.config.tie_word_embeddings
    assert merged.lm_head.weight.data_ptr() != merged.model.shared.weight.data_ptr()


def test_the_command_merges_and_translate_takes_adapter_and_base(adapters, tmp_path, capfd):
    place, found = adapters
    assert main(["merge", str(place / "x"), str(tmp_path / "merged")]) == 0
    assert check_folder(tmp_path / "merged")["tie_word_embeddings"]
    merged = Translator.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(logits(merged.model), found["x"], atol=1e-5, rtol=1e-5)
    (tmp_path / "text").write_text("\n".join(LETTERS))
    capfd.readouterr()
    asked = ["--model", str(place / "base"), "--adapter", str(place / "x")]
    assert main(["translate", *asked, str(tmp_path / "text")]) == 0
    assert capfd.readouterr().out.splitlines() == merged(LETTERS)


def test_a_base_that_has_moved_is_told_with_the_way_out(adapters, tmp_path, capsys):
    place, found = adapters
    shutil.copytree(place / "x", tmp_path / "x")
    path = tmp_path / "x" / "adapter_config.json"
    settings = json.loads(path.read_text()) | {"base_model_name_or_path": "/gone/base"}
    path.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"adapter of /gone/base.*--model BASE --adapter") as told:
        Translator.from_pretrained(tmp_path / "x")
    assert "\n" not in str(told.value)
    moved = Translator.from_pretrained(place / "base").with_adapter(tmp_path / "x")
    torch.testing.assert_close(logits(moved.model), found["x"], atol=1e-5, rtol=1e-5)
    asked = ["--base_model", str(place / "base")]
    assert main(["merge", str(tmp_path / "x"), str(tmp_path / "merged"), *asked]) == 0


def test_what_is_no_adapter_or_does_not_fit_is_refused(adapters, tmp_path):
    place, _ = adapters
    with pytest.raises(ValueError, match=r"base is no adapter: it has no adapter_config\.json"):
        merge_adapter(place / "base", tmp_path / "new")
    with pytest.raises(ValueError, match="x cannot be merged into an ensemble"):
        Translator.from_pretrained([place / "x", place / "y"]).with_adapter(place / "x")
    with pytest.raises(ValueError, match="x is an adapter, and a whole model is needed here"):
        check_folder(place / "x")
    with pytest.raises(ValueError, match="x is an adapter, and a whole model is needed here"):
        to_ctranslate2(place / "x", tmp_path / "new")
    small_model(vocab_size=400).save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match="x does not fit"):
        merge_adapter(place / "x", tmp_path / "new", base=tmp_path / "other")
    shutil.copytree(place / "x", tmp_path / "pickled")
    weights = tmp_path / "pickled" / "adapter_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ValueError, match=r"only adapter_model\.bin; pickled files are never read"):
        Translator.from_pretrained(tmp_path / "pickled")


def test_an_adapter_that_lacks_matrices_is_refused(adapters, tmp_path):
    from safetensors.torch import load_file, save_file

    place, _ = adapters
    shutil.copytree(place / "x", tmp_path / "x")
    path = tmp_path / "x" / "adapter_model.safetensors"
    weights = load_file(path)
    weights.pop(min(weights))
    save_file(weights, path)
    with pytest.raises(ValueError, match="1 of its matrices have no place in the model, or are"):
        Translator.from_pretrained(tmp_path / "x")


def test_embeddings_that_would_become_two_are_refused(adapters, tmp_path):
    place, _ = adapters
    adapt(place / "base", tmp_path / "adapter", 4, target_modules=["embed_tokens"])
    with pytest.raises(ValueError, match="which are one in its base"):
        merge_adapter(tmp_path / "adapter", tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_run_is_told_apart_by_its_adapter_too(adapters, tmp_path, monkeypatch):
    place, _ = adapters
    (tmp_path / "text").write_text("a b c\n")
    described = []

    def note(*arguments, **files):
        described.append(describe_run(*arguments, **files)["model_sha256"])
        return describe_run(*arguments, **files)

    monkeypatch.setattr("vaswani_hf.cli.translate.describe_run", note)
    command = ["translate", str(tmp_path / "text"), "--model", str(place / "base"), "--device"]
    command += ["cpu", "--adapter", str(tmp_path / "adapter"), "--output"]
    for name in "xy":  # one after the other in the same place
        shutil.copytree(place / name, tmp_path / "adapter", dirs_exist_ok=True)
        assert main([*command, str(tmp_path / name)]) == 0
    assert len(set(described)) == 2


def test_a_run_by_an_adapter_is_told_apart_by_its_base_too(adapters):
    place, _ = adapters
    models = [str(place / "x"), str(place / "base")]
    assert folders_of(models) == [place / "base", place / "x", place / "base"]
