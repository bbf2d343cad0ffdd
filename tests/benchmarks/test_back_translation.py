"""The whole script on a little text: what each system learns from, and how they are compared."""

import gzip
import json

import pytest
from sacrebleu.metrics import BLEU

from benchmarks import back_translation
from tests.training.runs import write_sides


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Text in the files of Tatoeba."""
    folder = tmp_path_factory.mktemp("tatoeba")
    write_sides(folder, {"train": 60, "test": 8})
    return folder


def lines(path):
    return gzip.open(path, "rt").read().splitlines()


@pytest.mark.usefixtures("few_trials")
def test_three_systems_are_trained_and_compared(data, tmp_path, commands):
    argv = [str(data), "--output_dir", str(tmp_path / "runs"), "--results", str(tmp_path)]
    argv += ["--bitext_pairs", "30", "--vocab_size", "290", "--max_steps", "2", "--seeds", "1"]
    argv += ["--max_extra_tokens", "3", "--d_model", "16", "--d_ff", "16", "--use_cpu"]
    back_translation.main(argv)
    back_translation.main([*argv, "--only_report"])
    assert len(commands) == 4  # what has finished is not trained again
    text = tmp_path / "runs" / "text"
    sources, targets = (lines(data / f"train.{side}.gz") for side in ("en", "de"))
    assert (text / "bitext.en").read_text().splitlines() == sources[:30]
    mono = (text / "mono.de").read_text().splitlines()
    assert set(mono) == set(targets[30:]) - set(targets[:30]) and len(set(mono)) == len(mono)
    assert len((text / "mono.en").read_text().splitlines()) == len(mono)
    (path,) = tmp_path.glob("*-back_translation.json")
    assert str(tmp_path) not in path.read_text()  # names of files, not where they are
    report = json.loads(path.read_text())
    systems = report["systems"]
    assert list(systems) == ["bitext", "back_translated", "tagged"]
    assert [system["seeds"]["1"]["data"]["pairs_read"] for system in systems.values()] == [
        *(30, 30 + len(mono), 30 + len(mono))
    ]
    # The shared vocabulary, and the tag: a row of 16 more.
    sizes = [system["seeds"]["1"]["parameters"] for system in systems.values()]
    assert sizes == [sizes[0], sizes[0], sizes[0] + 16]
    hypotheses = (tmp_path / "runs" / "tagged-seed_1" / "test.hypotheses").read_text().splitlines()
    expected = BLEU().corpus_score(hypotheses, [lines(data / "test.de.gz")]).score
    assert systems["tagged"]["bleu"] == pytest.approx(expected)
    assert set(systems["tagged"]["differences"]) == {"bitext", "back_translated"}
    tested = [(test["baseline"], len(test["systems"])) for test in report["paired_tests"]]
    assert tested == [*[("bitext", 3)] * 2, *[("back_translated", 2)] * 2]
