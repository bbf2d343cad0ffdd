# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What commands that run a model share: options of engine, search and machine; the translators."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..processor import available_cores, paying_threads, threads_of_environment
from ..translation.options import DTYPES, check_search_options


if TYPE_CHECKING:
    from ..translation import Translator


TRANSFORMERS, CTRANSLATE2 = ENGINES = ("transformers", "ctranslate2")
ENGINE_OPTIONS = {  # which only one engine has
    TRANSFORMERS: ("revision", "weights", "dtype", "adapter"),
    CTRANSLATE2: ("compute_type",),
}
LOADING = ("device", "dtype", "revision", "weights")  # options of `from_pretrained` alone
SEARCH_OPTIONS = ("num_beams", "length_penalty", "length_penalty_type")
# What becomes of sentences that are too long.
REFUSED = "refused (default: the longest that the model was trained with, or 1024 if that is less)"
CUT = "cut at clauses (default: the longest that the model was trained with, or 256 if not known)"
COUNTS = ("num_beams", "batch_tokens", "chunk_sentences", "threads")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The options that choose an engine and the type of its numbers."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=TRANSFORMERS,
        help="transformers (the default), or CTranslate2, which is faster and reads folders of "
        "`vaswani-hf convert --to ctranslate2`",
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        help="transformers: type of the computation (default: that of the saved weights)",
    )
    parser.add_argument(
        "--compute_type",
        metavar="TYPE",
        help="ctranslate2: type of the computation, such as int8 or float32 (default: the folder's "
        "quantization)",
    )


def add_num_beams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num_beams", type=int, metavar="N", help="beam width (default: the model's)"
    )


def add_length_penalty(parser: argparse.ArgumentParser, note: str = "") -> None:
    """The options of the length penalty; `note` ends the help of its type."""
    parser.add_argument(
        "--length_penalty",
        type=float,
        metavar="ALPHA",
        help="exponent of the length penalty, 0 for none (default: the model's)",
    )
    parser.add_argument(
        "--length_penalty_type",
        choices=("wu", "power"),
        help="for n tokens: wu is ((5 + n) / 6)^ALPHA, power is n^ALPHA (default: the model's)"
        + note,
    )


def add_machine(
    parser: argparse.ArgumentParser,
    *,
    tokens: str = "source tokens of a batch",
    is_one_device: bool = False,
    threads: str = "",
) -> None:
    """The options of batches, devices and threads.

    Args:
        parser: of the command.
        tokens: what `--batch_tokens` counts.
        is_one_device: whether the command computes on one device only.
        threads: a note on the threads.
    """
    parser.add_argument(
        "--batch_tokens",
        type=int,
        default=4096,
        metavar="N",
        help=f"most padded {tokens} (default: 4096)",
    )
    several = ", or several such as cuda:0,cuda:1, which share the batches"
    parser.add_argument(
        "--device",
        type=_one_device if is_one_device else str,
        help=f"such as cpu or cuda{'' if is_one_device else several} (default: a GPU if there is "
        "one)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help=f"number of CPU threads{threads} (default: OMP_NUM_THREADS, or as many as there are "
        "cores and as pay for the model's size)",
    )


def _one_device(text: str) -> str:
    if "," in text:
        raise argparse.ArgumentTypeError(f"must be one device here, got {text}")
    return text


def add_chunks(parser: argparse.ArgumentParser, what: str, note: str = "") -> None:
    """The option of how much is read at a time; `what` is counted, and `note` ends the help."""
    parser.add_argument(
        "--chunk_sentences",
        type=int,
        default=10_000,
        metavar="N",
        help=f"{what} together (default: 10000){note}",
    )


def add_length_limit(parser: argparse.ArgumentParser, fate: str = REFUSED) -> None:
    """The option of how long a source may be; `fate` is that of a longer one."""
    parser.add_argument(
        "--max_source_tokens",
        type=int,
        metavar="N",
        help=f"most tokens of a sentence, </s> included; a longer one is {fate}",
    )


def check_engine(arguments: argparse.Namespace) -> None:
    """Raise a `ValueError` for what needs no model to be refused, of the options above."""
    check_counts(arguments, *COUNTS)
    check_search_options(**search_options(arguments))
    for engine, names in ENGINE_OPTIONS.items():
        for name in names:
            if getattr(arguments, name, None) is not None and engine != arguments.engine:
                instead = "; ctranslate2 has --compute_type" if name == "dtype" else ""
                raise ValueError(f"--{name} is for --engine {engine} only{instead}.")


def check_counts(arguments: argparse.Namespace, *names: str) -> None:
    """Raise a `ValueError` for an option below 1, of those that the command has."""
    for name in names:
        value = getattr(arguments, name, None)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}.")


