# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""`Seq2SeqTrainer` with what sections 5 and 6 need: token batches, the schedule, exact figures."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from accelerate.data_loader import BatchSamplerShard
from datasets import Dataset
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase, Seq2SeqTrainer, set_seed
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput, rotate_checkpoints

from vaswani_hf.hub.folder import has_adapter, save_tokenizers

from ..data.batching import TokenBatchSampler, training_batches
from ..data.collating import ArrowPairs
from ..data.lengths import side_lengths
from ..data.links import PIECE_LINKS
from ..data.streaming import TokenBatchStream, stream_loader
from ..settings.budget import TokenBudget
from ..settings.fields import VaswaniTrainingArguments
from .adapters import load_checkpoint
from .callbacks import CheckpointClock, EarlyStopping, logged_name
from .checkpoints import AUTO, STATE, last_checkpoints
from .guided_alignment import GuidedAlignment
from .r_drop import RDropLoss, twice
from .resumption import Settings
from .saving import write_checkpoint
from .schedule import inverse_sqrt_schedule, peak_learning_rate
from .sharding import is_sharded, unsharded


logger = logging.getLogger("training")
# What the settings say of each of an optimizer's groups; `initial_lr` is the schedule's peak.
OPTIMIZER_SETTINGS = ("initial_lr", "betas", "eps", "weight_decay")


class Evaluation(Protocol):
    """What an evaluator finds, as far as training reads it."""

    @property
    def figures(self) -> Mapping[str, float]:
        """Figures by name, such as `loss`, without the name of the split."""

    @property
    def sentences(self) -> int:
        """How many pairs were evaluated."""


class Evaluator(Protocol):
    """Evaluates a trainer's model on the batches of a split; every process calls it."""

    def __call__(
        self, trainer: "VaswaniTrainer", loader: DataLoader, split: str, **search: Any
    ) -> Evaluation:
        """`search` are settings of the beam search in place of those of `trainer.args`."""


