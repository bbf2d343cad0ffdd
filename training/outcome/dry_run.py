# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python training/run.py RECIPE --dry_run true [--dry_run_updates 20]

What a run would take: tokens, memory, arithmetic, hours; nothing is trained and nothing written.
"""

import atexit
import math
import shutil
import sys
import tempfile
from dataclasses import dataclass

from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.batching import training_batches
from ..data.lengths import side_lengths
from ..settings.budget import TokenBudget
from ..settings.fields import Arguments, VaswaniTrainingArguments
from .cost import (
    FLOAT_BYTES,
    HALF_BYTES,
    Shapes,
    activation_bytes,
    optimizer_bytes,
    training_flops,
)
from .timing import Measurement, measure_updates


# Table 2: an estimate, hours x 8 GPUs x 9.5 TFLOPS that a P100 is taken to sustain (section 6.1).
PAPER_FLOPS = {"base": 3.3e18, "big": 2.3e19}


@dataclass(frozen=True)
class Plan:
    """What a run would take, of all devices together unless a name says `device`."""

    recipe: str
    parameters: int
    pairs: int
    updates: int
    updates_per_epoch: int
    max_minutes: float | None
    source_tokens_per_update: float  # real ones, the mean
    target_tokens_per_update: float
    padding_share: float
    processes: int
    accumulation: int
    device_source_tokens: int  # padded, of the largest batch
    device_target_tokens: int
    parameter_bytes: int  # the rest of memory, of one device
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    flops: float  # of all updates
    measurement: Measurement | None

    @property
    def epochs(self) -> float:
        """How often every pair is seen."""
        return self.updates / self.updates_per_epoch

    @property
    def device_bytes(self) -> int:
        """The memory of a device that holds the whole model, as in data parallelism."""
        kept = self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes
        return kept + self.activation_bytes

    @property
    def hours(self) -> float | None:
        """Of the updates alone, without evaluation and checkpoints; `None` where not measured."""
        if self.measurement is None:
            return None
        return self.updates * self.measurement.seconds_per_update / 3600

    def text(self) -> str:
        """The plan as a table of two columns."""
        rows = [
            ("parameters", f"{self.parameters:,}"),
            ("training pairs", f"{self.pairs:,}"),
            ("updates", f"{self.updates:,}"),
            ("updates per epoch", f"{self.updates_per_epoch:,}"),
            ("epochs", f"{self.epochs:.2f}"),
            ("source tokens per update", f"{self.source_tokens_per_update:,.0f}"),
            ("target tokens per update", f"{self.target_tokens_per_update:,.0f}"),
            ("padding", f"{self.padding_share:.1%} of all positions"),
            ("processes", f"{self.processes}"),
            ("batches a process accumulates", f"{self.accumulation}"),
            (
                "largest batch of a device",
                f"{self.device_source_tokens:,} source and {self.device_target_tokens:,} target "
                f"tokens, padded",
            ),
            ("memory of a device, estimate", _size(self.device_bytes)),
            ("  parameters", _size(self.parameter_bytes)),
            ("  gradients", _size(self.gradient_bytes)),
            ("  optimizer", _size(self.optimizer_bytes)),
            ("  activations of the largest batch", _size(self.activation_bytes)),
            ("training FLOPs", f"{self.flops:.1e}, matrix products of forward and backward pass"),
            *(
                (
                    f"  the paper's {name} model",
                    f"{flops:.1e}, an estimate: GPU hours x 9.5 TFLOPS (Table 2)",
                )
                for name, flops in PAPER_FLOPS.items()
            ),
            *self._measured_rows(),
        ]
        if self.max_minutes is not None:
            rows.append(("ends at the latest", f"after {self.max_minutes:g} minutes (max_minutes)"))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        title = f"Plan of {self.recipe}: nothing was trained, nothing was written."
        return "\n".join([title, "", *lines]) + "\n"

    def _measured_rows(self) -> list[tuple[str, str]]:
        measured = self.measurement
        if measured is None:
            return [("hours", "not measured (dry_run_updates=0)")]
        per_second = self.flops / self.updates / measured.seconds_per_update
        rows = [
            (
                "seconds per update",
                f"{measured.seconds_per_update:.3f}, mean of {measured.updates} on this machine",
            ),
            (
                "target tokens per second",
                f"{self.target_tokens_per_update / measured.seconds_per_update:,.0f}",
            ),
            ("TFLOPS of all devices", f"{per_second / 1e12:.2f}"),
            ("hours", f"{self.hours:.2f}, without evaluation and checkpoints"),
        ]
        if measured.peak_bytes is not None:
            rows.append(("memory of a device, measured", _size(measured.peak_bytes)))
        return rows


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def make_plan(
    arguments: Arguments,
    model: PreTrainedModel,
    pairs: Dataset,
    measurement: Measurement | None = None,
) -> Plan:
    """Work out what a run would take.

    Args:
        arguments: of the run.
        model: the model to train; its weights are not looked at, and may be on the meta device.
        pairs: encoded training pairs, those that cannot be used left out.
        measurement: of updates on this machine.

    Raises:
        ValueError: if a pair is longer than a batch may be.
    """
    training, budget = arguments.training, TokenBudget.of(arguments.training)
    source_lengths, target_lengths = side_lengths(pairs)
    sampler = training_batches(source_lengths, target_lengths, budget)
    shapes = Shapes.of(sampler, target_lengths)
    of_passes = shapes if training.r_drop is None else shapes.twice()
    updates_per_epoch = math.ceil(len(sampler) / budget.batches_per_update)
    updates = training.max_steps
    if updates <= 0:
        updates = math.ceil(training.num_train_epochs * updates_per_epoch)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    num_trained = sum(each.numel() for each in model.parameters() if each.requires_grad)
    is_half = bool(training.bf16 or training.fp16)
    by_chunks = not training.fp16 and training.r_drop is None
    return Plan(
        recipe=arguments.recipe,
        parameters=num_parameters,
        pairs=len(pairs),
        updates=updates,
        updates_per_epoch=updates_per_epoch,
        max_minutes=training.max_minutes,
        source_tokens_per_update=source_lengths.sum(dtype=float) / updates_per_epoch,
        target_tokens_per_update=target_lengths.sum(dtype=float) / updates_per_epoch,
        padding_share=sampler.padding_share,
        processes=budget.processes,
        accumulation=budget.accumulation,
        device_source_tokens=int((shapes.sentences * shapes.source).max()),
        device_target_tokens=int((shapes.sentences * shapes.target).max()),
        parameter_bytes=(FLOAT_BYTES + (HALF_BYTES if is_half else 0)) * num_parameters,
        gradient_bytes=FLOAT_BYTES * num_trained,
        optimizer_bytes=optimizer_bytes(num_trained, training.optim),
        activation_bytes=int(activation_bytes(model.config, of_passes, is_half, by_chunks).max()),
        flops=float(training_flops(model.config, of_passes).sum()) * updates / updates_per_epoch,
        measurement=measurement,
    )


def use_temporary_folder(training: VaswaniTrainingArguments) -> None:
    """Give all processes one temporary folder for `output_dir`, gone when the first one ends."""
    if training.process_index == 0:
        training.output_dir = tempfile.mkdtemp(prefix="vaswani_hf_plan_")
        atexit.register(shutil.rmtree, training.output_dir, ignore_errors=True)
    if training.world_size > 1:
        training.output_dir = broadcast_object_list([training.output_dir])[0]


def show_plan(
    arguments: Arguments,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Dataset,
) -> None:
    """Measure as many updates as `dry_run_updates` says, and write the plan to standard output."""
    training, measurement = arguments.training, None
    if training.dry_run_updates:
        measurement = measure_updates(training, model, tokenizer, pairs, training.dry_run_updates)
    plan = make_plan(arguments, model, pairs, measurement)
    if training.process_index == 0:
        sys.stdout.write(plan.text())
