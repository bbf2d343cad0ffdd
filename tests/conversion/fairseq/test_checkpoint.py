import argparse
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conversion.fairseq.archives import (
    assert_refused,
)
from vaswani_hf.conversion.fairseq import from_fairseq


class Intruder:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_zip", [True, False])
def test_code_in_a_checkpoint_is_named_and_not_run(
    archive: Path, checkpoint: dict[str, Any], tmp_path: Path, is_zip: bool
) -> None:
    checkpoint["extra_state"] = Intruder(tmp_path / "intruded")
    torch.save(checkpoint, archive / "model.pt", _use_new_zipfile_serialization=is_zip)
    with pytest.raises(ValueError, match=rf"holds Python objects of {os.name}\.mkdir, which"):
        from_fairseq(archive, tmp_path / "new")
    assert not (tmp_path / "intruded").exists()
    assert not (tmp_path / "new").exists()


def test_all_foreign_classes_are_named_with_a_way_out(
    archive: Path, checkpoint: dict[str, Any]
) -> None:
    checkpoint["extra_state"] = [argparse.Action(["-x"], "x"), json.JSONDecodeError("", "", 0)]
    message = (
        r"(?s)objects of argparse\.Action, json\.decoder\.JSONDecodeError, which are not loaded"
        r'.*torch\.save\(\{"model": state\["model"\], "args": settings\}, "model\.pt"\)'
    )
    assert_refused(checkpoint, archive, message, number=0)


def test_a_file_that_is_no_checkpoint_is_refused(archive: Path, tmp_path: Path) -> None:
    (archive / "model.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match=r"model\.pt is not a checkpoint that torch\.load reads"):
        from_fairseq(archive, tmp_path / "new")


def test_a_folder_with_several_checkpoints_must_say_which(archive: Path, tmp_path: Path) -> None:
    (archive / "model.pt").rename(archive / "model1.pt")
    shutil.copyfile(archive / "model1.pt", archive / "model2.pt")
    with pytest.raises(FileNotFoundError, match=r"it has model1\.pt, model2\.pt; name one"):
        from_fairseq(archive, tmp_path / "new")
    from_fairseq(archive / "model2.pt", tmp_path / "new")
    assert (tmp_path / "new" / "config.json").is_file()
