"""What is varied, by hand."""

import pytest

from training.sweeps.grid import grid_of, read_axes, read_axis


def test_every_combination_is_there_once():
    axes = read_axes(["dropout=0.1,0.20", "num_heads=2, 4"])
    assert grid_of(axes) == {
        "dropout_0.1-num_heads_2": {"dropout": 0.1, "num_heads": 2},
        "dropout_0.1-num_heads_4": {"dropout": 0.1, "num_heads": 4},
        "dropout_0.2-num_heads_2": {"dropout": 0.2, "num_heads": 2},
        "dropout_0.2-num_heads_4": {"dropout": 0.2, "num_heads": 4},
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("learning-rate=1e-3", (0.001,)),
        ("torch_compile=true,no", (True, False)),
        ("train_file=a.tsv,b/c.tsv", (["a.tsv"], ["b/c.tsv"])),
        ('tokenizer="a,b",c', ("a,b", "c")),
    ],
)
def test_values_are_of_the_fields_type(text, values):
    assert read_axis(text).values == values


def test_names_suit_a_file_system():
    assert list(grid_of([read_axis("train_file=data/a b.tsv")])) == ["train_file_data_a_b.tsv"]
    with pytest.raises(ValueError, match="stands for two settings"):
        grid_of([read_axis("train_file=a/b,a_b")])
    with pytest.raises(ValueError, match="is too long"):
        grid_of([read_axis(f"tokenizer={'x' * 250}")])


@pytest.mark.parametrize(
    ("text", "bounds", "is_log"),
    [
        ("dropout=0:0.4", (0.0, 0.4), False),
        ("warmup_steps=100:4000:log", (100.0, 4000.0), True),
        ("encoder_layers=2:6", (2, 6), False),
    ],
)
def test_a_range_has_two_ends(text, bounds, is_log):
    axis = read_axis(text)
    assert (axis.bounds, axis.is_log, axis.values) == (bounds, is_log, ())


def test_a_text_with_a_colon_is_no_range():
    assert read_axis("tokenizer=a:b").values == ("a:b",)
