# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a run writes about itself: its settings, its scores, and how they came about."""

import json
import logging
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml

from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.hub import write_model_card
from vaswani_hf.hub.folder import has_adapter
from vaswani_hf.pictures.runs import LOG_HISTORY

from ..data.corpus import Corpus
from ..loop.adapters import adapter_figures
from ..loop.saving import explain_failed_write
from ..loop.trainer import VaswaniTrainer
from ..settings.fields import PARSING, Arguments
from ..settings.stages import read_stages
from .evaluation import Evaluation, Translation
from .final_model import best_checkpoint
from .samples import NUM_SAMPLES
from .scores import SHOWN, scores_of


logger = logging.getLogger("training")
RESULTS = "results.json"
# Of each split, a line a sentence, as `vaswani-hf compare` reads them.
HYPOTHESES, REFERENCES = "{split}.hypotheses", "{split}.references"
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
    """Write the settings that were chosen, and the value of every other one, to `config.yaml`."""
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


def training_seconds(results: Mapping[str, Any]) -> float:
    """How long the training of a `results.json` took, parts before resumptions included."""
    training = results["training"]
    # Folders of earlier code have the last part alone.
    return float(training["elapsed_seconds" if "elapsed_seconds" in training else "seconds"])


class Results:
    """The figures of a run, for `results.json` and the model card.

    Attributes:
        figures: what `results.json` will hold, as far as it is known.
        translations: of the last evaluation.
        texts: by split, what the model made of its sentences.

    Args:
        arguments: of the run.
        corpus: with the counts of what was read and dropped.
        trainer: after training.
        seconds: of training in this process, from its start or its resumption; `elapsed_seconds`
            of the figures has those before it too.
        checkpoint: what the run was resumed from.
        commit: of this code.
    """

    def __init__(
        self,
        arguments: Arguments,
        corpus: Corpus,
        trainer: VaswaniTrainer,
        seconds: float,
        checkpoint: str | None,
        commit: str | None,
    ) -> None:
        self.arguments = arguments
        evaluating, target_tokens = trainer.evaluation_seconds, trainer.target_tokens_seen
        self.figures: dict[str, Any] = {
            "recipe": arguments.recipe,
            "commit": commit,
            "chosen": arguments.chosen,
            "parameters": trainer.model.num_parameters(),
            "data": corpus.counts,
            "training": {
                "updates": trainer.state.global_step,
                # A stream has no length to count epochs by.
                "epochs": None if arguments.data.streamed_by else trainer.state.epoch,
                "stopped_early": trainer.stopped_early,
                "best_checkpoint": best_checkpoint(trainer),
                "resumed_from": checkpoint,
                "changed_settings": trainer.settings.changes if trainer.settings else [],
                "seconds": seconds,
                "elapsed_seconds": trainer.clock.seconds,
                "evaluation_seconds": evaluating,
                "target_tokens": target_tokens,
                "target_tokens_per_second": target_tokens / max(seconds - evaluating, 1e-9),
            },
            "scores": {},
        }
        if stages := read_stages(arguments.data.stages):
            self.figures["training"]["stages"] = [asdict(stage) for stage in stages]
        if has_adapter(trainer.model):
            self.figures["adapter"] = adapter_figures(trainer.model)
        self.translations: tuple[Translation, ...] = ()
        self.texts: dict[str, tuple[Translation, ...]] = {}
        self._log_history = trainer.state.log_history

    def add_average(self, folders: list[Path]) -> None:
        """Name the checkpoints that the final model is made of."""
        self.figures["averaged_checkpoints"] = [folder.name for folder in folders]

    def add_before(self, scores: dict[str, Any]) -> None:
        """Take the scores, by split, of the trained model that this run started from."""
        self.figures["scores_before"] = scores

    def add(self, evaluation: Evaluation) -> None:
        """Take the scores of a split, and log them."""
        self.figures["scores"][evaluation.split] = scores_of(evaluation, evaluation.split)
        self.translations = self.texts[evaluation.split] = evaluation.translations

    def write(self, wall_seconds: float) -> None:
        """Write texts, `results.json` and the model card into the output folder."""
        samples = [translation._asdict() for translation in self.translations[:NUM_SAMPLES]]
        self.figures |= {
            "samples": samples,
            "wall_seconds": round(wall_seconds, 1),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "hardware": _hardware(self.arguments.training.world_size),
            "versions": {"python": platform.python_version()}
            | {package: version(package) for package in PACKAGES},
        }
        folder = Path(self.arguments.training.output_dir)
        for split, found in self.texts.items():
            _write_lines(folder, HYPOTHESES.format(split=split), [one.translation for one in found])
            _write_lines(folder, REFERENCES.format(split=split), [one.reference for one in found])
        text = json.dumps(self.figures, indent=2, ensure_ascii=False, default=str)
        unfinished = folder / f"{RESULTS}.new"  # of which a killed process may leave half
        unfinished.write_text(text + "\n", encoding="utf-8")
        unfinished.replace(folder / RESULTS)
        # What `vaswani-hf plot` draws, for when the checkpoints are gone.
        text = json.dumps(self._log_history, indent=1)
        (folder / LOG_HISTORY).write_text(text + "\n", encoding="utf-8")
        data = self.arguments.data
        write_model_card(
            folder,
            self.figures,
            languages=[language for language in data.languages if language],
            license=data.license,
            dataset=data.dataset,
        )
        logger.info("Wrote %s.", folder)

    def show(self) -> None:
        """Print the first translations of the last evaluation, and how to make more."""
        parses = self.arguments.training.task == PARSING
        made = "parse" if parses else "translation"
        for source, translation, reference in self.translations[:NUM_SAMPLES]:
            print(f"source       {source}\n{made:<11}  {translation}\nreference    {reference}\n")
        for split, scores in self.figures["scores"].items():
            for name, shown in SHOWN.items():
                if found := scores.get(f"{name}_confidence"):
                    interval = f"{found['mean']:.2f} ± {found['ci']:.2f}"
                    print(f"{split}: {shown} {scores[name]:.2f}, 95 % confidence {interval}")
            earlier = self.figures.get("scores_before", {}).get(split, {})
            for name, shown in {**SHOWN, "f1": "F1"}.items():
                if name in earlier and name in scores:
                    print(f"{split}: {shown} {earlier[name]:.2f} before, {scores[name]:.2f} after")
            if "f1" in scores:
                print(f"{split}: F1 {scores['f1']:.2f}, {scores['sentences']} sentences")
        folder = self.arguments.training.output_dir
        print(f"The model is in {folder}. {'Parse' if parses else 'Translate'} with:")
        print(f"  vaswani-hf {'parse' if parses else 'translate'} --model {shlex.quote(folder)}")


def _write_lines(folder: Path, name: str, texts: Sequence[str]) -> None:
    """Write a text a line, if there are any."""
    if texts:
        lines = "".join(" ".join(text.splitlines()) + "\n" for text in texts)
        (folder / name).write_text(lines, encoding="utf-8")


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
