# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Errors of `training/run.py`: one line for what a user can mend, a traceback for a bug of ours.

This module imports the standard library alone, as it also reports packages that are missing.
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
TRACEBACK = "VASWANI_TRACEBACK"  # set to 1, it keeps every traceback
# Packages that run.py imports.
PACKAGES = ("transformers", "accelerate", "datasets", "evaluate", "sacrebleu", "yaml")
# The extra of pyproject.toml that brings a module.
EXTRAS = {
    **dict.fromkeys(
        (*PACKAGES, "torch", "sacremoses", "babel", "num2words", "tensorboard"), "train"
    ),
    "sentencepiece": "export",
    "trackio": "track",
}
# What gloo says in a process whose peer has ended.
_PEER_HAS_ENDED = ("Connection closed by peer", "Connection reset by peer")
_OURS = tuple(str(Path(__file__).parents[1] / name) + os.sep for name in ("training", "vaswani_hf"))


@contextmanager
def in_one_line(
    environment: Mapping[str, str] = os.environ, program: str = PROGRAM
) -> Iterator[None]:
    """End the program with one line for an error that a user can mend.

    That is an `OSError` (a file, a disk, the Hub), an `ImportError` (a package), a `ValueError` or
    `RuntimeError` of a `raise` in our own code, which says what would do, and the end of another
    process. Every other error is a bug, and keeps its traceback.

    Of several processes the first one of each machine writes the line. All of them write it to the
    file that a launcher asks for.

    Args:
        environment: variables; `VASWANI_TRACEBACK=1` keeps every traceback.
        program: what the line starts with.

    Raises:
        SystemExit: with the line, which Python prints before it exits with status 1; under a
            launcher with status 1, after the line is written.
    """
    try:
        yield
    except (OSError, ImportError, ValueError, RuntimeError) as error:
        if environment.get(TRACEBACK, "") not in ("", "0") or not is_mendable(error):
            raise
        line = f"{program}: {message_of(error)}"
        if not _is_of_a_peer(error):
            _write_cause(line, environment)
        if "LOCAL_RANK" not in environment:
            sys.exit(line)
        # Flushed, as a launcher ends this process once it has seen another one fail.
        if environment["LOCAL_RANK"] == "0":
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        sys.exit(1)


def is_mendable(error: BaseException) -> bool:
    """Whether an error is about what a user can mend, and not a bug of ours."""
    return (
        isinstance(error, OSError | ImportError)
        or _is_of_a_peer(error)
        or _is_raised_by_us(error.__traceback__)
    )


def message_of(error: BaseException) -> str:
    """The text of an error without its class; a file comes first."""
    if _is_raised_by_us(error.__traceback__):
        return str(error)
    if _is_of_a_peer(error):
        return "another process has ended; the launcher names it below, and the cause."
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}."
    text = " ".join(str(error).split()) or type(error).__name__
    module = (getattr(error, "name", None) or "").partition(".")[0]
    if module in EXTRAS:
        return f'{text}; install it by pip install -e ".[{EXTRAS[module]}]".'
    return text


def require_packages() -> None:
    """End the program with one line if a package is missing that training needs."""
    with in_one_line():
        for name in PACKAGES:
            importlib.import_module(name)


def _is_of_a_peer(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _PEER_HAS_ENDED)


def _is_raised_by_us(traceback: TracebackType | None) -> bool:
    """Whether the last frame is ours and stands at a `raise`, not at a call that failed."""
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    is_raise = code.co_code[traceback.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return is_raise and code.co_filename.startswith(_OURS)


def _write_cause(line: str, environment: Mapping[str, str]) -> None:
    """Write the cause for torchrun and accelerate, which show that of the first process to fail."""
    path = environment.get("TORCHELASTIC_ERROR_FILE")
    if path:
        content = {"message": line, "timestamp": int(time.time())}
        Path(path).write_text(json.dumps(content), encoding="utf-8")
