# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""`Seq2SeqTrainer` with what sections 5 and 6 need: token batches, the schedule, exact figures."""

import logging
import math
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate.data_loader import BatchSamplerShard
from accelerate.utils import gather_object
from datasets import Dataset
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.utils.data import DataLoader
from transformers import (
    Seq2SeqTrainer,
    set_seed,
)
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput, rotate_checkpoints

from ..data.batching import TokenBatchSampler, training_batches
from ..data.collating import ArrowPairs
from ..data.lengths import side_lengths
from ..data.streaming import TokenBatchStream, stream_loader
from ..outcome.metrics import SacreBleu, exact_match
from ..outcome.publishing import CheckpointPusher
from ..outcome.samples import report_translations
from ..settings.budget import TokenBudget
from ..settings.fields import VaswaniTrainingArguments
from .callbacks import CheckpointClock, EarlyStopping, logged_name
from .checkpoints import AUTO, STATE, last_checkpoints, saving
from .resumption import Settings
from .schedule import inverse_sqrt_schedule, peak_learning_rate
from .sharding import is_sharded, unsharded


logger = logging.getLogger("training")
# Of an optimizer's groups, what the settings say; `initial_lr` is the schedule's peak.
OPTIMIZER_SETTINGS = ("initial_lr", "betas", "eps", "weight_decay")