def search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the search, as a translator takes them."""
    return {name: getattr(arguments, name, None) for name in SEARCH_OPTIONS}


def load_translators(
    arguments: argparse.Namespace,
    *models: Sequence[str],
    is_typed: bool = False,
    rows: int | None = None,
    **options: Any,
) -> list[Any]:
    """The translators of the engine that is named, and as many threads as the widest needs.

    Args:
        arguments: of the command, which need not have all the options above.
        models: for each translator its folder or Hub id; or those of an ensemble.
        is_typed: as for `take_threads`.
        rows: likewise.
        options: further ones of each translator, such as those of its search.
    """
    engine = arguments.engine
    own = (*ENGINE_OPTIONS[engine], *(("threads",) if engine == CTRANSLATE2 else ()))
    for name in ("device", "batch_tokens", "max_source_tokens", *own):
        if getattr(arguments, name, None) is not None:
            options[name] = getattr(arguments, name)
    # Each engine loads what it needs, and CTranslate2 neither torch nor transformers.
    if engine == CTRANSLATE2:
        from ..translation import CTranslate2Translator

        return [CTranslate2Translator(folder, **options) for (folder,) in models]
    from transformers.utils import logging

    from ..translation import Translator

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    adapter = options.pop("adapter", None)
    if adapter is not None or len(models) > 1:
        loaded = _load_adapted(models, adapter, options)
    else:
        loaded = [Translator.from_pretrained(folders, **options) for folders in models]
    # One model is at work at a time; the one that takes most threads has them.
    widest = max(loaded, key=lambda one: getattr(one.model.config, "hidden_size", None) or 0)
    take_threads(widest, arguments.threads, is_typed=is_typed, rows=rows)
    return loaded


def _load_adapted(
    models: Sequence[Sequence[str]], adapter: str | None, options: dict[str, Any]
) -> list["Translator"]:
    """Translators, of which adapters on one base share what they do not adapt.

    Args:
        models: as for `load_translators`.
        adapter: on the only model; `None` where models are adapters themselves, or none has any.
        options: of the translators.
    """
    from ..hub.adapters import find_adapted
    from ..translation import Translator

    def load(folder: str | Path | Sequence[str]) -> "Translator":
        return Translator.from_pretrained(folder, **options)

    own = {name: value for name, value in options.items() if name not in LOADING}
    if adapter is not None:
        return [load(models[0]).with_adapter(adapter, **own)]
    loaded = []
    bases: dict[Path, Translator] = {}
    for (name,) in models:
        found = find_adapted(name)
        if found.model not in bases:
            bases[found.model] = load(found.model)
        base = bases[found.model]
        loaded.append(base if found.adapter is None else base.with_adapter(found.adapter, **own))
    return loaded


def take_threads(
    translator: "Translator",
    threads: int | None,
    *,
    is_typed: bool = False,
    rows: int | None = None,
) -> None:
    """Let torch compute by as many threads as pay for the model, and say so.

    Args:
        translator: whose batches they compute.
        threads: that the user has named.
        is_typed: whether a sentence comes at a time.
        rows: of a layer's product; `None` for those of a search, a row for each beam.
    """
    import torch

    model = translator.model
    if threads is None and model.device.type != "cpu":
        return
    cores = available_cores()
    threads = threads or threads_of_environment()
    if threads is None:
        sentences = 1 if is_typed else translator.max_batch_sentences
        width = getattr(model.config, "hidden_size", None)  # which the library lets a model lack
        rows = rows or sentences * translator.num_beams
        threads = paying_threads(rows, width, cores) if width else cores
    torch.set_num_threads(threads)
    if sys.stderr.isatty():  # as the progress bar; what is kept in a file is for errors
        print(f"vaswani-hf: CPU threads: {threads}; cores: {cores}.", file=sys.stderr)
