# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf: a file a command."""

import argparse
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..processor import prepare_for_torch
from ..text.terminal import escape_unprintable
from .align import add_align
from .compare import add_compare
from .convert import add_convert
from .distill import add_distill
from .draw import add_draw
from .evalb import add_evalb
from .evaluate import add_evaluate
from .filter import add_filter
from .merge import add_merge
from .parse import add_parse
from .plot import add_plot
from .push import add_push
from .score import add_score
from .serve import add_serve
from .translate import add_translate
from .vocabulary import add_vocabulary


INTERRUPTED = 130  # exit status: 128 plus the number of SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    prepare_for_torch()
    escape_unprintable()
    parser = argparse.ArgumentParser(
        prog="vaswani-hf",
        description="Translate with models of 'Attention Is All You Need', serve them, score, "
        "filter, align, judge and distill translations, parse sentences, convert models, merge "
        "adapters into them, push them to the Hub, plot their training, and draw what they do.",
    )
    parser.add_argument(
        "--version",
        action=_ShowVersion,
        nargs=0,
        dest=argparse.SUPPRESS,
        default=argparse.SUPPRESS,
        help="show the versions of this program and its libraries, and exit",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_translate(commands)
    add_serve(commands)
    add_score(commands)
    add_filter(commands)
    add_align(commands)
    add_evaluate(commands)
    add_compare(commands)
    add_distill(commands)
    add_parse(commands)
    add_evalb(commands)
    add_convert(commands)
    add_merge(commands)
    add_vocabulary(commands)
    add_push(commands)
    add_plot(commands)
    add_draw(commands)
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(f"vaswani-hf: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        if not _is_machine_error(error):
            raise
        print(f"vaswani-hf: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1


class _ShowVersion(argparse.Action):
    """Argparse's own action needs the text, which takes time to find, before it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        from importlib.metadata import version

        libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
        print(f"vaswani-hf {__version__} ({libraries})")
        parser.exit()


def _is_machine_error(error: RuntimeError) -> bool:
    """Whether memory ran out or a device failed, which engines say only in the text."""
    text = str(error)
    return any(word in text for word in ("memory", "CUDA", "HIP", "XPU", "MPS"))
