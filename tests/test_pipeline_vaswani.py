"""`pipeline("vaswani-translation")` beside `Translator` and `generate()`."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
from transformers.pipelines.pt_utils import KeyDataset

from tests.translation.ctranslate2_models import random_sentences, save, talkative_model
from vaswani_hf import Translator, VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.hub.folder import REMOTE_CODE
from vaswani_hf.pipeline_vaswani import VaswaniTranslationPipeline


TASK = "vaswani-translation"


@pytest.fixture(scope="module")
def pipe(copier_folder):
    return pipeline(TASK, model=str(copier_folder), device="cpu")


@pytest.fixture(scope="module")
def two_vocabularies(tmp_path_factory):
    """The folder of a model with a target tokenizer of its own."""
    return save(talkative_model(), tmp_path_factory.mktemp("talkative"))


@pytest.fixture(scope="module")
def talker(two_vocabularies):
    return pipeline(TASK, model=str(two_vocabularies), device="cpu", local_files_only=True)


def texts(found):
    return [one["translation_text"] for one in found]


def test_a_sentence_gives_a_list_and_a_list_gives_one_of_the_same_length(pipe):
    assert pipe("a b c") == [{"translation_text": "a b c"}]
    assert pipe(["a b c", "h"]) == [{"translation_text": "a b c"}, {"translation_text": "h"}]
    assert pipe(("a",)) == [{"translation_text": "a"}]
    assert pipe([]) == []


def test_a_blank_sentence_stays_empty_and_changes_no_other(pipe):
    assert pipe("") == pipe(" \t") == [{"translation_text": ""}]
    assert texts(pipe(["a b", "", "  ", "c d e"], batch_size=4)) == ["a b", "", "", "c d e"]
    assert pipe("", return_tensors=True)[0]["translation_token_ids"].tolist() == []


@pytest.mark.parametrize("batch_size", [1, 7])
def test_translations_are_the_translators(two_vocabularies, talker, batch_size):
    sentences = ["", *random_sentences(20, longest=6), " "]
    for options in (
        {},
        {"num_beams": 1},
        {"num_beams": 3, "length_penalty": 2.0, "length_penalty_type": "wu"},
        {"max_extra_tokens": 2},
    ):
        expected = Translator.from_pretrained(two_vocabularies, device="cpu", **options)(sentences)
        assert len(set(expected)) > 4
        assert texts(talker(sentences, batch_size=batch_size, **options)) == expected


def test_several_translations_are_those_of_generate_and_their_scores(two_vocabularies, talker):
    model = AutoModelForSeq2SeqLM.from_pretrained(two_vocabularies)
    source = AutoTokenizer.from_pretrained(two_vocabularies)
    sentences = random_sentences(3, longest=5)
    search = {"num_beams": 4, "num_return_sequences": 3}
    search |= {"return_dict_in_generate": True, "output_scores": True}
    found = talker(sentences, batch_size=3, **search)
    for sentence, translations in zip(sentences, found, strict=True):
        outputs = model.generate(**source(sentence, return_tensors="pt"), **search)
        decoded = talker.target_tokenizer.batch_decode(outputs.sequences, skip_special_tokens=True)
        assert texts(translations) == decoded
        scores = torch.tensor([one["score"] for one in translations])
        torch.testing.assert_close(scores, outputs.sequences_scores)
    ((one, another),) = talker(sentences[:1], num_return_sequences=2)
    assert one.keys() == another.keys() == {"translation_text"}


def test_ids_are_the_hypothesis_without_start_and_padding(two_vocabularies, talker):
    sentences = random_sentences(9, longest=6)
    translator = Translator.from_pretrained(two_vocabularies, device="cpu")
    found = talker(sentences, batch_size=9, return_tensors=True)
    ids = [one["translation_token_ids"].tolist() for one in found]
    assert ids == translator.target_ids(translator.encode(sentences))
    assert len({len(one) for one in ids}) > 2
    # Cut off by their own limits, so that what follows in the batch is padding without an end.
    search = {"suppress_tokens": [1, 2], "max_extra_tokens": 2}
    found = talker(["s1", "s1 s2 s3"], batch_size=2, return_tensors=True, **search)
    assert [len(one["translation_token_ids"]) for one in found] == [4, 6]  # </s> is one of a source


def test_arguments_of_a_call_come_before_those_of_the_pipeline(copier):
    model, tokenizer = copier
    options = {"num_beams": 1, "max_new_tokens": 2}
    given = pipeline(TASK, model=model, tokenizer=tokenizer, device="cpu", **options)
    assert len(given("a b c", return_tensors=True)[0]["translation_token_ids"]) == 2
    longer = given("a b c", return_tensors=True, max_new_tokens=4)
    assert len(longer[0]["translation_token_ids"]) == 4
    assert len(given("a b c", return_tensors=True)[0]["translation_token_ids"]) == 2


@pytest.mark.parametrize("wrong", ["max_lenght", "src_lang", "truncation"])
def test_an_argument_that_nobody_knows_is_named(pipe, wrong):
    with pytest.raises(ValueError, match=wrong):
        pipe("a", **{wrong: 1})


def test_what_is_no_sentence_is_told_with_the_way_out(pipe):
    with pytest.raises(ValueError, match=r"A sentence must be a str, got int: 3; .*KeyDataset"):
        pipe(["a", 3])
    with pytest.raises(ValueError, match=r"got dict: \{'source': 'a b'\}"):
        list(pipe(row for row in [{"source": "a b"}]))


def test_any_number_of_sentences_is_read_as_it_is_needed(pipe):
    for make in (iter, lambda given: (sentence for sentence in given)):
        source = iter(["a b", "c", "", "d e", "f"])
        found = iter(pipe(make(source), batch_size=2))
        assert next(found) == [{"translation_text": "a b"}]
        assert list(source)  # not all of them were read


def test_a_column_of_a_dataset_is_translated(pipe):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"source": ["a b", "c", "d"]})
    expected = ["a b", "c", "d"]
    assert [texts(one)[0] for one in pipe(KeyDataset(dataset, "source"), batch_size=2)] == expected
    assert texts(pipe(dataset["source"])) == expected


def test_a_source_beyond_the_positions_is_told(copier):
    config = VaswaniConfig(
        vocab_size=len(copier[1]),
        **{"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        position_encoding="learned",
        max_position_embeddings=6,
    )
    model = VaswaniForConditionalGeneration(config)
    short = pipeline(TASK, model=model, tokenizer=copier[1], device="cpu")
    with pytest.raises(ValueError, match="max_position_embeddings=6"):
        short("d e f g h a")


def test_dropout_is_off_and_the_type_is_as_it_was_asked_for(copier, copier_folder):
    model, tokenizer = copier
    model.train()
    assert not pipeline(TASK, model=model, tokenizer=tokenizer, device="cpu").model.training
    half = pipeline(TASK, model=str(copier_folder), device="cpu", dtype="bfloat16")
    assert half.dtype == torch.bfloat16
    assert texts(half(["a b", "c"])) == ["a b", "c"]


# Folders


def test_with_the_package_no_code_of_a_folder_is_run(copier_folder, pipe):
    assert TASK in json.loads((copier_folder / "config.json").read_text())["custom_pipelines"]
    assert type(pipe) is VaswaniTranslationPipeline
    trusting = pipeline(TASK, model=str(copier_folder), device="cpu", trust_remote_code=True)
    assert type(trusting) is VaswaniTranslationPipeline
    config = AutoConfig.from_pretrained(copier_folder)
    config.custom_pipelines = {"theirs": {"impl": "x.Y"}, TASK: {}}
    assert config.custom_pipelines == {"theirs": {"impl": "x.Y"}}  # another's is left


def test_a_pipeline_without_code_is_saved_without_mentioning_any(talker, tmp_path):
    talker.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py"))
    config = json.loads((tmp_path / "config.json").read_text())
    assert not {"auto_map", "custom_pipelines"} & config.keys()
    again = pipeline(TASK, model=str(tmp_path), device="cpu")
    sentences = random_sentences(5, longest=6)
    assert again(sentences) == talker(sentences)


def test_a_pipeline_that_came_with_code_is_saved_with_it(pipe, tmp_path):
    pipe.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.glob("*.py")} == set(REMOTE_CODE)
    assert TASK in json.loads((tmp_path / "config.json").read_text())["custom_pipelines"]
    assert pipeline(TASK, model=str(tmp_path), device="cpu")("a b") == pipe("a b")


def test_a_pipeline_whose_code_is_not_at_hand_is_not_named(copier, tmp_path):
    config = VaswaniConfig.from_dict(copier[0].config.to_dict())
    config.custom_pipelines = {"lost": {"impl": "lost.Pipeline"}, "kept": {"impl": "mine.Pipeline"}}
    (tmp_path / "mine.py").touch()  # as the library's own way of saving a pipeline does before
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["custom_pipelines"] == {"kept": {"impl": "mine.Pipeline"}}


def test_a_target_tokenizer_may_be_given(copier, two_vocabularies, talker):
    model = AutoModelForSeq2SeqLM.from_pretrained(two_vocabularies)
    given = pipeline(
        TASK,
        model=model,
        tokenizer=talker.tokenizer,
        target_tokenizer=copier[1],
        device="cpu",
    )
    assert given.target_tokenizer is copier[1]
