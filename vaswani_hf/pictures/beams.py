# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What beam search did, step by step: the tree of its hypotheses (section 6.1)."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..beam_search_vaswani import CUT_OFF, DROPPED, GOES_ON, BeamCandidate, BeamStep
from ..search_settings_vaswani import WU
from ..translation.forcing import padded
from .drawing import columns_on_slide, decimals, finish, new_figure, theme_of


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..translation import Translator


LEAST_COLUMNS = 5  # so that there is room for sentences
MOST_LETTERS = 12  # of a piece that is drawn
ROW_INCHES, COLUMN_INCHES, LINE_INCHES = 0.37, 1.3, 0.19
DROPPED_INK = "#8A9099"  # is read on either ground


@dataclass(frozen=True)
class BeamTree:
    """What a beam search did with one sentence.

    Attributes:
        source: the sentence.
        steps: what `generate()` has told its `on_step`, in order. Candidates of a step are the most
            probable first; one that goes on is the parent of candidates of the next step.
        pieces: of each step, what each candidate adds.
        endings: what has ended or was cut off, in the order in which the search prefers them, each
            with its text. The first is what `generate()` has returned.
    """

    source: str
    steps: tuple[BeamStep, ...]
    pieces: tuple[tuple[str, ...], ...]
    endings: tuple[tuple[BeamCandidate, str], ...]

    def parent(self, step: int, candidate: BeamCandidate) -> int | None:
        """The place of the candidate of the step before that one continues; `None` in the first."""
        if step == 0:
            return None
        before = self.steps[step - 1].candidates
        return next(place for place, one in enumerate(before) if one.beam == candidate.parent)

    def path(self) -> list[int]:
        """The places of the candidates that make up what was returned, one in each of its steps."""
        best = self.endings[0][0].ids
        return [
            next(
                place for place, one in enumerate(step.candidates) if one.ids == best[: number + 1]
            )
            for number, step in enumerate(self.steps[: len(best)])
        ]


def beams_of(translator: "Translator", sentence: str) -> BeamTree:
    """Translate a sentence and keep what the beam search did (section 6.1).

    Args:
        translator: of a Vaswani model, with two beams or more.
        sentence: a source of one sentence.

    Raises:
        ValueError: if the sentence has no words, the model is of another kind, or it searches with
            one beam.
    """
    if not sentence.strip():
        raise ValueError("There is nothing to search for: the sentence has no words.")
    if not translator.is_vaswani:
        raise ValueError("Only Vaswani models tell what their beam search does.")
    if translator.num_beams < 2:
        raise ValueError(
            f"A beam search has two beams or more, got num_beams={translator.num_beams}."
        )
    ids = translator.encode([sentence])
    model, steps = translator.model, list[BeamStep]()
    (row,) = model.generate(
        input_ids=padded(ids, translator.tokenizer.pad_token_id, model.device),
        attention_mask=padded([[1] * len(ids[0])], 0, model.device),
        max_extra_tokens=translator.max_extra_tokens,
        on_step=steps.append,
        **translator.generation,
    ).tolist()
    ended = [one for step in steps for one in step.candidates if one.score is not None]
    # By the paper's rules what was cut off comes after what has ended.
    is_last = CUT_OFF if translator.length_penalty_of_search()[1] == WU else None
    ended.sort(key=lambda one: (one.outcome == is_last, -(one.score or 0.0)))
    # What was returned is the best; which of equally good ones that is, the search decides.
    ended.sort(key=lambda one: list(one.ids) != row[1 : 1 + len(one.ids)])
    tokenizer = translator.target_tokenizer
    pieces = tuple(
        tuple(tokenizer.convert_ids_to_tokens([one.token for one in step.candidates]))
        for step in steps
    )
    texts = translator.texts_of([list(one.ids) for one in ended])
    return BeamTree(sentence, tuple(steps), pieces, tuple(zip(ended, texts, strict=True)))


