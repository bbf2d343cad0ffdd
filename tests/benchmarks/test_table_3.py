"""The rows of Table 3 in small, and the whole script on a little text."""

import json
import math

import pytest

from benchmarks import table_3
from tests.training.runs import write_sides
from tests.training.settings.test_table3 import TABLE_3
from training.settings.recipes import read_recipe


def test_the_recipe_is_the_base_model_at_a_quarter_of_its_widths_and_half_its_layers():
    recipe = read_recipe("multi30k_table3")
    # Table 3, base: 512, 2048, 64, 64 and 6 layers.
    assert {name: recipe[name] for name in table_3.SMALLER} == {
        **{"d_model": 128, "d_ff": 512, "d_k": 16, "d_v": 16},
        **{"encoder_layers": 3, "decoder_layers": 3},
    }
    assert recipe["average_last"] == 1  # 6.2: no checkpoint averaging
    assert not recipe.keys() & {"num_heads", "dropout", "label_smoothing"}  # the paper's


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        ("base", {}),
        ("a_1_head", {"num_heads": 1, "d_k": 128, "d_v": 128}),
        ("b_d_k_16", {"d_k": 4}),
        ("c_2_layers", {"encoder_layers": 1, "decoder_layers": 1}),
        ("c_d_model_1024", {"d_model": 256, "d_k": 32, "d_v": 32}),
        ("d_dropout_0_0", {"dropout": 0.0}),
        ("e_learned_positions", {"position_encoding": "learned"}),
        ("big", {"d_model": 256, "d_ff": 1024, "num_heads": 16, "dropout": 0.3}),
    ],
)
def test_a_row_varies_what_the_papers_does(row, fields):
    assert table_3.changes_of(row) == fields


def test_every_row_is_there_once_with_the_published_figures():
    rows = [row for group in table_3.GROUPS for row in group]
    assert sorted(rows) == sorted(TABLE_3)
    for row in rows:
        published = table_3.published_of(row)
        assert published["bleu"] == TABLE_3[row].bleu
        assert published["nats_per_token"] == math.log(TABLE_3[row].perplexity)


@pytest.mark.parametrize(
    ("value", "paper", "degrees", "expected"),
    [
        (-0.5, -1.0, 5, table_3.OPEN),
        (-1.5, -1.0, 5, table_3.SAME),
        (1.5, -1.0, 5, table_3.OTHER),
        (1.5, 0.0, 5, table_3.OTHER),
        (-1.5, -1.0, 0, table_3.OPEN),
    ],
)
def test_a_direction_is_told_beyond_the_confidence_alone(value, paper, degrees, expected):
    assert table_3.direction(value, 1.0, paper, degrees) == expected


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Text in the files of Multi30k."""
    folder = tmp_path_factory.mktemp("multi30k")
    write_sides(folder, {"train": 60, "val": 8})
    return folder


def test_rows_are_trained_scored_and_compared_with_base(data, tmp_path, commands):
    argv = [str(data), "--output_dir", str(tmp_path / "runs"), "--results", str(tmp_path)]
    argv += ["--rows", "base", "c_2_layers", "--vocab_size", "300", "--max_steps", "2"]
    argv += ["--max_extra_tokens", "3", "--d_model", "16", "--d_ff", "16", "--use_cpu"]
    picture = tmp_path / "table.svg"
    table_3.main([*argv, "--seeds", "1"])
    with pytest.raises(ValueError, match="No row but base has finished"):
        table_3.main([*argv, "--seeds", "2", "--rows", "base", "--picture", str(picture)])
    table_3.main([*argv, "--seeds", "1"])
    assert len(commands) == 3  # what has finished is not trained again
    table_3.main([*argv, "--only_report", "--picture", str(picture)])
    (path,) = tmp_path.glob("*-table_3.json")
    report = json.loads(path.read_text())
    base, row = report["rows"]
    assert (base["row"], row["row"], report["runs"], report["updates"]) == (
        "base",
        "c_2_layers",
        3,
        2,
    )
    for figures, name in ((base, "base-seed_2"), (row, "c_2_layers-seed_1")):
        results = json.loads((tmp_path / "runs" / name / "results.json").read_text())
        scores, seed = results["scores"]["validation"], figures["seeds"][name[-1]]
        assert seed["bleu"] == pytest.approx(scores["bleu"], abs=1e-3)
        # Other batches, so other roundings of float32.
        assert seed["nats_per_token"] == pytest.approx(scores["loss_nats_per_token"], abs=1e-3)
        assert figures["parameters"] == results["parameters"]
    found = row["differences"]["nats_per_token"]
    assert found["value"] == pytest.approx(row["nats_per_token"] - base["nats_per_token"])
    assert found["paper"] == pytest.approx(math.log(6.11 / 4.92), abs=1e-4)
    one, other = (base["seeds"][seed]["nats_per_token"] for seed in "12")
    # By hand: the deviation of two numbers; one seed of the row and two of base.
    deviation = abs(one - other) / 2**0.5
    assert found["error_of_seeds"] == pytest.approx(deviation * 1.5**0.5, abs=1e-3)
    assert "C  2 layers a side (here 1)" in picture.read_text()
    assert table_3.markdown(report).count("\n| C 2 layers a side | encoder_layers 1 | 1 |") == 1
