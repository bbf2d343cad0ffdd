"""Every row of the paper's Table 3 as a recipe: the cells, the counts, the published figures."""

from dataclasses import dataclass, field

import pytest
import torch

from training.settings.reading import parse_arguments
from training.settings.recipes import RECIPES, recipe_names
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


@dataclass
class Row:
    """A row as it is printed: what it changes, and its last three columns."""

    bleu: float
    perplexity: float
    millions: int | None = None
    cells: dict = field(default_factory=dict)
    steps: int = 100_000


def layers(n):
    return {"encoder_layers": n, "decoder_layers": n}


def heads(h, width):
    return {"num_heads": h, "d_k": width, "d_v": width}


TABLE_3 = {
    "base": Row(25.8, 4.92, 65),
    "a_1_head": Row(24.9, 5.29, None, heads(1, 512)),
    "a_4_heads": Row(25.5, 5.00, None, heads(4, 128)),
    "a_16_heads": Row(25.8, 4.91, None, heads(16, 32)),
    "a_32_heads": Row(25.4, 5.01, None, heads(32, 16)),
    "b_d_k_16": Row(25.1, 5.16, 58, {"d_k": 16}),
    "b_d_k_32": Row(25.4, 5.01, 60, {"d_k": 32}),
    "c_2_layers": Row(23.7, 6.11, 36, layers(2)),
    "c_4_layers": Row(25.3, 5.19, 50, layers(4)),
    "c_8_layers": Row(25.5, 4.88, 80, layers(8)),
    "c_d_model_256": Row(24.5, 5.75, 28, {"d_model": 256, "d_k": 32, "d_v": 32}),
    "c_d_model_1024": Row(26.0, 4.66, 168, {"d_model": 1024, "d_k": 128, "d_v": 128}),
    "c_d_ff_1024": Row(25.4, 5.12, 53, {"d_ff": 1024}),
    "c_d_ff_4096": Row(26.2, 4.75, 90, {"d_ff": 4096}),
    "d_dropout_0_0": Row(24.6, 5.77, None, {"dropout": 0.0}),
    "d_dropout_0_2": Row(25.5, 4.95, None, {"dropout": 0.2}),
    "d_label_smoothing_0_0": Row(25.3, 4.67, None, {"label_smoothing": 0.0}),
    "d_label_smoothing_0_2": Row(25.7, 5.47, None, {"label_smoothing": 0.2}),
    "e_learned_positions": Row(25.7, 4.92, None, {"position_encoding": "learned"}),
    "big": Row(
        *(26.4, 4.33, 213),
        {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
        steps=300_000,
    ),
}
BASE = {
    **{"encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8},
    **{"d_k": 64, "d_v": 64, "dropout": 0.1, "label_smoothing": 0.1},
    "position_encoding": "sinusoidal",
}
PUBLISHED = {name: row.millions for name, row in TABLE_3.items() if row.millions}
every_row = pytest.mark.parametrize("name", TABLE_3)


def cells_of(name):
    """All cells of a row; those it does not list are the base model's."""
    return BASE | TABLE_3[name].cells


def expected_count(name, vocab_size, has_attention_biases):
    """Parameters of a row by the formulas of section 3, kind by kind over the whole model."""
    cells = cells_of(name)
    d_model, d_ff, num_layers = (cells[key] for key in ("d_model", "d_ff", "encoder_layers"))
    keys, values = (cells["num_heads"] * cells[width] for width in ("d_k", "d_v"))
    # A layer of the encoder attends once, of the decoder twice; each sub-layer ends in a norm.
    attentions, norms = 3 * num_layers, 5 * num_layers
    total = vocab_size * d_model
    total += attentions * 2 * d_model * (keys + values)
    if has_attention_biases:
        total += attentions * (2 * keys + values + d_model)
    total += 2 * num_layers * (2 * d_model * d_ff + d_ff + d_model)
    total += norms * 2 * d_model
    if cells["position_encoding"] == "learned":
        total += 2 * 1024 * d_model  # 1024 positions a side
    return total


def read(name, tmp_path):
    return parse_arguments([f"table3/{name}", "--output_dir", str(tmp_path)])


def count(arguments, **changes):
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(VaswaniConfig(**(arguments.model | changes)))
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_row_has_a_recipe_and_every_recipe_is_a_row():
    recipes = {path.stem for path in (RECIPES / "table3").iterdir()}
    assert recipes == set(TABLE_3)
    assert {f"table3/{name}" for name in TABLE_3} <= recipe_names()


@every_row
def test_a_recipe_holds_the_cells_of_its_row(name, tmp_path):
    model = VaswaniConfig(**read(name, tmp_path).model).to_dict()
    assert model == VaswaniConfig().to_dict() | cells_of(name)


@every_row
def test_a_recipe_trains_as_base_does_but_for_the_steps_and_averages_nothing(name, tmp_path):
    # Section 6.2: "no checkpoint averaging"; Table 3: train steps.
    base = parse_arguments(["base", "--output_dir", str(tmp_path)]).chosen
    ours = read(name, tmp_path).chosen
    told = {"max_steps": TABLE_3[name].steps, "average_last": 1}
    assert ours == base | told | {key: ours[key] for key in TABLE_3[name].cells}


@every_row
def test_a_model_has_as_many_parameters_as_the_formulas(name, tmp_path):
    assert count(read(name, tmp_path)) == expected_count(name, 37_000, False)


@every_row
def test_a_model_of_the_authors_code_has_as_many_parameters_as_the_formulas(name, tmp_path):
    ours = count(read(name, tmp_path), vocab_size=40_960, attention_bias=True)
    assert ours == expected_count(name, 40_960, True)


@pytest.mark.parametrize("name", sorted(PUBLISHED.keys() - {"big"}))
def test_ten_published_counts_fit_a_padded_vocabulary_with_attention_biases(name, tmp_path):
    ours = count(read(name, tmp_path), vocab_size=40_960, attention_bias=True)
    assert round(ours / 1e6) == PUBLISHED[name]


def test_the_published_count_of_big_fits_neither_vocabulary(tmp_path):
    # The paper says 213. By hand: 37000 * 1024 = 37.9 and 40960 * 1024 = 41.9 million, and 176.3
    # or, with biases, 176.4 million in the layers.
    big = read("big", tmp_path)
    assert count(big) == pytest.approx(214.2e6, abs=0.05e6)
    assert count(big, vocab_size=40_960, attention_bias=True) == pytest.approx(218.3e6, abs=0.05e6)


@every_row
def test_a_recipe_names_its_row_and_the_papers_figures(name):
    row = TABLE_3[name]
    first = (RECIPES / "table3" / f"{name}.yaml").read_text().splitlines()[0]
    letter, _, rest = name.partition("_")
    where = f"row {letter.upper()}: " if rest else name
    figures = f"dev BLEU {row.bleu:.1f}, perplexity {row.perplexity:.2f}"
    millions = f", {row.millions} million parameters" if row.millions else ""
    assert first.startswith(f"# Table 3, {where}")
    assert first.endswith(f". The paper: {figures}{millions}.")
