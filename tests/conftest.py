"""What every test shares: no network, one thread, nobody's cache, and the real text where it is."""

import os
import tempfile
from pathlib import Path


# The libraries read these when they are imported, so they are set before anything imports them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_EVALUATE_OFFLINE", "1")
HF_HOME = tempfile.TemporaryDirectory(prefix="vaswani_hf_tests_")
os.environ["HF_HOME"] = HF_HOME.name

import pytest
import torch


torch.set_num_threads(1)

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_unconfigure() -> None:
    HF_HOME.cleanup()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch.cuda.is_available() is False")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real text, which is not part of the repository (see CONTRIBUTING.md)."""
    folder = Path(os.environ.get("VASWANI_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real text at {folder}; VASWANI_DATA names its folder")
    return folder
