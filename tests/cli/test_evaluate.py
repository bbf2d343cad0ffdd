"""What `vaswani-hf evaluate` prints, against the command `sacrebleu`."""

import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.evaluation.texts import made_up_texts, write
from vaswani_hf.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    references, better, worse = made_up_texts()
    for name, lines in [("ref", references), ("better", better), ("worse", worse)]:
        write(path / name, lines)
    # Two empty outputs, of which one has an empty source, and three copies.
    write(path / "odd", ["", "", *references[2:5], *better[5:]])
    write(path / "source", ["", "a", *references[2:5], *["a b c"] * 55])
    return path


@pytest.fixture
def evaluate(folder, monkeypatch, capsys):
    """A function of options: status, standard output and error, in the folder of the texts."""
    monkeypatch.chdir(folder)

    def run(*options):
        status = main(["evaluate", *options])
        return status, *capsys.readouterr()

    return run


def sacrebleu(folder, *options):
    """What `sacrebleu` prints of BLEU, chrF++ and TER as JSON."""
    command = [sys.executable, "-m", "sacrebleu", "--confidence", "-f", "json", "-w", "12"]
    command += ["-m", "bleu", "chrf", "ter", "--chrf-word-order", "2", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("references", "ours", "theirs"),
    [
        (["ref"], [], []),
        (
            ["ref", "worse"],
            ["--lowercase", "--tokenize", "intl"],
            ["-lc", "--chrf-lowercase", "--tokenize", "intl"],
        ),
    ],
)
def test_every_digit_is_that_of_the_sacrebleu_command(folder, evaluate, references, ours, theirs):
    expected = sacrebleu(folder, *references, "-i", "better", *theirs)
    options = ("--hypotheses", "better", "--references", *references, *ours)
    _, out, _ = evaluate(*options, "--format", "json")
    found = json.loads(out)
    assert found["sentences"] == 60
    assert list(found["scores"]) == ["bleu", "chrf++", "ter"]
    for score, theirs in zip(found["scores"].values(), expected, strict=True):
        assert (score["name"], score["signature"]) == (theirs["name"], theirs["signature"])
        assert round(score["score"], 12) == theirs["score"]
        assert round(score["mean"], 12) == theirs["confidence_mean"]
        assert round(score["ci"], 12) == theirs["confidence_var"]
    # The same for readers: a line a metric.
    status, out, error = evaluate(*options)
    assert (status, error) == (0, "")
    for theirs in expected:
        interval = f"{theirs['confidence_mean']:.2f} ± {theirs['confidence_var']:.2f}"
        shown = [theirs["name"], f"{theirs['score']:.2f}", *interval.split(), theirs["signature"]]
        assert shown in [line.split() for line in out.splitlines()]


def test_sources_add_lengths_empty_outputs_and_copies(evaluate):
    options = ("--hypotheses", "odd", "--references", "ref", "--sources", "source")
    found = json.loads(evaluate(*options, "--metrics", "bleu", "--format", "json")[1])
    assert (found["empty"], found["copied"]) == (1, 3)
    bins = found["by_source_tokens"]
    assert sum(one["sentences"] for one in bins) == 60
    assert bins[0]["sentences"] >= 57 and bins[0]["scores"].keys() == {"bleu"}
    _, out, _ = evaluate(*options, "--metrics", "bleu")
    assert f"\n0 to 10        {bins[0]['sentences']}         " in out
    assert out.endswith("\n1 empty output, 3 that are their source\n")
    assert "chrF2++" not in out


def test_hypotheses_may_come_from_standard_input(folder, evaluate, monkeypatch):
    stdin = SimpleNamespace(buffer=io.BytesIO((folder / "better").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    options = ("--references", "ref", "--metrics", "bleu")
    assert evaluate("--hypotheses", "-", *options) == evaluate("--hypotheses", "better", *options)


def test_files_that_do_not_fit_are_named_with_their_lines(folder, evaluate):
    write(folder / "short", ["one", "two"])
    status, out, error = evaluate("--hypotheses", "short", "--references", "ref", "worse")
    assert (status, out) == (1, "")
    assert error == (
        "vaswani-hf: Files must have equally many lines, one for each sentence: short has 2, "
        "ref has 60, worse has 60.\n"
    )


def test_empty_files_are_refused_by_name(folder, evaluate):
    write(folder / "nothing", [])
    status, _, error = evaluate("--hypotheses", "nothing", "--references", "nothing")
    assert status == 1 and "There is nothing to judge: nothing has no lines." in error


def test_an_unknown_tokenizer_is_one_line_with_the_known_ones(evaluate):
    status, _, error = evaluate("--hypotheses", "ref", "--references", "ref", "--tokenize", "14a")
    assert status == 1 and error.count("\n") == 1
    assert "13a, intl, char" in error and "tokenize='14a'" in error


@pytest.mark.parametrize(("tokenize", "is_warned"), [("13a", True), ("none", False)])
def test_text_that_looks_tokenised_is_warned_of(folder, evaluate, caplog, tokenize, is_warned):
    write(folder / "tokens", ["Ja , gut ."] * 100)
    files = ("--hypotheses", "tokens", "--references", "tokens", "--metrics", "bleu")
    assert evaluate(*files, "--tokenize", tokenize)[0] == 0
    assert ("100 lines of tokens end in a full stop" in caplog.text) == is_warned


def test_a_missing_sacrebleu_is_an_error_that_names_the_extra(evaluate, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    status, _, error = evaluate("--hypotheses", "ref", "--references", "ref")
    assert status == 1 and 'pip install "vaswani-hf[evaluate]"' in error


@pytest.mark.parametrize(
    "command", [["evaluate", "--hypotheses", "better"], ["compare", "better", "worse"]]
)
def test_a_reader_that_has_gone_is_no_traceback(folder, monkeypatch, capfd, command):
    monkeypatch.chdir(folder)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert main([*command, "--references", "ref", "--metrics", "bleu"]) == 1
    assert capfd.readouterr().err == ""
