# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Pushing a model's folder to the Hub: checked, staged, uploaded, fetched again and compared."""

import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from huggingface_hub import (
    HfApi,
    ModelCard,
    constants,
    get_token,
    hf_hub_download,
)
from huggingface_hub.errors import (
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status
from transformers.utils import CONFIG_NAME

from ..configuration_vaswani import VaswaniConfig
from ..extras import require
from . import fresh_process
from .adapters import is_adapter, read_adapter
from .card import CARD, card_for_push
from .errors import HubError, NetworkError, as_hub_error
from .folder import check_folder, export
from .names import (
    ADAPTER_CONFIG,
    CURVES,
    PICKLES,
    RECIPE,
    REMOTE_CODE,
    RESULTS,
    TARGET_TOKENIZER,
    check_push,
    check_repo_id,
)
from .verification import sample_sentences, verify


logger = logging.getLogger(__name__)
Result = TypeVar("Result")

# Of an earlier push what would be loaded in place of the new files: weights of other names, a model
# under an adapter or the reverse, and the tokenizer of a target that has none of its own any more.
REPLACED = (
    *("*.safetensors", "*.safetensors.index.json", *PICKLES),
    *(CONFIG_NAME, *REMOTE_CODE, ADAPTER_CONFIG, f"{TARGET_TOKENIZER}/*"),
)
RETRY_WAITS_SECONDS = (1.0, 4.0)  # before the second and the third attempt


class Pushed(NamedTuple):
    """The commit that a push made, and what the fetched model translates.

    `translations` are pairs of a source and its translation; empty if the push was not verified.
    """

    repo_id: str
    commit: str
    url: str
    translations: list[tuple[str, str]]


def push(
    folder: str | PathLike[str],
    repo_id: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    license: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    max_shard_size: int | str = "5GB",
    base_model: str | None = None,
    token: str | None = None,
    is_verified: bool = True,
) -> Pushed:
    """Push a model's folder; then fetch it without this package, and compare translations.

    Pushed are the weights in safetensors, configurations, tokenizers, the model's code, the card,
    and figures and settings of the training, in which absolute paths are cut to file names. The
    folder is not changed. Running an interrupted push again finishes it.

    Args:
        folder: what `training/run.py` or `vaswani-hf convert --from` wrote.
        repo_id: `org/name`, or `name` for one's own; created if it does not exist.
        private: whether a new repository is private; the Hub's setting unless given.
        revision: branch to push to, created if it does not exist; `main` unless given.
        license: identifier of the model's license, such as `cc-by-4.0`; that of the folder's card
            unless given.
        source_language: code of the source language, such as `en`; the card's unless given.
        target_language: code of the target language, likewise.
        max_shard_size: weights above it go into several files; bytes, or a text such as `"500MB"`.
        base_model: of an adapter, the id on the Hub of the model that it adapts, which is pushed
            before it; the one that the adapter names unless given.
        token: one with write access; the one that is logged in unless given.
        is_verified: whether to fetch and compare.

    Raises:
        ValueError: if the folder cannot be pushed as it is, no license is known, or the
            repository holds something else.
        HubError: if the Hub cannot be reached or refuses, or the fetched model translates
            differently.
    """
    check_push(folder, repo_id)
    folder = Path(folder)
    check_pushable(folder, base_model)
    card_of = partial(
        card_for_push,
        folder,
        languages=(source_language, target_language),
        license=license,
        base_model=base_model,
    )
    card = card_of(repo_id)
    with tempfile.TemporaryDirectory(prefix="vaswani_hf_push_") as temporary:
        staged = Path(temporary) / folder.resolve().name
        model, tokenizer, target_tokenizer = stage(folder, staged, max_shard_size, base_model)
        repo_id = prepare(repo_id, card, private=private, revision=revision, token=token)
        # Again, because only now the name of the owner is known.
        card_of(repo_id).save(staged / CARD)
        commit = upload(staged, repo_id, revision=revision, token=token)
    translations: list[tuple[str, str]] = []
    if is_verified:
        sentences = sample_sentences(folder)
        local = fresh_process.translate(model, tokenizer, target_tokenizer, sentences)
        translations = list(zip(sentences, local, strict=True))
        verify(repo_id, commit, translations, token=token)
    url = f"{constants.ENDPOINT}/{repo_id}" + (f"/tree/{revision}" if revision else "")
    return Pushed(repo_id, commit, url, translations)


def check_pushable(folder: Path, base_model: str | None = None) -> None:
    """Refuse with a `ValueError` a folder that others could not load.

    Args:
        folder: the model's or adapter's.
        base_model: as for `push`.
    """
    if is_adapter(folder):
        base = base_model or read_adapter(folder)["base_model_name_or_path"]
        if Path(base).is_absolute() or Path(base).is_dir():
            raise ValueError(
                f"{folder} is an adapter of the folder {base}, which others do not have: push that "
                f"first, then name its id on the Hub by --base_model."
            )
        require("peft")
        return
    if base_model is not None:
        raise ValueError(f"base_model={base_model} is for adapters, and {folder} is none.")
    model_type = check_folder(folder).get("model_type")
    if model_type != VaswaniConfig.model_type:
        raise ValueError(
            f"{folder} holds a model of type {model_type}; only type {VaswaniConfig.model_type} "
            f"can be pushed here. `hf upload` takes any."
        )


def prepare(
    repo_id: str,
    card: ModelCard,
    *,
    private: bool | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> str:
    """Create the repository and the branch if they do not exist; return the repository's id.

    Args:
        repo_id: `org/name`, or `name` for one's own.
        card: the card, whose metadata the Hub checks.
        private: whether a new repository is private; the Hub's setting unless given.
        revision: the branch; `main` unless given.
        token: the one that is logged in unless given.

    Raises:
        ValueError: if the name is invalid, the Hub refuses the card's metadata, or the repository
            holds another kind of model, or is public although a private one is asked for.
        HubError: if the Hub cannot be reached or refuses.
    """
    check_repo_id(repo_id)
    if token is None and get_token() is None and not constants.HF_HUB_OFFLINE:
        raise HubError("No token to push with; log in with `hf auth login`, or set HF_TOKEN.")
    api = HfApi(token=token)
    with as_hub_error(f"push to {repo_id}", repo_id):
        _retry(lambda: _validate(card, token), repo_id)
        repo_id = _retry(
            lambda: api.create_repo(repo_id, private=private, exist_ok=True).repo_id, repo_id
        )
        if private and not api.model_info(repo_id).private:
            raise ValueError(
                f"{repo_id} exists and is public, so nothing was pushed; make it private in its "
                f"settings, or push to another name."
            )
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        model_type = _model_type_of(repo_id, revision, token)
        if model_type not in (None, VaswaniConfig.model_type):
            raise ValueError(f"{repo_id} holds a model of type {model_type}; push to another name.")
        _check_may_write(api, repo_id)
    return repo_id


def stage(
    folder: Path,
    staged: Path,
    max_shard_size: int | str = "5GB",
    base_model: str | None = None,
) -> tuple[Any, Any, Any]:
    """Write all that is pushed of a model's folder, except the card, into a new folder.

    Args:
        folder: the model's or adapter's.
        staged: the new one.
        max_shard_size: as for `push`.
        base_model: likewise.

    Returns:
        The model and the tokenizers of source and target.

    Raises:
        OSError: if one of them cannot be loaded, or the disk is full.
    """
    staged.mkdir(parents=True)
    model, tokenizer, target_tokenizer = fresh_process.load(str(folder))
    other = None if target_tokenizer is tokenizer else target_tokenizer
    export(model.eval(), tokenizer, staged, target_tokenizer=other, max_shard_size=max_shard_size)
    if base_model is not None:
        path = staged / ADAPTER_CONFIG
        settings = read_adapter(staged) | {"base_model_name_or_path": base_model}
        path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for name, read, write in (
        (RESULTS, json.loads, lambda content: json.dumps(content, indent=2, ensure_ascii=False)),
        (RECIPE, yaml.safe_load, _to_yaml),
    ):
        if (folder / name).is_file():
            content = _without_folders(read((folder / name).read_text(encoding="utf-8")))
            (staged / name).write_text(write(content).rstrip() + "\n", encoding="utf-8")
    if (folder / CURVES).is_file():
        shutil.copyfile(folder / CURVES, staged / CURVES)
    return model, tokenizer, target_tokenizer


def upload(
    staged: Path,
    repo_id: str,
    *,
    revision: str | None = None,
    message: str = "Upload the model",
    token: str | None = None,
) -> str:
    """Push what `stage` wrote as one commit, and return its id. Files on the Hub are not resent."""
    api = HfApi(token=token)

    def send() -> str:
        info = api.upload_folder(
            repo_id=repo_id,
            folder_path=staged,
            revision=revision,
            commit_message=message,
            delete_patterns=list(REPLACED),
        )
        return info.oid

    with as_hub_error(f"push to {repo_id}", repo_id):
        return _retry(send, repo_id)


def _retry(send: Callable[[], Result], repo_id: str) -> Result:
    """Send, and try again after an error of the Hub itself; sending twice leaves the same state."""
    for seconds in RETRY_WAITS_SECONDS:
        try:
            return send()
        except (HfHubHTTPError, NetworkError, ConnectionError) as error:
            response = getattr(error, "response", None)
            if isinstance(error, OfflineModeIsEnabled) or (
                response is not None and response.status_code < 500
            ):
                raise
            logger.warning("%s: the Hub failed; trying again.", repo_id)
            time.sleep(seconds)
    return send()


def _check_may_write(api: HfApi, repo_id: str) -> None:
    try:
        api.auth_check(repo_id, write=True)
    except HfHubHTTPError as error:
        # A Hub without this question refuses when something is sent.
        if error.response is None or error.response.status_code != 404:
            raise


def _validate(card: ModelCard, token: str | None) -> None:
    """Ask the Hub to check a card; `ModelCard.validate` would always ask the public Hub."""
    response = get_session().post(
        f"{constants.ENDPOINT}/api/validate-yaml",
        json={"repoType": "model", "content": str(card)},
        headers=build_hf_headers(token=token),
        timeout=constants.HF_HUB_ETAG_TIMEOUT,
    )
    if response.status_code == 400:
        errors = "; ".join(error["message"] for error in response.json().get("errors", []))
        raise ValueError(
            f"The Hub refuses the card (license: {card.data.get('license')}): {errors}"
        )
    hf_raise_for_status(response)


def _model_type_of(repo_id: str, revision: str | None, token: str | None) -> str | None:
    """The type of the model that is in a repository; `None` if there is none."""
    with tempfile.TemporaryDirectory(prefix="vaswani_hf_") as cache:
        try:
            path = hf_hub_download(
                repo_id, CONFIG_NAME, revision=revision, token=token, cache_dir=cache
            )
        except RemoteEntryNotFoundError:
            return None
        try:
            return json.loads(Path(path).read_text(encoding="utf-8")).get("model_type")
        except (ValueError, AttributeError):
            return None


def _without_folders(value: Any) -> Any:
    """The value with every absolute path cut to its last name, since paths are private."""
    if isinstance(value, dict):
        return {name: _without_folders(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    if isinstance(value, str) and os.path.isabs(value):
        return Path(value).name
    return value


def _to_yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
