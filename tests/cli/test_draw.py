import re

import pytest

from vaswani_hf.cli import main


pytest.importorskip("matplotlib")

PAIRS = ("--source", "test.en", "--target", "test.de")


@pytest.fixture
def draw(copier_folder, tmp_path, capfd, monkeypatch):
    """A function of words: status, lines of standard output, standard error. Pictures lie here."""
    monkeypatch.chdir(tmp_path)
    for side in ("en", "de"):
        (tmp_path / f"test.{side}").write_text("a b c d\nh g\n")

    def call(*words):
        capfd.readouterr()
        status = main(
            ["draw", *(str(copier_folder) if word == "MODEL" else word for word in words)]
        )
        out, error = capfd.readouterr()
        return status, out.splitlines(), error

    return call


def comments(path):
    """What an SVG of matplotlib has as text."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


def test_attention_of_one_head_is_lines_and_of_all_a_grid(draw, tmp_path):
    command = ("attention", "--model", "MODEL", "a b c d", "-o", "a.svg")
    assert draw(*command)[:2] == (0, ["a.svg"])
    grid = comments(tmp_path / "a.svg")
    assert {"a", "b", "c", "d", "&lt;start&gt;", "head 3", "layer 1"} <= set(grid)
    assert draw(*command, "--layer", "1", "--head", "2", "3", "--theme", "dark")[0] == 0
    lines = comments(tmp_path / "a.svg")
    assert "layer 0" not in lines and {"layer 1", "head 2", "head 3"} <= set(lines)


def test_attention_takes_a_translation_pieces_and_steps(draw, tmp_path):
    options = ("--target", "a h", "--kind", "decoder", "--pieces", "--step", "predicts")
    assert draw("attention", "--model", "MODEL", "a h", *options, "-o", "a.svg")[0] == 0
    found = comments(tmp_path / "a.svg")
    assert {"▁a", "▁h", "&lt;/s&gt;"} <= set(found)


def test_attention_is_a_page_by_its_name(draw, tmp_path):
    assert draw("attention", "--model", "MODEL", "a b", "-o", "a.html")[:2] == (0, ["a.html"])
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_beams_show_the_translation(draw, tmp_path):
    options = ("--num_beams", "3", "--theme", "dark", "-o", "b.svg")
    assert draw("beams", "--model", "MODEL", "a b c", *options)[:2] == (0, ["b.svg"])
    assert {"→ a b c", "▁b"} <= set(comments(tmp_path / "b.svg"))


def test_heads_are_told_and_drawn(draw, tmp_path):
    options = (*PAIRS, "--max_sentences", "1")
    status, lines, _ = draw("heads", "--model", "MODEL", *options, "-o", "h.svg")
    assert status == 0 and lines[-1] == "h.svg"
    assert lines[0].split() == "Kind Layer Head BLEU without it Looks most at".split()
    assert len(lines) == 1 + 24 + 2  # three kinds of two layers with four heads
    assert lines[-2].startswith("BLEU with all heads: 100.00, nrefs:1|")
    assert "1 sentence" in " ".join(comments(tmp_path / "h.svg"))
    _, lines, _ = draw("heads", "--model", "MODEL", *options, "--no_pruning")
    assert len(lines) == 1 + 24 + 1 and "BLEU" not in "".join(lines)
    assert (tmp_path / "heads.png").is_file()


def test_the_loss_is_drawn_with_models_and_without(draw, tmp_path):
    assert draw("loss", "--label_smoothing", "0.2", "-o", "l.svg")[:2] == (0, ["l.svg"])
    status, lines, _ = draw("loss", "--model", "MODEL", "MODEL", *PAIRS, "-o", "l.svg")
    assert status == 0 and len(lines) == 3
    # The copier knows the eight pieces of two lines by heart.
    assert re.match(
        r".* \(ε = 0.1\): 8 pieces, 100.00 % right, expected calibration error", lines[0]
    )


def test_what_needs_no_model_is_drawn(draw, tmp_path):
    assert draw("positions", "--d_model", "8", "--num_positions", "9", "--style", "waves")[0] == 0
    widths = ("--d_model", "512", "64", "--warmup_steps", "4000", "100", "--num_updates", "99")
    assert draw("schedule", *widths, "-o", "s.pdf")[:2] == (0, ["s.pdf"])
    assert (tmp_path / "positions.png").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("attention", "--model", "MODEL", "a", "-o", "a.gif"), "a.gif: the name of a picture"),
        (("beams", "--model", "MODEL", "a", "-o", "a.html"), "a.html: the name of a picture"),
        (("attention", "--model", "MODEL", " "), "the sentence has no words"),
        (("beams", "--model", "MODEL", "a", "--num_beams", "1"), "got num_beams=1"),
        (("loss", "--model", "MODEL"), "--model, --source and --target are needed together"),
        (
            ("heads", "--model", "MODEL", *PAIRS, "--max_sentences", "0"),
            "--max_sentences must be at least 1, got 0",
        ),
    ],
)
def test_what_cannot_be_drawn_is_one_line_of_error(draw, tmp_path, words, message):
    status, lines, error = draw(*words)
    assert (status, lines, len(error.splitlines())) == (1, [], 1)
    assert message in error
    assert not list(tmp_path.glob("*.[!ed]*"))
