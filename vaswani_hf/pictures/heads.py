# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which head does what, and what does a model lose without it?

What a head does is told as by Voita et al. (2019, "Analyzing Multi-Head Self-Attention"): how often
the one piece that it looks at most is the previous, the next, or the rarest of the sentence. What
it is worth is the BLEU of the model whose head adds nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..translation.alignment import Aligner, eager_attention
from ..translation.forcing import forced
from ..translation.words import segment
from .attention import CROSS, DECODER, ENCODER, KINDS
from .attention_figures import NAMES
from .drawing import decimals, finish, new_figure, shades_of, theme_of


if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..translation import Translator
    from ..translation.pairs import Pair


PREVIOUS, NEXT, SAME, RAREST = "previous", "next", "same word", "rarest"
ALIGNMENT, END = "alignment", "</s>"
LEAST_ROW_INCHES = 0.155  # of a head in the picture
ROLES = {
    ENCODER: (PREVIOUS, NEXT, SAME, RAREST),
    DECODER: (PREVIOUS, SAME, RAREST),
    CROSS: (ALIGNMENT, RAREST, END),
}


@dataclass(frozen=True)
class HeadScore:
    """What one head does.

    Attributes:
        kind: `"encoder"`, `"decoder"` or `"cross"`.
        layer: counted from 0.
        head: in its layer, counted from 0.
        roles: how often, in [0, 1], the piece that it looks at most is the one that the role names.
        bleu: of the model without this head, 0 to 100; `None` where that was not asked for.
    """

    kind: str
    layer: int
    head: int
    roles: dict[str, float]
    bleu: float | None = None


@dataclass(frozen=True)
class HeadReport:
    """What the heads of a model do, and what the model is without each.

    Attributes:
        heads: by kind, layer and head.
        bleu: of the whole model, 0 to 100; `None` where that was not asked for.
        signature: sacrebleu's.
        num_pairs: sentences that were looked at and translated.
    """

    heads: tuple[HeadScore, ...]
    bleu: float | None
    signature: str | None
    num_pairs: int


def measure_heads(
    translator: "Translator",
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    prunes: bool = True,
    progress: bool = False,
) -> HeadReport:
    """Measure what every head does over a test set, and the BLEU of the model without it.

    A head looks from pieces of the text, not from `</s>` or the start. `previous` and `next` are
    the pieces beside the one that looks, `same word` is any piece of its word, itself included,
    `rarest` the piece of the sentence that is rarest in the test set, in the decoder of those read
    so far. `alignment` is as in `vaswani_hf.translation.alignment`, over a sample of the pairs, at
    the step that does better; `</s>` is the end of the source.

    Args:
        translator: of a Vaswani model. Translations are its own, such as by its `num_beams`.
        sources: sentences.
        targets: their translations, as many; read by the decoder, and the references of BLEU.
        prunes: whether to translate without each head, which takes as many translations as there
            are heads, and one more.
        progress: whether to draw a progress bar.

    Raises:
        ValueError: if there are no pairs, or the model is of another kind.
        ImportError: if sacrebleu is not installed.
    """
    if not getattr(translator, "is_vaswani", False):
        raise ValueError("Heads are measured and pruned in Vaswani models only.")
    if not sources:
        raise ValueError("Heads are measured over at least one pair, got none.")
    reader = translator.pair_reader(len(sources))
    (pairs,) = reader.chunks(sources, targets)
    roles = _roles(translator, pairs)
    places = list(roles)
    whole, scores, signature = None, dict.fromkeys(places), None
    if prunes:
        from ..evaluation import Metric

        metric = Metric("bleu")

        def bleu() -> Any:
            return metric.score(metric.statistics(translator(sources), [list(targets)]))

        found = bleu()
        whole, signature = found.score, found.signature
        for place in _with_progress(places, progress):
            with without_head(translator.model, *place):
                scores[place] = bleu().score
    heads = (HeadScore(*place, roles[place], scores[place]) for place in places)
    return HeadReport(tuple(heads), whole, signature, len(sources))


def _with_progress(places: Sequence[Any], is_shown: bool) -> Iterable[Any]:
    if not is_shown:
        return places
    from tqdm.auto import tqdm

    return tqdm(places, unit="head")


@contextmanager
def without_head(model: Any, kind: str, layer: int, head: int) -> Iterator[None]:
    """A Vaswani model one of whose heads adds nothing, for a while (section 3.2.2).

    Its output is 0: the columns of W^O that it goes through are.
    """
    import torch

    stack = model.model.encoder if kind == ENCODER else model.model.decoder
    name = "cross_attention" if kind == CROSS else "self_attention"
    attention = getattr(stack.layers[layer], name)
    weight = attention.output_proj.weight  # (d_model, H * d_v)
    width = weight.shape[1] // model.config.num_heads
    columns = slice(head * width, (head + 1) * width)
    before = weight[:, columns].detach().clone()
    with torch.no_grad():
        weight[:, columns] = 0
    try:
        yield
    finally:
        with torch.no_grad():
            weight[:, columns] = before


