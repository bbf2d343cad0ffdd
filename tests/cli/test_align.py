import json

import pytest

from vaswani_hf.cli import main


@pytest.fixture
def files(tmp_path):
    contents = {"source": "a b c d\n\nh g\n", "target": "a b c d\n\nh g\n"}
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in contents}


@pytest.fixture
def align(copier_folder, files, capfd):
    """A function of options: status, lines of standard output, standard error."""

    def call(*options):
        capfd.readouterr()
        sides = ("--source", files["source"], "--target", files["target"])
        status = main(["align", "--model", str(copier_folder), *sides, *options])
        out, error = capfd.readouterr()
        return status, out.splitlines(), error

    return call


def test_copied_words_belong_together_and_the_head_is_told(align):
    status, lines, error = align()
    assert (status, lines) == (0, ["0-0 1-1 2-2 3-3", "", "0-0 1-1"])
    assert error.startswith("layer ") and "a target piece" in error


def test_a_named_head_is_taken(align):
    _, lines, error = align("--layer", "1", "--head", "2", "--step", "predicts")
    assert error == "layer 1, head 2, at the step that predicts a target piece\n"
    assert len(lines) == 3


def test_json_has_the_matrix_the_pieces_and_the_characters(align):
    _, lines, _ = align("--format", "jsonl")
    first, blank, _ = map(json.loads, lines)
    assert first["pairs"] == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert first["source_pieces"] == ["▁a", "▁b", "▁c", "▁d", "</s>"]
    assert first["target_pieces"] == ["▁a", "▁b", "▁c", "▁d"]
    assert first["source_spans"] == [[0, 1], [1, 3], [3, 5], [5, 7], None]
    assert first["target_words"] == ["a", "b", "c", "d"]
    assert [sum(row) for row in first["matrix"]] == pytest.approx([1] * 4, abs=1e-5)
    assert blank["pairs"] == blank["matrix"] == []


def test_a_head_that_is_not_there_is_refused(align):
    assert "layer must be from 0 to 1 for this model, got layer=2" in align("--layer", "2")[2]


def test_ctranslate2_cannot_align(align):
    status, lines, error = align("--engine", "ctranslate2")
    assert (status, lines) == (1, [])
    assert "--engine transformers and the folder that was converted" in error


def test_references_give_the_error_rate(align, tmp_path):
    (tmp_path / "references").write_text("0-0 1-1 2?2\n\n0-0 1-0\n")
    status, lines, error = align("--references", str(tmp_path / "references"))
    assert (status, lines) == (0, ["0-0 1-1 2-2 3-3", "", "0-0 1-1"])
    # By hand: of 6 links found 3 are sure and 4 possible; 4 are sure in all.
    assert error.splitlines()[1:] == [
        "AER 30.0 %, precision 66.7 %, recall 75.0 %, 6 links of 4 sure ones"
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0-0\n\n", "has 2 lines, and there are more pairs"),
        ("0-0\n\n0-0\n\n", "has more lines than there are pairs, 3"),
        ("0-0\n\n0-2\n", "line 3: 0-2 links word 2 of the target, which has 2 words"),
        ("0:0\n\n\n", "line 1: '0:0' is no link"),
    ],
)
def test_wrong_references_are_refused(align, tmp_path, text, told):
    (tmp_path / "references").write_text(text)
    status, _, error = align("--references", str(tmp_path / "references"))
    assert status == 1 and told in error
