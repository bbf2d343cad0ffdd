import json

import pytest

from tests.translation.ctranslate2_models import random_sentences
from vaswani_hf import Translator
from vaswani_hf.cli import main


pytest.importorskip("sacrebleu")


@pytest.fixture
def translate(talkative, tmp_path, capfd):
    """A function of options: status, standard output and error, for three lines."""
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in random_sentences(3, 6)))

    def call(*options):
        capfd.readouterr()
        status = main(["translate", "--model", str(talkative[0]), str(text), *options])
        return status, *capfd.readouterr()

    return call


def test_the_chosen_translations_are_written(translate, talkative):
    translator = Translator.from_pretrained(talkative[0], device="cpu", num_beams=5)
    expected = translator.mbr(random_sentences(3, 6), utility="bleu")
    status, out, _ = translate("--mbr", "bleu", "--num_beams", "5", "--device", "cpu")
    assert (status, out.splitlines()) == (0, [one.text for one in expected])
    _, out, _ = translate("--mbr", "bleu", "--num_beams", "5", "--format", "jsonl")
    for line, one in zip(out.splitlines(), expected, strict=True):
        (found,) = json.loads(line)["translations"]
        assert found["text"] == one.text
        assert found["utility"] == pytest.approx(one.utility, abs=1e-5)


def test_samples_are_chosen_from(translate, talkative):
    translator = Translator.from_pretrained(talkative[0], device="cpu")
    options = {"sampling_topk": 0, "temperature": 0.8, "seed": 4, "num_candidates": 9}
    expected = translator.mbr(random_sentences(3, 6), **options)
    typed = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    status, out, _ = translate("--mbr", "chrf", *typed)
    assert (status, out.splitlines()) == (0, [one.text for one in expected])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num_candidates", "3"], "--num_candidates is for --mbr only"),
        (["--mbr", "chrf", "--n_best", "2"], "--mbr writes one translation of each sentence"),
        (["--mbr", "chrf", "--sampling_topk", "0"], "--mbr needs --num_candidates"),
        (["--mbr", "chrf", "--split", "sentences"], "--mbr is for a sentence a line"),
        (["--mbr", "chrf", "--num_candidates", "0"], "num_candidates must be at least 1"),
        (
            ["--mbr", "chrf", "--num_candidates", "5", "--num_beams", "4"],
            "--num_candidates must be at most --num_beams",
        ),
    ],
)
def test_what_does_not_go_with_it_is_refused(translate, options, message):
    status, out, error = translate(*options)
    assert (status, out) == (1, "") and message in error
