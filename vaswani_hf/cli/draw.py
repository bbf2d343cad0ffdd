# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf draw"""

import argparse
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hub.names import check_name
from ..pictures.drawing import SUFFIXES, THEMES, check_suffix, save_picture
from ..text.tables import align
from .evaluate import read_parallel


if TYPE_CHECKING:
    from ..translation import Translator


HTML, SVG = ".html", ".svg"


def add_draw(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "draw",
        help="draw attention, beams, heads, positions, the schedule, the loss and trees",
        description="Draw what a model does, or what the paper says of it. Prints the picture's "
        "name.",
    )
    pictures = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    _add_attention(pictures)
    _add_beams(pictures)
    _add_heads(pictures)
    _add_loss(pictures)
    _add_positions(pictures)
    _add_schedule(pictures)
    _add_tree(pictures)


# What the pictures share


def _add_picture(
    pictures: Any,
    what: str,
    help_text: str,
    description: str,
    *,
    suffixes: tuple[str, ...] = SUFFIXES,
    default: str = ".png",
) -> argparse.ArgumentParser:
    """The parser of a picture, with the options that all have."""
    parser = pictures.add_parser(what, help=help_text, description=description)
    named = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
    parser.add_argument(
        "-o",
        "--output",
        default=f"{what}{default}",
        metavar="PICTURE",
        help=f"the picture: {named} (default: {what}{default})",
    )
    parser.add_argument(
        "--theme", choices=tuple(THEMES), default="light", help="the ground (default: light)"
    )
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    """The options by which `_load_model` loads one model."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a folder or a Hub id")
    parser.add_argument(
        "--revision", metavar="REVISION", help="branch, tag or commit of a Hub id (default: main)"
    )
    _add_device(parser)


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU if there is one)")


def _add_pairs(parser: argparse.ArgumentParser, *, required: bool) -> None:
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}",
            required=required,
            metavar="FILE",
            help=f"{side} sentences of a test set, one per line, plain or .gz",
        )
    parser.add_argument(
        "--max_sentences",
        type=int,
        metavar="N",
        help="take the first N pairs of the test set (default: all)",
    )


def _add_num_beams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num_beams", type=int, metavar="N", help="beam width (default: the model's)"
    )


def _load_model(arguments: argparse.Namespace) -> "Translator":
    """The model of `_add_model`, which searches with `--num_beams` if the picture has that."""
    options = {"num_beams": arguments.num_beams} if "num_beams" in arguments else {}
    return _load(arguments.model, arguments, revision=arguments.revision, **options)


def _load(
    model: str, arguments: argparse.Namespace, *, revision: str | None = None, **options: Any
) -> "Translator":
    check_name(model, revision)
    from transformers.utils import logging

    from ..translation import Translator

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    return Translator.from_pretrained(model, revision=revision, device=arguments.device, **options)


def _read_pairs(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    if arguments.max_sentences is not None and arguments.max_sentences < 1:
        raise ValueError(f"--max_sentences must be at least 1, got {arguments.max_sentences}.")
    sources, targets = read_parallel([arguments.source, arguments.target])
    return sources[: arguments.max_sentences], targets[: arguments.max_sentences]


def _save(figure: Any, arguments: argparse.Namespace) -> int:
    save_picture(figure, arguments.output)
    print(arguments.output)
    return 0


def _write(text: str, arguments: argparse.Namespace) -> int:
    Path(arguments.output).write_text(text, encoding="utf-8")
    print(arguments.output)
    return 0


# Attention


def _add_attention(pictures: Any) -> None:
    parser = _add_picture(
        pictures,
        "attention",
        "where each head looks, for one sentence",
        "Draw where the heads look while a model reads a sentence and translates it: a grid of all "
        "heads by layers, or with --layer, --head or --word lines between words, as figures 3 to 5 "
        "of the paper. A name that ends in .html is a page on which kind, layer, heads and words "
        "are chosen; it needs no network.",
        suffixes=(*SUFFIXES, HTML),
    )
    parser.add_argument("sentence", metavar="SENTENCE", help="what the model reads")
    _add_model(parser)
    parser.add_argument(
        "--target", metavar="SENTENCE", help="its translation (default: the model's own)"
    )
    parser.add_argument(
        "--kind",
        choices=("encoder", "decoder", "cross"),
        default="cross",
        help="self-attention of the encoder or of the decoder, or attention of the decoder over "
        "the source (default: cross)",
    )
    parser.add_argument(
        "--layer", type=int, nargs="+", metavar="N", help="counted from 0 (default: all)"
    )
    parser.add_argument(
        "--head", type=int, nargs="+", metavar="N", help="counted from 0 (default: all)"
    )
    parser.add_argument("--word", metavar="WORD", help="show the lines of this word alone")
    parser.add_argument(
        "--style",
        choices=("grid", "lines"),
        help="default: lines where a layer, head or word is named, else a grid",
    )
    parser.add_argument(
        "--pieces", action="store_true", help="rows and columns are pieces instead of words"
    )
    parser.add_argument(
        "--step",
        choices=("reads", "predicts"),
        default="reads",
        help="name a step of the decoder by the word that it reads, or by the one that it predicts "
        "(default: reads)",
    )
    parser.set_defaults(run=_draw_attention)


def _draw_attention(arguments: argparse.Namespace) -> int:
    from ..pictures import attention_of, attention_page, plot_attention

    is_page = Path(arguments.output).suffix.lower() == HTML
    if not is_page:
        check_suffix(arguments.output)
    translator = _load_model(arguments)
    attention = attention_of(
        translator,
        arguments.sentence,
        arguments.target,
        in_pieces=arguments.pieces,
        step=arguments.step,
    )
    if is_page:
        return _write(attention_page(attention), arguments)
    figure = plot_attention(
        attention,
        arguments.kind,
        style=arguments.style,
        layer=arguments.layer,
        head=arguments.head,
        word=arguments.word,
        theme=arguments.theme,
    )
    return _save(figure, arguments)


# Beams


def _add_beams(pictures: Any) -> None:
    parser = _add_picture(
        pictures,
        "beams",
        "the hypotheses of a beam search, for one sentence",
        "Draw what beam search did with a sentence: the candidates of each step with their "
        "log-probabilities, what went on, what was dropped, what ended and with which score, and "
        "what was returned.",
    )
    parser.add_argument("sentence", metavar="SENTENCE", help="what the model translates")
    _add_model(parser)
    _add_num_beams(parser)
    parser.add_argument(
        "--num_steps", type=int, metavar="N", help="draw the first N steps (default: all)"
    )
    parser.set_defaults(run=_draw_beams)


def _draw_beams(arguments: argparse.Namespace) -> int:
    from ..pictures import beams_of, plot_beams

    check_suffix(arguments.output)
    translator = _load_model(arguments)
    tree = beams_of(translator, arguments.sentence)
    figure = plot_beams(tree, num_steps=arguments.num_steps, theme=arguments.theme)
    return _save(figure, arguments)


# Heads


def _add_heads(pictures: Any) -> None:
    parser = _add_picture(
        pictures,
        "heads",
        "what each head does, and what the model loses without it",
        "Draw how often each head looks most at the previous piece, the next one, its own word, "
        "the rarest piece of the sentence, or the source piece that a target piece comes from; and "
        "the BLEU of the model without it. Prints the figures too.",
    )
    _add_model(parser)
    _add_pairs(parser, required=True)
    _add_num_beams(parser)
    parser.add_argument(
        "--no_pruning", action="store_true", help="leave out BLEU, which takes most of the time"
    )
    parser.set_defaults(run=_draw_heads)


def _draw_heads(arguments: argparse.Namespace) -> int:
    from ..pictures import measure_heads, plot_heads

    check_suffix(arguments.output)
    sources, targets = _read_pairs(arguments)
    translator = _load_model(arguments)
    report = measure_heads(
        translator,
        sources,
        targets,
        prunes=not arguments.no_pruning,
        progress=sys.stderr.isatty(),
    )
    rows = [["Kind", "Layer", "Head", "Looks most at"]]
    for one in report.heads:
        roles = ", ".join(f"{role} {100 * rate:.0f} %" for role, rate in one.roles.items())
        rows.append([one.kind, str(one.layer), str(one.head), roles])
    if report.bleu is not None:
        figures = ["BLEU without it", *(f"{one.bleu:.2f}" for one in report.heads)]
        rows = [[*row[:3], figure, row[3]] for row, figure in zip(rows, figures, strict=True)]
    print(align(rows))
    if report.bleu is not None:
        print(f"BLEU with all heads: {report.bleu:.2f}, {report.signature}")
    return _save(plot_heads(report, theme=arguments.theme), arguments)


# The loss


def _add_loss(pictures: Any) -> None:
    parser = _add_picture(
        pictures,
        "loss",
        "label smoothing, and whether models are as often right as they are sure",
        "Draw label smoothing's target distribution and its loss (section 5.4); with --model, "
        "--source and --target also how often models are right where they are so sure, over a test "
        "set.",
    )
    parser.add_argument(
        "--model",
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="folders or Hub ids, such as of a model with label smoothing and of one without",
    )
    _add_device(parser)
    _add_pairs(parser, required=False)
    parser.add_argument(
        "--label_smoothing", type=float, default=0.1, metavar="E", help="epsilon (default: 0.1)"
    )
    parser.add_argument(
        "--vocab_size", type=int, default=37_000, metavar="V", help="pieces (default: 37000)"
    )
    parser.add_argument(
        "--bins", type=int, default=10, metavar="N", help="ranges of probability (default: 10)"
    )
    parser.set_defaults(run=_draw_loss)


def _draw_loss(arguments: argparse.Namespace) -> int:
    from ..pictures import measure_calibration, plot_loss

    check_suffix(arguments.output)
    given = [bool(arguments.model), arguments.source is not None, arguments.target is not None]
    if any(given) and not all(given):
        raise ValueError("--model, --source and --target are needed together, or none of them.")
    sources, targets = _read_pairs(arguments) if arguments.model else ([], [])
    calibrations = []
    for name in arguments.model:
        translator = _load(name, arguments)
        smoothing = getattr(translator.model.config, "label_smoothing", None)
        label = Path(name).name if smoothing is None else f"{Path(name).name} (ε = {smoothing:g})"
        found = measure_calibration(
            translator, sources, targets, num_bins=arguments.bins, name=label
        )
        calibrations.append(found)
        print(
            f"{label}: {found.num_tokens} pieces, {100 * found.accuracy:.2f} % right, expected "
            f"calibration error {100 * found.error:.2f} %"
        )
    figure = plot_loss(
        *calibrations,
        vocab_size=arguments.vocab_size,
        label_smoothing=arguments.label_smoothing,
        theme=arguments.theme,
    )
    return _save(figure, arguments)


# Positions and the schedule


def _add_positions(pictures: Any) -> None:
    parser = _add_picture(
        pictures,
        "positions",
        "the sinusoids of positions",
        "Draw the sinusoids of positions (section 3.5): as a mesh, as waves, and by their dot "
        "products over the distance.",
    )
    parser.add_argument("--d_model", type=int, default=512, metavar="N", help="(default: 512)")
    parser.add_argument(
        "--num_positions", type=int, default=128, metavar="N", help="(default: 128)"
    )
    parser.add_argument(
        "--style", choices=("mesh", "waves", "products"), help="one of the three (default: all)"
    )
    parser.set_defaults(run=_draw_positions)


def _draw_positions(arguments: argparse.Namespace) -> int:
    from ..pictures import plot_positions

    check_suffix(arguments.output)
    figure = plot_positions(
        arguments.d_model,
        arguments.num_positions,
        style=arguments.style,
        theme=arguments.theme,
    )
    return _save(figure, arguments)


def _add_schedule(pictures: Any) -> None:
    parser = _add_picture(
        pictures,
        "schedule",
        "the learning rate over updates",
        "Draw the learning rate over updates (section 5.3, equation 3), a curve for each width and "
        "each warm-up.",
    )
    parser.add_argument(
        "--d_model",
        type=int,
        nargs="+",
        default=[512, 1024],
        metavar="N",
        help="widths (default: 512 1024)",
    )
    parser.add_argument(
        "--warmup_steps",
        type=int,
        nargs="+",
        default=[4000, 8000],
        metavar="N",
        help="lengths of the warm-up (default: 4000 8000)",
    )
    parser.add_argument(
        "--num_updates", type=int, default=20_000, metavar="N", help="(default: 20000)"
    )
    parser.set_defaults(run=_draw_schedule)


def _draw_schedule(arguments: argparse.Namespace) -> int:
    from ..pictures import plot_learning_rate

    check_suffix(arguments.output)
    figure = plot_learning_rate(
        *arguments.d_model,
        warmup_steps=arguments.warmup_steps,
        num_updates=arguments.num_updates,
        theme=arguments.theme,
    )
    return _save(figure, arguments)


# Trees


def _add_tree(pictures: Any) -> None:
    parser = _add_picture(
        pictures, "tree", "a parse tree", "Draw a constituency tree (section 6.3).", default=SVG
    )
    parser.add_argument(
        "tree", metavar="TREE", help="brackets, or a file of trees: .mrg or a tree a line"
    )
    parser.add_argument(
        "--number", type=int, default=1, metavar="N", help="which tree of the file (default: 1)"
    )
    parser.set_defaults(run=_draw_tree)


def _draw_tree(arguments: argparse.Namespace) -> int:
    from ..parsing import read_trees, tree_of_text
    from ..pictures.trees import plot_tree, tree_svg

    check_suffix(arguments.output)
    if arguments.number < 1:
        raise ValueError(f"--number must be at least 1, got {arguments.number}.")
    if arguments.tree.lstrip().startswith("("):
        tree = tree_of_text(arguments.tree, "TREE")
    else:
        trees = itertools.islice(read_trees(Path(arguments.tree)), arguments.number - 1, None)
        found = next(trees, None)
        if found is None:
            raise ValueError(f"{arguments.tree} has fewer trees than --number {arguments.number}.")
        tree = found
    if Path(arguments.output).suffix.lower() != SVG:
        return _save(plot_tree(tree, theme=arguments.theme), arguments)
    # Smaller than matplotlib's, and its words can be selected.
    return _write(tree_svg(tree, theme=arguments.theme), arguments)
