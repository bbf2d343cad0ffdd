# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What ends a run from outside: signals, a launcher that has gone, a terminal that is closed.

In training the update is finished and saved; before and after it the program ends at once.
"""

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from .processes import end_processes


logger = logging.getLogger("training")
PARENT = os.getppid()  # before the imports that take seconds; it may end meanwhile
# SIGHUP, which Windows lacks, comes from a terminal that is closed.
STOP_SIGNALS = tuple(
    signal.Signals[name]
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if name in signal.Signals.__members__
)
# Whoever stops all processes of a job reaches this one twice, the second time by its launcher.
REPEATED_SECONDS = 2.0
_LAUNCHER_CHECK_SECONDS = 0.25  # between two looks at the launcher
_noted = threading.Event()  # a signal, by `StopSignals`


class StopSignals:
    """From `note` to `restore` a signal is noted; another one does what it did before `note`.

    Signals that follow the first within `REPEATED_SECONDS` are taken for the same wish.
    `received` is the number of the signal, or 0.
    """

    def __init__(self) -> None:
        self.received = 0
        self._received_at = 0.0
        self._before: dict[int, Any] = {}
        self._owner = os.getpid()

    def note(self) -> None:
        """Note signals from here on."""
        if not self._before:
            self._before = _handle(self._note)

    def restore(self) -> None:
        """Do with signals what was done before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __enter__(self) -> "StopSignals":
        self.note()
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            _ignore_in_worker(number)
        elif not self.received:
            self.received, self._received_at = int(number), time.monotonic()
            _noted.set()
            logger.info(
                "%s: saving and stopping after this update; another one, %g seconds from now or "
                "later, stops at once.",
                *(signal.Signals(number).name, REPEATED_SECONDS),
            )
        elif time.monotonic() - self._received_at >= REPEATED_SECONDS:
            self.restore()
            os.kill(os.getpid(), number)


def _handle(handler: Any) -> dict[int, Any]:
    """Have signals handled; return what handled them before."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # Python lets no other thread handle signals
    # What is ignored stays so: `nohup` and shells that start a run in the background mean it.
    wanted = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in wanted}


def _ignore_in_worker(number: int) -> None:
    """What a forked worker, such as those that load data, does: the run tells it when to end.

    A terminal sends Ctrl-C and its own end to workers as well, without which nothing can be saved.
    """
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def silence_ctrl_c() -> None:
    """Have Ctrl-C end the program as SIGTERM does, where Python would show a traceback."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """While it is entered, a signal ends the program with one line and 128 and its number.

    So does the end of a launcher, as by SIGTERM: `accelerate launch` does not hand on the signal
    that it dies of. Training has `StopSignals` within.
    """
    owner = os.getpid()
    _noted.clear()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            _exit_at_once(number)
        _ignore_in_worker(number)

    before, is_over = _handle(end), threading.Event()
    if before and has_launcher():
        threading.Thread(target=_exit_with_launcher, args=(PARENT, is_over), daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_at_once(number: int) -> NoReturn:
    for stopping in STOP_SIGNALS:  # one more ends what follows
        signal.signal(stopping, signal.SIG_DFL)
    if os.environ.get("LOCAL_RANK", "0") == "0":
        name = signal.Signals(number).name
        with contextlib.suppress(OSError, RuntimeError):  # interrupted while it was writing
            sys.stderr.write(
                f"training/run.py: stopped by {name}, at once; --resume_from_checkpoint auto goes "
                f"on from the last checkpoint, if there is one.\n"
            )
            sys.stderr.flush()
    # Temporary folders and workers go. Not more: threads and other processes may be waited for.
    atexit._run_exitfuncs()
    os._exit(128 + number)


def has_launcher(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `accelerate launch` or `torchrun` has started this process."""
    return "ACCELERATE_MIXED_PRECISION" in environment or "TORCHELASTIC_RUN_ID" in environment


def _exit_with_launcher(launcher: int, is_over: threading.Event) -> None:
    """Send this process SIGTERM once its launcher has ended, if no signal has come before."""
    while not is_over.wait(_LAUNCHER_CHECK_SECONDS):
        if os.getppid() != launcher:
            if not _noted.is_set():
                os.kill(os.getpid(), signal.SIGTERM)
            return


def exit_if_stopped(trainer: Any) -> None:
    """End the program where a signal has ended training, with 128 and the signal's number.

    Args:
        trainer: a `VaswaniTrainer` that has trained.

    Raises:
        SystemExit: with 143 after SIGTERM, 130 after SIGINT, 129 after SIGHUP.
    """
    number = trainer.clock.stopped_by
    if not number:
        return
    logger.info(
        "Stopped by %s. checkpoint-%d in %s has all of it: the same command with "
        "--resume_from_checkpoint auto goes on.",
        *(signal.Signals(number).name, trainer.state.global_step, trainer.args.output_dir),
    )
    end_processes(trainer)
    sys.exit(128 + number)
