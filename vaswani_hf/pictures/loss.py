# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Section 5.4: label smoothing's targets, and whether a model is as often right as it is sure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .drawing import finish, label_axes, line_style, new_figure, theme_of


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..translation import Translator
    from ..translation.pairs import Pair


VOCABULARY = 37_000  # section 5.1
EPSILON = 0.1  # section 5.4


@dataclass(frozen=True)
class ConfidenceBin:
    """Target pieces whose most probable continuation has a probability in one range.

    Attributes:
        low: the least probability.
        high: the largest one; a probability of exactly `low` belongs to the bin before.
        num_tokens: how many pieces there are.
        confidence: the mean probability; 0 where there are none.
        accuracy: how many of them are what the model finds most probable, as a rate; likewise.
    """

    low: float
    high: float
    num_tokens: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """How often a model is right where it is so sure (Guo et al. 2017).

    The model reads the right translation up to each piece, `</s>` included, and says the next.

    Attributes:
        name: of the model.
        bins: of equal width, from 0 to 1.
    """

    name: str
    bins: tuple[ConfidenceBin, ...]

    @property
    def num_tokens(self) -> int:
        """Target pieces."""
        return sum(one.num_tokens for one in self.bins)

    @property
    def accuracy(self) -> float:
        """Share of the pieces that the model finds most probable."""
        return sum(one.accuracy * one.num_tokens for one in self.bins) / self.num_tokens

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of accuracy and confidence, by bins."""
        gaps = (abs(one.accuracy - one.confidence) * one.num_tokens for one in self.bins)
        return sum(gaps) / self.num_tokens


def measure_calibration(
    translator: "Translator",
    sources: Iterable[str],
    targets: Iterable[str],
    *,
    num_bins: int = 10,
    name: str = "model",
) -> Calibration:
    """Compare how sure a model is of each piece of good translations with how often it is right.

    Args:
        translator: of any sequence-to-sequence model of transformers.
        sources: sentences.
        targets: their translations, as many.
        num_bins: ranges of probability that are told apart.
        name: of the model, for the picture.

    Raises:
        ValueError: if there are no pairs, or `num_bins` is below 1.
        PairError: if a pair has more tokens than the model has positions.
        UnequalLengthError: if one side has fewer.
    """
    if num_bins < 1:
        raise ValueError(f"num_bins must be at least 1, got num_bins={num_bins}.")
    reader = translator.pair_reader(10_000)
    found: list[tuple[float, bool]] = []
    for pairs in reader.chunks(sources, targets):
        for answers in reader.answers(pairs, lambda batch: _answers(translator, batch)):
            found += answers
    if not found:
        raise ValueError("Calibration needs at least one pair of a source and its translation.")
    counts, sure, right = [0] * num_bins, [0.0] * num_bins, [0] * num_bins
    for probability, is_right in found:
        place = min(max(math.ceil(probability * num_bins) - 1, 0), num_bins - 1)
        counts[place] += 1
        sure[place] += probability
        right[place] += is_right
    bins = tuple(
        ConfidenceBin(
            place / num_bins,
            (place + 1) / num_bins,
            counts[place],
            sure[place] / counts[place] if counts[place] else 0.0,
            right[place] / counts[place] if counts[place] else 0.0,
        )
        for place in range(num_bins)
    )
    return Calibration(name, bins)


def _answers(translator: "Translator", pairs: "Sequence[Pair]") -> list[list[tuple[float, bool]]]:
    """Of each target piece: the largest probability, and whether it is that of the piece."""
    import torch

    from ..translation.forcing import forced

    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    with torch.inference_mode():
        padding = translator.tokenizer.pad_token_id
        read = [target[:-1] for target in targets]
        logits = forced(translator.model, padding, sources, read).logits
        answers = []
        for row, target in zip(logits, targets, strict=True):  # one by one, since logits are large
            best = row[: len(target)].float().softmax(dim=-1).max(dim=-1)  # (T,)
            is_right = best.indices.cpu() == torch.tensor(target)
            answers.append(list(zip(best.values.tolist(), is_right.tolist(), strict=True)))
    return answers


def plot_loss(
    *calibrations: Calibration,
    vocab_size: int = VOCABULARY,
    label_smoothing: float = EPSILON,
    theme: str = "light",
) -> "Figure":
    """Draw label smoothing: its targets, its loss, and what it does to a model (section 5.4).

    On the left the target distribution with and without smoothing. Then the cross-entropy with it,
    over the probability that the model gives to the true piece, all other pieces having equal
    parts of the rest: its minimum is not at 1. With models, a reliability diagram of each: how
    often it is right where it is so sure, and how many pieces there are.

    Args:
        calibrations: what `measure_calibration` has found, of models with and without smoothing.
        vocab_size: V.
        label_smoothing: epsilon; epsilon / V goes to every piece, the true one included.
        theme: `"light"` or `"dark"`.

    Raises:
        ValueError: if `vocab_size` is below 2, or `label_smoothing` is not in (0, 1).
        ImportError: if matplotlib is not installed.
    """
    if vocab_size < 2:
        raise ValueError(f"vocab_size must be at least 2, got vocab_size={vocab_size}.")
    if not 0 < label_smoothing < 1:
        raise ValueError(
            f"label_smoothing must lie between 0 and 1, got label_smoothing={label_smoothing}."
        )
    figure = new_figure(theme)
    count = 3 if calibrations else 2
    figure.set_size_inches(4.3 * count, 4.0)
    parts: Any = figure.subfigures(1, count)
    _draw_targets(parts[0].subplots(), vocab_size, label_smoothing, theme)
    _draw_cross_entropy(parts[1].subplots(), vocab_size, label_smoothing, theme)
    if calibrations:
        _draw_reliability(parts[2], calibrations, theme)
    return finish(figure, theme)


def _draw_targets(axes: "Axes", vocab_size: int, epsilon: float, theme: str) -> None:
    colours = theme_of(theme)
    lowest = epsilon / vocab_size / 20
    for number, smoothing in enumerate((0.0, epsilon)):
        share = smoothing / vocab_size
        for place, height in enumerate((1 - smoothing + share, share)):
            x = place + 0.38 * (number - 0.5)
            axes.bar(
                x,
                height,
                width=0.34,
                color=colours.colours[number],
                label=f"ε = {smoothing:g}" if place == 0 else None,
            )
            place_of_text = (x, max(height, lowest))
            axes.annotate(
                _share(height), place_of_text, (0, 3), textcoords="offset points", ha="center"
            )
    label_axes(axes, "", "target probability", theme)
    axes.set_yscale("log")
    axes.set_ylim(lowest, 8)
    axes.set_xticks([0, 1], ["true piece", f"each of the other\n{vocab_size - 1:,} pieces"])
    axes.grid(False, axis="x")
    axes.legend(frameon=False, loc="upper right")
    axes.set_title("targets", fontsize=11)


def _share(probability: float) -> str:
    """Such as 0.9, or 2.7 x 10^-6 in matplotlib's spelling."""
    if probability == 0 or probability >= 0.01:
        return f"{probability:.4g}"
    digits, exponent = f"{probability:.1e}".split("e")
    return rf"${digits}\times 10^{{{int(exponent)}}}$"


