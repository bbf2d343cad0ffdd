# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What does the page show of a sentence and a model? Everything as HTML, without gradio."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from vaswani_hf import Translator
from vaswani_hf.pictures import BeamTree, attention_of, attention_page, beams_of
from vaswani_hf.pictures.drawing import decimals
from vaswani_hf.translation import Translation


MOST_CHARACTERS = 400  # of a sentence
MOST_PIECES = 128  # of a sentence; a picture of more is not read by anybody
MOST_BEAMS = 8
MOST_MODELS = 2  # in memory
NO_MODEL = (
    "Name a model: a folder that training has written, or an id on the Hub, such as org/name. To "
    "get a small one, runs/demo, type make demo in the repository; it takes about six minutes."
)
# The iframe is as high as what it holds.
FIT = (
    "const body = this.contentDocument.body; "
    "new ResizeObserver(() => this.style.height = `${body.offsetHeight}px`).observe(body)"
)
COLUMN, ROW, TOP, BOX = 136, 40, 26, 96  # of the beam tree, in pixels
MOST_LETTERS = 11  # of a piece in it

log = logging.getLogger(__name__)


class Models:
    """The models in memory: those used last, at most two."""

    def __init__(self) -> None:
        self.loaded: OrderedDict[tuple[str, float], Translator] = OrderedDict()

    def load(self, name: str) -> Translator:
        """The translator of a folder, or of an id on the Hub with `@` and a revision or without.

        A folder whose weights were written anew is loaded anew.

        Raises:
            ValueError: if nothing is named, or it cannot be loaded.
            HubError: if it cannot be fetched from the Hub.
        """
        name = name.strip()
        if not name:
            raise ValueError(NO_MODEL)
        weights = Path(name).glob("*.safetensors")
        key = (name, max((file.stat().st_mtime for file in weights), default=0.0))
        if key not in self.loaded:
            while len(self.loaded) >= MOST_MODELS:
                self.loaded.popitem(last=False)
            is_folder = Path(name).exists()
            repository, _, revision = (name, "", "") if is_folder else name.partition("@")
            self.loaded[key] = Translator.from_pretrained(repository, revision=revision or None)
        self.loaded.move_to_end(key)
        return self.loaded[key]


class View(NamedTuple):
    """What is seen of one model: three pieces of HTML, empty until they are there."""

    answer: str
    attention: str = ""
    beams: str = ""


def views(models: Models, name: str, sentence: str, num_beams: int) -> Iterator[View]:
    """Translate a sentence and look inside; each view has more than the one before.

    Whatever fails is told in the view.
    """
    sentence = " ".join(sentence.splitlines()).strip()
    try:
        check_sentence(sentence)
        loaded = models.load(name)
        translator = Translator(
            loaded.model,
            loaded.tokenizer,
            target_tokenizer=loaded.target_tokenizer,
            num_beams=num_beams,
        )
        num_pieces = len(translator.encode([sentence])[0])
        if num_pieces > MOST_PIECES:
            raise ValueError(
                f"The sentence has {num_pieces} pieces, and this page takes at most {MOST_PIECES}; "
                f"shorten it."
            )
        start = time.perf_counter()
        found = translator.n_best(sentence, num_return_sequences=num_beams)
        seconds = time.perf_counter() - start
    except Exception as error:
        yield View(problem(error))
        return
    view = View(answer(name, found, num_pieces, seconds))
    yield view

    def look() -> str:
        return frame(attention_page(attention_of(translator, sentence, found[0].ids)))

    view = view._replace(attention=attempt(look))
    yield view
    yield view._replace(beams=attempt(lambda: beam_tree(beams_of(translator, sentence))))


def check_sentence(sentence: str) -> None:
    if not sentence:
        raise ValueError("Type a sentence to translate.")
    if len(sentence) > MOST_CHARACTERS:
        raise ValueError(
            f"The sentence has {len(sentence)} characters, and this page takes at most "
            f"{MOST_CHARACTERS}; shorten it."
        )


def attempt(make: Callable[[], str]) -> str:
    """What is made, or why it cannot be."""
    try:
        return make()
    except Exception as error:
        return problem(error)


