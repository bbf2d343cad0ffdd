"""The source distribution of fairseq, fetched once into the temporary folder of this machine."""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest


VERSION = "0.12.2"
FETCHED = Path(tempfile.gettempdir()) / f"vaswani-hf-fairseq-{VERSION}"
# Of `fairseq/models`, which imports whatever lies there.
NEEDED_MODELS = (
    r"(__init__|composite_encoder|distributed_fairseq_model|fairseq_\w+)\.py|transformer"
)


def fetch_fairseq() -> Path:
    """The folder with the package `fairseq`, without what its models do not need."""
    if FETCHED.is_dir():
        return FETCHED
    with tempfile.TemporaryDirectory(dir=FETCHED.parent, prefix="vaswani-hf-fetch-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "fairseq"]
        where = ["--dest", str(folder), "--retries", "1", "--timeout", "20"]
        try:
            result = subprocess.run(
                [*pip, *where, f"fairseq=={VERSION}"],
                env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
                capture_output=True,
                text=True,
                timeout=300,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"fetching fairseq {VERSION} took too long")
        if result.returncode != 0:
            reason = (result.stderr or result.stdout).strip().splitlines()[-1:]
            pytest.skip(f"cannot fetch fairseq {VERSION}: {reason}")
        with tarfile.open(folder / f"fairseq-{VERSION}.tar.gz") as archive:
            members = [
                member
                for member in archive.getmembers()
                if re.match(r"[^/]+/fairseq/(?!models/|examples/)", member.name)
                or re.match(rf"[^/]+/fairseq/models/({NEEDED_MODELS})(/|$)", member.name)
            ]
            archive.extractall(folder, members, filter="data")
        package = folder / f"fairseq-{VERSION}"
        (package / "fairseq" / "__init__.py").write_text("")  # which imports all tasks and criteria
        try:
            os.rename(package, FETCHED)
        except OSError:  # another process was faster
            if not FETCHED.is_dir():
                raise
    return FETCHED
