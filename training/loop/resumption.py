# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The settings that checkpoints keep, and which of them a resumed run may change.

Settings that decide the weights' shapes or the order of the pairs are fixed. All others may change;
they take effect with the next update, and the change is logged.
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
from vaswani_hf.hub.names import ADAPTER_CONFIG

from ..data.lengths import arrow_tables, lengths_of
from ..data.links import PIECE_LINKS
from ..settings.fields import (
    GENERAL_FILES,
    Arguments,
    DataArguments,
    ModelArguments,
    VaswaniTrainingArguments,
)
from .checkpoints import read_state


logger = logging.getLogger("training")
SETTINGS = "settings.json"  # in each checkpoint
REGULARIZATION = {"dropout", "attention_dropout", "activation_dropout", "label_smoothing"}
# Where the text is found. It may move: its content is compared instead.
TEXT_SOURCES = {
    *("dataset", "dataset_config", "train_split", "source_column", "target_column"),
    *("train_source", "train_target", "train_file", "train_trees", "treebank", "corpora"),
    "guided_alignment",
}
# Of the data, what does not change the training pairs.
NOT_FOR_TRAINING = {"source_language", "target_language", "license", *GENERAL_FILES} | {
    f"{split}_{part}"
    for split in ("validation", "test")
    for part in ("split", "source", "target", "file", "trees")
}
# Of training, what decides the pairs of an update and the form of the optimizer's state.
FIXED = (
    *("model_name_or_path", "source_tokens", "target_tokens", "pad_to_multiple_of", "max_padding"),
    *("seed", "data_seed", "optim", "optim_args", "optim_target_modules", "fsdp", "deepspeed"),
    *("guided_alignment_layer", "guided_alignment_head"),
    *("lora_rank", "lora_alpha", "lora_targets", "load_in_8bit"),
)
# Schedules that load their rate from the checkpoint, so that a changed one would have no effect.
STATEFUL_SCHEDULES = {"reduce_lr_on_plateau", "greedy"}
SCHEDULE = ("lr_scheduler_type", "lr_scheduler_kwargs", "learning_rate", "warmup_steps")
# Of training, places and reports, which a checkpoint need not keep.
NOT_SAVED = {
    *("output_dir", "run_name", "resume_from_checkpoint", "dry_run", "dry_run_updates"),
    *("local_rank", "disable_tqdm", "report_to", "device_tokens"),
}


