from pathlib import Path

import pytest
import torch

from vaswani_hf import train_tokenizer
from vaswani_hf.cli import main
from vaswani_hf.hub.folder import export
from vaswani_hf.parsing import tree_of_text


@pytest.fixture(scope="module")
def folder(unlearned_parser, tmp_path_factory):
    path = tmp_path_factory.mktemp("parser")
    export(*unlearned_parser, path)
    return str(path)


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "sentences"
    path.write_text("the cat sees the dog .\n\nJohn sleeps\n")
    return str(path)


WORDS = [["the", "cat", "sees", "the", "dog", "."], ["John", "sleeps"]]


def parse(folder, sentences, *options):
    return main(["parse", sentences, "--model", folder, "--tokenized", *options])


def test_each_line_becomes_a_tree_over_its_words(folder, sentences, capfd):
    assert parse(folder, sentences) == 0
    first, blank, last = capfd.readouterr().out.splitlines()
    assert [tree_of_text(line).words() for line in (first, last)] == WORDS
    assert blank == ""


def test_trees_are_written_as_utf_8(folder, sentences, monkeypatch, capfd):
    Path(sentences).write_text("café sleeps\n", encoding="utf-8")
    with open(1, "w", encoding="latin-1", closefd=False) as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        assert parse(folder, sentences) == 0
    assert tree_of_text(capfd.readouterr().out).words() == ["café", "sleeps"]


def test_a_sentence_may_have_more_words_than_extra_tokens(
    unlearned_parser_with_words, sentences, tmp_path, capfd
):
    model, tokenizer = unlearned_parser_with_words
    export(model, tokenizer, tmp_path / "parser")
    words = ["the"] * (model.generation_config.max_extra_tokens + 5)
    Path(sentences).write_text(" ".join(words))
    assert parse(str(tmp_path / "parser"), sentences, "--num_beams", "1") == 0
    assert tree_of_text(capfd.readouterr().out).words() == words


def test_trees_are_indented_or_drawn(folder, sentences, tmp_path, capfd):
    assert parse(folder, sentences, "--format", "brackets") == 0
    expected = capfd.readouterr().out.splitlines()
    assert parse(folder, sentences, "--format", "indented") == 0
    found = capfd.readouterr().out
    assert " ".join(found.split()) == " ".join(" ".join(expected).split())
    pictures = tmp_path / "pictures"
    assert parse(folder, sentences, "--format", "svg", "-o", str(pictures)) == 0
    assert capfd.readouterr().out.split() == [f"{pictures}/1.svg", f"{pictures}/3.svg"]
    assert "sleeps</text>" in (pictures / "3.svg").read_text()


def test_a_sentence_that_is_too_long_is_named(folder, sentences, capfd):
    options = ["--max_source_tokens", "10", "--chunk_sentences", "1", "--num_beams", "1"]
    Path(sentences).write_text("John sleeps\n\nthe cat sees the dog and the mouse .\n")
    assert parse(folder, sentences, *options) == 1
    found = capfd.readouterr()
    assert found.out.count("\n") == 2
    assert f"{sentences}, line 3: A sentence of " in found.err


def test_threads_are_those_that_are_asked_for(folder, sentences):
    status = parse(folder, sentences, "--threads", "2")
    found = torch.get_num_threads()
    torch.set_num_threads(1)
    assert (status, found) == (0, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "svg"], "--format svg and --output FOLDER belong together"),
        (["--output", "x"], "--format svg and --output FOLDER belong together"),
        (["--num_beams", "0"], "--num_beams must be at least 1, got 0"),
        (["--threads", "0"], "--threads must be at least 1, got 0"),
    ],
)
def test_options_that_cannot_work_are_refused(folder, sentences, options, message, capfd):
    assert parse(folder, sentences, *options) == 1
    assert message in capfd.readouterr().err


def test_a_translator_is_refused(unlearned_parser, sentences, tmp_path, capfd):
    tokenizer = train_tokenizer(["a b"], 280, are_files=False, show_progress=False)
    export(unlearned_parser[0], tokenizer, tmp_path / "translator")
    assert parse(str(tmp_path / "translator"), sentences) == 1
    assert "was not trained with task: parsing" in capfd.readouterr().err
