# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Signals that end a run, and the end of its launcher.

In training the current update is finished and saved; before and after it the run ends at once.
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
PARENT = os.getppid()  # read before the imports that take seconds: it may end meanwhile
# SIGHUP, which Windows lacks, comes when a terminal is closed.
STOP_SIGNALS = tuple(
    signal.Signals[name]
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if name in signal.Signals.__members__
)
# A signal to all processes of a job reaches each twice: directly, and through its launcher.
SAME_SIGNAL_SECONDS = 2.0
_LAUNCHER_CHECK_SECONDS = 0.25  # between two looks at the launcher
_caught = threading.Event()  # whether `StopSignals` has caught a signal


class StopSignals:
    """Catches the first signal between `catch` and `restore`; a second one acts as before `catch`.

    Signals within `SAME_SIGNAL_SECONDS` of the first count as the same one.

    Attributes:
        received: the number of the signal, or 0.
    """

    def __init__(self) -> None:
        self.received = 0
        self._received_at = 0.0
        self._before: dict[int, Any] = {}
        self._owner = os.getpid()

    def catch(self) -> None:
        """Catch signals from here on."""
        if not self._before:
            self._before = _set_handlers(self._on_signal)

    def restore(self) -> None:
        """Restore the handlers of before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __enter__(self) -> "StopSignals":
        self.catch()
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            _ignore_in_worker(number)
        elif not self.received:
            self.received, self._received_at = int(number), time.monotonic()
            _caught.set()
            logger.info(
                "%s: saving and stopping after this update; another signal in %g seconds or later "
                "stops at once.",
                *(signal.Signals(number).name, SAME_SIGNAL_SECONDS),
            )
        elif time.monotonic() - self._received_at >= SAME_SIGNAL_SECONDS:
            self.restore()
            os.kill(os.getpid(), number)


def _set_handlers(handler: Any) -> dict[int, Any]:
    """Set the handler of all signals that stop a run; return the handlers of before."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # Python lets no other thread handle signals
    # Ignored signals stay ignored: `nohup`, and shells that start background jobs, ask for it.
    wanted = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in wanted}


def _ignore_in_worker(number: int) -> None:
    """Handle a signal in a forked worker, such as those that load data: only SIGTERM ends it.

    A terminal sends SIGINT and SIGHUP to workers as well, and without them nothing can be saved.
    """
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def silence_ctrl_c() -> None:
    """Have Ctrl-C end the program as SIGTERM does, without Python's traceback."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """While entered, a signal ends the program with one line, and with status 128 + its number.

    The end of a launcher acts as SIGTERM: `accelerate launch` does not forward the signal that ends
    it. In training, `StopSignals` takes over.
    """
    owner = os.getpid()
    _caught.clear()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() == owner:
            _exit_at_once(number)
        _ignore_in_worker(number)

    before, is_over = _set_handlers(end), threading.Event()
    if before and has_launcher():
        threading.Thread(target=_exit_with_launcher, args=(PARENT, is_over), daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_at_once(number: int) -> NoReturn:
    for each in STOP_SIGNALS:  # another signal ends the lines below
        signal.signal(each, signal.SIG_DFL)
    if os.environ.get("LOCAL_RANK", "0") == "0":
        name = signal.Signals(number).name
        with contextlib.suppress(OSError, RuntimeError):  # the signal interrupted a write
            sys.stderr.write(
                f"training/run.py: stopped by {name}, at once; --resume_from_checkpoint auto "
                f"resumes from the last checkpoint, if there is one.\n"
            )
            sys.stderr.flush()
    # Remove temporary folders and end workers, but wait for no thread and no other process.
    atexit._run_exitfuncs()
    os._exit(128 + number)


def has_launcher(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `accelerate launch` or `torchrun` has started this process."""
    return "ACCELERATE_MIXED_PRECISION" in environment or "TORCHELASTIC_RUN_ID" in environment


def _exit_with_launcher(launcher: int, is_over: threading.Event) -> None:
    """Send this process SIGTERM once its launcher has ended, unless a signal was caught before."""
    while not is_over.wait(_LAUNCHER_CHECK_SECONDS):
        if os.getppid() != launcher:
            if not _caught.is_set():
                os.kill(os.getpid(), signal.SIGTERM)
            return


def exit_if_stopped(trainer: Any) -> None:
    """End the program if a signal has ended training, with status 128 + its number.

    Args:
        trainer: a `VaswaniTrainer` that has trained.

    Raises:
        SystemExit: with 143 after SIGTERM, 130 after SIGINT, 129 after SIGHUP.
    """
    number = trainer.clock.stopped_by
    if not number:
        return
    logger.info(
        "Stopped by %s. checkpoint-%d in %s is complete: resume with the same command and "
        "--resume_from_checkpoint auto.",
        *(signal.Signals(number).name, trainer.state.global_step, trainer.args.output_dir),
    )
    end_processes(trainer)
    sys.exit(128 + number)
