"""A `tokenizer.json` by itself gives what AutoTokenizer gives."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedConfig

from vaswani_hf import train_tokenizer
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text
from vaswani_hf.translation.tokenizer_file import TokenizerFile


SPECIAL = ["</s>", "<pad>", "<unk>", "<0x41>", "\\</s>", "\u2581", "@@", "a@@ b"]
TEXT = ["ein Haus, 1984 Häuser", "das Häuschen </s> <pad>", "a@@ b", *SPECIAL] * 3
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SENTENCES = st.lists(
    st.lists(ANY_TEXT | st.sampled_from([*SPECIAL, " ", "Haus", "19"]), max_size=6).map("".join),
    min_size=1,
    max_size=4,
)


def save(tokenizer, folder):
    tokenizer.save_pretrained(folder)
    return TokenizerFile.load(folder), AutoTokenizer.from_pretrained(
        folder, config=PreTrainedConfig()
    )


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Tokenizers of every kind that we make, by themselves and by AutoTokenizer."""
    tokenizers = [
        train_tokenizer(TEXT, 400, are_files=False, show_progress=False),
        train_tokenizer(
            TEXT, 350, are_files=False, show_progress=False, split_digits=True, model_max_length=9
        ),
        tokenizer_of_segmented_text(TEXT, are_files=False),
    ]
    # As others make them: the text "</s>" is the special piece.
    tokenizers.append(train_tokenizer(TEXT, 400, are_files=False, show_progress=False))
    tokenizers[-1].split_special_tokens = False
    return [save(tokenizer, tmp_path_factory.mktemp("tokenizer")) for tokenizer in tokenizers]


@given(SENTENCES)
@example(["a </s>b", "</s>", "", " ", "\u2581a", "e\u0301", "\U0001f600", "1984</s>"])
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_ids_are_those_of_the_library(pairs, sentences):
    for alone, library in pairs:
        assert alone(sentences)["input_ids"] == library(sentences)["input_ids"]


@given(st.lists(st.lists(st.integers(0, 500), max_size=20), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
def test_text_is_that_of_the_library(pairs, sequences):
    for alone, library in pairs:
        for skip in (True, False):
            found = alone.batch_decode(sequences, skip_special_tokens=skip)
            assert found == library.batch_decode(sequences, skip_special_tokens=skip)


def test_the_text_of_a_special_piece_is_spelled_out_or_not_as_the_folder_says(pairs):
    eos = pairs[0][1].eos_token_id
    assert [alone(["</s>"])["input_ids"][0].count(eos) for alone, _ in pairs] == [1, 1, 1, 2]


def change(folder, name, **entries):
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | entries))


@pytest.mark.parametrize(
    "entries",
    [
        {"tokenizer_class": "MarianTokenizer"},
        {"clean_up_tokenization_spaces": True},
        {"add_eos_token": True},
        {"added_tokens_decoder": {}},
        {"eos_token": "<end>"},
        {"eos_token": {"content": "</s>", "__type": "AddedToken"}},
    ],
    ids=str,
)
def test_what_the_library_would_change_is_left_to_it(pairs, tmp_path, entries):
    pairs[0][1].save_pretrained(tmp_path)
    assert TokenizerFile.load(tmp_path) is not None
    change(tmp_path, "tokenizer_config.json", **entries)
    assert TokenizerFile.load(tmp_path) is None


def test_a_special_piece_that_the_library_would_redefine_is_left_to_it(pairs, tmp_path):
    pairs[0][1].save_pretrained(tmp_path)
    tokens = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    change(tmp_path, "tokenizer.json", added_tokens=[token | {"lstrip": True} for token in tokens])
    assert TokenizerFile.load(tmp_path) is None


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_folder_that_lacks_a_file_is_left_to_the_library(pairs, tmp_path, name):
    pairs[0][1].save_pretrained(tmp_path)
    (tmp_path / name).unlink()
    assert TokenizerFile.load(tmp_path) is None


def test_files_of_older_versions_are_left_to_the_library(pairs, tmp_path):
    pairs[0][1].save_pretrained(tmp_path)
    shutil.copy(tmp_path / "tokenizer_config.json", tmp_path / "special_tokens_map.json")
    assert TokenizerFile.load(tmp_path) is None


def test_a_file_that_cuts_or_pads_does_neither_here(pairs, tmp_path):
    pairs[0][1].save_pretrained(tmp_path)
    tokenizer = TokenizerFile.load(tmp_path).tokenizer
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=20)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    library = AutoTokenizer.from_pretrained(tmp_path, config=PreTrainedConfig())
    sentences = ["ein Haus, 1984 Häuser", "a"]
    expected = library(sentences)["input_ids"]
    assert len(expected[0]) > 3 and len(expected[1]) < 20
    assert TokenizerFile.load(tmp_path)(sentences)["input_ids"] == expected
