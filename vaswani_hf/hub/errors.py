# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What goes wrong on the way to the Hub or from it, said so that a user knows what to do."""

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
    """What went wrong on the way to the Hub or from it, and what to do; never holds a token."""


# What goes wrong


@contextmanager
def explained(doing: str, repo_id: str) -> Iterator[None]:
    """Turn what huggingface_hub raises into one clear `HubError`, without any token.

    Args:
        doing: what was tried, such as `push to org/name`.
        repo_id: the repository.
    """
    try:
        yield
    except HubError:
        raise
    except (OSError, NetworkError, HfHubHTTPError, RuntimeError) as error:
        # A file that does not come through is a RuntimeError, whose cause says more.
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        # It is not chained: its text may hold what was sent.
        raise HubError(
            _explanation(cause if isinstance(error, RuntimeError) else error, doing, repo_id)
        ) from None


def _explanation(error: Exception, doing: str, repo_id: str) -> str:
    start = f"Could not {doing}: "
    status = None
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        status = error.response.status_code
    if isinstance(error, OfflineModeIsEnabled):
        return start + "HF_HUB_OFFLINE is set; unset it."
    if isinstance(error, LocalTokenNotFoundError):
        return start + "no token is there; log in by `hf auth login`, or set HF_TOKEN."
    if isinstance(error, RevisionNotFoundError):
        return start + f"{repo_id} has no such revision."
    if status == 401 and not isinstance(error, RepositoryNotFoundError):
        return start + "the Hub does not know the token; log in again by `hf auth login`."
    if isinstance(error, RepositoryNotFoundError):
        return start + (
            f"{constants.ENDPOINT} has no such repository, or it is private and the token may not "
            f"see it; check the name, or log in by `hf auth login`."
        )
    if status == 403:
        return start + (
            "the token may not write there; check the name and that the token has the right to "
            "write."
        )
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT, EFBIG):
        return start + (
            f"no space is left on the disk of {error.filename or constants.HF_HUB_CACHE}; free "
            f"some, or set HF_HOME to a folder of another disk."
        )
    again = "Run the same again: what has come through is not sent twice."
    if status is not None and status >= 500:
        return start + f"the Hub answered {status}, an error of its own. {again}"
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
