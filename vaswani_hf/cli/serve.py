# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf serve"""

import argparse
import logging
from pathlib import Path

from ..extras import require
from ..hub.names import check_name
from ..server.limits import Limits
from .engines import (
    CUT,
    TRANSFORMERS,
    add_engine,
    add_length_limit,
    add_length_penalty,
    add_machine,
    add_num_beams,
    check_engine,
    load_translators,
    search_options,
)


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
        help="a folder or a Hub id, of a model or an adapter; with --engine ctranslate2, a folder "
        "of CTranslate2. In front, such as en-de=, the languages (default: those that the card "
        "names). Several --model serve several pairs; adapters on one base share what they leave",
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
    add_engine(parser)
    add_num_beams(parser)
    add_length_penalty(parser)
    add_machine(parser)
    add_length_limit(parser, CUT)
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
            help=f"{what} (default: {default if kind is int else f'{default:g}'})",
        )
    parser.add_argument(
        "--log_text", action="store_true", help="log the texts and their translations too"
    )
    parser.set_defaults(run=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    check_engine(arguments)
    limits = Limits(**{name: getattr(arguments, name) for name in Limits.__dataclass_fields__})
    for package in ("fastapi", "python_multipart", "prometheus_client", "uvicorn"):
        require(package)
    from ..server import Pairs, TranslationQueue, make_app
    from ..server.keys import read_keys
    from ..server.metrics import Metrics
    from ..server.pairs import parse_model
    from ..server.running import bind, make_server, serve

    keys = None if arguments.api_keys is None else read_keys(Path(arguments.api_keys))
    models = [parse_model(text) for text in arguments.model]
    if arguments.engine == TRANSFORMERS:
        for _, folder in models:
            check_name(folder)
    bound = bind(arguments.host, arguments.port)  # before the models, which take their time
    languages, folders = zip(*models, strict=True)
    translators = load_translators(
        arguments, *([folder] for folder in folders), **search_options(arguments)
    )
    pairs = Pairs(zip(languages, translators, strict=True))
    metrics = Metrics()
    queue = TranslationQueue(limits, metrics, pairs.num_workers)
    app = make_app(pairs, queue, limits, metrics, keys=keys, log_text=arguments.log_text)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    serve(make_server(app, queue, limits), bound)
    return 0
