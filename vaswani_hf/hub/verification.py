# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Verifying a push: a fresh process fetches the model, and its translations are compared."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from huggingface_hub import constants, get_token

from . import fresh_process
from .errors import HubError, without_tokens
from .names import RESULTS


SAMPLES = ("Two dogs are playing in the snow.", "It is 5:21 PM.", "A sentence.")


def verify(
    repo_id: str,
    commit: str,
    translations: list[tuple[str, str]],
    *,
    token: str | None = None,
) -> None:
    """Fetch a commit into an empty cache, in a process without this package, and translate.

    Args:
        repo_id: what was pushed.
        commit: the one to fetch.
        translations: sources and their expected translations.
        token: the one that is logged in unless given.

    Raises:
        HubError: if it cannot be fetched or loaded, or a translation differs.
    """
    sentences = [source for source, _ in translations]
    token = token or get_token()
    with tempfile.TemporaryDirectory(prefix="vaswani_hf_verify_") as cache:
        done = subprocess.run(
            [sys.executable, "-P", fresh_process.__file__, repo_id, commit, json.dumps(sentences)],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=_environment(cache, token),
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise HubError(
            f"{repo_id} was pushed (commit {commit}), but a fresh process could not load it: "
            f"{without_tokens(last, token)}"
        )
    fetched = json.loads(done.stdout.splitlines()[-1])
    for (source, ours), theirs in zip(translations, fetched, strict=True):
        if ours != theirs:
            raise HubError(
                f"{repo_id} was pushed (commit {commit}), but the fetched model translates "
                f"{source!r} as {theirs!r}, the folder's as {ours!r}."
            )


def _environment(cache: str, token: str | None) -> dict[str, str]:
    """An empty cache, no GPU, and of the Hub's variables only those that say how to reach it."""
    kept = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith("HF_")
    }
    environment |= {"HF_ENDPOINT": constants.ENDPOINT, "HF_HOME": cache}
    environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "CUDA_VISIBLE_DEVICES": ""}
    if token:
        environment["HF_TOKEN"] = token
    return environment


def sample_sentences(folder: Path) -> list[str]:
    """Three sentences to compare: sources of the run's test set, if its results hold some."""
    if (folder / RESULTS).is_file():
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        sources = [sample["source"] for sample in results.get("samples", [])]
        if len(sources) >= len(SAMPLES):
            return sources[: len(SAMPLES)]
    return list(SAMPLES)