class VaswaniTrainer(Seq2SeqTrainer):
    """Trains on token batches, and evaluates per token and per sentence on any number of processes.

    Sets have columns `input_ids` and `labels`; evaluation sets also `source` and `target`.
    """

    args: VaswaniTrainingArguments

    def __init__(self, **arguments: Any) -> None:
        args, model = arguments["args"], arguments["model"]
        if args.learning_rate is None:
            warmup_steps = args.get_warmup_steps(args.max_steps)
            args.learning_rate = peak_learning_rate(model.config.d_model, warmup_steps)
        super().__init__(**arguments)
        _part_random_streams(args)
        self.clock = CheckpointClock()
        self.add_callback(self.clock)
        self.early_stopping: EarlyStopping | None = None
        if args.early_stopping_patience is not None:
            self.early_stopping = EarlyStopping(args)
            self.add_callback(self.early_stopping)
        self.bleu_signature: str | None = None
        self.compound_split_signature: str | None = None
        self.samples: list[tuple[str, str, str]] = []  # source, translation, reference
        self._tokens_since_log = torch.zeros((), dtype=torch.long)
        self._last_loss = torch.zeros(())
        self._last_log = time.monotonic()
        self.target_tokens_seen = 0
        self.evaluation_seconds = 0.0
        self.pusher: CheckpointPusher | None = None
        self.settings: Settings | None = None  # checkpoints keep them

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
        """What each process adds to a checkpoint: its random state, and its place in a stream."""
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
            DivergedError: if the loss or a weight is not a number any more.
            SaveError: if a checkpoint could not be written, as on a full disk.
        """
        try:
            outcome = super().train(*arguments, **named)
        finally:
            self.clock.signals.restore()
        self.clock.hear_all(self.args)
        if is_sharded(self.model):
            self.model: Any = unsharded(self.model)
            self.model_wrapped = self.model
        return outcome

    def _run_epoch(self, *arguments: Any, **named: Any) -> None:
        # The library does an update before it asks whether a resumed run had its last one.
        if self.state.global_step >= self.state.max_steps or self.clock.is_over(self.args):
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*arguments, **named)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """What the checkpoint has, but for what the settings say: those may have changed.

        The library would take the rate and the rest of the optimizer's settings from the
        checkpoint, but the warm-up from the settings.
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
            # As `LambdaLR` works it out: the same number, where nothing has changed.
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
        """The library's parts in the library's order, in a folder that is whole or not there.

        Older checkpoints go once the new one is on the disk, not before.
        """
        self._check_convergence()
        self.store_flos()
        state, run_dir = self.state, Path(self.args.output_dir)
        with saving(self.args, state.global_step, self.is_fsdp_enabled) as folder:
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
        if self.pusher is not None:
            self.pusher.push(
                run_dir / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}",
                {"updates": state.global_step, "max_steps": state.max_steps},
                self.model.num_parameters(),
            )
        if self.args.should_save:
            rotate_checkpoints(
                output_dir=str(run_dir),
                save_total_limit=self.args.save_total_limit,
                best_model_checkpoint=state.best_model_checkpoint,
                use_mtime=True,
            )

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Nothing to do: `check_push` has made the repository before training."""

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
        logs["elapsed_seconds"] = round(now - self.clock.begun, 1)
        super().log(logs, *rest, **named)
        if not math.isfinite(logs.get("loss_nats_per_token", 0.0)):
            self._check_convergence()

    def _check_convergence(self) -> None:
        """Refuse to go on with a loss or weights that are no numbers, on any process."""
        parts = [parameter.detach() for parameter in self.model.parameters()]
        if not self.args.fp16:  # which passes over an update that overflows
            parts.append(self._last_loss)
        # Of weights that are shared out each process sees its own.
        local = (getattr(part, "_local_tensor", part) for part in parts)
        lost = sum((~part.isfinite().all()).float().to(self.args.device) for part in local)
        if float(self.accelerator.reduce(lost)):
            earlier = last_checkpoints(self.args.output_dir, 1, self.state.global_step)
            way_out = (
                f"{earlier[0].name} in {self.args.output_dir} is from before: go on from there by "
                f"--resume_from_checkpoint {AUTO}, or train anew,"
                if earlier
                else "Train anew,"
            )
            raise DivergedError(
                f"training has diverged: at update {self.state.global_step} the loss or a weight "
                f"is not a number any more. {way_out} with a lower learning_rate than "
                f"{self.args.learning_rate:g} or more warmup_steps than "
                f"{self.args.warmup_steps:g}."
            )

    def evaluate(self, *arguments: Any, **named: Any) -> dict[str, float]:
        """The library's evaluation; the time it takes does not count against training speed."""
        begun = time.monotonic()
        metrics = super().evaluate(*arguments, **named)
        seconds = time.monotonic() - begun
        self._last_log += seconds
        self.evaluation_seconds += seconds
        report_translations(self, named.get("metric_key_prefix", "eval"))
        return metrics

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        # With save_strategy=best the answer alone decides whether to save: it would drop the
        # checkpoints that the clock or the end of training asked for.
        asked = self.control.should_save
        return super()._determine_best_metric(metrics=metrics, trial=trial) or asked

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Loss and perplexity per token, unsmoothed; BLEU and exact match per sentence.

        Every sentence counts once, whatever the number of processes. Predictions come back as text,
        in the order of the set, on every process.
        """
        model, pairs = self.model.eval(), cast(ArrowPairs, dataloader.dataset).pairs
        # The library asks for the loss alone where it has no `compute_metrics`.
        with_text = self.args.predict_with_generate and not self.args.prediction_loss_only
        nats_and_tokens = torch.zeros(2, dtype=torch.float64)
        translated: list[tuple[int, str]] = []
        for inputs in dataloader:
            inputs = self._prepare_inputs(inputs)
            index = inputs.pop("index").tolist()
            with torch.no_grad(), self.compute_loss_context_manager():
                outputs = model(**inputs)
            tokens = int((inputs["labels"] >= 0).sum())
            nats_and_tokens += torch.tensor([float(outputs.loss) * tokens, tokens])
            if with_text:
                translated += zip(index, self._translate(inputs), strict=True)
            self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        totals = self.accelerator.reduce(nats_and_tokens.float().to(self.args.device))
        nats, tokens = totals.tolist()
        metrics = {
            f"{metric_key_prefix}_loss": nats / tokens,
            f"{metric_key_prefix}_perplexity_per_token": math.exp(min(nats / tokens, 700.0)),
        }
        predictions: list[str] = []
        references = list(pairs["target"]) if with_text else []
        if with_text:
            by_place = dict(gather_object(translated))
            predictions = [by_place[place] for place in range(len(references))]
            metrics |= self._score(predictions, references, metric_key_prefix)
            sources = list(pairs["source"])
            self.samples = list(zip(sources, predictions, references, strict=True))
        return EvalLoopOutput(
            predictions=predictions,
            label_ids=references,
            metrics=metrics,
            num_samples=len(pairs),
        )

    def _translate(self, inputs: dict[str, torch.Tensor]) -> list[str]:
        # `evaluate(..., num_beams=4)` arrives here by way of the library's `_gen_kwargs`.
        options = {
            "num_beams": self.args.generation_num_beams or 1,
            "max_extra_tokens": self.args.max_extra_tokens,
            **self._gen_kwargs,
            "max_new_tokens": self.args.generation_max_length,
            "synced_gpus": is_sharded(self.model) and self.args.world_size > 1,
        }
        options = {name: value for name, value in options.items() if value is not None}
        options.pop("max_length", None)
        with torch.no_grad(), self.compute_loss_context_manager():
            generated = self.model.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], **options
            )
        return self.processing_class.batch_decode(generated, skip_special_tokens=True)

    def _score(
        self, predictions: list[str], references: list[str], prefix: str
    ) -> dict[str, float]:
        bleu, lowercase = SacreBleu(), self.args.bleu_lowercase
        texts = {"predictions": predictions, "references": references, "lowercase": lowercase}
        result = bleu.compute(**texts, tokenize=self.args.bleu_tokenize)
        self.bleu_signature = result["signature"]
        scores = {
            f"{prefix}_bleu": result["score"],
            f"{prefix}_exact_match": exact_match(predictions, references),
        }
        if self.args.compound_split_bleu is not None:
            result = bleu.compute(
                **texts, tokenize=self.args.compound_split_bleu, split_compounds=True
            )
            self.compound_split_signature = result["signature"]
            scores[f"{prefix}_compound_split_bleu"] = result["score"]
        return scores


def _part_random_streams(args: VaswaniTrainingArguments) -> None:
    """Give each process random numbers of its own, from which it draws its masks of dropout.

    The library has just given all of them the same. Weights have their initial values by then; the
    first process keeps its numbers, which are those of a process alone.
    """
    if args.process_index:
        words = np.random.SeedSequence((args.seed, args.process_index)).generate_state(1)
        set_seed(int(words[0]))


class DivergedError(RuntimeError):
    """The loss or a weight is no number; the message says since when and what would do."""
