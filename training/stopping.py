# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""SIGTERM and SIGINT: finish the update, save, stop."""

import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from .launch import leave_processes


logger = logging.getLogger("training")
STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """While it is entered, the first SIGTERM or SIGINT is noted; a second does what it always does.

    `received` is the number of the signal, or 0.
    """

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}
        self._owner = os.getpid()

    def __enter__(self) -> "StopSignals":
        # Python lets only the main thread handle signals.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in STOPPING}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:  # a forked worker, such as those that load data
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        self.received = int(number)
        for stopping, handler in self._before.items():
            signal.signal(stopping, handler)
        logger.info(
            "%s: saving and stopping after this update; another one stops at once.",
            signal.Signals(number).name,
        )


def leave_if_stopped(trainer: Any) -> None:
    """End the program where a signal has ended training, with 128 and the signal's number.

    Args:
        trainer: a `VaswaniTrainer` that has trained.

    Raises:
        SystemExit: with 143 after SIGTERM, 130 after SIGINT.
    """
    number = trainer.clock.stopped_by
    if not number:
        return
    logger.info(
        "Stopped by %s. checkpoint-%d in %s has all of it: the same command with "
        "--resume_from_checkpoint auto goes on.",
        *(signal.Signals(number).name, trainer.state.global_step, trainer.args.output_dir),
    )
    leave_processes(trainer)
    sys.exit(128 + number)