class Settings:
    """The settings of this run, and those of the checkpoint that it resumes from.

    Attributes:
        current: what the next checkpoint keeps, as JSON values.
        changes: of all resumptions, oldest first: the update after which it was made, and each
            changed setting with its values before and after.

    Args:
        arguments: of the run.
    """

    def __init__(self, arguments: Arguments) -> None:
        training = arguments.training
        kept = _names(VaswaniTrainingArguments) - NOT_SAVED
        self.current: dict[str, Any] = _plain(
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
        self._saved: dict[str, Any] | None = None
        self._checkpoint = ""
        self._arguments = arguments

    def keep(self, name: str, value: Any) -> None:
        """Let the next checkpoint keep a training setting that has been worked out meanwhile."""
        self.current["training"][name] = value

    def resume_from(self, checkpoint: Path) -> None:
        """Compare with a checkpoint's settings, and log what has changed.

        Raises:
            ValueError: if fixed settings differ; all of them are named.
        """
        self._checkpoint = checkpoint.name
        training, path = self._arguments.training, checkpoint / SETTINGS
        differing = _other_shape(checkpoint, self._arguments)
        if path.is_file():
            self._saved = json.loads(path.read_text(encoding="utf-8"))
            self.changes = self._saved["changes"]
            differing = {**self._fixed(), **differing}
        if differing:
            self._refuse(differing)
        changed = self._changed()
        if changed:
            update = read_state(checkpoint)["global_step"]
            self.changes = [*self.changes, {"after_update": update, "settings": changed}]
        if training.process_index:
            return
        if self._saved is None:
            logger.info(
                "%s has no %s: only the shape of its model is compared with this run's.",
                *(checkpoint.name, SETTINGS),
            )
        if changed:
            changes = (f"{name}={now} (before: {then})" for name, (then, now) in changed.items())
            logger.info("Resuming with changed settings: %s.", ", ".join(changes))
        if "gradient_accumulation_steps" in changed:
            logger.warning(
                "An update has %d batches and had %d before: in the rest of this epoch pairs may "
                "come twice or not at all.",
                *reversed(changed["gradient_accumulation_steps"]),
            )

    def _refuse(self, differing: dict[str, tuple[Any, Any]]) -> None:
        both = (f"{name}={then!r} then and {now!r} now" for name, (then, now) in differing.items())
        raise ValueError(
            f"{self._checkpoint} was made with other settings: {'; '.join(both)}. Resume with the "
            f"same, or start a new run from its weights: --model_name_or_path and another "
            f"--output_dir."
        )

    def _differences(self, part: str, names: set[str]) -> dict[str, tuple[Any, Any]]:
        """Values then and now; settings that the checkpoint does not have are left out."""
        assert self._saved is not None
        then, now = self._saved[part], self.current[part]
        return {
            name: (then[name], now[name])
            for name in now
            if name in names and name in then and then[name] != now[name]
        }

    def _fixed(self) -> dict[str, tuple[Any, Any]]:
        differing = self._differences("model", _names(ModelArguments) - REGULARIZATION)
        differing |= self._differences(
            "data", _names(DataArguments) - TEXT_SOURCES - NOT_FOR_TRAINING
        )
        fixed = set(FIXED)
        if self._arguments.data.streaming:
            fixed.remove("max_padding")  # which the stream compares itself
        differing |= self._differences("training", fixed)
        assert self._saved is not None
        types = {each["training"]["lr_scheduler_type"] for each in (self._saved, self.current)}
        if types & STATEFUL_SCHEDULES:
            differing |= self._differences("training", set(SCHEDULE))
        return differing

    def _changed(self) -> dict[str, tuple[Any, Any]]:
        if self._saved is None:
            return {}
        names = _names(VaswaniTrainingArguments) - set(FIXED)
        return self._differences("model", REGULARIZATION) | self._differences("training", names)

    def has_changed(self, *names: str) -> bool:
        """Whether training settings differ from the checkpoint's."""
        return self._saved is not None and bool(self._differences("training", set(names)))

    def check_text(self, pairs: Dataset) -> None:
        """Refuse training pairs other than the checkpoint's; keep their hash for the next one.

        Raises:
            ValueError: naming the settings of the text that differ, if any.
        """
        if self._arguments.training.process_index:
            return  # the first process compares for all
        self.current["text"] = fingerprint(pairs)
        if self._saved is None or self._saved["text"] in (None, self.current["text"]):
            return
        differing = self._differences("data", TEXT_SOURCES)
        if differing:
            self._refuse(differing)
        raise ValueError(
            f"{self._checkpoint} was made with other training text: its files have changed. Resume "
            f"with the same, or start a new run from its weights: --model_name_or_path and another "
            f"--output_dir."
        )

    def save(self, folder: str | Path) -> None:
        """Write the settings into a checkpoint."""
        content = {**self.current, "changes": self.changes}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (Path(folder) / SETTINGS).write_text(text + "\n", encoding="utf-8")


def fingerprint(pairs: Dataset) -> str:
    """A hash of encoded pairs, their ids and links, in their order."""
    digest = hashlib.blake2b(digest_size=16)
    columns = ["input_ids", "labels", *({PIECE_LINKS} & set(pairs.column_names))]
    for table in arrow_tables(pairs, columns):
        for column in columns:
            for numbers in (lengths_of(table, column), pc.list_flatten(table[column]).to_numpy()):
                digest.update(numbers.astype(np.int32).tobytes())
    return digest.hexdigest()


def config_of(arguments: Arguments) -> VaswaniConfig:
    """The configuration that a run's model starts with; its vocabulary may have fewer pieces."""
    start = arguments.training.model_name_or_path
    return AutoConfig.from_pretrained(start) if start else VaswaniConfig(**arguments.model)


def _other_shape(checkpoint: Path, arguments: Arguments) -> dict[str, tuple[Any, Any]]:
    """Fields of the model's shape that differ, defaults included."""
    rank = arguments.training.lora_rank
    if (checkpoint / ADAPTER_CONFIG).is_file():  # the rest of the shape is its base's
        saved = json.loads((checkpoint / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        return {} if saved["r"] == rank else {"lora_rank": (saved["r"], rank)}
    if rank is not None:
        return {"lora_rank": (None, rank)}
    path = checkpoint / CONFIG_NAME
    if not path.is_file():
        raise ValueError(
            f"{checkpoint} has no {CONFIG_NAME}; only checkpoints of this project can be resumed."
        )
    now, then = _plain(config_of(arguments).to_dict()), json.loads(path.read_text(encoding="utf-8"))
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
