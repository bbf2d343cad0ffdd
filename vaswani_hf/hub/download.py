# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From the Hub: the folder of a model, with its code, tokenizer and weights."""

from os import PathLike
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id

from .errors import NetworkError, explained
from .folder import check_folder


LOADED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.spm", "*.jinja", "*.py")


# From the Hub


def fetch(
    name: str | PathLike[str], *, revision: str | None = None, token: str | None = None
) -> Path:
    """The folder of a model: the one that is named, or the Hub's, which comes into the cache.

    Args:
        name: a folder, or an id on the Hub, such as `org/name`.
        revision: branch, tag or commit on the Hub; `main` unless given.
        token: for private repositories; the one that is logged in unless given.

    Raises:
        ValueError: if there is no such folder and it cannot be an id, or `revision` is given beside
            a folder, or what is there cannot be loaded.
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
    are_pickles_wanted: bool = False,
) -> Path:
    """The folder of a model, as `fetch` gives it, but not looked through.

    Args:
        name: as in `fetch`.
        revision: likewise.
        token: likewise.
        are_pickles_wanted: whether weights in `.bin` files come too where the Hub has no others.

    Raises:
        ValueError: if there is no such folder and it cannot be an id, or `revision` is given beside
            a folder.
        HubError: if it cannot be fetched.
    """
    if Path(name).is_dir():
        if revision is not None:
            raise ValueError(f"revision={revision} is for the Hub, and {name} is a folder.")
        return Path(name)
    if Path(name).exists():
        raise ValueError(f"{name} is a file, and a model is a folder.")
    repo_id = str(name)
    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise ValueError(
            f"There is no folder {name}, and no id on the Hub looks like it."
        ) from None
    owner, slash, rest = repo_id.partition("/")
    if slash and Path(owner).is_dir():  # a path, most likely, and misspelt
        raise ValueError(
            f"There is no {rest} in the folder {owner}. If {name} is meant to be an id on the Hub, "
            f"do the same where no folder is called {owner}."
        )
    with explained(f"fetch {name}", repo_id):
        given: dict[str, Any] = {"revision": revision, "token": token}
        given["local_files_only"] = not _is_answering(repo_id, revision, token)
        folder = Path(snapshot_download(repo_id, allow_patterns=list(LOADED), **given))
        if are_pickles_wanted and not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(repo_id, allow_patterns=[*LOADED, "*.bin"], **given))
    return folder


def _is_answering(repo_id: str, revision: str | None, token: str | None) -> bool:
    """Whether the Hub answers in time; where it does not, only the cache is left.

    `snapshot_download` asks the same, and waits for an answer without end.
    """
    try:
        HfApi(token=token).repo_info(
            repo_id, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT
        )
    except HfHubHTTPError:  # an answer, which is told when it comes again
        return True
    except (NetworkError, ConnectionError):
        return False
    return True
