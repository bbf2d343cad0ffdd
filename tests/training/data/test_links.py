import gzip
import re
from pathlib import Path

import pytest
import torch

from training.data.collating import ArrowPairs, PairCollator
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
from training.data.links import piece_links
from training.data.mixing import clean_and_mix
from training.settings.fields import DataArguments
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text


SOURCES = ["ab c", "c ab c", "c", "ab ab ab ab ab ab ab ab"]
TARGETS = ["c ab", "c", "ab c", "c c c c c c c c"]
LINKS = ["0-1 1-0", "0-0 2-0", "", "0-0 7-7"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a b c d ab cd"] * 9, 300, are_files=False, show_progress=False)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in {"train.en": SOURCES, "train.de": TARGETS, "train.links": LINKS}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def arguments(**fields):
    named = {"train_source": ["train.en"], "train_target": ["train.de"]}
    return DataArguments(**({**named, "guided_alignment": ["train.links"]} | fields))


def test_links_of_words_are_links_of_all_their_pieces(tokenizer):
    texts = ("abc d", "d acb")
    ids = tuple(tokenizer(text)["input_ids"] for text in texts)
    pieces = [tokenizer.convert_ids_to_tokens(side) for side in ids]
    assert pieces == [["▁ab", "c", "▁d", "</s>"], ["▁d", "▁a", "c", "b", "</s>"]]
    found = piece_links([0, 1, 1, 0], texts, ids, (tokenizer, tokenizer))
    # By hand: abc with acb, 2 pieces with 3; d with d.
    assert found == [0, 1, 0, 2, 0, 3, 1, 1, 1, 2, 1, 3, 2, 0]
    # Behind a tag, the source's pieces are one place further.
    tagged = piece_links([1, 0], texts, ids, (tokenizer, tokenizer), num_before=1)
    assert tagged == [3, 0]
    assert piece_links([], texts, ids, (tokenizer, tokenizer)) == []


def test_a_word_that_stays_is_linked_piece_by_piece(tokenizer):
    texts = ("abc d", "d abc")
    ids = tuple(tokenizer(text)["input_ids"] for text in texts)
    found = piece_links([0, 1, 1, 0], texts, ids, (tokenizer, tokenizer))
    assert found == [0, 1, 1, 2, 2, 0]


def test_pairs_keep_their_links_when_others_are_dropped(files):
    words = tokenizer_of_segmented_text(SOURCES, are_files=False)
    data = arguments(max_length=6)
    corpus = load_corpus(data)
    pairs = clean_and_mix(corpus, encode_pairs(corpus.splits["train"], words), seed=0)
    assert pairs["source"] == SOURCES[:3]  # the last one has 9 tokens
    # A piece a word: the pieces' links are the words'.
    assert pairs["piece_links"] == [[0, 1, 1, 0], [0, 0, 2, 0], []]
    widths = {"d_model": 8, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(words), **widths))
    collate = PairCollator(words, model)
    rows = ArrowPairs(pairs)
    # A row: the pair's place in the batch, its source piece, its target piece.
    expected = [[1, 0, 0], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    assert collate(rows.__getitems__([2, 1, 0]))["piece_links"].tolist() == expected
    assert collate([pairs[2], pairs[1], pairs[0]])["piece_links"].tolist() == expected
    none = collate(rows.__getitems__([2]))["piece_links"]
    assert none.shape == (0, 3) and none.dtype == torch.int64


@pytest.mark.parametrize("last", ["0-0", ""])
def test_many_pairs_at_the_beginning_may_have_no_links(files, tokenizer, last):
    lines = {"en": ["ab"] * 1001, "de": ["c"] * 1001, "links": [*[""] * 1000, last]}
    for side, texts in lines.items():
        Path(f"train.{side}").write_text("".join(f"{text}\n" for text in texts))
    pairs = encode_pairs(load_corpus(arguments()).splits["train"], tokenizer)
    assert pairs["piece_links"][:] == [*[[]] * 1000, [0, 0] if last else []]
    assert pairs.features["piece_links"].feature.dtype == "int64"


def test_corpora_with_and_without_links_are_mixed(files, tokenizer):
    with gzip.open("more.links.gz", "wt") as file:
        file.writelines(f"{line}\n" for line in LINKS)
    both = '"train_source": "train.en", "train_target": "train.de"'
    data = DataArguments(
        corpora=[
            f'{{"name": "plain", "weight": 1, {both}}}',
            f'{{"name": "linked", "weight": 1, {both}, "guided_alignment": "more.links.gz"}}',
        ]
    )
    corpus = load_corpus(data)
    encoded = encode_pairs(corpus.splits["train"], tokenizer)
    linked = [bool(links) for links in encoded["piece_links"]]
    assert linked == [False] * 4 + [True, True, False, True]
    mixed = clean_and_mix(corpus, encoded, seed=0)
    assert any(mixed["piece_links"]) and not all(mixed["piece_links"])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (LINKS[:3], "train.en has 4 lines and train.links has 3; guided_alignment has a line for"),
        ([*LINKS, "0-0", ""], "train.en has 4 lines and train.links has 6;"),
        ([LINKS[0], "0-0 1-x", "", ""], "train.links, line 2: '1-x' is no link"),
        ([LINKS[0], "0-1", "", ""], "line 2: 0-1 links word 1 of the target, which has 1 words"),
        (["2-0", "", "", ""], "line 1: 2-0 links word 2 of the source, which has 2 words"),
        (["0-0 0p1", "", "", ""], "train.links, line 1: links to learn are sure ones"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(files, lines, told):
    Path("train.links").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        load_corpus(arguments())
    assert "\n" not in str(error.value)


def test_a_missing_file_is_told(files):
    with pytest.raises(FileNotFoundError, match=r"There is no file no\.links"):
        load_corpus(arguments(guided_alignment=["no.links"]))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"guided_alignment": ["train.links"] * 2}, "names 2 files and train_source 1"),
        ({"train_file": ["more.tsv"]}, "names 1 files and train_source 1; give one for each"),
        ({"train_source": [], "train_target": [], "dataset": "demo"}, "names 1 files and train_s"),
        ({"corpora": ['{"name": "a", "dataset": "demo"}']}, "put .* into a mapping of corpora"),
    ],
)
def test_text_that_cannot_have_links_is_refused(files, fields, told):
    if "corpora" in fields:
        fields = {"train_source": [], "train_target": [], **fields}
    with pytest.raises(ValueError, match=told):
        load_corpus(arguments(**fields))


def test_lines_that_are_not_utf_8_are_dropped_with_their_links(files):
    Path("train.en").write_bytes(b"\xff\n" + "\n".join(SOURCES[1:]).encode() + b"\n")
    corpus = load_corpus(arguments(drop_undecodable=True))
    assert corpus.splits["train"]["word_links"][:2] == [[], [0, 0, 2, 0]]
