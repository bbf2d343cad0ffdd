"""A corpus of which two models, here a copier for both directions, keep what they find good."""

import os

import pytest

from vaswani_hf import translation
from vaswani_hf.cli import main


# Copies, which the models expect, among pairs that they do not.
PAIRS = [
    ("a b c", "a b c"),
    ("d e", "f"),
    ("", "a"),
    ("g", "g"),
    ("a " * 30, "b"),
    ("h a b", "h a b"),
    ("b c d", "e f g h a"),
    ("c d", "c d"),
]
COPIES = [pair for pair in PAIRS if pair[0] == pair[1]]


@pytest.fixture
def corpus(tmp_path):
    for side in (0, 1):
        lines = [pair[side] for pair in PAIRS]
        (tmp_path / "st"[side]).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.fixture
def run(corpus, copier_folder, capsys):
    """A function of further options: status, the pairs that are kept, standard error."""

    def call(*options):
        names = {name: str(corpus / name) for name in ("s", "t", "kept.s", "kept.t", "scores")}
        status = main(
            [
                *("filter", "--model", str(copier_folder), "--backward_model", str(copier_folder)),
                *("--source", names["s"], "--target", names["t"], "--scores", names["scores"]),
                *("--output_source", names["kept.s"], "--output_target", names["kept.t"]),
                *("--max_source_tokens", "20", *options),
            ]
        )
        error = capsys.readouterr().err
        if status:
            return status, None, error
        sides = [(corpus / name).read_text().splitlines() for name in ("kept.s", "kept.t")]
        return status, list(zip(*sides, strict=True)), error

    return call


def test_a_share_of_the_pairs_is_kept_and_the_others_are_counted(run, corpus):
    status, kept, error = run("--keep", "0.5", "--chunk_sentences", "3")
    assert (status, kept) == (0, COPIES)
    rows = [line.split("\t") for line in (corpus / "scores").read_text().splitlines()]
    assert len(rows) == len(PAIRS)
    assert rows[2] == rows[4] == ["0", "inf", "inf"]
    assert min(float(rows[place][0]) for place in (0, 3, 5, 7)) > float(rows[1][0]) > 0
    lowest = min(float(rows[place][0]) for place in (0, 3, 5, 7))
    assert error.endswith(
        "8 pairs read, 4 (50.00 %) kept, dropped 1 (12.50 %) with an empty side, "
        f"1 (12.50 %) too long, 2 (25.00 %) with a score below {lowest:.6g}\n"
    )


def test_a_share_never_keeps_what_has_no_score(run):
    assert run("--keep", "1")[1] == [pair for pair in PAIRS if pair[0] and len(pair[0]) < 20]


def test_scores_that_are_there_serve_another_threshold(run, corpus, monkeypatch):
    run("--keep", "0.5")
    scores = (corpus / "scores").read_text()
    third = sorted(float(line.split("\t")[0]) for line in scores.splitlines())[-3]
    monkeypatch.setattr("vaswani_hf.cli.filter.load_translators", None)  # not to be called
    assert len(run("--threshold", repr(third), "--resume")[1]) == 3
    assert len(run("--keep", "0.25", "--resume")[1]) == 2
    assert (corpus / "scores").read_text() == scores
    status, _, error = run("--keep", "0.5")
    assert status == 1 and "scores is there already" in error


def test_unfinished_scores_are_gone_on_with(run, corpus, monkeypatch):
    run("--keep", "0.5")
    expected = (corpus / "scores").read_text()
    (corpus / "scores").unlink()

    score = translation.dual_scores

    def broken_off(*given):
        for number, one in enumerate(score(*given)):
            if number == 3:
                raise ValueError("broken off")
            yield one

    with monkeypatch.context() as patch:
        patch.setattr(translation, "dual_scores", broken_off)
        assert run("--keep", "0.5")[0] == 1
    assert len((corpus / "scores").read_text().splitlines()) == 3
    (corpus / "s").write_text((corpus / "s").read_text())
    status, _, error = run("--keep", "0.5", "--resume")
    assert status == 1 and "source_modified_ns" in error
    (corpus / "scores").write_text("")
    assert run("--keep", "0.5", "--resume")[:2] == (0, COPIES)
    assert (corpus / "scores").read_text() == expected


def test_a_pipe_is_refused_since_it_can_be_read_once(run, corpus):
    os.mkfifo(corpus / "pipe")
    status, _, error = run("--keep", "1", "--source", str(corpus / "pipe"))
    assert status == 1 and f"The text is read twice, which {corpus / 'pipe'} cannot be" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "0"], "--keep must be above 0 and at most 1, got 0."),
        (["--threshold", "1.5"], "--threshold must be above 0 and at most 1, got 1.5."),
        (["--keep", "1", "--source", "-"], "The text is read twice"),
        (
            ["--keep", "1", "--output_source", "README.md", "--source", "README.md"],
            "README.md would overwrite what is read",
        ),
        (["--keep", "1", "--source", "nowhere"], "There is no file nowhere."),
        (["--keep", "1", "--scores", "x", "--output_source", "x"], "must be three files"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(run, options, message):
    status, _, error = run(*options)
    assert status == 1
    assert message in error and error.count("\n") == 1


def test_other_files_than_those_scored_are_refused(run, corpus):
    (corpus / "t").write_text("a\n")
    status, _, error = run("--keep", "0.5")
    assert status == 1 and "t has 1 lines, and" in error
    (corpus / "s").write_text("a\n")
    (corpus / "scores").unlink(missing_ok=True)
    assert run("--keep", "1")[0] == 0
    (corpus / "scores").write_text("0.5\n0.5\n")
    status, _, error = run("--keep", "1", "--resume")
    assert status == 1 and "has more lines than" in error
