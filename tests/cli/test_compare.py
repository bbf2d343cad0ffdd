"""What `vaswani-hf compare` prints, against the command `sacrebleu`."""

import json
import re
import subprocess
import sys

import pytest

from tests.evaluation.texts import made_up_texts, write
from vaswani_hf.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    for name, lines in zip(("ref", "better", "worse"), made_up_texts(), strict=True):
        write(path / name, lines)
    return path


@pytest.fixture
def compare(folder, monkeypatch, capsys):
    """A function of arguments: status, standard output and error, in the folder of the texts."""
    monkeypatch.chdir(folder)

    def run(*arguments):
        status = main(["compare", *arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def expected(folder):
    """The rows and signatures that `sacrebleu` prints, by test."""
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "better", "worse", "--quiet"]
    command += ["-m", "bleu", "chrf", "ter", "--chrf-word-order", "2", "--no-color"]
    command += ["-f", "latex", "-w", "12"]
    found = {}
    for test in ("bs", "ar"):
        done = subprocess.run(
            [*command, f"--paired-{test}"], cwd=folder, capture_output=True, text=True, check=True
        )
        rows = [
            [cell.strip() for cell in line.removesuffix(r"\\").split("&")]
            for line in done.stdout.splitlines()
            if line.endswith(r"\\")
        ]
        signatures = re.findall(r"^ - \S+ +(nrefs:\S+)$", done.stdout, flags=re.MULTILINE)
        found[test] = rows[1:], signatures
    return found


def chance(p):
    """A p-value as `sacrebleu` prints it, after the score."""
    return "" if p is None else f" (p = {p:.4f}){'*' if p <= 0.05 else ''}"


def test_every_digit_is_that_of_the_sacrebleu_command(compare, expected):
    _, out, _ = compare("better", "worse", "--references", "ref", "--format", "json")
    found = json.loads(out)
    assert found["sentences"] == 60
    assert list(found["metrics"]) == ["bleu", "chrf++", "ter"]
    for place, metric in enumerate(found["metrics"].values()):
        assert metric["bootstrap_signature"] == expected["bs"][1][place]
        assert metric["randomization_signature"] == expected["ar"][1][place]
        rows = zip(metric["systems"], expected["bs"][0], expected["ar"][0], strict=True)
        for system, bootstrap, randomization in rows:
            assert bootstrap[0].endswith(system["system"])
            score = f"{system['score']:.12f}"
            interval = f" ({system['mean']:.12f} ± {system['ci']:.12f})"
            assert bootstrap[1 + place] == score + interval + chance(system["p_bootstrap"])
            assert randomization[1 + place] == score + chance(system["p_randomization"])


def test_readers_see_the_same_figures(compare, expected):
    status, out, _ = compare("better", "worse", "--references", "ref", "--metrics", "bleu")
    assert status == 0
    assert out.startswith("60 sentences, 1 reference; the baseline is better\n")
    lines = [line.split() for line in out.splitlines()]
    for test in ("bs", "ar"):
        assert [expected[test][1][0]] in lines
    for system, bootstrap, randomization in zip(
        ("better", "worse"), expected["bs"][0], expected["ar"][0], strict=True
    ):
        score, mean, ci, *p = re.findall(r"\d[\d.]*|\*", bootstrap[1])
        _, *more = re.findall(r"\d[\d.]*|\*", randomization[1])
        rounded = [f"{float(score):.2f}", f"{float(mean):.2f}", "±", f"{float(ci):.2f}"]
        assert [system, *rounded, *p, *more] in lines


def test_the_first_system_is_the_baseline_of_all(compare):
    out = compare("worse", "better", "ref", "--references", "ref", "--metrics", "ter")[1]
    assert "the baseline is worse" in out and "BLEU" not in out
    chances = [line.split()[-1] for line in out.splitlines() if line.startswith(("better", "ref "))]
    assert chances[-1] == "*"  # what equals the references differs from the baseline


@pytest.mark.parametrize("systems", [["better"], ["better", "worse", "better"]])
def test_less_than_two_different_files_are_refused(compare, systems):
    status, _, error = compare(*systems, "--references", "ref")
    assert status == 1
    assert f"two different files or more before --references, got {', '.join(systems)}." in error


def test_files_that_do_not_fit_are_named_with_their_lines(folder, compare):
    write(folder / "long", ["one"] * 61)
    status, _, error = compare("better", "long", "--references", "ref")
    assert status == 1 and "better has 60, long has 61, ref has 60." in error


def test_equal_text_is_warned_of(folder, compare, caplog):
    # Of which sacrebleu says that the difference is significant.
    (folder / "same").write_bytes((folder / "better").read_bytes())
    assert compare("better", "same", "--references", "ref", "--metrics", "bleu")[0] == 0
    assert "same has the text of better: their p means nothing." in caplog.text