def problem(error: Exception) -> str:
    """An error as a line to read. One that is not foreseen goes to the log too."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[0]
    if not isinstance(error, ValueError | ImportError | OSError):
        log.exception("unforeseen")
        text = f"This failed by a mistake of the program: {type(error).__name__}: {text}"
    return f'<p class="problem" role="alert">{escape(text)}</p>'


def answer(name: str, found: Sequence[Translation], num_pieces: int, seconds: float) -> str:
    """The best translation, what it took, and all that were found with their scores."""
    best = found[0]
    rows = "".join(
        f"<tr><td>{rank}</td><td>{escape(one.text)}</td><td>{decimals(one.score, 3)}</td>"
        f"<td>{decimals(one.log_prob, 3)}</td><td>{len(one.ids)}</td></tr>"
        for rank, one in enumerate(found, start=1)
    )
    return (
        f'<p class="quiet model">{escape(name.strip())}</p>'
        f'<p class="translation">{escape(best.text)}</p>'
        f'<p class="quiet">{seconds:.2f} s · {num_pieces} pieces in, {len(best.ids)} out · '
        f"{len(best.ids) / seconds:.0f} pieces a second</p>"
        f'<p class="quiet">The {len(found)} best, by score: log-probability divided by the length '
        f'penalty</p><div class="sideways"><table class="n-best">'
        f"<thead><tr><th></th><th>Translation</th><th>Score</th><th>log p</th><th>Pieces</th></tr>"
        f"</thead><tbody>{rows}</tbody></table></div>"
    )


def frame(page: str) -> str:
    """A page of its own inside this one, whose styles and scripts stay in it."""
    return (
        f'<iframe class="attention" title="Where the heads look" srcdoc="{escape(page)}" '
        f'onload="{escape(FIT)}"></iframe>'
    )


def beam_tree(tree: BeamTree) -> str:
    """The tree as a drawing that is as wide as it has steps and scrolls sideways."""
    path = tree.path()
    lines, pieces = [], []
    for step, record in enumerate(tree.steps):
        x = COLUMN * step + COLUMN // 2
        pieces.append(f'<text class="step" x="{x}" y="14">{step + 1}</text>')
        for place, one in enumerate(record.candidates):
            y = TOP + ROW * place + ROW // 2
            wins = step < len(path) and path[step] == place
            kind = f"{one.outcome} wins" if wins else one.outcome
            parent = tree.parent(step, one)
            if parent is not None:
                before = TOP + ROW * parent + ROW // 2
                start, end = x - COLUMN + BOX // 2, x - BOX // 2
                middle = (start + end) // 2
                curve = f"M{start} {before}C{middle} {before} {middle} {y} {end} {y}"
                lines.append(f'<path class="{kind}" d="{curve}"/>')
            piece, figures = tree.pieces[step][place], decimals(one.log_prob, 2)
            if one.score is not None:
                figures += f" → {decimals(one.score, 2)}"
            shown = piece if len(piece) <= MOST_LETTERS else f"{piece[: MOST_LETTERS - 1]}…"
            box = f'<rect x="{x - BOX // 2}" y="{y - 18}" width="{BOX}" height="36" rx="6"/>'
            pieces.append(
                f'<g class="{kind}"><title>{escape(piece)}</title>{box}'
                f'<text x="{x}" y="{y - 2}">{escape(shown)}</text>'
                f'<text class="figures" x="{x}" y="{y + 12}">{figures}</text></g>'
            )
    width = COLUMN * len(tree.steps)
    height = TOP + ROW * max(len(record.candidates) for record in tree.steps)
    told = f"Beam search in {len(tree.steps)} steps. It returned: {tree.endings[0][1]}"
    return (
        '<p class="quiet">A column is a step. It holds the candidates, the most probable above, '
        "each with the log-probability of all pieces so far. What is in a box has ended, and after "
        "the arrow stands its score. Dashed boxes were cut off by the length limit, grey pieces "
        "were dropped. The thick line is what was returned.</p>"
        '<div class="sideways tree" tabindex="0" role="region" aria-label="The beam tree">'
        f'<svg role="img" aria-label="{escape(told)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(lines)}{"".join(pieces)}</svg></div>'
    )
