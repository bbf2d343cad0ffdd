# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a run leaves behind: the averaged model, its scores, and how they came about."""

import json
import logging
import os
import platform
import shlex
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml
from datasets import Dataset

from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.hub import write_model_card
from vaswani_hf.pictures.runs import LOG_HISTORY

from ..data.corpus import Corpus
from ..loop.callbacks import logged_name
from ..loop.saving import explain_failed_write
from ..loop.trainer import VaswaniTrainer
from ..settings.fields import Arguments
from .averaging import average_checkpoints
from .samples import NUM_SAMPLES


logger = logging.getLogger("training")
RESULTS = "results.json"
CONFIG = "config.yaml"
PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "evaluate",
    "accelerate",
    "sacrebleu",
)


def write_config(arguments: Arguments, model: VaswaniForConditionalGeneration) -> None:
    """Write what was chosen, and every value that it came to, to `config.yaml` of the output."""
    if not arguments.training.should_save:
        return
    content = {
        "recipe": arguments.recipe,
        "chosen": arguments.chosen,
        "model": model.config.to_dict(),
        "data": vars(arguments.data),
        "training": arguments.training.to_dict(),  # with secrets masked
    }
    plain = json.loads(json.dumps(content, default=str))
    path = Path(arguments.training.output_dir) / CONFIG
    with explain_failed_write(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        path.write_text(text, encoding="utf-8")


class Results:
    """Collects the figures of a run and writes them to `results.json` and the model card."""

    def __init__(
        self,
        arguments: Arguments,
        corpus: Corpus,
        model: VaswaniForConditionalGeneration,
        train_metrics: dict[str, float],
        trainer: VaswaniTrainer,
        checkpoint: str | None,
        commit: str | None,
    ) -> None:
        self.arguments = arguments
        seconds, evaluating = train_metrics["train_runtime"], trainer.evaluation_seconds
        self.figures: dict[str, Any] = {
            "recipe": arguments.recipe,
            "commit": commit,
            "chosen": arguments.chosen,
            "parameters": model.num_parameters(),
            "data": corpus.counts,
            "training": {
                "updates": trainer.state.global_step,
                # A stream has no length to count epochs by.
                "epochs": None if arguments.data.streaming else trainer.state.epoch,
                "stopped_early": trainer.stopped_early,
                "best_checkpoint": best_checkpoint(trainer),
                "resumed_from": checkpoint,
                "changed_settings": trainer.settings.changes if trainer.settings else [],
                "seconds": seconds,  # of this process, from its start or its resumption
                "evaluation_seconds": evaluating,
                "target_tokens": trainer.target_tokens_seen,
                "target_tokens_per_second": trainer.target_tokens_seen
                / max(seconds - evaluating, 1e-9),
            },
            "scores": {},
        }
        self.log_history = trainer.state.log_history

    def average(self, trainer: VaswaniTrainer, folders: list[Path]) -> None:
        """Put the mean of the checkpoints into the model (section 6.1), where there are several."""
        self.figures["averaged_checkpoints"] = [folder.name for folder in folders]
        if len(folders) < 2:
            logger.info("One checkpoint: nothing to average.")
            return
        logger.info("Averaging %s.", ", ".join(folder.name for folder in folders))
        mean = average_checkpoints(folders)
        missing, unexpected = trainer.model.load_state_dict(mean, strict=False)
        tied = set(trainer.model.all_tied_weights_keys)
        assert not unexpected and set(missing) <= tied, (missing, unexpected)

    def evaluate(self, trainer: VaswaniTrainer, split: str, pairs: Dataset) -> None:
        """Score the model on a split, with the recipe's beam search."""
        training = self.arguments.training
        metrics = trainer.evaluate(
            pairs,
            metric_key_prefix=split,
            num_beams=training.num_beams,
            length_penalty=training.length_penalty,
            length_penalty_type=training.length_penalty_type,
        )
        scores: dict[str, Any] = {
            "loss_nats_per_token": metrics[f"{split}_loss"],
            "perplexity_per_token": metrics[f"{split}_perplexity_per_token"],
            "sentences": len(pairs),
        }
        if f"{split}_bleu" in metrics:
            scores["bleu"] = metrics[f"{split}_bleu"]
            scores["bleu_signature"] = trainer.bleu_signature
            scores["exact_match"] = metrics[f"{split}_exact_match"]
            logger.info(
                "%s: BLEU %.2f (%s), exact match %.1f %%, perplexity %.3f per token",
                *(split, scores["bleu"], trainer.bleu_signature, 100 * scores["exact_match"]),
                scores["perplexity_per_token"],
            )
        if f"{split}_compound_split_bleu" in metrics:
            scores["compound_split_bleu"] = metrics[f"{split}_compound_split_bleu"]
            scores["compound_split_bleu_signature"] = trainer.compound_split_signature
            logger.info(
                "%s: tokenised, compound-split BLEU %.2f (%s)",
                *(split, scores["compound_split_bleu"], trainer.compound_split_signature),
            )
        self.figures["scores"][split] = scores

    def write(self, trainer: VaswaniTrainer, wall_seconds: float) -> None:
        """Write `results.json` and the model card into the output folder."""
        names = ("source", "translation", "reference")
        self.figures |= {
            "samples": [
                dict(zip(names, sample, strict=True)) for sample in trainer.samples[:NUM_SAMPLES]
            ],
            "wall_seconds": round(wall_seconds, 1),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "hardware": _hardware(self.arguments.training.world_size),
            "versions": {"python": platform.python_version()}
            | {package: version(package) for package in PACKAGES},
        }
        folder = Path(self.arguments.training.output_dir)
        text = json.dumps(self.figures, indent=2, ensure_ascii=False, default=str)
        (folder / RESULTS).write_text(text + "\n", encoding="utf-8")
        # What `vaswani-hf plot` draws, for when the checkpoints are gone.
        text = json.dumps(self.log_history, indent=1)
        (folder / LOG_HISTORY).write_text(text + "\n", encoding="utf-8")
        data = self.arguments.data
        languages = [data.source_language, data.target_language]
        write_model_card(
            folder,
            self.figures,
            languages=[language for language in languages if language],
            license=data.license,
            dataset=data.dataset,
        )
        logger.info("Wrote %s.", folder)

    def show_translations(self, trainer: VaswaniTrainer) -> None:
        """Show the first translations of the last evaluation, with source and reference."""
        for source, translation, reference in trainer.samples[:NUM_SAMPLES]:
            print(f"source       {source}\ntranslation  {translation}\nreference    {reference}\n")
        folder = self.arguments.training.output_dir
        print(f"The model is in {folder}. Translate with:")
        print(f"  vaswani-hf translate --model {shlex.quote(folder)}")


def current_commit() -> str | None:
    """The commit that runs, `-dirty` where files differ from it; `None` outside a repository."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or None


def _hardware(world_size: int) -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
    return {
        "processes": world_size,
        "gpus": gpus,
        "cpu_cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }


def final_checkpoints(trainer: VaswaniTrainer, last: list[Path]) -> list[Path]:
    """The checkpoints that the final model is made of.

    Args:
        trainer: after training.
        last: the last checkpoints, which are averaged (section 6.1).

    Returns:
        The best one alone with `load_best_model_at_end`, which has loaded it; else `last`.
    """
    best = trainer.state.best_model_checkpoint
    if trainer.args.load_best_model_at_end and best is not None:
        return [Path(best)]
    return last


def best_checkpoint(trainer: VaswaniTrainer) -> dict[str, Any] | None:
    """The best checkpoint's folder, its update and its score; `None` where none was kept."""
    state, metric = trainer.state, trainer.args.metric_for_best_model
    if metric is None or state.best_model_checkpoint is None:
        return None
    return {
        "folder": Path(state.best_model_checkpoint).name,
        "update": state.best_global_step,
        logged_name(f"eval_{metric.removeprefix('eval_')}"): state.best_metric,
    }
