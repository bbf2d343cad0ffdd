# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A folder that loads anywhere, and the card that says what is in it."""

import json
import shutil
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import CONFIG_NAME


# The files that a folder needs for `trust_remote_code=True`; they import only each other, torch and
# transformers.
REMOTE_CODE = ("configuration_vaswani.py", "modeling_vaswani.py", "generation_vaswani.py")
AUTO_MAP = {
    "AutoConfig": "configuration_vaswani.VaswaniConfig",
    "AutoModel": "modeling_vaswani.VaswaniModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
}
CARD_TEMPLATE = "model_card.md"


def export(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: str | PathLike[str]
) -> None:
    """Write a folder that loads with this package, or without it by `trust_remote_code=True`.

    Args:
        model: a trained model; its configuration, generation configuration and weights are saved.
        tokenizer: its tokenizer.
        folder: where to; files of the same names are replaced.
    """
    folder = Path(folder)
    # The library's trainer switches the cache off in the configuration it trains with.
    model.config.use_cache = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name in REMOTE_CODE:
        shutil.copyfile(Path(__file__).parent / name, folder / name)
    path = folder / CONFIG_NAME
    config = json.loads(path.read_text(encoding="utf-8"))
    config["auto_map"] = AUTO_MAP
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_model_card(
    folder: str | PathLike[str],
    results: dict[str, Any],
    *,
    languages: Sequence[str] = (),
    license: str | None = None,
    dataset: str | None = None,
) -> None:
    """Write `README.md`, the model's card, out of the figures of its training.

    Args:
        folder: the model's folder.
        results: what `training/run.py` wrote to `results.json`.
        languages: codes of the source and the target language.
        license: identifier of the model's license; left out of the card where it is not given.
        dataset: id of the training data on the Hub, if it is there.
    """
    folder = Path(folder)
    scores = results.get("scores", {})
    evaluations = [
        EvalResult(
            task_type="translation",
            task_name="Translation",
            dataset_type=dataset or "custom",
            dataset_name=dataset or "parallel text",
            dataset_split=split,
            metric_type="sacrebleu",
            metric_name=f"BLEU, {figures['bleu_signature']}",
            metric_value=round(figures["bleu"], 2),
        )
        for split, figures in scores.items()
        if "bleu" in figures
    ]
    data = ModelCardData(
        language=list(languages) or None,
        license=license,
        library_name="transformers",
        pipeline_tag="translation",
        tags=["vaswani", "attention-is-all-you-need"],
        metrics=["sacrebleu"],
        datasets=[dataset] if dataset and "/" in dataset else None,
        model_name=results.get("recipe", folder.name),
        eval_results=evaluations or None,
    )
    card = ModelCard.from_template(
        data,
        template_path=str(_template()),
        name=folder.name,
        results=results,
        scores=scores,
        languages=" to ".join(languages),
    )
    card.save(folder / "README.md")


def _template() -> Path:
    """The template: in the wheel beside this file, in the repository at its root."""
    here = Path(__file__).parent
    candidates = [here / CARD_TEMPLATE, here.parent / CARD_TEMPLATE]
    return next(path for path in candidates if path.is_file())


__all__ = ["export", "write_model_card"]
