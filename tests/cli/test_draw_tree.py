import pytest

from vaswani_hf.cli import main


TREES = "( (S (NP (NN one))) )\n( (S (NP (NN two))\n  (. .)) )\n"


def test_a_tree_is_drawn_from_brackets_or_from_a_file(tmp_path, capsys):
    (tmp_path / "trees.mrg").write_text(TREES)
    picture = tmp_path / "tree.svg"
    assert main(["draw", "tree", " (S (NN three))", "-o", str(picture)]) == 0
    assert capsys.readouterr().out == f"{picture}\n"
    assert ">three</text>" in picture.read_text()
    file = str(tmp_path / "trees.mrg")
    assert main(["draw", "tree", file, "--number", "2", "-o", str(picture)]) == 0
    assert ">two</text>" in picture.read_text()


def test_a_tree_is_a_picture_of_every_format_and_theme(tmp_path):
    pytest.importorskip("matplotlib")
    words = ["draw", "tree", "(S (NN three))", "--theme", "dark", "-o"]
    for suffix, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<svg")):
        picture = tmp_path / f"tree.{suffix}"
        assert main([*words, str(picture)]) == 0
        assert picture.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["(S (NN a)"], "TREE ends in line 1, but the tree of line 1 has 1 bracket open"),
        (
            ["(S (NN a))", "-o", "tree.gif"],
            "tree.gif: the name of a picture must end in .png",
        ),
        (["(S (NN a))", "--number", "0"], "--number must be at least 1"),
        (["trees.mrg", "--number", "3"], "trees.mrg has fewer trees than --number 3"),
    ],
)
def test_what_cannot_be_drawn_is_told(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trees.mrg").write_text(TREES)
    assert main(["draw", "tree", *options]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("tree.*[gf]"))
