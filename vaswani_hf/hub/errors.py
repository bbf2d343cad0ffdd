# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Errors of the Hub, in one line that names what failed and what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC

from huggingface_hub import constants, get_token
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)


# What huggingface_hub's client raises where no answer comes; its library has changed its name.
NetworkError: type[Exception] = HfHubHTTPError.__bases__[0]


class HubError(OSError):
    """An upload or download that failed: what failed and what to do, without any token."""


@contextmanager
def as_hub_error(action: str, repo_id: str) -> Iterator[None]:
    """Turn any error of huggingface_hub into a `HubError`, without any token.

    Args:
        action: what was tried, such as `push to org/name`.
        repo_id: the repository.
    """
    try:
        yield
    except HubError:
        raise
    except (OSError, NetworkError, HfHubHTTPError, RuntimeError) as error:
        # A failed transfer is a RuntimeError, whose cause says more.
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        # Not chained: the original text may hold the token.
        raise HubError(
            _explanation(cause if isinstance(error, RuntimeError) else error, action, repo_id)
        ) from None


def _explanation(error: Exception, action: str, repo_id: str) -> str:
    start = f"Could not {action}: "
    status = None
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        status = error.response.status_code
    if isinstance(error, OfflineModeIsEnabled):
        return start + "HF_HUB_OFFLINE is set; unset it."
    if isinstance(error, LocalTokenNotFoundError):
        return start + "no token was found; log in with `hf auth login`, or set HF_TOKEN."
    if isinstance(error, RevisionNotFoundError):
        return start + f"{repo_id} has no such revision; check the branch, tag or commit."
    if status == 401 and not isinstance(error, RepositoryNotFoundError):
        return start + "the Hub does not know the token; log in again with `hf auth login`."
    if isinstance(error, RepositoryNotFoundError):
        return start + (
            f"{constants.ENDPOINT} has no such repository, or it is private and the token may not "
            f"read it; check the name, or log in with `hf auth login`."
        )
    if status == 403:
        return start + (
            "the token may not write there; check the name, and that the token has write access."
        )
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT, EFBIG):
        return start + (
            f"no space is left on the disk of {error.filename or constants.HF_HUB_CACHE}; free "
            f"some, or set HF_HOME to a folder on another disk."
        )
    again = "Run the same again: finished transfers are not repeated."
    if status is not None and status >= 500:
        return start + f"the Hub answered {status}, a server error. {again}"
    if isinstance(error, LocalEntryNotFoundError):
        return start + (
            f"it is not in the cache ({constants.HF_HUB_CACHE}), and {constants.ENDPOINT} could "
            f"not be reached."
        )
    if isinstance(error, HfHubHTTPError):
        text = error.server_message or str(error).splitlines()[0]
        return start + without_tokens(text)
    if isinstance(error, (NetworkError, ConnectionError)):
        return start + f"the connection to {constants.ENDPOINT} failed ({error}). {again}"
    return start + without_tokens(str(error))


def without_tokens(text: str, *tokens: str | None) -> str:
    """The text without these tokens, the one that is logged in, and what looks like one."""
    for token in (*tokens, get_token()):
        if token:
            text = text.replace(token, "[token]")
    return re.sub(r"\bhf_\w{8,}", "[token]", text)
