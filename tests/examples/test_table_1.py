"""Table 1 by the example, against sums done by hand; nothing here depends on a clock."""

import json
import math
import sys

import pytest
import torch
from torch.nn import functional as F

from examples import table_1
from examples.table_1 import (
    ATTENTION,
    CONVOLUTIONAL,
    DILATED,
    FUSED,
    LAYERS,
    RECURRENT,
    RESTRICTED,
    WHOLE,
    Setting,
)
from tests.conftest import REPOSITORY


N, D, K, R = 96, 256, 5, 33  # four heads; blocks of 16 positions; products that oneDNN takes


def setting(layer, n=N, d=D, k=K, r=R):
    return Setting(layer, n, d, k, r)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# An addition and a multiplication each: scores and mixed values; four projections; the two products
# of three gates; a product for each position of the kernel; three blocks of keys for each query.
@pytest.mark.parametrize(
    "layer, expected",
    [
        (ATTENTION, 2 * 2 * N * N * D),
        (WHOLE, 2 * 2 * N * N * D + 4 * 2 * N * D * D),
        (FUSED, 2 * 2 * N * N * D + 4 * 2 * N * D * D),
        (RECURRENT, 2 * 3 * 2 * N * D * D),
        (CONVOLUTIONAL, 2 * K * N * D * D),
        (RESTRICTED, 2 * 2 * N * (3 * 16) * D),
    ],
)
def test_operations_are_those_of_the_products(layer, expected):
    assert table_1.operations(setting(layer)) == expected


def test_memory_is_that_of_what_the_backward_pass_needs():
    # Equation 1: queries, keys and values, which are one tensor, and the weights of four heads.
    assert table_1.kept_bytes(setting(ATTENTION)) == 4 * (N * D + 4 * N * N)
    # A convolution: its input, and the zeros before it.
    assert table_1.kept_bytes(setting(CONVOLUTIONAL)) == 4 * (N + K - 1) * D
    for layer in (FUSED, RECURRENT):
        once, twice = (table_1.kept_bytes(setting(layer, n=n)) for n in (N, 2 * N))
        assert twice == 2 * once


@pytest.mark.parametrize("layer", LAYERS)
def test_only_a_recurrent_layer_has_a_chain_that_grows(layer):
    lengths = [table_1.sequential_operations(setting(layer, n=n, r=5)) for n in (8, 16, 32)]
    steps = [length - lengths[0] for length in lengths]
    if layer == RECURRENT:
        assert steps[1] >= 8 and steps[2] == 3 * steps[1]
    else:
        assert steps == [0, 0, 0]


@pytest.mark.parametrize("n, window", [(9, 3), (10, 3), (28, 3), (18, 5), (11, 9)])
def test_paths_are_as_long_as_windows_make_them(n, window):
    lengths = {
        layer: table_1.path_length(setting(layer, n=n, d=8, k=window, r=window))
        for layer in table_1.TABLE_1
    }
    assert lengths == {
        **dict.fromkeys((ATTENTION, WHOLE, FUSED), 1),
        RECURRENT: n,
        # A layer goes k - 1 positions back, or (r - 1) / 2 to either side.
        CONVOLUTIONAL: math.ceil((n - 1) / (window - 1)),
        RESTRICTED: math.ceil((n - 1) / ((window - 1) // 2)),
        # So many layers see window^layers positions.
        DILATED: next(layers for layers in range(1, 9) if window**layers >= n),
    }


def test_no_path_is_longer_than_from_the_last_to_the_first():
    n = 9
    layers = [table_1.RestrictedSelfAttention(8, 5).double() for _ in range(4)]
    x = torch.randn(1, n, 8, dtype=torch.float64)
    distances = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    for depth in range(1, 5):
        stack = torch.nn.Sequential(*layers[:depth])
        jacobian = torch.autograd.functional.jacobian(stack, x).abs().sum(dim=(0, 2, 3, 5))
        torch.testing.assert_close(jacobian > 0, distances <= 2 * depth)
    assert table_1.path_length(Setting(RESTRICTED, n, 8, 0, 5)) == 4


@pytest.mark.parametrize("n, r", [(10, 5), (12, 5), (3, 9), (64, 17)])
def test_restricted_attention_is_attention_under_a_band(n, r):
    layer = table_1.RestrictedSelfAttention(D, r)
    x = torch.randn(1, n, D)
    heads = x.view(1, n, 4, 64).transpose(1, 2)
    band = (torch.arange(n)[:, None] - torch.arange(n)).abs() <= r // 2
    expected = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=band)
    torch.testing.assert_close(layer(x), expected.transpose(1, 2).reshape(1, n, D))


def test_a_slope_has_its_standard_error():
    # By hand: the line is 1/6 + x/2, the residuals -1/6, 1/3 and -1/6, so the error is sqrt(1/12).
    assert table_1.slope([0, 1, 2], [0, 1, 1]) == "0.50 ± 0.29"
    assert table_1.exponent([1, 2, 8], [3, 12, 192]) == "2.00 ± 0.00"
    assert table_1.exponent([1, 2, 8], [4, 4, 4]) == "0.00 ± 0.00"


def test_a_quick_run_writes_figures_and_picture(tmp_path, monkeypatch, capsys):
    command = ["table_1.py", "--quick", "--theme", "dark", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    table_1.main()
    (path,) = tmp_path.glob("*-table_1.json")
    figures = json.loads(path.read_text())
    printed = capsys.readouterr().out
    assert printed.startswith(table_1.tables(figures))
    for row in (
        *("| n² d | 2.00 ± 0.00 | 2.00 ± 0.00 | 1.00 ± 0.00 |", "| n d² | 1.00 ± 0.00 |"),
        *("| recurrent | n | 3 | 9 | 27 | 1.00 ± 0.00 |", "| log_k n | 1 | 2 | 3 | 1.00 ± 0.00 "),
    ):
        assert row in printed
    assert all(row["seconds"] > 0 for row in figures["costs"])
    assert (tmp_path / "table_1.svg").stat().st_size > 10_000


def test_the_page_has_the_tables_of_the_result():
    page = (REPOSITORY / "docs" / "tour" / "table_1.md").read_text(encoding="utf-8")
    path = max((REPOSITORY / "benchmarks" / "results").glob("*-table_1.json"))
    tables = table_1.tables(json.loads(path.read_text(encoding="utf-8")))
    for table in tables.split("\n\n"):
        assert table.strip() in page
