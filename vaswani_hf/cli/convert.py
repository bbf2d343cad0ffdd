# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf convert"""

import argparse
import logging
import sys


def add_convert(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "convert",
        help="turn a model of another format into a folder of this one, or the other way",
        description="Turn a model of another format into a folder of this one (--from), or such a "
        "folder into another format (--to). What cannot be carried over exactly is refused, with "
        "every difference listed, and nothing is written then.",
    )
    parser.add_argument("source", metavar="SOURCE", help="a file, a folder or a Hub id")
    parser.add_argument("target", metavar="TARGET", help="the new folder")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--from", choices=FROM, dest="from_format", help="the format of SOURCE")
    way.add_argument("--to", choices=TO, dest="to_format", help="the format of TARGET")
    for name, (formats, kind, explained) in CONVERT_OPTIONS.items():
        explained = f"{', '.join(formats)}: {explained}"
        if kind is bool:
            parser.add_argument(
                f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=explained
            )
        else:
            parser.add_argument(f"--{name}", type=kind, metavar=name.upper(), help=explained)
    parser.set_defaults(run=_convert)


FROM, TO = ("marian", "fairseq", "torch"), ("marian", "ctranslate2", "onnx")
# Option: the formats that have it, its type, what it says. Names are those of the functions.
CONVERT_OPTIONS: dict[str, tuple[tuple[str, ...], type, str]] = {
    "quantization": (("ctranslate2", "onnx"), str, "such as int8; else float32"),
    "source_dictionary": (("fairseq",), str, "dict.SRC.txt; else the one beside SOURCE"),
    "target_dictionary": (("fairseq",), str, "dict.TGT.txt; else the one beside SOURCE"),
    "bpe_codes": (("fairseq",), str, "codes of subword-nmt; else the ones beside SOURCE, if any"),
    "source_language": (("fairseq",), str, "the SRC of dict.SRC.txt"),
    "target_language": (("fairseq",), str, "the TGT of dict.TGT.txt"),
    "is_segmented": (("fairseq",), bool, "whether text comes cut into pieces already"),
    "num_heads": (("torch",), int, "number of attention heads (nhead); needed"),
    "tokenizer": (("torch",), str, "folder of the tokenizer"),
    "target_tokenizer": (("torch",), str, "the target's, where it has its own vocabulary"),
    "activation_function": (("torch",), str, "relu, gelu or silu"),
    "layer_norm_eps": (("torch",), float, "added to the variance in layer normalization"),
    "dropout": (("torch",), float, "dropout rate, for training on"),
    "norm_first": (("torch",), bool, "whether layers normalize first; cannot be carried over"),
    "scale_embedding": (("torch",), bool, "whether embeddings are times sqrt(d_model)"),
    "pad_token_id": (("torch",), int, "id of the padding piece"),
    "eos_token_id": (("torch",), int, "id that ends a target"),
    "decoder_start_token_id": (("torch",), int, "id that stands before the first target piece"),
    "source_embedding": (("torch",), str, "name of the source's embedding"),
    "target_embedding": (("torch",), str, "name of the target's embedding"),
    "output": (("torch",), str, "name of the matrix that makes the logits"),
    "positions": (("torch",), str, "name of the position table"),
    "target_positions": (("torch",), str, "name of the target's, where it has one of its own"),
}


def _convert(arguments: argparse.Namespace) -> int:
    name = arguments.from_format or arguments.to_format
    options = {
        option: getattr(arguments, option)
        for option in CONVERT_OPTIONS
        if getattr(arguments, option) is not None
    }
    for option in options:
        formats = CONVERT_OPTIONS[option][0]
        if name not in formats:
            way = "from" if arguments.from_format else "to"
            raise ValueError(f"--{option} is for {' and '.join(formats)}, not for --{way} {name}.")
    if name == "torch" and "num_heads" not in options:
        raise ValueError("--from torch needs --num_heads: no state dict says how many there are.")

    logging.basicConfig(level=logging.WARNING, format="vaswani-hf: %(message)s")
    logging.getLogger("vaswani_hf").setLevel(logging.INFO)  # says what had to be assumed
    from transformers.utils import logging as library_logging

    from .. import conversion

    if not sys.stderr.isatty():
        library_logging.disable_progress_bar()
    direction = "from" if arguments.from_format else "to"
    getattr(conversion, f"{direction}_{name}")(arguments.source, arguments.target, **options)
    print(f"Wrote {arguments.target}.")
    return 0
