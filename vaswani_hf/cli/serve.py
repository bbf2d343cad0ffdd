# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf serve"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..extras import require
from ..hub.names import check_name
from ..server.limits import Limits
from ..translation.options import check_at_least, check_search_options
from .translate import take_threads


if TYPE_CHECKING:
    from ..server.pairs import LanguagePair
    from ..translation import TextTranslator


PORT = 5000  # LibreTranslate's


def add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "serve",
        help="answer programs and browsers that speak LibreTranslate's API",
        description="Translate over HTTP, by LibreTranslate's API, until SIGTERM or Ctrl-C; what "
        "has been asked by then is still answered. Nothing of a text is logged (needs the extra "
        "`serve`).",
    )
    parser.add_argument(
        "--model",
        required=True,
        action="append",
        metavar="[PAIR=]FOLDER",
        help="a folder or a Hub id; with --engine ctranslate2, a folder of CTranslate2. In front, "
        "such as en-de=, the languages (default: those that the model's card names). Several "
        "--model serve several pairs",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 is all of this machine's (default: 127.0.0.1, which "
        "only this machine reaches)",
    )
    parser.add_argument(
        "--port", type=int, default=PORT, metavar="P", help=f"0 for any free one (default: {PORT})"
    )
    parser.add_argument(
        "--engine",
        choices=("transformers", "ctranslate2"),
        default="transformers",
        help="transformers (the default), or CTranslate2, which is faster and reads folders of "
        "`vaswani-hf convert --to ctranslate2`",
    )
    parser.add_argument(
        "--num_beams", type=int, metavar="N", help="beam width (default: the model's)"
    )
    parser.add_argument(
        "--length_penalty",
        type=float,
        metavar="ALPHA",
        help="exponent of the length penalty (default: the model's)",
    )
    parser.add_argument(
        "--length_penalty_type",
        choices=("wu", "power"),
        help="for n tokens: wu is ((5 + n) / 6)^ALPHA, power is n^ALPHA (default: the model's)",
    )
    parser.add_argument(
        "--batch_tokens",
        type=int,
        default=4096,
        metavar="N",
        help="most padded source tokens of a batch (default: 4096)",
    )
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU if there is one)")
    parser.add_argument(
        "--compute_type",
        metavar="TYPE",
        help="ctranslate2: type of the computation, such as int8 or float32 (default: the folder's "
        "quantization)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="number of CPU threads (default: OMP_NUM_THREADS, or as many as there are cores and "
        "as pay for the model's size)",
    )
    parser.add_argument(
        "--api_keys",
        metavar="FILE",
        help="ask clients for an API key: one of those in this file, one a line",
    )
    limits = Limits()
    for name, (kind, what) in {
        "max_body_bytes": (int, "most bytes of a request"),
        "max_characters": (int, "most characters in all texts of a request"),
        "max_sentences": (int, "most sentences in all texts of a request"),
        "max_queue": (int, "most requests that wait or are being translated"),
        "timeout_seconds": (float, "time within which a request is answered, or refused"),
        "read_timeout_seconds": (float, "time that a client has to send a request"),
    }.items():
        default = getattr(limits, name)
        parser.add_argument(
            f"--{name}",
            type=kind,
            default=default,
            metavar="N" if kind is int else "S",
            help=f"{what} (default: {default:g})",
        )
    parser.add_argument(
        "--log_text", action="store_true", help="log the texts and their translations too"
    )
    parser.set_defaults(run=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    limits = _check_options(arguments)
    for package in ("fastapi", "python_multipart", "prometheus_client", "uvicorn"):
        require(package)
    from ..server import Pairs, TranslationQueue, make_app
    from ..server.keys import read_keys
    from ..server.metrics import Metrics
    from ..server.pairs import parse_model
    from ..server.running import bind, make_server, serve

    keys = None if arguments.api_keys is None else read_keys(Path(arguments.api_keys))
    models = [parse_model(text) for text in arguments.model]
    if arguments.engine == "transformers":
        for _, folder in models:
            check_name(folder)
    bound = bind(arguments.host, arguments.port)  # before the models, which take their time
    pairs = Pairs(_load(arguments, models))
    metrics = Metrics()
    queue = TranslationQueue(limits, metrics, pairs.num_workers)
    app = make_app(pairs, queue, limits, metrics, keys=keys, log_text=arguments.log_text)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    serve(make_server(app, queue, limits), bound)
    return 0


def _check_options(arguments: argparse.Namespace) -> Limits:
    """The limits, of options that need no model to be refused."""
    check_at_least(1, batch_tokens=arguments.batch_tokens, threads=arguments.threads)
    check_search_options(
        arguments.num_beams, arguments.length_penalty, arguments.length_penalty_type
    )
    if arguments.compute_type is not None and arguments.engine != "ctranslate2":
        raise ValueError("--compute_type is for --engine ctranslate2 only.")
    return Limits(**{name: getattr(arguments, name) for name in Limits.__dataclass_fields__})


def _load(
    arguments: argparse.Namespace, models: list[tuple["LanguagePair | None", str]]
) -> Sequence[tuple["LanguagePair | None", "TextTranslator"]]:
    """The translator of each pair."""
    names = ["device", "num_beams", "length_penalty", "length_penalty_type", "batch_tokens"]
    is_fast = arguments.engine == "ctranslate2"
    if is_fast:
        names += ["compute_type", "threads"]
    given = {name: getattr(arguments, name) for name in names}
    options = {name: value for name, value in given.items() if value is not None}
    if is_fast:
        from ..translation import CTranslate2Translator

        return [(pair, CTranslate2Translator(folder, **options)) for pair, folder in models]
    from transformers.utils import logging as library_logging

    from ..translation import Translator

    if not sys.stderr.isatty():
        library_logging.disable_progress_bar()
    loaded = [(pair, Translator.from_pretrained(folder, **options)) for pair, folder in models]
    # One model is at work at a time; the one that takes most threads has them.
    widest = max(loaded, key=lambda served: getattr(served[1].model.config, "hidden_size", 0))
    take_threads(widest[1], arguments.threads, is_typed=False)
    return loaded
