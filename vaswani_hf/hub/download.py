# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Fetching a model's folder from the Hub: weights, configurations, tokenizer and code."""

from os import PathLike
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id

from .errors import NetworkError, as_hub_error
from .folder import check_folder


DOWNLOADED_PATTERNS = (
    *("*.json", "*.safetensors", "*.txt", "*.model", "*.spm", "*.jinja", "*.py"),
    "README.md",  # the card, which names the languages
)


def fetch(
    name: str | PathLike[str], *, revision: str | None = None, token: str | None = None
) -> Path:
    """The folder of a model: a local one as it is, one of the Hub by way of the cache.

    Args:
        name: a folder, or an id on the Hub, such as `org/name`.
        revision: branch, tag or commit on the Hub; `main` unless given.
        token: for private repositories; the one that is logged in unless given.

    Raises:
        ValueError: if there is no such folder and the name is no possible id, `revision` is given
            with a folder, or the folder cannot be loaded.
        HubError: if it cannot be fetched.
    """
    folder = find(name, revision=revision, token=token)
    check_folder(folder, str(name))
    return folder


def find(
    name: str | PathLike[str],
    *,
    revision: str | None = None,
    token: str | None = None,
    allow_pickles: bool = False,
) -> Path:
    """The folder of a model, as `fetch` gives it, but not checked.

    Args:
        name: as in `fetch`.
        revision: likewise.
        token: likewise.
        allow_pickles: whether to fetch weights in `.bin` files where the Hub has no others.

    Raises:
        ValueError: if there is no such folder and the name is no possible id, or `revision` is
            given with a folder.
        HubError: if it cannot be fetched.
    """
    if Path(name).is_dir():
        if revision is not None:
            raise ValueError(f"revision={revision} is for models on the Hub; {name} is a folder.")
        return Path(name)
    if Path(name).exists():
        raise ValueError(f"{name} is a file; name a model's folder.")
    repo_id = str(name)
    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise ValueError(
            f"There is no folder {name}, and {name!r} is not a valid id on the Hub."
        ) from None
    owner, slash, rest = repo_id.partition("/")
    if slash and Path(owner).is_dir():  # most likely a misspelt path
        raise ValueError(
            f"There is no {rest} in the folder {owner}. If {name} is an id on the Hub, run this "
            f"where no folder is called {owner}."
        )
    with as_hub_error(f"fetch {name}", repo_id):
        given: dict[str, Any] = {"revision": revision, "token": token}
        given["local_files_only"] = not _hub_answers(repo_id, revision, token)
        folder = Path(snapshot_download(repo_id, allow_patterns=list(DOWNLOADED_PATTERNS), **given))
        if allow_pickles and not any(folder.glob("*.safetensors")):
            folder = Path(
                snapshot_download(repo_id, allow_patterns=[*DOWNLOADED_PATTERNS, "*.bin"], **given)
            )
    return folder


def _hub_answers(repo_id: str, revision: str | None, token: str | None) -> bool:
    """Whether the Hub answers in time; if not, only the cache is left.

    `snapshot_download` alone would wait for an answer without end.
    """
    try:
        HfApi(token=token).repo_info(
            repo_id, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT
        )
    except HfHubHTTPError:  # an answer, which `snapshot_download` gets and raises again
        return True
    except (NetworkError, ConnectionError):
        return False
    return True
