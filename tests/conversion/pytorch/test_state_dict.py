from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.conversion.pytorch.models import (
    HEADS,
    IDS,
    Translation,
    annotated_transformer,
    drop,
    edited,
)
from vaswani_hf.conversion.pytorch import from_torch


class Trained:
    """What a script might keep beside the weights."""


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("m.pt", lambda path: torch.save(Translation(), path), "Save model.state_dict()"),
        (
            "m.pt",
            lambda path: torch.save({"model": Translation().state_dict(), "x": Trained()}, path),
            "is damaged or holds Python objects",
        ),
        ("m.pt", lambda path: path.write_bytes(b"nothing"), "is damaged or holds Python objects"),
        ("m.pt", lambda path: torch.save({"epoch": 3}, path), "at its top or under .*only epoch"),
        ("m.pt", lambda path: torch.save([torch.ones(2)], path), "must hold a state dict"),
        ("m.npz", lambda path: path.write_bytes(b""), "must end in .safetensors, .pt"),
        ("m.safetensors", lambda path: path.write_bytes(b"x"), "is not a safetensors file"),
        (
            "m.safetensors",
            lambda path: save_file(annotated_transformer(), path),
            r"Cannot convert .*m.safetensors: 2 differences",
        ),
        (
            "m.pt",
            lambda path: torch.save(edited(drop("generator.weight")), path),
            "output: no name is recognized",
        ),
    ],
)
def test_a_refused_file_leaves_nothing_behind(
    name: str, write: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    write(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        from_torch(tmp_path / name, tmp_path / "new" / "folder", num_heads=HEADS, **IDS)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"lost\.pt is not a file"):
        from_torch(tmp_path / "lost.pt", tmp_path / "folder", num_heads=HEADS, **IDS)
