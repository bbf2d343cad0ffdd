# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python examples/table_1.py [--quick] [--output FOLDER] [--theme dark]

Table 1 of the paper, measured: what a layer costs by the length n, by the width d and by its window
(k of a convolution, r of restricted self-attention); how many of its operations have to wait for
each other; and how many layers, or steps, a gradient takes from the last position to the first.
Prints the exponents with their standard errors; writes all figures and a picture.
"""

import argparse
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.report import write_report
from vaswani_hf import VaswaniConfig, VaswaniModel
from vaswani_hf.layers_vaswani import use_torch_layers
from vaswani_hf.modeling_vaswani import scaled_dot_product_attention
from vaswani_hf.pictures.drawing import (
    THEMES,
    all_handles,
    finish,
    line_style,
    new_figure,
    save_picture,
    theme_of,
)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


D_K = 64  # width of a head, as in the paper; a narrower layer is one head


# The layers of Table 1, each from (1, n, d) to the same


class SelfAttention(nn.Module):
    """Equation 1 with x as queries, keys and values: what Table 1 counts of self-attention."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.num_heads = max(d // D_K, 1)
        self.scaling = (d / self.num_heads) ** -0.5

    def split_heads(self, x: Tensor) -> Tensor:
        """Turn `(..., n, d)` into `(..., H, n, d_k)`."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.split_heads(x)
        mixed, _ = scaled_dot_product_attention(self, heads, heads, heads, None, self.scaling)
        return mixed.flatten(2)


class RestrictedSelfAttention(SelfAttention):
    """Equation 1 where a position looks at the r positions around it alone (section 4).

    A mask over all n x n scores would save nothing. So queries are cut into blocks of (r - 1) / 2
    positions, and each block looks at itself and its two neighbours, under a mask.
    """

    def __init__(self, d: int, r: int) -> None:
        super().__init__(d)
        self.reach = (r - 1) // 2

    def forward(self, x: Tensor) -> Tensor:
        n, reach = x.shape[1], self.reach
        num_blocks = math.ceil(n / reach)
        missing = num_blocks * reach - n  # of the last block
        queries = F.pad(x[0], (0, 0, 0, missing)).unflatten(0, (num_blocks, reach))
        neighbours = F.pad(x[0], (0, 0, reach, missing + reach)).unfold(0, 3 * reach, reach).mT
        starts = torch.arange(num_blocks).view(-1, 1, 1, 1) * reach
        query_positions = starts + torch.arange(reach).view(-1, 1)
        key_positions = starts + torch.arange(-reach, 2 * reach)
        is_seen = (query_positions - key_positions).abs() <= reach
        is_seen &= (key_positions >= 0) & (key_positions < n)
        mask = torch.zeros(is_seen.shape, dtype=x.dtype)
        mask.masked_fill_(~is_seen, torch.finfo(x.dtype).min)
        query, key = self.split_heads(queries), self.split_heads(neighbours)
        mixed, _ = scaled_dot_product_attention(self, query, key, key, mask, self.scaling)
        return mixed.flatten(2).flatten(0, 1)[:n].unsqueeze(0)


class WholeAttentionLayer(nn.Module):
    """The model's own multi-head self-attention, with its four projections (section 3.2.2)."""

    def __init__(self, d: int, implementation: str) -> None:
        super().__init__()
        shape = {"vocab_size": 8, "encoder_layers": 1, "decoder_layers": 1, "d_ff": D_K}
        config = VaswaniConfig(d_model=d, num_heads=max(d // D_K, 1), **shape)
        model = VaswaniModel._from_config(config, attn_implementation=implementation)
        self.attention = model.encoder.layers[0].self_attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x)[0]


class Recurrent(nn.Module):
    """Gated recurrent units, one position after the other."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.units = nn.GRU(d, d, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.units(x)[0]


class Convolution(nn.Conv1d):
    """A kernel over a position and the k - 1 before it, `dilation` apart."""

    def __init__(self, d: int, k: int, dilation: int = 1) -> None:
        super().__init__(d, d, k, dilation=dilation)
        self.num_before = (k - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x.mT, (self.num_before, 0))).mT


# What a layer costs


class Setting(NamedTuple):
    """A layer and its sizes, of which each layer uses what it has."""

    layer: str
    n: int
    d: int
    k: int
    r: int

    def build(self, **kwargs: Any) -> tuple[nn.Module, Tensor]:
        """The layer with random weights, and something to put in."""
        return LAYERS[self.layer](self).eval(), torch.randn(1, self.n, self.d, **kwargs)


ATTENTION, RESTRICTED = "self-attention", "self-attention, restricted"
WHOLE, FUSED = "self-attention, whole layer", "self-attention, whole layer, fused"
RECURRENT, CONVOLUTIONAL, DILATED = "recurrent", "convolutional", "convolutional, dilated"
LAYERS: dict[str, Callable[[Setting], nn.Module]] = {
    ATTENTION: lambda setting: SelfAttention(setting.d),
    WHOLE: lambda setting: WholeAttentionLayer(setting.d, "eager"),
    FUSED: lambda setting: WholeAttentionLayer(setting.d, "sdpa"),
    RECURRENT: lambda setting: Recurrent(setting.d),
    CONVOLUTIONAL: lambda setting: Convolution(setting.d, setting.k),
    RESTRICTED: lambda setting: RestrictedSelfAttention(setting.d, setting.r),
}
WINDOWS = {CONVOLUTIONAL: "k", DILATED: "k", RESTRICTED: "r"}
# What Table 1 has: complexity per layer, sequential operations, maximum path length. It leaves out
# the projections of self-attention; the dilated convolutions are in the text (section 4).
TABLE_1 = {
    ATTENTION: ("n² d", "1", "1"),
    WHOLE: ("(n² d + n d²)", "1", "1"),
    FUSED: ("(n² d + n d²)", "1", "1"),
    RECURRENT: ("n d²", "n", "n"),
    CONVOLUTIONAL: ("k n d²", "1", "n / k"),
    DILATED: ("k n d²", "1", "log_k n"),
    RESTRICTED: ("r n d", "1", "n / r"),
}


def operations(setting: Setting) -> int:
    """Additions and multiplications of all products."""
    if setting.layer == FUSED:  # which has the same products, and does not tell them
        setting = setting._replace(layer=WHOLE)
    layer, x = setting.build()
    use_torch_layers(layer)  # oneDNN's products are not counted
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(x)
    return counter.get_total_flops()


def kept_bytes(setting: Setting) -> int:
    """What the layer keeps for its backward pass, beside its parameters."""
    layer, x = setting.build(requires_grad=True)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = layer(x)  # holds the graph, so that no memory is used twice
    for parameter in layer.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    del result
    return sum(kept.values())


@torch.no_grad()
def processor_seconds(
    settings: Sequence[Setting], rounds: int, least_seconds: float
) -> list[float]:
    """Processor time of a forward pass of each: the median over rounds, in which all take turns.

    Args:
        settings: of the layers.
        rounds: how many; one more warms up.
        least_seconds: for which a layer runs in each.
    """
    calls = [setting.build() for setting in settings]
    seconds: list[list[float]] = [[] for _ in calls]
    for number in range(1 + rounds):
        for place in range(len(calls))[:: -1 if number % 2 else 1]:
            layer, x = calls[place]
            begun, repetitions = time.process_time(), 0
            while repetitions == 0 or time.process_time() - begun < least_seconds:
                layer(x)
                repetitions += 1
            if number:
                seconds[place].append((time.process_time() - begun) / repetitions)
    return [statistics.median(times) for times in seconds]


# What has to wait


def sequential_operations(setting: Setting) -> int:
    """Operations in the longest chain in which each needs what the one before has computed.

    The chains are those of the graph that the backward pass would walk.
    """
    layer, x = setting.build(requires_grad=True)
    use_torch_layers(layer)  # oneDNN's product counts as one, and is for large n alone
    last = layer(x).grad_fn
    before: dict[Any, list[Any]] = {}
    unseen = [last]
    while unseen:
        node = unseen.pop()
        if node not in before:
            before[node] = [other for other, _ in node.next_functions if other is not None]
            unseen += before[node]
    length: dict[Any, int] = {}
    for node in TopologicalSorter(before).static_order():
        length[node] = 1 + max((length[other] for other in before[node]), default=0)
    return length[last]


# How far a gradient has to go. In float64: each layer makes it smaller, and it must not become 0.


def num_layers(make_layer: Callable[[int], nn.Module], n: int, d: int) -> int:
    """The least number of layers by which the last output depends on the first input."""
    x = torch.randn(1, n, d, dtype=torch.float64, requires_grad=True)
    y, number = x, 0
    while True:
        y = make_layer(number).double()(y)
        number += 1
        (gradient,) = torch.autograd.grad(y[0, -1].sum(), x, retain_graph=True)
        if gradient[0, 0].any():
            return number


def num_steps(n: int, d: int) -> int:
    """The least number of a recurrent layer's steps by which its last output depends on the first.

    The gradient may go back through the last step, the last two, and so on (truncated
    backpropagation through time).
    """
    layer = nn.GRU(d, d, batch_first=True, dtype=torch.float64)
    x = torch.randn(1, n, d, dtype=torch.float64, requires_grad=True)
    number = 0
    while True:
        number += 1
        start = n - number
        state = layer(x[:, :start])[1].detach() if start else None
        y, _ = layer(x[:, start:], state)
        (gradient,) = torch.autograd.grad(y[0, -1].sum(), x)
        if gradient[0, 0].any():
            return number


def path_length(setting: Setting) -> int:
    """Layers, or steps, that a gradient takes from the last position to the first."""
    layer, n, d, k, _ = setting
    if layer == RECURRENT:
        return num_steps(n, d)
    if layer == DILATED:
        return num_layers(lambda number: Convolution(d, k, dilation=k**number), n, d)
    return num_layers(lambda number: LAYERS[layer](setting), n, d)


# All of it


class Sizes(NamedTuple):
    """What is measured: costs by n, by d and by k or r, while the others are the usual ones."""

    usual: Setting
    n: list[int]
    d: list[int]
    k: list[int]
    r: list[int]
    chains: list[int]  # by n
    paths: list[int]  # by n
    windows: list[int]  # k and r of the paths
    rounds: int
    least_seconds: float


FULL = Sizes(
    usual=Setting(ATTENTION, n=1024, d=256, k=3, r=65),
    n=[64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096],
    d=[128, 192, 256, 384, 512, 768, 1024],
    k=[3, 5, 9, 17, 33],
    r=[65, 129, 257, 513],
    chains=[64, 128, 256, 512],
    paths=[9, 27, 81, 243],
    windows=[3, 9],
    rounds=5,
    least_seconds=0.02,
)
QUICK = Sizes(
    usual=Setting(ATTENTION, n=16, d=16, k=3, r=5),
    n=[4, 8, 16, 64, 80, 96],
    d=[16, 32, 48],
    k=[3, 5, 9],
    r=[5, 9, 17],
    chains=[8, 16, 32],
    paths=[3, 9, 27],
    windows=[3],
    rounds=1,
    least_seconds=0.0,
)


def main() -> None:
    """Measure, print the tables, write figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds")
    parser.add_argument("--output", type=Path, default=Path(), metavar="FOLDER")
    parser.add_argument("--theme", choices=tuple(THEMES), default="light", help="of the picture")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    figures = measure(QUICK if options.quick else FULL)
    print(tables(figures))
    path = write_report("table_1", figures, options.output)
    picture = path.with_name("table_1.svg")
    save_picture(draw(figures, options.theme), picture)
    print(f"Wrote {picture}.")


def measure(sizes: Sizes) -> dict[str, Any]:
    """All figures: `costs` by each variable, `chains` and `paths` by n."""
    varied = [
        (variable, sizes.usual._replace(**{"layer": layer, variable: value}))
        for layer in LAYERS
        for variable in filter(None, ("n", "d", WINDOWS.get(layer)))
        for value in getattr(sizes, variable)
    ]
    seconds = processor_seconds(
        [setting for _, setting in varied], sizes.rounds, sizes.least_seconds
    )
    costs = [
        {"by": variable, **setting._asdict(), "operations": operations(setting)}
        | {"seconds": of_one, "bytes": kept_bytes(setting)}
        for (variable, setting), of_one in zip(varied, seconds, strict=True)
    ]
    chains = [
        setting._asdict() | {"length": sequential_operations(setting)}
        for layer in LAYERS
        for n in sizes.chains
        for setting in [sizes.usual._replace(layer=layer, n=n)]
    ]
    paths = [
        setting._asdict() | {"length": path_length(setting)}
        for layer in TABLE_1
        for window in (sizes.windows if layer in WINDOWS else sizes.windows[:1])
        for n in sizes.paths
        for setting in [Setting(layer, n, d=8, k=window, r=window)]
    ]
    named = sizes._asdict() | {"usual": sizes.usual._asdict()}
    return {"sizes": named, "costs": costs, "chains": chains, "paths": paths}


# Tables and picture


Points = Sequence[float] | numpy.ndarray


def slope(x: Points, y: Points) -> str:
    """That of the line of least squares, and its standard error."""
    (steepness, _), covariance = numpy.polyfit(x, y, 1, cov=True)
    return f"{steepness + 1e-9:.2f} ± {covariance[0, 0] ** 0.5:.2f}"


def exponent(x: Points, y: Points) -> str:
    """That of a power law: the slope between the logarithms of both."""
    return slope(numpy.log(x), numpy.log(y))


def tables(figures: dict[str, Any]) -> str:
    """Beside the columns of Table 1 what was measured, in Markdown."""
    return "\n".join(
        [
            cost_table(figures, "operations"),
            cost_table(figures, "seconds"),
            cost_table(figures, "bytes"),
            length_table(figures["chains"], "Sequential operations", 1),
            length_table(figures["paths"], "Maximum path length", 2),
        ]
    )


def cost_table(figures: dict[str, Any], cost: str) -> str:
    """The exponents of a cost; those of n apart where n is small beside d, and large."""
    d = figures["sizes"]["usual"]["d"]
    rows = [[f"Exponents of {cost}", "Table 1", f"n, to {d}", f"n, from {4 * d}", "d", "k or r"]]
    for layer in LAYERS:
        of_layer = [row for row in figures["costs"] if row["layer"] == layer]
        cells = [layer, "" if cost == "bytes" else TABLE_1[layer][0]]
        for variable, least, most in (
            *(("n", 0, d), ("n", 4 * d, math.inf), ("d", 0, math.inf)),
            (WINDOWS.get(layer), 0, math.inf),
        ):
            points = [
                (row[variable], row[cost])
                for row in of_layer
                if row["by"] == variable and least <= row[variable] <= most
            ]
            cells.append(exponent(*zip(*points, strict=True)) if points else "")
        rows.append(cells)
    return markdown(rows)


def length_table(lengths: list[dict[str, Any]], title: str, column: int) -> str:
    """Lengths by n, and their exponent."""
    by_n = list(dict.fromkeys(row["n"] for row in lengths))
    rows = [[title, "Table 1", *(f"n = {n}" for n in by_n), "Exponent of n"]]
    for name, of_one in itertools.groupby(lengths, key=name_of):
        found = list(of_one)
        values = [row["length"] for row in found]
        layer, k = found[0]["layer"], found[0]["k"]
        if layer == DILATED:
            fitted = f"{slope(numpy.log(by_n) / math.log(k), values)} a factor of k"
        else:
            fitted = exponent(by_n, values)
        rows.append([name, TABLE_1[layer][column], *map(str, values), fitted])
    return markdown(rows)


def name_of(row: dict[str, Any]) -> str:
    """A layer, with its k or r."""
    window = WINDOWS.get(row["layer"])
    return f"{row['layer']}, {window} = {row[window]}" if window else row["layer"]


def markdown(rows: list[list[str]]) -> str:
    head, *others = (f"| {' | '.join(row)} |\n" for row in rows)
    return head + "|---" * len(rows[0]) + "|\n" + "".join(others)


def draw(figures: dict[str, Any], theme: str = "light") -> "Figure":
    """Time, memory, sequential operations and path lengths over n."""
    from matplotlib.ticker import EngFormatter, NullLocator, StrMethodFormatter

    figure = new_figure(theme)
    figure.set_size_inches(10, 8)
    panels = figure.subplots(2, 2)
    usual, window = figures["sizes"]["usual"], figures["sizes"]["windows"][-1]
    costs = [row for row in figures["costs"] if row["by"] == "n"]
    paths = [
        row
        for row in figures["paths"]
        if row["layer"] not in (WHOLE, FUSED)  # as self-attention
        and (row["layer"] not in WINDOWS or row["k"] == window)
    ]
    sizes = f"d = {usual['d']}, k = {usual['k']}, r = {usual['r']}"
    count = StrMethodFormatter("{x:,g}")
    contents = [
        (f"Processor time of a forward pass ({sizes})", costs, "seconds", EngFormatter("s"), 2),
        (f"Memory kept for the backward pass ({sizes})", costs, "bytes", EngFormatter("B"), 2),
        ("Sequential operations of a layer", figures["chains"], "length", count, 2),
        (f"Maximum path length (k = r = {window})", paths, "length", count, 3),
    ]
    for axes, (title, rows, key, formatter, base) in zip(panels.flat, contents, strict=True):
        for number, layer in enumerate(TABLE_1):
            points = [(row["n"], row[key]) for row in rows if row["layer"] == layer]
            if points:
                style = line_style(number, theme) | {"marker": "o", "markersize": 3.5}
                axes.plot(*zip(*points, strict=True), label=layer, **style)
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("n (positions)")
        axes.set_xscale("log", base=base)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(count)
        axes.yaxis.set_major_formatter(formatter)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
        axes.grid(True, color=theme_of(theme).faint, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*all_handles(panels.flat), loc="outside lower center", ncols=3, frameon=False)
    return finish(figure, theme)


if __name__ == "__main__":
    main()
