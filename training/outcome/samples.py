# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The first translations of an evaluation, in TensorBoard and trackio."""

import html
import logging
import re

from transformers import Seq2SeqTrainer
from transformers.integrations import (
    TensorBoardCallback,
    TrackioCallback,
)


logger = logging.getLogger("training")
NUM_SAMPLES = 5  # translations that are shown after an evaluation
COLUMNS = ("source", "translation", "reference")
_MARKDOWN = re.compile(r"([\\`*_\[\]|])")


def report_translations(trainer: Seq2SeqTrainer, split: str) -> None:
    """Send the first translations of an evaluation to TensorBoard and trackio, where they listen.

    Args:
        trainer: after the evaluation; `report_to` has said where to.
        split: what was evaluated, the prefix of the figures: `eval`, `validation` or `test`.
    """
    if not trainer.is_world_process_zero() or not trainer.samples:
        return
    samples, step = trainer.samples[:NUM_SAMPLES], trainer.state.global_step
    name = f"{split}/translations"
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.tb_writer is not None:
            callback.tb_writer.add_text(name, markdown_table(samples), step)
            callback.tb_writer.flush()
        elif isinstance(callback, TrackioCallback):
            import trackio

            table = trackio.Table(columns=list(COLUMNS), data=[list(row) for row in samples])
            trackio.log({name: table, "train/global_step": step})


def markdown_table(samples: list[tuple[str, str, str]]) -> str:
    """Sources, translations and references as a Markdown table that shows every character."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [tuple(_literal(text) for text in sample) for sample in samples]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _literal(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))
