# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf convert"""

import argparse
import logging
import sys

from ..conversion.targets import check_target
from ..hub.names import check_name


def add_convert(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "convert",
        help="convert a model from or to another format",
        description="Convert a model of another format to a Vaswani folder (--from), or a Vaswani "
        "folder to another format (--to). If anything cannot be carried over exactly, every "
        "difference is listed and nothing is written.",
    )
    parser.add_argument("source", metavar="SOURCE", help="a file, a folder or a Hub id")
    parser.add_argument("target", metavar="TARGET", help="a new folder")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--from", choices=FROM, dest="from_format", help="the format of SOURCE")
    way.add_argument("--to", choices=TO, dest="to_format", help="the format of TARGET")
    for name, (formats, kind, text) in CONVERT_OPTIONS.items():
        text = f"{', '.join(formats)}: {text}"
        if kind is bool:
            parser.add_argument(
                f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            parser.add_argument(f"--{name}", type=kind, metavar=name.upper(), help=text)
    parser.set_defaults(run=_convert)


FROM = ("marian", "marian_npz", "fairseq", "torch")
TO = ("marian", "marian_npz", "ctranslate2", "onnx")
# Formats that are read from files; a model of another one may lie on the Hub.
FILES = ("fairseq", "torch", "marian_npz")
VOCABULARIES = ("source_vocabulary", "target_vocabulary")
FROM_ONLY = ("sample_source", "sample_target", *VOCABULARIES)  # of formats that go both ways
# Option: the formats that have it, its type, its help. Names are arguments of the functions.
CONVERT_OPTIONS: dict[str, tuple[tuple[str, ...], type, str]] = {
    "sample_source": (("marian",), str, "sources, a sentence a line, to compare tokenizers on"),
    "sample_target": (("marian",), str, "their translations, line by line"),
    "quantization": (("ctranslate2", "onnx"), str, "such as int8 (default: float32)"),
    **dict.fromkeys(
        VOCABULARIES, (("marian_npz",), str, ".spm or .yml (default: that of decoder.yml)")
    ),
    "source_dictionary": (("fairseq",), str, "dict.SRC.txt (default: beside SOURCE)"),
    "target_dictionary": (("fairseq",), str, "dict.TGT.txt (default: beside SOURCE)"),
    "bpe_codes": (("fairseq",), str, "codes of subword-nmt or fastBPE (default: beside SOURCE)"),
    "source_language": (("fairseq",), str, "the SRC of dict.SRC.txt"),
    "target_language": (("fairseq",), str, "the TGT of dict.TGT.txt"),
    "is_segmented": (("fairseq",), bool, "whether input text is already segmented"),
    "num_heads": (("torch",), int, "number of attention heads (nhead); required"),
    "tokenizer": (("torch",), str, "folder of the tokenizer"),
    "target_tokenizer": (("torch",), str, "folder of the target's, if it has its own vocabulary"),
    "activation_function": (("torch",), str, "relu, gelu or silu"),
    "layer_norm_eps": (("torch",), float, "added to the variance in layer normalization"),
    "dropout": (("torch",), float, "dropout rate of further training"),
    "norm_first": (("torch",), bool, "whether layers normalize first (pre-norm), which is refused"),
    "scale_embedding": (("torch",), bool, "whether embeddings are multiplied by sqrt(d_model)"),
    "pad_token_id": (("torch",), int, "id of the padding token"),
    "eos_token_id": (("torch",), int, "id that ends a target"),
    "decoder_start_token_id": (("torch",), int, "id before the first target token"),
    "source_embedding": (("torch",), str, "name of the source's embedding"),
    "target_embedding": (("torch",), str, "name of the target's embedding"),
    "output": (("torch",), str, "name of the matrix that makes the logits"),
    "positions": (("torch",), str, "name of the position table"),
    "target_positions": (("torch",), str, "name of the target's, if it has its own"),
}


def _convert(arguments: argparse.Namespace) -> int:
    direction = "from" if arguments.from_format else "to"
    name = arguments.from_format or arguments.to_format
    options = {
        option: getattr(arguments, option)
        for option in CONVERT_OPTIONS
        if getattr(arguments, option) is not None
    }
    for option in options:
        formats = CONVERT_OPTIONS[option][0]
        is_from_only = option in FROM_ONLY
        if name not in formats or (direction == "to" and is_from_only):
            raise ValueError(
                f"--{option} is for {'--from ' * is_from_only}{' and '.join(formats)}, not for "
                f"--{direction} {name}; leave it out."
            )
    if name == "torch" and "num_heads" not in options:
        raise ValueError("--from torch needs --num_heads, which a state dict does not contain.")
    check_target(arguments.target)
    if direction == "to" or name not in FILES:
        check_name(arguments.source)

    logging.basicConfig(level=logging.WARNING, format="vaswani-hf: %(message)s")
    logging.getLogger("vaswani_hf").setLevel(logging.INFO)  # logs the assumptions
    # Slow: it loads the library's Marian.
    from transformers.utils import logging as library_logging

    from .. import conversion

    if not sys.stderr.isatty():
        library_logging.disable_progress_bar()
    getattr(conversion, f"{direction}_{name}")(arguments.source, arguments.target, **options)
    print(f"Wrote {arguments.target}.")
    return 0