def _roles(
    translator: "Translator", pairs: "Sequence[Pair]"
) -> dict[tuple[str, int, int], dict[str, float]]:
    """How often each head looks most at what each role names."""
    import torch

    model, tokenizer = translator.model, translator.tokenizer
    aligner = Aligner(model, tokenizer, translator.target_tokenizer, translator.batch_tokens)
    counts = Counter(token for pair in pairs for token in pair.source)
    target_counts = Counter(token for pair in pairs for token in aligner.read_ids(pair.target))
    rates = _Rates()
    for pair in pairs:
        read = aligner.read_ids(pair.target)
        with torch.inference_mode(), eager_attention(model):
            outputs = forced(
                model, tokenizer.pad_token_id, [pair.source], [read], output_attentions=True
            )
        source = _words(tokenizer, pair.source, pair.source_text)
        target = [[], *_words(translator.target_tokenizer, read, None)]  # the start is no word
        rarest = _rarest(pair.source, source, counts)
        so_far = [
            _rarest([0, *read][: row + 1], target[: row + 1], target_counts) if words else set()
            for row, words in enumerate(target)
        ]
        for (kind, role), places in _wanted(source, target, rarest, so_far).items():
            rates.add(kind, role, torch.cat(outputs[f"{kind}_attentions"]).float().cpu(), places)
    alignment = _alignment(aligner, pairs)
    return {
        (kind, layer, head): {
            role: alignment.get((layer, head), 0.0)
            if role == ALIGNMENT
            else rates.of(kind, role, layer, head)
            for role in ROLES[kind]
        }
        for kind in KINDS
        for layer, head in rates.heads(kind)
    }


def _wanted(
    source: Sequence[list[int]],
    target: Sequence[list[int]],
    rarest: set[int],
    so_far: Sequence[set[int]],
) -> dict[tuple[str, str], list[set[int]]]:
    """The places that each role names, for each piece that looks; none where none counts.

    Args:
        source: the words of each piece of the source, none of `</s>`.
        target: those of each piece that the decoder reads, none of the start.
        rarest: the places of the rarest pieces of the source.
        so_far: those of the rarest pieces of the target, up to each one.
    """
    return {
        (ENCODER, PREVIOUS): _beside(source, -1),
        (ENCODER, NEXT): _beside(source, 1),
        (ENCODER, SAME): _same(source),
        (ENCODER, RAREST): [rarest if words else set() for words in source],
        (DECODER, PREVIOUS): _beside(target, -1),
        (DECODER, SAME): _same(target),
        (DECODER, RAREST): list(so_far),
        (CROSS, RAREST): [rarest for _ in target],
        (CROSS, END): [{len(source) - 1} for _ in target],
    }


def _alignment(aligner: Aligner, pairs: "Sequence[Pair]") -> dict[tuple[int, int], float]:
    """How often each head looks at the source piece that matters most, at its better step."""
    rates: dict[tuple[int, int], float] = {}
    sample = aligner.sample(pairs)
    if sample:
        for found, rate in aligner.agreement(sample).items():
            place = (found.layer, found.head)
            rates[place] = max(rate, rates.get(place, 0.0))
    return rates


class _Rates:
    """How often each head looks most at one of the pieces that are wanted of it."""

    def __init__(self) -> None:
        self.hits: dict[tuple[str, str], torch.Tensor] = {}  # (layers, H)
        self.totals: Counter[tuple[str, str]] = Counter()

    def add(
        self, kind: str, role: str, weights: "torch.Tensor", wanted: "Sequence[set[int]]"
    ) -> None:
        """Count the weights `(layers, H, queries, keys)` of a sentence.

        Args:
            kind: of attention.
            role: what is wanted.
            weights: of every head.
            wanted: of each query the places of keys; of none where the query does not count.
        """
        table = weights.new_zeros(weights.shape[2:])
        for row, places in enumerate(wanted):
            table[row, sorted(places)] = 1
        best = weights.argmax(dim=-1, keepdim=True)
        hits = table.expand(weights.shape).gather(-1, best).sum(dim=(-2, -1))
        self.hits[kind, role] = self.hits.get((kind, role), 0) + hits
        self.totals[kind, role] += sum(map(bool, wanted))

    def heads(self, kind: str) -> list[tuple[int, int]]:
        """Layer and head of all that were counted."""
        (layers, heads) = next(hits.shape for (one, _), hits in self.hits.items() if one == kind)
        return [(layer, head) for layer in range(layers) for head in range(heads)]

    def of(self, kind: str, role: str, layer: int, head: int) -> float:
        """The rate; 0 where nothing was counted."""
        return float(self.hits[kind, role][layer, head]) / max(self.totals[kind, role], 1)


def _words(tokenizer: Any, ids: Sequence[int], text: str | None) -> list[list[int]]:
    """The words that each piece is a part of: none of special pieces, its own if it spells none."""
    if not ids:
        return []
    found = segment(tokenizer, ids, text)
    return [
        [] if span is None else words or [-1 - place]
        for place, (span, words) in enumerate(zip(found.spans, found.words_of_pieces, strict=True))
    ]


