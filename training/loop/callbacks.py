# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The trainer's callbacks: clock and signals, early stopping, streams, a dry run's stopwatch."""

import bisect
import itertools
import logging
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils.data
from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from ..data.streaming import TokenBatchStream
from ..settings.fields import VaswaniTrainingArguments
from ..settings.stages import Stage
from .processes import end_processes
from .signals import StopSignals


logger = logging.getLogger("training")


def logged_name(name: str) -> str:
    """The name of a figure in the log, where a loss carries its unit."""
    return f"{name}_nats_per_token" if name == "loss" or name.endswith("_loss") else name


class EarlyStopping(TrainerCallback):
    """Ends training after `early_stopping_patience` evaluations without a new best.

    It counts the evaluations in the log, which every checkpoint keeps: a resumed run continues the
    count, with its own patience.
    """

    def __init__(self, training: VaswaniTrainingArguments) -> None:
        metric = training.metric_for_best_model
        assert training.early_stopping_patience is not None and metric is not None
        self.patience = training.early_stopping_patience
        self.name = logged_name(f"eval_{metric.removeprefix('eval_')}")
        self.sign = 1 if training.greater_is_better else -1
        self.has_stopped = False

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Count the evaluations before a resumption."""
        self._count(state)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """End a resumed run that had stopped already; the library makes at least one update."""
        if self.has_stopped:
            control.should_training_stop = control.should_save = True

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """End training, with a checkpoint, once patience is used up."""
        if self._count(state):
            control.should_training_stop = control.should_save = True

    def _count(self, state: TrainerState) -> bool:
        scored = [entry for entry in state.log_history if self.name in entry]
        best, num_since_best = None, 0
        for entry in scored:
            if best is None or self.sign * entry[self.name] > self.sign * best[self.name]:
                best, num_since_best = entry, 0
            else:
                num_since_best += 1
        is_over = num_since_best >= self.patience
        if is_over and best is not None and not self.has_stopped:
            logger.info(
                "Stopping at update %d: %s was best at update %d, %.4g, %d evaluations ago.",
                *(state.global_step, self.name, best["step"], best[self.name], num_since_best),
            )
        self.has_stopped = is_over
        return is_over


class StageLog(TrainerCallback):
    """Logs each stage as it begins, and the one in which a run is resumed."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages
        self._logged: int | None = None

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Log the stage of the next update, if it is another than that of the last one."""
        ends = list(itertools.accumulate(stage.updates for stage in self.stages))
        place = min(bisect.bisect_right(ends, state.global_step), len(ends) - 1)
        if place == self._logged:
            return
        self._logged, stage = place, self.stages[place]
        logger.info(
            "Stage %d of %d, updates %d to %d: %s.",
            *(place + 1, len(ends), ends[place] - stage.updates + 1, ends[place], stage),
        )


class StreamGuard(TrainerCallback):
    """Ends training, with a checkpoint, before an update whose batches some process cannot read.

    No update is lost to an unreadable line, and all processes stop at the same update.
    """

    def __init__(self, stream: TokenBatchStream) -> None:
        self.stream = stream
        self.problem: str | None = None

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Check that the batches of the next update can be read."""
        if state.global_step >= state.max_steps:
            return
        # The loader reads one batch ahead.
        needed = (state.global_step + 1) * args.gradient_accumulation_steps + 1
        problem = self.stream.problem_before(needed)
        is_broken = torch.tensor(int(problem is not None), device=args.device)
        if args.world_size > 1:
            torch.distributed.all_reduce(is_broken, op=torch.distributed.ReduceOp.MAX)
        if is_broken:
            problems = gather_object([problem]) if args.world_size > 1 else [problem]
            self.problem = next(found for found in problems if found is not None)
            control.should_save = control.should_training_stop = True

    def raise_if_broken(self, trainer: Any) -> None:
        """Raise after training if a problem of the text has ended it.

        Raises:
            ValueError: naming the problem, and how to resume.
        """
        if self.problem is not None:
            end_processes(trainer)
            raise ValueError(
                f"{self.problem} checkpoint-{trainer.state.global_step} in "
                f"{trainer.args.output_dir} was saved before it: mend the text, then resume with "
                f"the same command and --resume_from_checkpoint auto."
            )


