# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The first translations of an evaluation, in TensorBoard and trackio."""

import html
import re
from collections.abc import Sequence

from transformers.integrations import TensorBoardCallback, TrackioCallback

from ..loop.trainer import VaswaniTrainer
from .evaluation import Evaluation, Translation


NUM_SAMPLES = 5  # translations that are shown after an evaluation
_MARKDOWN = re.compile(r"([\\`*_\[\]|])")


def report_translations(trainer: VaswaniTrainer, evaluation: Evaluation) -> None:
    """Send the first translations of an evaluation to TensorBoard and trackio.

    Args:
        trainer: after it has logged the evaluation; `report_to` names the receivers.
        evaluation: with or without translations.
    """
    if not trainer.is_world_process_zero() or not evaluation.translations:
        return
    samples, step = evaluation.translations[:NUM_SAMPLES], trainer.state.global_step
    name = f"{evaluation.split}/translations"
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.tb_writer is not None:
            callback.tb_writer.add_text(name, markdown_table(samples), step)
            callback.tb_writer.flush()
        elif isinstance(callback, TrackioCallback):
            import trackio

            columns, rows = list(Translation._fields), [list(sample) for sample in samples]
            trackio.log(
                {name: trackio.Table(columns=columns, data=rows), "train/global_step": step}
            )


def markdown_table(samples: Sequence[Translation]) -> str:
    """Translations as a Markdown table that shows every character as it is."""
    rows = [Translation._fields, ("---",) * len(Translation._fields)]
    rows += [tuple(_literal(text) for text in sample) for sample in samples]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _literal(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))