def _rarest(ids: Sequence[int], words: Sequence[list[int]], counts: Counter[int]) -> set[int]:
    """The places of the pieces of a text that are rarest; several if they are equally rare."""
    places = [place for place, some in enumerate(words) if some]
    least = min((counts[ids[place]] for place in places), default=0)
    return {place for place in places if counts[ids[place]] == least}


def _beside(words: Sequence[list[int]], step: int) -> list[set[int]]:
    """The place beside each piece of a text, where that is a piece of the text too."""
    there = [bool(some) for some in words]
    return [
        {row + step} if is_there and 0 <= row + step < len(there) and there[row + step] else set()
        for row, is_there in enumerate(there)
    ]


def _same(words: Sequence[list[int]]) -> list[set[int]]:
    """The pieces of the words of each piece."""
    return [{place for place, other in enumerate(words) if {*other} & {*some}} for some in words]


def plot_heads(report: HeadReport, *, theme: str = "light") -> "Figure":
    """Draw what every head does, and how BLEU changes without it.

    Args:
        report: what `measure_heads` has found.
        theme: `"light"` or `"dark"`.

    Raises:
        ValueError: if there is no such theme.
        ImportError: if matplotlib is not installed.
    """
    figure = new_figure(theme)
    by_kind = {kind: [one for one in report.heads if one.kind == kind] for kind in KINDS}
    has_bleu = report.bleu is not None
    longest = max(map(len, by_kind.values()))
    row_inches = min(max(5.0 / longest, LEAST_ROW_INCHES), 0.28)
    figure.set_size_inches(13.0 if has_bleu else 9.0, 1.8 + row_inches * longest)
    widths = [width for kind in KINDS for width in (len(ROLES[kind]), 2.2 * has_bleu) if width]
    grid = iter(figure.subplots(1, len(widths), width_ratios=widths))
    changes = [one.bleu - report.bleu for one in report.heads if has_bleu]  # type: ignore[operator]
    limits = (min([*changes, -0.5]), max([*changes, 0.5]))
    for kind, heads in by_kind.items():
        axes = next(grid)
        _draw_roles(axes, kind, heads, theme)
        if has_bleu:
            bars = next(grid)
            bars.sharey(axes)
            _draw_changes(bars, heads, report.bleu or 0.0, limits, theme)
    if has_bleu:
        figure.suptitle(
            f"BLEU {report.bleu:.2f} with all heads, {report.num_pairs} sentences", fontsize=11
        )
    return finish(figure, theme)


def _draw_roles(axes: "Axes", kind: str, heads: Sequence[HeadScore], theme: str) -> None:
    roles = ROLES[kind]
    rates = [[one.roles[role] for role in roles] for one in heads]
    shades = shades_of(theme)
    axes.imshow(rates, cmap=shades, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    colours = theme_of(theme)
    for row, values in enumerate(rates):
        for place, rate in enumerate(values):
            colour = _readable(shades(rate), colours.paper, colours.ink)
            axes.text(
                place,
                row,
                f"{100 * rate:.0f}",
                ha="center",
                va="center",
                fontsize=7.5,
                color=colour,
            )
    axes.set_xticks(range(len(roles)), roles, rotation=40, ha="right", fontsize=8)
    axes.set_yticks(range(len(heads)), [f"{one.layer}.{one.head}" for one in heads], fontsize=8)
    axes.set_ylabel("layer.head", fontsize=8)
    axes.set_xlabel("looks most at it (%)", fontsize=8)
    axes.set_title(NAMES[kind].capitalize(), fontsize=10)
    axes.tick_params(length=0)


def _draw_changes(
    axes: "Axes", heads: Sequence[HeadScore], whole: float, limits: tuple[float, float], theme: str
) -> None:
    colours = theme_of(theme)
    changes = [(one.bleu or 0.0) - whole for one in heads]
    tints = [colours.colours[1] if change < 0 else colours.colours[2] for change in changes]
    axes.barh(range(len(heads)), changes, color=tints, height=0.7)
    axes.axvline(0, color=colours.ink, linewidth=0.8)
    room = 0.35 * (limits[1] - limits[0])
    axes.set_xlim(limits[0] - room, limits[1] + room)
    for row, change in enumerate(changes):
        axes.annotate(
            decimals(round(change, 1) + 0.0, 1, sign="+"),
            (change, row),
            (-2 if change < 0 else 2, 0),
            textcoords="offset points",
            ha="right" if change < 0 else "left",
            va="center",
            fontsize=7,
        )
    axes.set_xlabel("change of BLEU\nwithout it", fontsize=8)
    axes.tick_params(length=0, labelsize=7, labelleft=False)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _readable(ground: Any, *inks: str) -> str:
    """The ink that differs most in lightness from a colour."""
    from matplotlib.colors import to_rgb

    def lightness(colour: Any) -> float:
        red, green, blue = to_rgb(colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    return max(inks, key=lambda ink: abs(lightness(ink) - lightness(ground)))


__all__ = ["HeadReport", "HeadScore", "measure_heads", "plot_heads", "without_head"]
