# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The settings of a run, as its checkpoints keep them, and what a resumed run may change of them.

What the weights or the order of the pairs hang on stays as it was. Everything else may change; it
takes effect from the next update on, and is told.
"""

import dataclasses
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc  # type: ignore[import-untyped]
from datasets import Dataset
from transformers import AutoConfig
from transformers.utils import CONFIG_NAME

from vaswani_hf import VaswaniConfig

from ..data.lengths import arrow_tables, lengths_of
from ..settings.fields import Arguments, DataArguments, ModelArguments, VaswaniTrainingArguments
from .checkpoints import read_state


logger = logging.getLogger("training")
SETTINGS = "settings.json"  # in each checkpoint
REGULARIZATION = {"dropout", "attention_dropout", "activation_dropout", "label_smoothing"}
# The text may have moved: what it is made of is compared, not where it is.
TEXT = {
    *("dataset", "dataset_config", "train_split", "source_column", "target_column"),
    *("train_source", "train_target", "train_file", "corpora"),
}
# Of the data, what no training pair hangs on.
BESIDE = {"source_language", "target_language", "license"} | {
    f"{split}_{part}"
    for split in ("validation", "test")
    for part in ("split", "source", "target", "file")
}
# Of training, what pairs an update has and what the optimizer's state belongs to.
FIXED = (
    *("model_name_or_path", "source_tokens", "target_tokens", "pad_to_multiple_of", "max_padding"),
    *("seed", "data_seed", "optim", "optim_args", "optim_target_modules", "fsdp", "deepspeed"),
)
# Schedules with a memory of their own, beside which another rate would have no effect.
REMEMBERING = {"reduce_lr_on_plateau", "greedy"}
SCHEDULE = ("lr_scheduler_type", "lr_scheduler_kwargs", "learning_rate", "warmup_steps")
# Of training, where it happens and what is told of it: nothing that a checkpoint needs to know.
PLACES = {
    *("output_dir", "run_name", "resume_from_checkpoint", "dry_run", "dry_run_updates"),
    *("local_rank", "disable_tqdm", "report_to", "device_tokens"),
}


class Settings:
    """The settings of this run, beside those of the checkpoint that it goes on from.

    Attributes:
        now: what the next checkpoint keeps, as JSON has it.
        changes: what resumed runs have changed, one after the other: the update after which, and
            for each setting its values before and after.

    Args:
        arguments: what the run is told.
    """

    def __init__(self, arguments: Arguments) -> None:
        training = arguments.training
        kept = _names(VaswaniTrainingArguments) - PLACES
        self.now: dict[str, Any] = _plain(
            {
                "model": dict.fromkeys(sorted(_names(ModelArguments))) | arguments.model,
                "data": vars(arguments.data),
                "training": {
                    name: value
                    for name, value in training.to_dict().items()
                    if name in kept and not name.endswith("_token")
                },
                "text": None,
            }
        )
        self.changes: list[dict[str, Any]] = []
        self._then: dict[str, Any] | None = None
        self._checkpoint = ""
        self._arguments = arguments

    def go_on_from(self, checkpoint: Path) -> None:
        """Compare with a checkpoint's settings, and tell what has changed.

        Raises:
            ValueError: if what cannot change has changed; all of it is named.
        """
        self._checkpoint = checkpoint.name
        training, path = self._arguments.training, checkpoint / SETTINGS
        differing = _other_shape(checkpoint, self._arguments)
        if path.is_file():
            self._then = json.loads(path.read_text(encoding="utf-8"))
            self.changes = self._then["changes"]
            differing = {**self._fixed(), **differing}
        if differing:
            self._refuse(differing)
        changed = self._changed()
        if changed:
            update = read_state(checkpoint)["global_step"]
            self.changes = [*self.changes, {"after_update": update, "settings": changed}]
        if training.process_index:
            return
        if self._then is None:
            logger.info(
                "%s has no %s: only the shape of its model is compared with these settings.",
                *(checkpoint.name, SETTINGS),
            )
        if changed:
            told = (f"{name}={now} (before: {then})" for name, (then, now) in changed.items())
            logger.info("Going on with other settings: %s.", ", ".join(told))
        if "gradient_accumulation_steps" in changed:
            logger.warning(
                "The rest of this epoch has other batches, so that pairs may come twice or not at "
                "all in it: an update is made of %d, and was made of %d.",
                *reversed(changed["gradient_accumulation_steps"]),
            )

    def _refuse(self, differing: dict[str, tuple[Any, Any]]) -> None:
        told = (f"{name}={then!r} then and {now!r} now" for name, (then, now) in differing.items())
        raise ValueError(
            f"{self._checkpoint} was made with other settings: {'; '.join(told)}. Resume with the "
            f"same, or start a new run from its weights: --model_name_or_path and another "
            f"--output_dir."
        )

    def _differences(self, part: str, names: set[str]) -> dict[str, tuple[Any, Any]]:
        """Values then and now; a setting that the checkpoint does not know is passed over."""
        assert self._then is not None
        then, now = self._then[part], self.now[part]
        return {
            name: (then[name], now[name])
            for name in now
            if name in names and name in then and then[name] != now[name]
        }

    def _fixed(self) -> dict[str, tuple[Any, Any]]:
        differing = self._differences("model", _names(ModelArguments) - REGULARIZATION)
        differing |= self._differences("data", _names(DataArguments) - TEXT - BESIDE)
        fixed = set(FIXED)
        if self._arguments.data.streaming:
            fixed.remove("max_padding")  # which the stream compares itself
        differing |= self._differences("training", fixed)
        assert self._then is not None
        types = {each["training"]["lr_scheduler_type"] for each in (self._then, self.now)}
        if types & REMEMBERING:
            differing |= self._differences("training", set(SCHEDULE))
        return differing

    def _changed(self) -> dict[str, tuple[Any, Any]]:
        if self._then is None:
            return {}
        names = _names(VaswaniTrainingArguments) - set(FIXED)
        return self._differences("model", REGULARIZATION) | self._differences("training", names)

    def has_changed(self, *names: str) -> bool:
        """Whether training settings differ from the checkpoint's."""
        return self._then is not None and bool(self._differences("training", set(names)))

    def check_text(self, pairs: Dataset) -> None:
        """Refuse other training pairs than the checkpoint's, and keep what they are for the next.

        Raises:
            ValueError: with what has changed of where the text is, if that is known.
        """
        if self._arguments.training.process_index:
            return  # the first process has the same, and tells the others
        self.now["text"] = fingerprint(pairs)
        if self._then is None or self._then["text"] in (None, self.now["text"]):
            return
        differing = self._differences("data", TEXT)
        if differing:
            self._refuse(differing)
        raise ValueError(
            f"{self._checkpoint} was made with other training text: its files have changed. Resume "
            f"with the same, or start a new run from its weights: --model_name_or_path and another "
            f"--output_dir."
        )

    def save(self, folder: str | Path) -> None:
        """Write the settings into a checkpoint."""
        content = {**self.now, "changes": self.changes}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (Path(folder) / SETTINGS).write_text(text + "\n", encoding="utf-8")


