import dataclasses

import pytest

from training.data.corpus import load_corpus, read_row, stream_pairs
from training.data.trees import links_of_tree, tree_files_of
from training.settings.fields import DataArguments
from vaswani_hf.parsing.words import numbers_of


MRG = "( (S (NP-SBJ (PRP He) ) (VP (VBZ seems) (S (-NONE- *))) (. .) ))\n"


@pytest.fixture
def treebank(tmp_path):
    """Sections 02, 03 and 22, of one file or two."""
    for section, name in [("02", "a"), ("02", "b"), ("03", "a"), ("22", "a")]:
        (tmp_path / section).mkdir(exist_ok=True)
        (tmp_path / section / f"{name}.mrg").write_text(MRG)
        (tmp_path / section / "readme").write_text("no tree")
    return tmp_path


def test_sections_are_found_by_their_names(treebank):
    data = DataArguments(treebank=str(treebank), train_trees=["02-03"], validation_trees=["22"])
    found = tree_files_of(data, "train")
    names = [file.relative_to(treebank).as_posix() for file in found]
    assert names == ["02/a.mrg", "02/b.mrg", "03/a.mrg"]
    assert [file.parent.name for file in tree_files_of(data, "validation")] == ["22"]
    assert tree_files_of(data, "test") is None


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["02-04"], FileNotFoundError, "no folder .*04"),
        (["03-02"], ValueError, "train_trees=03-02 names no section; write the lower"),
        (["trees.txt"], FileNotFoundError, "no file and no folder trees.txt"),
    ],
)
def test_trees_that_are_not_there_are_named(treebank, names, error, message):
    with pytest.raises(error, match=message):
        tree_files_of(DataArguments(treebank=str(treebank), train_trees=names), "train")


def test_sections_need_their_treebank():
    with pytest.raises(ValueError, match=r"train_trees=02-21 .* give --treebank FOLDER"):
        tree_files_of(DataArguments(train_trees=["02-21"]), "train")


def test_trees_become_pairs_of_words_and_brackets(treebank):
    file = treebank / "one_a_line.trees"
    file.write_text("(NP (NN a▁b) (NN c d))\n\n(S (-NONE- *))\n" + MRG)
    data = DataArguments(train_trees=[str(file)], test_trees=[str(treebank / "22")])
    corpus = load_corpus(data)
    # By hand. A word stays one word, and of traces alone nothing is left.
    expected = [("a_b c_d", "(NP NN NN )NP"), ("He seems .", "(S (NP PRP )NP (VP VBZ )VP . )S")]
    assert [tuple(row.values()) for row in corpus.splits["train"]] == expected
    assert [tuple(row.values()) for row in corpus.splits["test"]] == expected[1:]
    assert [read_row(row, data) for row in stream_pairs(data)] == expected
    assert list(corpus.sentences(("source",))) == ["a_b c_d", "He seems ."]


def test_a_tree_that_cannot_be_read_is_named(treebank):
    file = treebank / "broken"
    file.write_text("(NP (NN a))\n(NP (NN a)\n")
    with pytest.raises(ValueError, match="broken ends in line 2, but the tree of line 2 has 1 "):
        load_corpus(DataArguments(train_trees=[str(file)]))


def test_corpora_are_of_trees_or_of_text(treebank):
    file = treebank / "02" / "a.mrg"
    corpora = [
        f'{{"name": "one", "train_trees": "{file}"}}',
        f'{{"name": "two", "train_file": "{file}"}}',
    ]
    with pytest.raises(ValueError, match="of one and two one has trees and one other text"):
        load_corpus(DataArguments(corpora=corpora))


@pytest.mark.parametrize(
    ("sequence", "next_words"),
    [
        ("(S (NP NNP )NP (VP VBZ )VP . )S", [0, 0, 0, 1, 1, 1, 2, 2]),
        ("(S (NP John /NNP )NP (VP sleeps /VBZ )VP . /. )S", [0] * 4 + [1] * 4 + [2] * 3),
        ("(FRAG / // )FRAG", [0, 0, 0]),  # a word that is a slash
    ],
)
def test_each_token_is_linked_to_the_word_that_comes_next(sequence, next_words):
    links = links_of_tree(sequence.split(), 2 if "/" in sequence else 1)
    assert links == [number for place, word in enumerate(next_words) for number in (word, place)]


def test_training_pairs_of_trees_have_links_where_that_is_asked_for(treebank):
    named = {"treebank": str(treebank), "train_trees": ["02"], "validation_trees": ["22"]}
    corpus = load_corpus(DataArguments(**named, guided_alignment_of_trees=True))
    assert "word_links" not in corpus.splits["validation"].column_names
    assert corpus.splits["train"]["target"][0] == "(S (NP PRP )NP (VP VBZ )VP . )S"
    assert corpus.splits["train"]["word_links"][0][::2] == [0, 0, 0, 1, 1, 1, 2, 2]
    numbered = DataArguments(**named, guided_alignment_of_trees=True, numbers_in_trees=True)
    row = load_corpus(numbered).splits["train"][0]
    first, second, third = numbers_of(["He", "seems", "."])
    assert row["source"] == f"{first} He {second} seems {third} ."
    assert row["target"] == (
        f"(0S (1NP {first} He /PRP )1 (1VP {second} seems /VBZ )1 {third} . /. )0"
    )
    # To the words, which stand behind their numbers.
    assert row["word_links"][::2] == [1] * 5 + [3] * 5 + [5] * 4
    form = {"words_behind_numbers": False, "numbers_from_end": True}
    alone = load_corpus(dataclasses.replace(numbered, **form)).splits["train"]
    assert alone["source"][0] == "-3) He -2) seems -1) ."
    assert alone["target"][0] == "(0S (1NP -3) PRP )1 (1VP -2) VBZ )1 -1) . )0"
    # To the numbers, which say where to look.
    assert alone["word_links"][0][::2] == [0] * 4 + [2] * 4 + [4] * 3
    plain = load_corpus(DataArguments(**named)).splits["train"]
    assert plain.column_names == ["source", "target"]
