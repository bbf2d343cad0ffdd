# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The keys by which clients may ask."""

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from .errors import RequestError


def read_keys(path: Path) -> list[str]:
    """The keys of a file, one a line; blank lines are left out.

    Raises:
        ValueError: if there is none, or the file is not UTF-8.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8; write a key a line.") from None
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise ValueError(f"{path} holds no key; write one a line, or leave --api_keys out.")
    return keys


def check_key(keys: Sequence[str] | None, given: str | None) -> None:
    """Refuse a request without a key that is known.

    The time that this takes tells nothing of the keys: each is compared, and to its end.

    Args:
        keys: those that are known; `None` where no key is needed.
        given: by the client.

    Raises:
        RequestError: 400 where a key is missing, 403 where it is unknown, as LibreTranslate has it.
    """
    if keys is None:
        return
    if not given:
        raise RequestError(400, "An API key is needed: ask the operator of this server for one")
    matches = [hmac.compare_digest(_digest(key), _digest(given)) for key in keys]
    if not any(matches):
        raise RequestError(403, "Invalid API key")


def _digest(key: str) -> bytes:
    """As long for every key, so that not even its length is told."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()
