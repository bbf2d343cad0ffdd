import argparse
import os
import shutil
from pathlib import Path

import pytest
import torch

from tests.translation.ctranslate2_models import random_sentences, save, talkative_model
from vaswani_hf import Translator
from vaswani_hf.cli import main
from vaswani_hf.cli.runs import describe_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two models with the same pieces, which translate differently, and a text."""
    path, model = tmp_path_factory.mktemp("two"), talkative_model()  # which seeds what is drawn
    first = save(model, path / "first")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    second = save(model, path / "second")
    (path / "text").write_text("".join(f"{line}\n" for line in random_sentences(8, 6)))
    return str(first), str(second), str(path / "text")


@pytest.fixture
def run(capfd):
    """A function of a command: status, lines of standard output, standard error."""

    def call(*command):
        capfd.readouterr()
        status = main(list(command))
        out, error = capfd.readouterr()
        return status, out.splitlines(), error

    return call


def test_several_models_translate_together(folders, run):
    first, second, text = folders
    options = ("--model", first, "--model", second, "--device", "cpu", text)
    translator = Translator.from_pretrained([first, second], weights=[1, 4], device="cpu")
    with open(text, encoding="utf-8") as lines:
        expected = translator(lines.read().splitlines())
    status, found, _ = run("translate", *options, "--weights", "1", "4")
    assert (status, found) == (0, expected)
    assert run("translate", *options)[1] != expected  # equal weights


def test_several_models_score_together(folders, run):
    first, second, text = folders
    options = ("--model", first, "--model", second, "--device", "cpu")
    files = ("--source", text, "--target", text)
    translator = Translator.from_pretrained([first, second], weights=[3, 1], device="cpu")
    with open(text, encoding="utf-8") as lines:
        sentences = lines.read().splitlines()
    status, found, _ = run("score", *options, "--weights", "3", "1", *files)
    assert status == 0
    log_probs = [float(line.split("\t")[0]) for line in found]
    expected = [score.log_prob for score in translator.score(sentences, sentences)]
    assert log_probs == pytest.approx(expected, abs=1e-5)


def test_a_run_is_told_apart_by_all_of_its_models(folders):
    first, second, text = folders

    def digest(*models):
        run = describe_run(argparse.Namespace(), [*map(Path, models)], input=os.stat(text))
        return run["model_sha256"]

    several = [(first,), (second,), (first, second), (second, first), (first, first)]
    assert len({digest(*models) for models in several}) == 5


def test_what_a_run_writes_is_no_part_of_its_model(folders, tmp_path):
    model = shutil.copytree(folders[0], tmp_path / "model")
    output = model / "found.json"

    def digest():
        return describe_run(argparse.Namespace(), [model], output)["model_sha256"]

    before = digest()
    for name in (output.name, "found.txt", "results.json", "log_history.json"):
        (model / name).write_text("{}")
    assert digest() == before
    (model / "vocab.txt").write_text("a")
    assert digest() != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weights", "1"], "--weights must be as many as the models, 2, got 1"),
        (["--weights", "1", "-1"], "weights must be positive numbers, got weights=[1.0, -1.0]"),
        (["--engine", "ctranslate2"], "--engine ctranslate2 translates by one model, got 2"),
        (["--model", "nowhere/at/all"], "There is no folder nowhere/at/all"),
    ],
)
def test_what_cannot_be_an_ensemble_is_refused(folders, run, options, message):
    first, second, text = folders
    status, lines, error = run("translate", text, "--model", first, "--model", second, *options)
    assert (status, lines) == (1, []) and message in error


def test_weights_are_for_transformers(folders, run):
    command = ("translate", folders[2], "--model", folders[0], "--weights", "2")
    assert "--weights is for --engine tr" in run(*command, "--engine", "ctranslate2")[2]


def test_a_file_after_the_weights_is_told_where_it_belongs(folders, capsys):
    with pytest.raises(SystemExit):
        main(["translate", "--model", folders[0], "--weights", "1", "text.en"])
    assert "'text.en' is no number; other arguments stand before" in capsys.readouterr().err


def test_an_ensemble_does_not_align(folders, run):
    first, second, text = folders
    sides = ("--source", text, "--target", text)
    error = run("align", "--model", first, "--model", second, *sides)[2]
    assert "an ensemble has no heads of its own, got 2 models; name one of them" in error