def plot_beams(
    tree: BeamTree,
    *,
    num_steps: int | None = None,
    num_endings: int = 4,
    theme: str = "light",
) -> "Figure":
    """Draw the hypotheses of a beam search, what was dropped, and what won (section 6.1).

    A column is a step, and holds its candidates, the most probable above, with the log-probability
    of all pieces so far (natural). Pieces in a box have ended and have a score too, the
    log-probability divided by the length penalty; the box of what a limit cut off is dashed. Grey
    ones were dropped. The line of what was returned is thick. Below stand the best endings.

    Args:
        tree: what `beams_of` has found.
        num_steps: draw the first ones; `None` for all.
        num_endings: how many of the endings stand below.
        theme: `"light"` or `"dark"`.

    Raises:
        ValueError: if `num_steps` is below 1, `num_endings` below 0, or there is no such theme.
        ImportError: if matplotlib is not installed.
    """
    if num_steps is not None and num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got num_steps={num_steps}.")
    if num_endings < 0:
        raise ValueError(f"num_endings must be at least 0, got num_endings={num_endings}.")
    figure = new_figure(theme)
    count = min(num_steps or len(tree.steps), len(tree.steps))
    most = max(len(step.candidates) for step in tree.steps)
    tall = ROW_INCHES * most + 0.4
    margins = (0.5, LINE_INCHES * (1 + num_endings) + 0.9)
    steps_a_row = columns_on_slide(count, (COLUMN_INCHES, tall), margins)
    num_rows = -(-count // steps_a_row)
    columns = max(steps_a_row, LEAST_COLUMNS)
    width = COLUMN_INCHES * columns + margins[0]
    letters = int(12 * width)  # that fit beside each other
    lines = _lines_of_endings(tree, num_endings, int(13.5 * width))
    below = LINE_INCHES * len(lines) + 0.1
    figure.set_size_inches(width, tall * num_rows + below + 0.8)
    heights = [*[tall] * num_rows, below]
    *rows, last = figure.subplots(num_rows + 1, 1, squeeze=False, height_ratios=heights).flat
    path = tree.path()
    for number, axes in enumerate(rows):
        first = number * steps_a_row
        steps = range(first, min(first + steps_a_row, count))
        _draw_steps(axes, tree, steps, path, columns, most, theme)
    last.set_axis_off()
    last.text(0, 1, "\n".join(lines), transform=last.transAxes, va="top", fontsize=9)
    title = [tree.source, f"→ {tree.endings[0][1]}"]
    if count < len(tree.steps):
        title.append(f"the first {count} of {len(tree.steps)} steps")
    figure.suptitle("\n".join(textwrap.fill(line, letters) for line in title), fontsize=10)
    return finish(figure, theme)


def _lines_of_endings(tree: BeamTree, count: int, letters: int) -> list[str]:
    """The best of what has ended, each with its rank and score."""
    lines: list[str] = []
    for rank, (one, text) in enumerate(tree.endings[:count], start=1):
        cut = ", cut off" if one.outcome == CUT_OFF else ""
        length = f"{len(one.ids)} pieces, log-probability {decimals(one.log_prob, 2)}"
        score = decimals(one.score or 0.0, 3)
        line = f"{rank}.  {score}   {text}   ({length}{cut})"
        lines += textwrap.wrap(line, letters, break_on_hyphens=False)
    return ["Ended, by score:", *lines] if lines else []


def _draw_steps(
    axes: "Axes",
    tree: BeamTree,
    steps: range,
    path: Sequence[int],
    columns: int,
    most: int,
    theme: str,
) -> None:
    """Some steps beside each other; lines come in from the left where there are earlier ones."""
    for column, step in enumerate(steps):
        for place, one in enumerate(tree.steps[step].candidates):
            wins = step < len(path) and path[step] == place
            colour = _colour(one, wins, theme)
            parent = tree.parent(step, one)
            if parent is not None:
                at = -place if column == 0 else -parent  # it stands at the end of the row above
                axes.plot(
                    [column - 0.62, column - 0.38],
                    [at, -place],
                    color=colour,
                    linewidth=2.6 if wins else 0.9,
                    linestyle=":" if one.outcome == DROPPED else "-",
                    zorder=2 if wins else 1,
                )
            _draw_candidate(axes, column, place, tree.pieces[step][place], one, colour, wins, theme)
        axes.text(column, 0.8, f"step {step + 1}", ha="center", va="center", fontsize=8)
    axes.set_xlim(-0.68, columns - 0.4)
    axes.set_ylim(-most + 0.3, 1.1)
    axes.set_axis_off()


def _colour(one: BeamCandidate, wins: bool, theme: str) -> str:
    colours = theme_of(theme)
    if wins:
        return colours.colours[0]
    if one.outcome == DROPPED:
        return DROPPED_INK
    return colours.ink if one.outcome == GOES_ON else colours.colours[1]


def _draw_candidate(
    axes: "Axes",
    column: int,
    place: int,
    piece: str,
    one: BeamCandidate,
    colour: str,
    wins: bool,
    theme: str,
) -> None:
    shown = piece if len(piece) <= MOST_LETTERS else f"{piece[: MOST_LETTERS - 1]}…"
    figures, box = decimals(one.log_prob, 2), None
    if one.score is not None:
        figures += f" → {decimals(one.score, 2)}"
        box = {
            "boxstyle": "round,pad=0.1",
            "facecolor": theme_of(theme).paper,
            "edgecolor": colour,
            "linewidth": 1.6 if wins else 1.0,
            "linestyle": "--" if one.outcome == CUT_OFF else "-",
        }
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": colour, "zorder": 4}
    weight = "bold" if wins else "normal"
    axes.text(column, 0.16 - place, shown, fontsize=8.5, fontweight=weight, bbox=box, **style)
    axes.text(column, -0.3 - place, figures, fontsize=7, **style)


__all__ = ["BeamTree", "beams_of", "plot_beams"]
