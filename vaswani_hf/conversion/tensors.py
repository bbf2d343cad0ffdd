# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Tensors by name: taken out of a checkpoint, put into a model."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..configuration_vaswani import VaswaniConfig
from ..modeling_vaswani import VaswaniForConditionalGeneration
from .differences import Differences


class TensorReader:
    """Takes tensors out of a checkpoint by name, and notes every missing or unexpected one.

    Args:
        tensors: the checkpoint's, by name.
        differences: where to note what is wrong.
    """

    def __init__(self, tensors: Mapping[str, Tensor], differences: Differences) -> None:
        self.tensors = tensors
        self.differences = differences
        self.taken: set[str] = set()

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor in float32; if it is missing or has another shape, zeros, and a note."""
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

    def take_affine(
        self, theirs: str, ours: str, *shape: int, has_bias: bool = True
    ) -> dict[str, Tensor]:
        """The weight and bias of a linear layer or of a layer normalization.

        Args:
            theirs: its name in the checkpoint.
            ours: its name here.
            shape: of the weight; the bias has the first dimension.
            has_bias: whether the checkpoint has one; without, it is zeros, which do the same.
        """
        weight = self.take(f"{theirs}.weight", *shape)
        bias = self.take(f"{theirs}.bias", shape[0]) if has_bias else torch.zeros(shape[0])
        return {f"{ours}.weight": weight, f"{ours}.bias": bias}

    def ignore(self, *names: str) -> None:
        """Leave out tensors that carry nothing, whether they exist or not."""
        self.taken.update(names)

    def refuse_rest(self) -> None:
        """Note every tensor that was neither taken nor ignored."""
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
