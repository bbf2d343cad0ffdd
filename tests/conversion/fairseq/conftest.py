from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conversion.fairseq import reference
from tests.conversion.fairseq.archives import write_dictionary


@pytest.fixture
def layers() -> reference.Layers:
    torch.manual_seed(0)
    return reference.Layers(is_tied=False).eval()


@pytest.fixture
def checkpoint(layers: reference.Layers) -> dict[str, Any]:
    return layers.checkpoint()


@pytest.fixture
def archive(tmp_path: Path, checkpoint: dict[str, Any]) -> Path:
    """A folder as fairseq's archives are, without codes."""
    folder = tmp_path / "archive"
    folder.mkdir()
    torch.save(checkpoint, folder / "model.pt")
    write_dictionary(folder / "dict.de.txt", reference.PIECES)
    write_dictionary(folder / "dict.en.txt", reference.OTHER_PIECES)
    return folder