class VaswaniTrainer(Seq2SeqTrainer):
    """Trains on token batches; evaluates per token and per sentence on any number of processes.

    Args:
        evaluator: does what `evaluate()` asks for; a trainer without one only trains.
        on_evaluation: called with each evaluation, after it is logged.
        on_checkpoint: called with each checkpoint, once it is on the disk.
        settings: of the run, kept in each checkpoint.
        target_tokenizer: the target's, where it has one of its own; goes into each checkpoint.
        guided_alignment: adds its loss to that of batches with links of pieces.
        arguments: the library's. Data sets have the columns `input_ids` and `labels`; those to
            evaluate also `source` and `target`.

    Attributes:
        last_evaluation: what the last `evaluate()` found; `None` before the first.
        target_tokens_seen: real target tokens of all updates up to the last entry of the log.
        evaluation_seconds: spent in evaluations.
        target_tokenizer: makes text of target ids.
    """

    args: VaswaniTrainingArguments

    def __init__(
        self,
        *,
        evaluator: Evaluator | None = None,
        on_evaluation: Callable[["VaswaniTrainer", Any], None] | None = None,
        on_checkpoint: Callable[["VaswaniTrainer", Path], None] | None = None,
        settings: Settings | None = None,
        target_tokenizer: PreTrainedTokenizerBase | None = None,
        guided_alignment: GuidedAlignment | None = None,
        **arguments: Any,
    ) -> None:
        args, model = arguments["args"], arguments["model"]
        if args.learning_rate is None:
            warmup_steps = args.get_warmup_steps(args.max_steps)
            args.learning_rate = peak_learning_rate(model.config.d_model, warmup_steps)
        tokenizer = arguments.get("processing_class")
        self.target_tokenizer: Any = target_tokenizer or tokenizer
        self._two_tokenizers: tuple[Any, Any] | None = None
        if target_tokenizer is not None:
            # The library would take the ids of the model's targets from the sources' tokenizer.
            self._two_tokenizers = arguments.pop("processing_class"), target_tokenizer
        super().__init__(**arguments)
        self._r_drop = None
        if args.r_drop is not None:
            self._r_drop = RDropLoss(args.r_drop, model.config.label_smoothing)
        _seed_process(args)
        self.evaluator, self.on_evaluation = evaluator, on_evaluation
        self.on_checkpoint, self.settings = on_checkpoint, settings
        self.guided_alignment = guided_alignment
        self.last_evaluation: Evaluation | None = None
        self.target_tokens_seen = 0
        self.evaluation_seconds = 0.0
        self.clock = CheckpointClock()
        self.add_callback(self.clock)
        self.early_stopping: EarlyStopping | None = None
        if args.early_stopping_patience is not None:
            self.early_stopping = EarlyStopping(args)
            self.add_callback(self.early_stopping)
        self._search: dict[str, Any] = {}  # of the evaluation under way
        self._tokens_since_log = torch.zeros((), dtype=torch.long)
        self._last_loss = torch.zeros(())
        self._last_log = time.monotonic()

    @property
    def stopped_early(self) -> bool:
        """Whether `early_stopping_patience` ended training."""
        return self.early_stopping is not None and self.early_stopping.has_stopped

    # Batches (section 5.1)

    def get_train_dataloader(self) -> DataLoader:
        """Batches of `source_tokens` and `target_tokens` an update, over all processes."""
        if isinstance(self.train_dataset, TokenBatchStream):
            return stream_loader(self.train_dataset, self.data_collator, self.args.device)
        budget = TokenBudget.of(self.args)
        sampler = training_batches(*side_lengths(self.train_dataset), budget)
        logger.info(
            "%d batches an epoch; padding takes %.1f %% of them.",
            *(len(sampler), 100 * sampler.padding_share),
        )
        collator = self.data_collator
        if budget.pad_to_multiple_of is not None:
            collator = collator.in_few_shapes(budget)
        loader = self._token_loader(self.train_dataset, sampler, collator)
        # After skipping batches to resume, nothing forwards the epoch to a sharded batch sampler.
        if isinstance(loader.batch_sampler, BatchSamplerShard):
            loader.batch_sampler.sampler = sampler
        return loader

    def _save_rng_state(self, output_dir: str) -> None:
        """Each process's part of a checkpoint: its random state and its position in a stream."""
        super()._save_rng_state(output_dir)
        if isinstance(self.train_dataset, TokenBatchStream):
            num_batches = self.state.global_step * self.args.gradient_accumulation_steps
            self.train_dataset.save_state(output_dir, num_batches)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """Batches of at most `eval_batch_tokens` a side, longest first, each sentence once."""
        pairs = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(pairs, str):
            pairs = self.eval_dataset[pairs]
        source_lengths, target_lengths = side_lengths(pairs)
        longest = int(max(source_lengths.max(), target_lengths.max()))
        tokens = self.args.world_size * max(self.args.eval_batch_tokens, longest)
        budget = TokenBudget(tokens, tokens, processes=self.args.world_size)
        sampler = TokenBatchSampler(source_lengths, target_lengths, budget, shuffle=False)
        return self._token_loader(pairs, sampler, self.data_collator)

    def _token_loader(
        self, pairs: Dataset, sampler: TokenBatchSampler, collator: Any
    ) -> DataLoader:
        numbered = pairs
        if not sampler.shuffle:
            numbered = pairs.add_column("index", list(range(len(pairs))))
        loader = DataLoader(
            ArrowPairs(numbered),
            batch_sampler=sampler,
            collate_fn=collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory and torch.cuda.is_available(),
            persistent_workers=self.args.dataloader_persistent_workers,
            prefetch_factor=self.args.dataloader_prefetch_factor,
        )
        return self.accelerator.prepare(loader)

    # Checkpoints

    def train(self, *arguments: Any, **named: Any) -> Any:
        """The library's training; a signal ends it with a checkpoint (`clock.stopped_by`).

        Raises:
            DivergedError: if the loss or a weight is NaN or infinite.
            SaveError: if a checkpoint could not be written, as on a full disk.
        """
        try:
            outcome = super().train(*arguments, **named)
        finally:
            self.clock.signals.restore()
        self.clock.share_signal(self.args)
        if is_sharded(self.model):
            self.model: Any = unsharded(self.model)
            self.model_wrapped = self.model
        return outcome

    def _run_epoch(self, *arguments: Any, **named: Any) -> None:
        # The library makes an update before it asks whether a resumed run was already finished.
        if self.state.global_step >= self.state.max_steps or self.clock.is_time_up(self.args):
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*arguments, **named)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Load the checkpoint's optimizer and schedule, but keep this run's settings of them.

        The library would take learning rate, betas, epsilon and weight decay from the checkpoint,
        and the warm-up from the settings.
        """
        given = [
            {name: group[name] for name in OPTIMIZER_SETTINGS if name in group}
            for group in self.optimizer.param_groups
        ]
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        for group, settings in zip(self.optimizer.param_groups, given, strict=True):
            group.update(settings)
        schedule = self.lr_scheduler
        if isinstance(schedule, LambdaLR):
            # The formula of `LambdaLR`: the same number, where nothing has changed.
            schedule.base_lrs = [settings["initial_lr"] for settings in given]
            rates = [
                peak * factor(schedule.last_epoch)
                for peak, factor in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
            ]
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            schedule._last_lr = rates
        best = ("metric_for_best_model", "greater_is_better")
        if self.settings is not None and self.settings.has_changed(*best):
            self.state.best_metric = self.state.best_model_checkpoint = None
            self.state.best_global_step = None

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write what the library writes, in its order, but whole or not at all.

        Older checkpoints are removed only once the new one is on the disk.
        """
        self._check_finite()
        self.store_flos()
        state, run_dir = self.state, Path(self.args.output_dir)
        with write_checkpoint(self.args, state.global_step, self.is_fsdp_enabled) as folder:
            self.save_model(folder, _internal_call=True)
            if state.best_global_step:
                best = run_dir / f"{PREFIX_CHECKPOINT_DIR}-{state.best_global_step}"
                if best.exists() or state.best_global_step == state.global_step:
                    state.best_model_checkpoint = str(best)
            self._save_optimizer_and_scheduler(folder)
            self._save_scaler(folder)
            self._save_rng_state(folder)
            if self.args.should_save:
                for part in [*self.callback_handler.callbacks, self.control]:
                    if isinstance(part, ExportableState):
                        state.stateful_callbacks[type(part).__name__] = part.state()
                state.save_to_json(str(Path(folder) / STATE))
                if self.settings is not None:
                    self.settings.save(folder)
        if self.on_checkpoint is not None:
            self.on_checkpoint(self, run_dir / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")
        if self.args.should_save:
            rotate_checkpoints(
                output_dir=str(run_dir),
                save_total_limit=self.args.save_total_limit,
                best_model_checkpoint=state.best_model_checkpoint,
                use_mtime=True,
            )

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if has_adapter(self.model):  # which the library knows in a wrapper of PEFT's only
            load_checkpoint(self.model, resume_from_checkpoint)
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        if has_adapter(self.model):
            load_checkpoint(self.model, str(self.state.best_model_checkpoint))
        else:
            super()._load_best_model()

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Write the model and its tokenizers, whole, and not only the one that the library has."""
        super()._save(output_dir, state_dict)
        tokenizers = self._two_tokenizers or (self.processing_class, None)
        if tokenizers[0] is not None:
            save_tokenizers(Path(output_dir or self.args.output_dir), *tokenizers)

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Do nothing: `check_push` has made the repository before training."""

    # Schedule (section 5.3)

    def create_scheduler(
        self, num_training_steps: int, optimizer: Optimizer | None = None
    ) -> LRScheduler:
        """The paper's schedule for `inverse_sqrt`, else the library's."""
        if self.args.lr_scheduler_type != "inverse_sqrt":
            return super().create_scheduler(num_training_steps, optimizer)
        if self.lr_scheduler is None:
            self.lr_scheduler: LRScheduler | None = inverse_sqrt_schedule(
                optimizer or self.optimizer, self.args.get_warmup_steps(num_training_steps)
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    # Loss (section 5.4)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The model's loss, or R-Drop's, and that of the head that learns alignments."""
        links, aligning = inputs.pop(PIECE_LINKS, None), self.guided_alignment
        is_twice = self._r_drop and self.state.global_step >= self.args.r_drop_after
        self.compute_loss_func = self._r_drop if is_twice else None
        if is_twice:
            if links is not None:
                of_second_pass = links + links.new_tensor([len(inputs["labels"]), 0, 0])
                links = torch.cat((links, of_second_pass))
            inputs = twice(inputs) | {"use_cache": False}
            num_items_in_batch = None if num_items_in_batch is None else 2 * num_items_in_batch
        labels = inputs["labels"]
        if links is None or aligning is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        with aligning.watching():
            loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        added = aligning.loss(links, inputs["attention_mask"], labels, num_items_in_batch)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            added = added * self.accelerator.num_processes  # as the library scales the model's
        return (loss + added, outputs) if return_outputs else loss + added

    # Figures

    def training_step(self, model: Any, inputs: dict[str, Any], *rest: Any, **named: Any) -> Any:
        """The library's step; counts the target tokens it sees."""
        labels = inputs.get("labels")
        if labels is not None:
            self._tokens_since_log = self._tokens_since_log.to(labels.device) + (labels >= 0).sum()
        self._last_loss = super().training_step(model, inputs, *rest, **named)
        return self._last_loss

    def log(self, logs: dict[str, float], *rest: Any, **named: Any) -> None:
        """Log with units: `loss` becomes `loss_nats_per_token`, and speed and time are added."""
        logs = {logged_name(name): value for name, value in logs.items()}
        now = time.monotonic()
        if "loss_nats_per_token" in logs or "train_runtime" in logs:
            seen = int(self.accelerator.reduce(self._tokens_since_log.to(self.args.device)))
            self.target_tokens_seen += seen
            if "train_runtime" not in logs:
                logs["target_tokens_per_second"] = round(seen / max(now - self._last_log, 1e-9), 1)
            self._tokens_since_log.zero_()
            self._last_log = now
        logs["elapsed_seconds"] = round(self.clock.seconds, 1)
        super().log(logs, *rest, **named)
        if not math.isfinite(logs.get("loss_nats_per_token", 0.0)):
            self._check_finite()

    def _check_finite(self) -> None:
        """Refuse to go on with a loss or weights that are NaN or infinite, on any process."""
        tensors = [parameter.detach() for parameter in self.model.parameters()]
        if not self.args.fp16:  # its gradient scaler skips an update whose loss overflows
            tensors.append(self._last_loss)
        # Of a sharded weight each process looks at its own shard.
        local = (each.to_local() if isinstance(each, DTensor) else each for each in tensors)
        broken = sum((~each.isfinite().all()).float().to(self.args.device) for each in local)
        if not float(self.accelerator.reduce(broken)):
            return
        earlier = last_checkpoints(self.args.output_dir, 1, self.state.global_step)
        kept = (
            f"; earlier checkpoints are kept: --resume_from_checkpoint {AUTO} goes on from "
            f"{earlier[0].name} in {self.args.output_dir}"
            if earlier
            else ""
        )
        raise DivergedError(
            f"training has diverged: at update {self.state.global_step} the loss or a weight is "
            f"NaN or infinite. Restart with a learning_rate below {self.args.learning_rate:g} or "
            f"warmup_steps above {self.args.warmup_steps:g}{kept}."
        )

    # Evaluation

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        **search: Any,
    ) -> dict[str, float]:
        """The library's evaluation, which training calls, by the evaluator.

        The time it takes does not count against the speed of training.

        Returns:
            The figures and the time, as they are logged: each name begins with
            `metric_key_prefix`. `last_evaluation` has the texts as well.
        """
        begun = time.monotonic()
        self._search = search
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        seconds = time.monotonic() - begun
        self._last_log += seconds
        self.evaluation_seconds += seconds
        if self.on_evaluation is not None:
            self.on_evaluation(self, self.last_evaluation)
        return metrics

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """The part of the library's `evaluate()` that the evaluator does."""
        assert self.evaluator is not None, "nothing can be evaluated without an evaluator"
        found = self.evaluator(self, dataloader, metric_key_prefix, **self._search)
        self.last_evaluation = found
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.figures.items()}
        return EvalLoopOutput(
            predictions=None, label_ids=None, metrics=metrics, num_samples=found.sentences
        )

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        # With save_strategy=best the library saves if and only if this is true. The checkpoints
        # that the clock or the end of training asked for are saved as well.
        is_due = self.control.should_save
        return super()._determine_best_metric(metrics=metrics, trial=trial) or is_due


def _seed_process(args: VaswaniTrainingArguments) -> None:
    """Seed each process differently, so that it draws dropout masks of its own.

    The library has seeded all of them alike. The first process keeps that seed, so that it draws
    what a single process would. Weights have their initial values already.
    """
    if args.process_index:
        words = np.random.SeedSequence((args.seed, args.process_index)).generate_state(1)
        set_seed(int(words[0]))


class DivergedError(RuntimeError):
    """The loss or a weight is NaN or infinite; the message names the update and the remedy."""
