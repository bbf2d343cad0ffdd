# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The model card: made of the figures of a training, none of them typed by hand."""

import json
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.constants import REPOCARD_NAME as CARD


TEMPLATE = "model_card.md"
RESULTS = "results.json"
_LANGUAGE = re.compile("[a-z]{2,3}|multilingual|code")


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
    card = make_card(folder.name, results, languages=languages, license=license, dataset=dataset)
    card.save(folder / CARD)


def make_card(
    name: str,
    results: dict[str, Any],
    *,
    languages: Sequence[str] = (),
    license: str | None = None,
    dataset: str | None = None,
) -> ModelCard:
    """The card of a model that is called `name`: a folder's name, or an id on the Hub.

    Other arguments are those of `write_model_card`; of `results` any part may be missing.
    """
    scores = results.get("scores") or {}
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
    dataset_id = dataset or ""
    is_on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", dataset_id) and not Path(dataset_id).exists()
    data = ModelCardData(
        language=list(languages) or None,
        license=license,
        library_name="transformers",
        pipeline_tag="translation",
        tags=["vaswani", "attention-is-all-you-need"],
        metrics=["sacrebleu"] if evaluations else None,
        datasets=[dataset_id] if is_on_hub else None,
        model_name=name.rpartition("/")[2],
        eval_results=evaluations or None,
    )
    return ModelCard.from_template(
        data,
        template_path=str(_template()),
        name=name,
        results=results,
        scores=scores,
        languages=" to ".join(languages),
    )


def card_for_push(
    folder: Path,
    repo_id: str,
    *,
    languages: Sequence[str | None] = (),
    license: str | None = None,
    results: dict[str, Any] | None = None,
) -> ModelCard:
    """The card that goes to the Hub with a folder.

    It is made anew of the folder's figures, under the name on the Hub; a card that somebody has
    written or changed stays as it is, but for what is given here.

    Args:
        folder: the model's folder.
        repo_id: what the model is called there.
        languages: of the source and the target; `None` for what the folder's card says.
        license: likewise.
        results: the figures, instead of those in `results.json`.

    Raises:
        ValueError: if no license is known, a language is no code, or the card has no metadata.
    """
    if results is None and (folder / RESULTS).is_file():
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    old = _read_card(folder / CARD)
    metadata = old.data.to_dict() if old is not None else {}
    license = license or metadata.get("license")
    if not license:
        raise ValueError(
            f"Under which license is {folder}? Say so, by --license or the card's `license`: an "
            f"identifier of the Hub's, such as cc-by-4.0, or `other`."
        )
    known = _as_list(metadata.get("language"))
    languages = list(languages) or [None, None]
    merged = [
        given or (known[place] if place < len(known) else None)
        for place, given in enumerate(languages)
    ]
    found = [language for language in merged if language]
    for language in found:
        check_language(language)
    dataset = ((results or {}).get("chosen") or {}).get("dataset")
    if old is not None and not _is_made(old, results or {}, dataset):
        old.data["license"] = license
        if found:
            old.data["language"] = found
        return old
    return make_card(repo_id, results or {}, languages=found, license=license, dataset=dataset)


def check_language(code: str) -> None:
    """Refuse what is no language code of the Hub's: ISO 639, two or three letters."""
    if not _LANGUAGE.fullmatch(code):
        raise ValueError(f"'{code}' is no language code; write two or three letters, such as en.")


def _read_card(path: Path) -> ModelCard | None:
    if not path.is_file():
        return None
    try:
        return ModelCard.load(path, ignore_metadata_errors=False)
    except Exception as error:  # YAML's errors and the library's own have no common class
        raise ValueError(f"The metadata of {path} cannot be read: {error}") from None


def _is_made(card: ModelCard, results: dict[str, Any], dataset: str | None) -> bool:
    """Whether a card is what `make_card` makes of these results, and nobody's own."""
    title = re.search(r"^# (.+)$", card.text, flags=re.MULTILINE)
    if title is None:
        return False
    made = make_card(
        title[1],
        results,
        languages=_as_list(card.data.get("language")),
        dataset=dataset,
    )
    return made.text.strip() == card.text.strip()


def _as_list(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _template() -> Path:
    """The template: in the wheel beside this file, in the repository at its root."""
    here = Path(__file__).parents[1]
    candidates = [here / TEMPLATE, here.parent / TEMPLATE]
    return next(path for path in candidates if path.is_file())


__all__ = ["make_card", "write_model_card"]
