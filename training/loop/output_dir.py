# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The output folder of a run: what a run writes there, and what it must not replace."""

import logging
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ..settings.fields import VaswaniTrainingArguments
from .checkpoints import AUTO, checkpoints, find_damage
from .saving import UNFINISHED


logger = logging.getLogger("training")
# What a run writes into its folder before it has a whole checkpoint, and what at its end.
WRITTEN_FIRST = ("config.yaml", "tokenizer", f"{PREFIX_CHECKPOINT_DIR}-*")
WRITTEN_AT_END = (
    *("config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "target_tokenizer"),
    *("*_vaswani.py", "README.md", "results.json", "log_history.json"),
    *("*.hypotheses", "*.references"),
)


def check_output_dir(
    training: VaswaniTrainingArguments, checkpoint: str | None, has_begun: bool = False
) -> None:
    """Refuse to replace what is not of this run; remove an unfinished checkpoint.

    A run that is resumed from a checkpoint in its folder may replace what it left there.

    Args:
        training: names the folder.
        checkpoint: what the run is resumed from; `None` for a fresh start.
        has_begun: whether an earlier run that has ended began in this folder: what a run writes
            before its first checkpoint may then be replaced.

    Raises:
        ValueError: if the folder has checkpoints of another run, or files that a fresh start would
            replace, or the model that the run starts from.
    """
    folder, start = Path(training.output_dir), training.model_name_or_path
    if start and Path(start).is_dir() and folder.is_dir() and folder.samefile(start):
        raise ValueError(
            f"output_dir={folder} is the folder of model_name_or_path={start}, whose model the run "
            f"would replace. Choose another --output_dir."
        )
    is_resumed = checkpoint is not None and Path(checkpoint).resolve().parent == folder.resolve()
    if not is_resumed:
        whole = [path for path in checkpoints(folder) if not find_damage(path)]
        if whole:
            raise ValueError(
                f"{folder} has checkpoints of another run, up to {whole[-1].name}. Resume it "
                f"with --resume_from_checkpoint {AUTO}, or choose another --output_dir."
            )
        patterns = WRITTEN_AT_END if has_begun else (*WRITTEN_AT_END, *WRITTEN_FIRST)
        names = sorted(path.name for path in folder.glob("*"))
        replaced = [name for name in names if any(fnmatchcase(name, each) for each in patterns)]
        if replaced and training.process_index == 0:
            raise ValueError(
                f"{folder} has files that this run would replace: {', '.join(replaced)}. Choose "
                f"another --output_dir, or move them away."
            )
    if training.local_process_index == 0:
        for unfinished in folder.glob(f"{UNFINISHED}{PREFIX_CHECKPOINT_DIR}-*"):
            logger.info("Removing %s: its run ended before it was complete.", unfinished.name)
            shutil.rmtree(unfinished, ignore_errors=True)