class CheckpointClock(TrainerCallback, ExportableState):
    """Saves every `save_minutes` (section 6.1), at the end and when a signal asks to stop.

    Training ends after `max_minutes`, those before a resumption included. The main process keeps
    the time and any process may receive the signal; all save and stop at the same update.
    """

    def __init__(self) -> None:
        self.begun = self.last_save = time.monotonic()
        self.processor_begun = time.process_time()
        self.signals = StopSignals()
        self.stopped_by = 0  # number of the signal that ended training
        self.num_processes = 1

    @property
    def seconds(self) -> float:
        """Of training until now, those before a resumption included."""
        return time.monotonic() - self.begun

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the time spent, also the processor's, and how many processes."""
        kept = {
            "seconds_before": round(self.seconds, 3),
            "processor_seconds_before": round(time.process_time() - self.processor_begun, 3),
            "num_processes": self.num_processes,
        }
        return {"args": {}, "attributes": kept}

    def is_time_up(self, args: TrainingArguments) -> bool:
        """Whether `max_minutes` have passed."""
        assert isinstance(args, VaswaniTrainingArguments)
        return args.max_minutes is not None and self.seconds >= 60 * args.max_minutes

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Start the clocks, and take the intervals of the settings."""
        saved = state.stateful_callbacks.get(type(self).__name__, {}).get("attributes", {})
        # The library would keep the checkpoint's intervals of logging, evaluating and saving.
        state.compute_steps(args, state.max_steps)
        self.last_save = time.monotonic()
        self.begun = self.last_save - saved.get("seconds_before", 0.0)
        spent = saved.get("processor_seconds_before", 0.0)
        self.processor_begun = time.process_time() - spent
        self.num_processes = args.world_size

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Catch signals from the first update on; before it there is nothing to save."""
        assert isinstance(args, VaswaniTrainingArguments)
        if not args.dry_run:
            self.signals.catch()

    def share_signal(self, args: TrainingArguments) -> None:
        """Tell all processes of a signal that one of them received after the last update."""
        if args.world_size == 1:
            self.stopped_by = self.stopped_by or self.signals.received
            return
        number = torch.tensor(self.signals.received, dtype=torch.int, device=args.device)
        torch.distributed.all_reduce(number, op=torch.distributed.ReduceOp.MAX)
        self.stopped_by = self.stopped_by or int(number)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Check the clocks and the signals after each update."""
        assert isinstance(args, VaswaniTrainingArguments)
        minutes, since = args.save_minutes, time.monotonic() - self.last_save
        is_due = minutes is not None and since >= 60 * minutes
        is_over, self.stopped_by = self.is_time_up(args), self.signals.received
        if args.world_size > 1:
            is_main = args.process_index == 0
            asked = torch.tensor(
                [self.stopped_by, is_main and is_over, is_main and is_due],
                dtype=torch.int,
                device=args.device,
            )
            torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
            self.stopped_by, is_over, is_due = asked.tolist()
        if is_over or self.stopped_by:
            control.should_training_stop = True
        if is_due or control.should_training_stop or state.global_step >= state.max_steps:
            control.should_save = True

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Skip the evaluation of an epoch that a signal has cut short: somebody is waiting."""
        if self.stopped_by:
            control.should_evaluate = False

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Restart the minutes of `save_minutes` at every checkpoint, whatever its reason."""
        self.last_save = time.monotonic()


class Stopwatch(TrainerCallback):
    """Times all updates but the first, which warms up; nothing is saved, evaluated or logged.

    Where training ends with the first update, that one is what was timed.

    Attributes:
        updates: how many were timed.
        seconds: that they took.
    """

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Start the clock before the first update."""
        if state.global_step == 0:
            self.begun = _now()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Start the clock again after the first update, and read it after each."""
        control.should_save = control.should_evaluate = control.should_log = False
        self.updates, self.seconds = max(1, state.global_step - 1), _now() - self.begun
        if state.global_step == 1:
            self.begun = _now()

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Save, evaluate and log nothing at the end of an epoch."""
        control.should_save = control.should_evaluate = control.should_log = False


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.monotonic()