def fingerprint(pairs: Dataset) -> str:
    """A hash of encoded pairs, columns `input_ids` and `labels`, in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for table in arrow_tables(pairs, ["input_ids", "labels"]):
        for side in ("input_ids", "labels"):
            for numbers in (lengths_of(table, side), pc.list_flatten(table[side]).to_numpy()):
                digest.update(numbers.astype(np.int32).tobytes())
    return digest.hexdigest()


def _other_shape(checkpoint: Path, arguments: Arguments) -> dict[str, tuple[Any, Any]]:
    """Fields of the model's shape that differ, those that nobody has chosen included."""
    path, start = checkpoint / CONFIG_NAME, arguments.training.model_name_or_path
    if not path.is_file():
        raise ValueError(f"{checkpoint} has no {CONFIG_NAME}: no run of this project has made it.")
    config = AutoConfig.from_pretrained(start) if start else VaswaniConfig(**arguments.model)
    now, then = _plain(config.to_dict()), json.loads(path.read_text(encoding="utf-8"))
    # The size of the vocabulary is the tokenizer's.
    names = (_names(ModelArguments) | {"model_type"}) - REGULARIZATION - {"vocab_size"}
    return {
        name: (then[name], now[name])
        for name in sorted(names & then.keys() & now.keys())
        if then[name] != now[name]
    }


def _names(part: type) -> set[str]:
    return {field.name for field in dataclasses.fields(part)}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
