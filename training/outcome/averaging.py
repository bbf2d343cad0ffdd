# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python training/outcome/averaging.py CHECKPOINT [CHECKPOINT ...] --output FOLDER

The mean of the last checkpoints of a run (section 6.1).
"""

import argparse
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers.utils import SAFE_WEIGHTS_NAME

from training.loop.checkpoints import weights_file
from vaswani_hf.hub.names import TARGET_TOKENIZER


# Of the last checkpoint, beside the weights: configurations and tokenizers.
COPIED = ("*.json", "*.jinja", "*.model", "*.spm", "*.txt")


def average_checkpoints(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of each parameter over several checkpoints, in float32 (section 6.1).

    Args:
        folders: checkpoints, each with a `model.safetensors`; or all with the weights of an
            adapter, whose two matrices are averaged each by itself.

    Returns:
        Parameters by name.

    Raises:
        ValueError: if there is no checkpoint, or they differ in names or shapes; every difference
            is named.
        FileNotFoundError: if a folder has no weights.
    """
    if not folders:
        raise ValueError("There are no checkpoints to average.")
    with ExitStack() as stack:
        files = []
        for folder in folders:
            path = weights_file(Path(folder))
            if not path.is_file():
                raise FileNotFoundError(f"{folder} has no {SAFE_WEIGHTS_NAME}.")
            files.append(stack.enter_context(safe_open(path, framework="pt")))
        shapes = [
            {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            for file in files
        ]
        for folder, other in zip(folders[1:], shapes[1:], strict=True):
            _refuse_differences(folders[0], shapes[0], folder, other)
        mean = {}
        for name in shapes[0]:
            # float64 holds the sum of many float32 numbers exactly enough to round once.
            total = sum(file.get_tensor(name).double() for file in files)
            mean[name] = (total / len(files)).float()
    return mean


def _refuse_differences(
    first: Path, expected: dict[str, tuple[int, ...]], other: Path, got: dict[str, tuple[int, ...]]
) -> None:
    differences = []
    for name in sorted(expected.keys() | got.keys()):
        if name not in got or name not in expected:
            differences.append(f"{name} only in {first if name in expected else other}")
        elif expected[name] != got[name]:
            differences.append(f"{name} has {expected[name]} and {got[name]}")
    if differences:
        raise ValueError(
            f"Checkpoints {first} and {other} differ in {len(differences)} parameters: "
            f"{', '.join(differences)}."
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Average the checkpoints named on the command line into a new folder."""
    parser = argparse.ArgumentParser(description="Average checkpoints (section 6.1).")
    parser.add_argument("checkpoints", nargs="+", type=Path, help="folders with model.safetensors")
    parser.add_argument("--output", required=True, type=Path, help="a folder that is not there yet")
    arguments = parser.parse_args(argv)
    if arguments.output.exists():
        parser.error(f"--output {arguments.output} exists already.")
    mean = average_checkpoints(arguments.checkpoints)
    arguments.output.mkdir(parents=True)
    name = weights_file(arguments.checkpoints[0]).name
    save_file(mean, arguments.output / name, metadata={"format": "pt"})
    last = arguments.checkpoints[-1]
    for path in (path for pattern in COPIED for path in last.glob(pattern)):
        if path.name != "trainer_state.json":
            shutil.copy(path, arguments.output)
    if (last / TARGET_TOKENIZER).is_dir():
        shutil.copytree(last / TARGET_TOKENIZER, arguments.output / TARGET_TOKENIZER)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
