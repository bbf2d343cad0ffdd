# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How `training/run.py` ends when something is wrong: in one line, or as what it is, a bug of ours.

This module needs the standard library alone: it also tells which packages are missing.
"""

import dis
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType


PROGRAM = "training/run.py"
TRACEBACK = "VASWANI_TRACEBACK"  # set to 1 it shows where an error comes from
# What the imports of run.py need.
PACKAGES = ("transformers", "accelerate", "datasets", "evaluate", "sacrebleu", "yaml")
# Where pyproject.toml names the modules that may be missing.
EXTRAS = {
    **dict.fromkeys(
        (*PACKAGES, "torch", "sacremoses", "babel", "num2words", "tensorboard"), "train"
    ),
    "sentencepiece": "export",
    "trackio": "track",
}
# What gloo says in a process that was left alone.
_LEFT_ALONE = ("Connection closed by peer", "Connection reset by peer")
_OURS = tuple(str(Path(__file__).parents[1] / name) + os.sep for name in ("training", "vaswani_hf"))


@contextmanager
def in_one_line(environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """End the program with one line where what a user wrote or pointed at is wrong.

    That is an `OSError` (a file, a disk, the Hub), an `ImportError` (a package), a `ValueError` or
    `RuntimeError` that a `raise` of our own has made, which says what would do, and the end of
    another process. Everything else is a bug, and its traceback stays.

    Of several processes the first one of each machine tells; a launcher that asks for a file of the
    cause gets it from all of them.

    Args:
        environment: variables; with `VASWANI_TRACEBACK=1` every traceback stays.

    Raises:
        SystemExit: with the line, which Python prints before it exits with status 1; under a
            launcher with 1, the line is written by then.
    """
    try:
        yield
    except (OSError, ImportError, ValueError, RuntimeError) as error:
        if environment.get(TRACEBACK, "") not in ("", "0") or not is_told(error):
            raise
        line = f"{PROGRAM}: {told(error)}"
        if not _is_left_alone(error):
            _leave_word(line, environment)
        if "LOCAL_RANK" not in environment:
            sys.exit(line)
        # At once: a launcher ends this process as soon as it has seen another one fail.
        if environment["LOCAL_RANK"] == "0":
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        sys.exit(1)


def is_told(error: BaseException) -> bool:
    """Whether an error says what a user can mend, rather than that our code is wrong."""
    return (
        isinstance(error, OSError | ImportError)
        or _is_left_alone(error)
        or _is_raised_by_us(error.__traceback__)
    )


def told(error: BaseException) -> str:
    """What is wrong, without the class of the error; a file comes first."""
    if _is_raised_by_us(error.__traceback__):
        return str(error)
    if _is_left_alone(error):
        return "another process has ended; the launcher tells below which, and why."
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}."
    text = " ".join(str(error).split()) or type(error).__name__
    module = (getattr(error, "name", None) or "").partition(".")[0]
    if module in EXTRAS:
        return f'{text}; pip install -e ".[{EXTRAS[module]}]" brings it.'
    return text


def require_packages() -> None:
    """End the program in one line if a package is missing that training needs."""
    with in_one_line():
        for name in PACKAGES:
            importlib.import_module(name)


def _is_left_alone(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _LEFT_ALONE)


def _is_raised_by_us(traceback: TracebackType | None) -> bool:
    """Whether the last frame is ours and stands at a `raise`, not at a call that failed."""
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    is_raise = code.co_code[traceback.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return is_raise and code.co_filename.startswith(_OURS)


def _leave_word(line: str, environment: Mapping[str, str]) -> None:
    """The cause for torchrun and accelerate, which show that of the process that failed first."""
    path = environment.get("TORCHELASTIC_ERROR_FILE")
    if path:
        content = {"message": line, "timestamp": int(time.time())}
        Path(path).write_text(json.dumps(content), encoding="utf-8")
