# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""vaswani-hf translate | convert | push | plot"""

import argparse
import itertools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from .lines import decode_lines, escape_unprintable


INTERRUPTED = 130  # as shells count it: 128 and the number of the signal


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    escape_unprintable()
    parser = argparse.ArgumentParser(
        prog="vaswani-hf", description="Use a Transformer of 'Attention Is All You Need'."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_translate(commands)
    _add_convert(commands)
    _add_push(commands)
    _add_plot(commands)
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(f"vaswani-hf: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        if not _is_of_the_machine(error):
            raise
        print(f"vaswani-hf: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1


def _is_of_the_machine(error: RuntimeError) -> bool:
    """Whether memory has run out or a device has failed; engines tell it in words alone."""
    text = str(error)
    return any(word in text for word in ("memory", "CUDA", "HIP", "XPU", "MPS"))


def _add_translate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "translate",
        help="translate text, a sentence a line",
        description="Translate a sentence a line, from a file or standard input to standard "
        "output. An empty line stays empty.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="text to translate; else stdin")
    parser.add_argument(
        "--model",
        required=True,
        metavar="FOLDER",
        help="a folder or a Hub id; with --engine ctranslate2 a folder of its own format",
    )
    parser.add_argument(
        "--revision", metavar="REVISION", help="branch, tag or commit of a Hub id; else main"
    )
    parser.add_argument(
        "--engine",
        choices=("transformers", "ctranslate2"),
        default="transformers",
        help="what computes: transformers, the default, or CTranslate2, which is faster and reads "
        "what `vaswani-hf convert --to ctranslate2` writes",
    )
    parser.add_argument("--num_beams", type=int, metavar="N", help="beam width; else the model's")
    parser.add_argument("--length_penalty", type=float, metavar="ALPHA", help="else the model's")
    parser.add_argument(
        "--length_penalty_type",
        choices=("wu", "power"),
        help="of n tokens: wu is ((5 + n) / 6)^ALPHA, power is n^ALPHA; else the model's. "
        "CTranslate2 searches by power alone; what it finds is ranked again by wu, and a few "
        "translations in a hundred differ from those of transformers",
    )
    parser.add_argument(
        "--batch_tokens", type=int, default=4096, metavar="N", help="padded source tokens a batch"
    )
    parser.add_argument(
        "--chunk_sentences",
        type=int,
        default=10_000,
        metavar="N",
        help="sentences that are read, sorted by length and translated before the next are read; "
        "what is typed in a terminal is translated line by line",
    )
    parser.add_argument("--device", help="such as cpu or cuda; else a GPU where there is one")
    parser.add_argument(
        "--compute_type",
        metavar="TYPE",
        help="ctranslate2: what it computes in, such as int8 or float32; else as the folder is "
        "quantized",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="ctranslate2: CPU threads")
    parser.set_defaults(run=_translate)


def _translate(arguments: argparse.Namespace) -> int:
    if arguments.chunk_sentences < 1:
        raise ValueError(f"--chunk_sentences must be at least 1, got {arguments.chunk_sentences}.")
    if arguments.revision is not None and arguments.engine == "ctranslate2":
        raise ValueError("--revision is for --engine transformers only.")
    of_ctranslate2 = {
        name: getattr(arguments, name)
        for name in ("compute_type", "threads")
        if getattr(arguments, name) is not None
    }
    if of_ctranslate2 and arguments.engine != "ctranslate2":
        raise ValueError(f"--{next(iter(of_ctranslate2))} is for --engine ctranslate2 only.")
    if sys.stdout is None:
        raise ValueError("Standard output is closed, so that translations have nowhere to go.")
    with _source(arguments.file) as source:
        # The heavy imports come after the file is open: a wrong name is told at once.
        from transformers.utils import logging

        from vaswani_hf.translation import (
            CTranslate2Translator,
            LongSourceError,
            Translator,
        )

        if not sys.stderr.isatty():
            logging.disable_progress_bar()
        kind = Translator if arguments.engine == "transformers" else CTranslate2Translator
        of_hub = {} if arguments.revision is None else {"revision": arguments.revision}
        translator = kind.from_pretrained(
            arguments.model,
            device=arguments.device,
            num_beams=arguments.num_beams,
            length_penalty=arguments.length_penalty,
            length_penalty_type=arguments.length_penalty_type,
            batch_tokens=arguments.batch_tokens,
            **of_hub,
            **of_ctranslate2,
        )
        name = arguments.file or "standard input"
        is_typed = source.isatty()  # and then each line is answered before the next
        size = 1 if is_typed else arguments.chunk_sentences
        is_shown, num_done = sys.stderr.isatty() and not is_typed, 0
        with open(
            sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False
        ) as output:
            for chunk in _chunks(decode_lines(source, name), size):
                try:
                    translations = translator(chunk, progress=is_shown)
                except LongSourceError as error:
                    where = f"{name}, line {num_done + error.place + 1}"
                    raise ValueError(f"{where}: {error}") from None
                for translation in translations:
                    output.write(" ".join(translation.splitlines()) + "\n")
                output.flush()
                num_done += len(chunk)
    return 0


def _source(file: str | None) -> BinaryIO:
    if file not in (None, "-"):
        return open(str(file), "rb")
    if sys.stdin is None:
        raise ValueError("Standard input is closed: name a FILE, or send the text in by a pipe.")
    return sys.stdin.buffer


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _add_convert(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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

    from vaswani_hf import conversion

    if not sys.stderr.isatty():
        library_logging.disable_progress_bar()
    direction = "from" if arguments.from_format else "to"
    getattr(conversion, f"{direction}_{name}")(arguments.source, arguments.target, **options)
    print(f"Wrote {arguments.target}.")
    return 0


def _add_push(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "push",
        help="push a model to the Hub, and check what came up",
        description="Push a model's folder to the Hub: weights, configurations, tokenizer, the "
        "model's code, the card, figures and settings of its training; nothing else in the folder. "
        "Then fetch it into an empty cache as somebody without this package does, translate three "
        "sentences and compare. A push that was broken off is finished by the same command. The "
        "token is the one of `hf auth login` or HF_TOKEN.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="output folder of training/run.py")
    parser.add_argument("--to", required=True, metavar="ORG/NAME", help="repository on the Hub")
    parser.add_argument(
        "--private", action="store_true", default=None, help="make a new repository private"
    )
    parser.add_argument("--revision", metavar="BRANCH", help="branch to push to; else main")
    parser.add_argument(
        "--license",
        metavar="ID",
        help="the model's license, by the Hub's identifiers, such as cc-by-4.0; else the card's",
    )
    parser.add_argument("--source_language", metavar="CODE", help="such as en; else the card's")
    parser.add_argument("--target_language", metavar="CODE", help="such as de; else the card's")
    parser.add_argument(
        "--max_shard_size",
        default="5GB",
        metavar="SIZE",
        help="weights above it go into several files; 5GB unless given",
    )
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fetch what was pushed and compare translations; on unless switched off",
    )
    parser.set_defaults(run=_push)


def _push(arguments: argparse.Namespace) -> int:
    if not os.path.isdir(arguments.folder):  # told before the heavy imports
        raise ValueError(f"There is no folder {arguments.folder}.")
    logging.basicConfig(level=logging.WARNING, format="vaswani-hf: %(message)s")
    from huggingface_hub.utils import disable_progress_bars
    from transformers.utils import logging as library_logging

    from .hub import push

    if not sys.stderr.isatty():
        disable_progress_bars()
        library_logging.disable_progress_bar()
    pushed = push(
        arguments.folder,
        arguments.to,
        private=arguments.private,
        revision=arguments.revision,
        license=arguments.license,
        source_language=arguments.source_language,
        target_language=arguments.target_language,
        max_shard_size=arguments.max_shard_size,
        is_verified=arguments.verify,
    )
    print(f"Pushed {arguments.folder} to {pushed.url} (commit {pushed.commit}).")
    if pushed.translations:
        print("Fetched into an empty cache and loaded without this package, it says the same:")
        for source, translation in pushed.translations:
            print(f"  {source}\n    {translation}")
    return 0


def _add_plot(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "plot",
        help="draw the curves of training runs",
        description="Draw training loss, validation perplexity, BLEU and learning rate over the "
        "updates of a run, or of several runs in one picture. The picture's name is printed.",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="RUN_FOLDER", help="output folder of training/run.py"
    )
    parser.add_argument(
        "-o",
        "--output",
        default="training.png",
        metavar="PICTURE",
        help="the picture, .png, .svg or .pdf; training.png unless given",
    )
    parser.set_defaults(run=_plot)


def _plot(arguments: argparse.Namespace) -> int:
    from .plotting import check_suffix, plot_training, save_picture

    check_suffix(arguments.output)
    save_picture(plot_training(*arguments.folders), arguments.output)
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
