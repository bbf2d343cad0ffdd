# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python training/run.py RECIPE --dry_run true [--dry_run_updates 20]

What a run would take: tokens, memory, arithmetic, hours; nothing is trained and nothing written.
"""

import atexit
import copy
import math
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    ProgressCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from vaswani_hf import VaswaniConfig
from vaswani_hf.loss_vaswani import TOKENS_AT_ONCE_ON_GPU

from ..data.batching import TokenBatchSampler, training_batches
from ..data.collating import PairCollator
from ..data.encoding import side_lengths
from ..loop.trainer import VaswaniTrainer
from ..settings.fields import Arguments, VaswaniTrainingArguments


# Table 2: an estimate, hours x 8 GPUs x 9.5 TFLOPS that a P100 is taken to sustain (section 6.1).
PAPER_FLOPS = {"base": 3.3e18, "big": 2.3e19}
FLOAT_BYTES, HALF_BYTES = 4, 2  # of a number in float32, and under bf16 or fp16


# Batches


@dataclass(frozen=True)
class Shapes:
    """Sizes of batches as they are padded, each an array `(batches,)`.

    Attributes:
        sentences: B of each batch.
        source: S.
        target: T.
        target_tokens: real target tokens, which alone get logits in training.
    """

    sentences: np.ndarray
    source: np.ndarray
    target: np.ndarray
    target_tokens: np.ndarray

    @classmethod
    def of(cls, sampler: TokenBatchSampler, target_lengths: np.ndarray) -> "Shapes":
        """The shapes of all batches; `target_lengths` are the target tokens of each pair."""
        sentences, source, target = np.array(sampler.shapes, dtype=float).T
        target_tokens = [target_lengths[batch].sum() for batch in sampler.batches]
        return cls(sentences, source, target, np.array(target_tokens, dtype=float))


# Arithmetic


def training_flops(config: VaswaniConfig, shapes: Shapes) -> np.ndarray:
    """Floating-point operations of forward and backward pass, of each batch: `(batches,)`.

    Matrix products alone, a multiplication and an addition an operation each, padding included,
    and the masked half of the decoder's self-attention too. With width = h (d_k + d_v), forward:

    - projections of an attention, 2 d_model width for each position that asks (query, output) and
      as many for each that is looked at (key, value);
    - its two products, 2 width for each pair of positions;
    - a feed-forward network, 4 d_model d_ff for each position;
    - the pre-softmax layer, 2 d_model V for each real target token.

    The backward pass takes each product twice, once for either factor's gradient: 3 in all.
    Recomputation, by gradient checkpointing or within fused attention, is not counted.
    """
    width = config.num_heads * sum(config.head_widths)
    source, target = shapes.sentences * shapes.source, shapes.sentences * shapes.target

    def attention(asking: np.ndarray, looked_at: np.ndarray, num_looked_at: np.ndarray) -> Any:
        projections = 2 * config.d_model * width * (asking + looked_at)
        return projections + 2 * width * asking * num_looked_at

    feed_forward = 4 * config.d_model * config.d_ff
    encoder_layer = attention(source, source, shapes.source) + feed_forward * source
    decoder_layer = attention(target, target, shapes.target) + feed_forward * target
    decoder_layer = decoder_layer + attention(target, source, shapes.source)
    logits = 2 * config.d_model * config.num_target_pieces * shapes.target_tokens
    forward = config.encoder_layers * encoder_layer + config.decoder_layers * decoder_layer + logits
    return 3 * forward


# Memory


def optimizer_bytes(num_parameters: int, optim: str) -> int:
    """Bytes of the optimizer's state: two moments of Adam in float32; none where SGD has none."""
    return 0 if optim == "sgd" else 2 * FLOAT_BYTES * num_parameters


def activation_bytes(
    config: VaswaniConfig, shapes: Shapes, is_half: bool, by_chunks: bool = True
) -> np.ndarray:
    """Bytes that each batch holds when its backward pass begins, an estimate: `(batches,)`.

    Counted is what autograd keeps of each operation on a GPU (a CPU keeps less: see
    `layers_vaswani`), without gradient checkpointing, where attention is fused and keeps no weights
    (as `sdpa` is), and dropout a byte for each number:

    - the sum that enters a stack, d_model, and dropout's mask;
    - a sub-layer: the sum before its normalization and the normalized result, 2 d_model, and
      dropout's mask;
    - an attention: queries and mixed values, h (d_k + d_v), for each position that asks; keys and
      values, as many, for each that is looked at;
    - a feed-forward network: d_ff;
    - the loss by chunks: gradients of all target positions, d_model, and of the matrix,
      V d_model; and V numbers each for the logits of a chunk and what is made of them;
    - the loss of all logits at once: a copy of the real target positions, d_model, and V numbers
      each for their logits, the softmax and its gradient.

    Args:
        config: of the model.
        shapes: of the batches.
        is_half: under bf16 or fp16 what matrix products keep has 2 bytes, and in place of a float32
            input each keeps its cast; sums, softmax and gradient of the loss stay in float32.
        by_chunks: whether the loss goes by chunks (`loss_vaswani`).
    """
    width = config.num_heads * sum(config.head_widths)
    source, target = shapes.sentences * shapes.source, shapes.sentences * shapes.target
    kept = HALF_BYTES if is_half else FLOAT_BYTES
    stream = FLOAT_BYTES * config.d_model
    mask = config.d_model if config.dropout else 0
    cast = HALF_BYTES * config.d_model if is_half else 0
    result = 0 if is_half else stream
    sublayer = stream + result + mask
    heads = kept * width
    feed_forward = kept * config.d_ff + cast
    # Cast for query, key and value apart: autocast remembers the casts of weights alone.
    encoder_layer = (2 * sublayer + 2 * heads + 3 * cast + feed_forward) * source
    decoder_layer = (3 * sublayer + 3 * heads + 4 * cast + feed_forward) * target
    decoder_layer = decoder_layer + (heads + 2 * cast) * source
    if by_chunks:
        at_once = np.minimum(shapes.target_tokens, TOKENS_AT_ONCE_ON_GPU)
        room = FLOAT_BYTES + (2 * HALF_BYTES if is_half else 0)
        loss = stream * (target + config.num_target_pieces)
        loss = loss + room * config.num_target_pieces * at_once
    else:
        logits = (kept + 2 * FLOAT_BYTES) * config.num_target_pieces
        loss = (result + cast + logits) * shapes.target_tokens
    return (
        (result + mask) * (source + target)
        + config.encoder_layers * encoder_layer
        + config.decoder_layers * decoder_layer
        + loss
    )