def _draw_cross_entropy(axes: "Axes", vocab_size: int, epsilon: float, theme: str) -> None:
    # Fine steps near 1, where the smoothed loss has its minimum.
    rests = [10 ** (-exponent / 20) for exponent in range(1, 101)]
    probabilities = sorted(
        {*(1 - rest for rest in rests), *(place / 100 for place in range(2, 90))}
    )
    for number, smoothing in enumerate((0.0, epsilon)):
        losses = [_cross_entropy(p, smoothing, vocab_size) for p in probabilities]
        style = line_style(number, theme)
        axes.plot(probabilities, losses, label=f"ε = {smoothing:g}", **style)
        if smoothing:
            best = 1 - smoothing + smoothing / vocab_size
            least = _cross_entropy(best, smoothing, vocab_size)
            axes.plot([best], [least], "o", color=style["color"], markersize=6)
            axes.annotate(
                f"least at {best:.4g}", (best, least), (-8, 12), textcoords="offset points",
                ha="right",
            )  # fmt: skip
    label_axes(axes, "probability of the true piece", "loss (nats per token)", theme)
    _share_axis(axes)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.set_title("loss", fontsize=11)


def _cross_entropy(probability: float, smoothing: float, vocab_size: int) -> float:
    """With targets smoothed, where all but the true piece have equal parts of the rest."""
    share = smoothing / vocab_size
    loss = -(1 - smoothing + share) * math.log(probability)
    if smoothing:
        other = (1 - probability) / (vocab_size - 1)
        loss -= (vocab_size - 1) * share * math.log(other)
    return loss


def _draw_reliability(figure: Any, calibrations: Sequence[Calibration], theme: str) -> None:
    ink = theme_of(theme).ink
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    above.plot([0, 1], [0, 1], color=ink, linewidth=0.8, linestyle=":", label="as often as sure")
    width = 1 / (len(calibrations) + 0.5)
    for number, one in enumerate(calibrations):
        some = [found for found in one.bins if found.num_tokens]
        style = line_style(number, theme)
        above.plot(
            [found.confidence for found in some],
            [found.accuracy for found in some],
            marker="o",
            markersize=4,
            label=f"{one.name}: error {100 * one.error:.1f} %",
            **style,
        )
        for found in one.bins:
            size = found.high - found.low
            left = found.low + size * width * (number + 0.25)
            share = found.num_tokens / one.num_tokens
            below.bar(left, share, size * width, align="edge", color=style["color"])
    label_axes(above, "", "share that is right", theme)
    label_axes(below, "probability of the model's best piece", "pieces (share)", theme)
    below.yaxis.label.set_fontsize(8)
    above.yaxis.label.set_fontsize(8)
    for axes in (above, below):
        _share_axis(axes)
    above.set_ylim(0, 1)
    above.legend(frameon=False, fontsize=8, loc="lower right")
    above.set_title("calibration", fontsize=11)


def _share_axis(axes: "Axes") -> None:
    axes.set_xlim(0, 1.02)
    axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.xaxis.set_major_formatter("{x:g}")


__all__ = ["Calibration", "ConfidenceBin", "measure_calibration", "plot_loss"]
