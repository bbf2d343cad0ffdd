# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What all conversions share: collecting differences, moving tensors, writing whole folders."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedConfig
from transformers.utils import CONFIG_NAME

from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import (
    LearnedPositions,
    VaswaniForConditionalGeneration,
    sinusoidal_positions,
)


AnyPath = str | PathLike[str]


class Differences:
    """What a conversion cannot carry over, collected, so that all of it is said at once.

    Args:
        what: what is converted and to what, such as `"runs/mine as a Marian folder"`.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.found: list[str] = []

    def add(self, difference: str) -> None:
        """Note one difference, in the words of the format's users."""
        self.found.append(difference)

    def refuse_if(self, is_different: bool, difference: str) -> None:
        """Note a difference where there is one."""
        if is_different:
            self.add(difference)

    def check(self) -> None:
        """Raise a `ValueError` that lists all differences, if there are any."""
        if not self.found:
            return
        count = "1 difference" if len(self.found) == 1 else f"{len(self.found)} differences"
        lines = "".join(f"\n  - {difference}" for difference in self.found)
        raise ValueError(f"Cannot convert {self.what}: {count}.{lines}")


class TensorReader:
    """Tensors taken out of a checkpoint by name, with every missing or odd one noted.

    Args:
        tensors: the checkpoint's, by name.
        differences: where to note what is wrong.
    """

    def __init__(self, tensors: Mapping[str, Tensor], differences: Differences) -> None:
        self.tensors = tensors
        self.differences = differences
        self.taken: set[str] = set()

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor in float32; one of zeros, and a note, where it is missing or misshapen."""
        self.taken.add(name)
        tensor = self.tensors.get(name)
        if tensor is None:
            self.differences.add(f"{name} is missing")
        elif tuple(tensor.shape) != shape:
            self.differences.add(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")
        elif not tensor.is_floating_point():
            self.differences.add(f"{name} is of type {tensor.dtype}, expected floating point")
        else:
            return tensor.float()
        return torch.zeros(shape)

    def ignore(self, *names: str) -> None:
        """Pass over tensors that carry nothing, whether they are there or not."""
        self.taken.update(names)

    def refuse_rest(self) -> None:
        """Note every tensor that nobody has asked for."""
        for name in sorted(self.tensors.keys() - self.taken):
            self.differences.add(
                f"{name} {tuple(self.tensors[name].shape)} has no place in this model"
            )


def build_model(
    config: VaswaniConfig, weights: Mapping[str, Tensor]
) -> VaswaniForConditionalGeneration:
    """A model in evaluation mode that holds these weights.

    Args:
        config: its configuration.
        weights: every parameter, by its name here; of tied ones only one is needed.

    Raises:
        ValueError: if a parameter is missing, unexpected or of another shape.
    """
    model = VaswaniForConditionalGeneration(config)
    model.load_state_dict(complete(model, weights))
    return model.eval()


def complete(
    model: VaswaniForConditionalGeneration, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The weights, with those that are tied to another filled in from it."""
    full = dict(weights)
    for target, source in model.all_tied_weights_keys.items():
        if source not in full and target in full:
            full[source] = full[target]
    for target, source in model.all_tied_weights_keys.items():
        full.setdefault(target, full[source])
    return full


def has_paper_positions(table: Tensor) -> bool:
    """Whether a table `(positions, d_model)` is the sinusoids of section 3.5, rounding aside.

    5e-4 lets a table through that was computed in float32, which is 3e-4 off by position 5,000.
    """
    paper = sinusoidal_positions(*table.shape)
    return bool((table.float() - paper).abs().max() < 5e-4)


def halves_to_pairs(d_model: int) -> Tensor:
    """The permutation from sinusoids in two halves to the paper's pairs, `(d_model,)`.

    `x_of_pairs = x_of_halves[..., halves_to_pairs(d_model)]`: other implementations put all sines
    first and all cosines after them; the paper interleaves (section 3.5).
    """
    half = (d_model + 1) // 2
    return torch.stack((torch.arange(half), torch.arange(half) + half), dim=1).flatten()[:d_model]


def pairs_to_halves(d_model: int) -> Tensor:
    """The inverse of `halves_to_pairs`."""
    return halves_to_pairs(d_model).argsort()


def permute_model_dimension(model: nn.Module, order: Tensor) -> None:
    """Renumber the model dimension through all weights: the function computed stays the same.

    Args:
        model: a `VaswaniForConditionalGeneration`; changed in place. Sinusoidal tables stay as they
            are, learned ones are renumbered.
        order: `(d_model,)`: dimension i of the new model is dimension `order[i]` of the old.
    """
    seen: set[int] = set()

    def renumber(parameter: Tensor | None, dim: int) -> None:
        if parameter is not None and id(parameter) not in seen:
            seen.add(id(parameter))
            parameter.copy_(parameter.index_select(dim, order.to(parameter.device)))

    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Embedding | LearnedPositions):
                renumber(module.weight, 1)
            elif isinstance(module, nn.LayerNorm):
                renumber(module.weight, 0)
                renumber(module.bias, 0)
            elif isinstance(module, nn.Linear):
                writes = name.endswith((".output_proj", ".outer"))
                renumber(module.weight, 0 if writes else 1)
                if writes:
                    renumber(module.bias, 0)


def load_config(folder: Path, source: AnyPath) -> PreTrainedConfig:
    """The configuration of a folder, of whichever kind of model.

    Args:
        folder: the folder.
        source: what a message calls it.

    Raises:
        ValueError: if there is none, or one that cannot be read.
    """
    if not (folder / CONFIG_NAME).is_file():
        raise ValueError(f"{source} is no model's folder: it has no {CONFIG_NAME}.")
    try:
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{CONFIG_NAME} of {source} cannot be read: {reason}") from error


def check_target(target: AnyPath) -> None:
    """Refuse with a `FileExistsError` a target that exists and is not an empty folder."""
    target = Path(target)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise FileExistsError(
            f"{target} exists already; name a new folder, so that nothing there is lost."
        )


@contextlib.contextmanager
def new_folder(target: AnyPath) -> Iterator[Path]:
    """A folder that appears under its name only when it is whole.

    Raises:
        FileExistsError: if the target exists and is not an empty folder.
    """
    check_target(target)
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield partial
        partial.chmod(0o755)  # mkdtemp's is 0700
        if target.exists():
            target.rmdir()
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def listed(values: Iterable[Any]) -> str:
    """Values in a sentence."""
    return ", ".join(str(value) for value in values)