# Time


@dataclass(frozen=True)
class Measurement:
    """Updates on this machine: how many, how long each took, and the GPU memory they needed."""

    updates: int
    seconds_per_update: float
    peak_bytes: int | None


class Stopwatch(TrainerCallback):
    """Times the updates after the first, which warms up, and keeps them from writing anything."""

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Start the clock after the first update, stop it after the last."""
        control.should_save = control.should_evaluate = control.should_log = False
        if state.global_step == 1:
            self.begun = _now()
        if state.global_step == state.max_steps:
            self.seconds = _now() - self.begun

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """An epoch that ends leaves nothing behind either."""
        control.should_save = control.should_evaluate = control.should_log = False


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.monotonic()


def measure_updates(
    training: VaswaniTrainingArguments,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Dataset,
    num_updates: int,
) -> Measurement:
    """Time the trainer's own updates, at a learning rate of 0, which leaves the model as it is.

    Args:
        training: of the run; `output_dir` is where the trainer may make a folder.
        model: the model of the run; afterwards on the run's device.
        tokenizer: of the pairs.
        pairs: encoded training pairs.
        num_updates: how many are timed, after one that is not.
    """
    measured = copy.copy(training)
    changes: dict[str, Any] = {
        **{"max_steps": num_updates + 1, "learning_rate": 0.0, "report_to": []},
        **{"save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no"},
        **{"save_minutes": None, "max_minutes": None, "load_best_model_at_end": False},
        **{"disable_tqdm": True, "push_to_hub": False},
    }
    for name, value in changes.items():
        setattr(measured, name, value)
    trainer = VaswaniTrainer(
        model=model,
        args=measured,
        train_dataset=pairs,
        data_collator=PairCollator(tokenizer, model),
        processing_class=tokenizer,
    )
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    watch = Stopwatch()
    trainer.add_callback(watch)  # the last one, which has the last word
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    trainer.train()
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    return Measurement(num_updates, watch.seconds / num_updates, peak)


# The plan


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
    training = arguments.training
    source_lengths, target_lengths = side_lengths(pairs)
    sampler = training_batches(training, source_lengths, target_lengths)
    shapes = Shapes.of(sampler, target_lengths)
    batches_per_update = training.world_size * training.gradient_accumulation_steps
    updates_per_epoch = math.ceil(len(sampler) / batches_per_update)
    updates = training.max_steps
    if updates <= 0:
        updates = math.ceil(training.num_train_epochs * updates_per_epoch)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    is_half = bool(training.bf16 or training.fp16)
    by_chunks = not training.fp16
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
        processes=training.world_size,
        accumulation=training.gradient_accumulation_steps,
        device_source_tokens=int((shapes.sentences * shapes.source).max()),
        device_target_tokens=int((shapes.sentences * shapes.target).max()),
        parameter_bytes=(FLOAT_BYTES + (HALF_BYTES if is_half else 0)) * num_parameters,
        gradient_bytes=FLOAT_BYTES * num_parameters,
        optimizer_bytes=optimizer_bytes(num_parameters, training.optim),
        activation_bytes=int(activation_bytes(model.config, shapes, is_half, by_chunks).max()),
        flops=float(training_flops(model.config, shapes).sum()) * updates / updates_per_epoch,
        measurement=measurement,
    )


def write_elsewhere(training: VaswaniTrainingArguments) -> None:
    """Give all processes one temporary folder for `output_dir`, gone when the first one ends."""
    if training.process_index == 0:
        training.output_dir = tempfile.mkdtemp(prefix="vaswani_hf_plan_")
        atexit.register(shutil.rmtree, training.output_dir, ignore_errors=True)
    if training.world_size > 1:
        training.output_dir = broadcast_object_list([training.output_dir])[0]


def show_plan(
    arguments: Arguments,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Dataset,
) -> None:
    """Measure as many updates as `dry_run_updates` says, and write the plan to standard output."""
    training, measurement = arguments.training, None
    if training.dry_run_updates:
        measurement = measure_updates(training, model, tokenizer, pairs, training.dry_run_updates)
    plan = make_plan(arguments, model, pairs, measurement)
    if training.process_index == 0:
        sys.stdout.write(plan.text())
