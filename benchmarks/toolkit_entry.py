# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""PYTHON toolkit_entry.py run MODULE [argument ...], or average OUTPUT CHECKPOINT [...] --keys KEY

What `benchmarks/toolkits.py` runs in the environment of a toolkit, which has none of our packages:
one of the toolkit's own programs, or the mean of the weights in its checkpoints. The toolkits were
written for older versions of Python and torch; `let_it_run` is all that is changed for them.

The environments, each of Python 3.11 with `pip install torch==2.13.0` (the build for CPUs):

joeynmt: `pip install joeynmt==2.3.0 importlib_metadata sentencepiece==0.2.0`.

opennmt: `pip install numpy configargparse pyyaml six sacrebleu rapidfuzz pyonmttok ctranslate2
sentencepiece tensorboard pyahocorasick spacy fasttext-wheel flask waitress`, then
`pip install --no-deps OpenNMT-py==3.5.1`, which asks for torch below 2.3.

fairseq: `pip install "pip<24.1"`, then `pip install hydra-core==1.0.7 omegaconf==2.0.6 cffi regex
sacrebleu tqdm bitarray numpy==1.23.5 sacremoses scikit-learn`, then the wheel without its
dependencies. Its source lacks files of the extensions that it would build with torch, so the wheel
is made where there is none, with `"pip<24.1" "setuptools<70" wheel "cython<3" numpy==1.23.5`:
`pip wheel --no-deps --no-build-isolation fairseq==0.12.2`.
"""

import argparse
import dataclasses
import functools
import inspect
import json
import runpy
import sys
from typing import Any

import torch
from torch.optim import lr_scheduler


# Others are tables of positions, and what fairseq keeps twice for its fast encoder.
LEARNED = ("weight", "bias")


def main(argv: list[str]) -> None:
    """Run a module of the toolkit as its program, or average checkpoints."""
    let_it_run()
    if argv[0] == "run":
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--keys", nargs="+", required=True, help="of the weights in a checkpoint")
    options = parser.parse_args(argv[1:])
    average, parameters = mean_of(options.checkpoints, options.keys)
    torch.save(average, options.output)
    print(json.dumps({"parameters": parameters}))


def let_it_run() -> None:
    """Give back what Python 3.11 and today's torch have taken away; no arithmetic is touched."""
    # fairseq 0.12.2 has defaults that Python 3.11 takes for mutable ones, as they have no hash.
    make = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        if cls is None:
            return functools.partial(dataclass, **options)
        made: Any = make(cls, **options)
        if made.__hash__ is None and made.__module__.startswith(("fairseq", "hydra")):
            made.__hash__ = object.__hash__
        return made

    dataclasses.dataclass = dataclass  # type: ignore[assignment]
    # All three keep more than tensors in a checkpoint, which is of their own making.
    torch.load = functools.partial(torch.load, weights_only=False)
    # fairseq's fast encoder has one kind of mask, of padding, which torch wants to be told.
    torch._transformer_encoder_layer_fwd = functools.partial(
        torch._transformer_encoder_layer_fwd, mask_type=1
    )
    # JoeyNMT 2.3.0 still says `verbose=False`.
    Plateau = lr_scheduler.ReduceLROnPlateau
    if "verbose" not in inspect.signature(Plateau).parameters:

        def plateau(*arguments: Any, verbose: bool = False, **options: Any) -> Any:
            return Plateau(*arguments, **options)

        lr_scheduler.ReduceLROnPlateau = plateau  # type: ignore[assignment, misc]


def mean_of(paths: list[str], keys: list[str]) -> tuple[dict[str, Any], int]:
    """The last checkpoint with the mean of all weights, and how many parameters it has.

    Args:
        paths: of checkpoints, the last one last.
        keys: of the state dicts in a checkpoint.
    """
    *others, checkpoint = [torch.load(path, map_location="cpu") for path in paths]
    weights = [
        (state, name)
        for state in (checkpoint[key] for key in keys)
        for name, tensor in state.items()
        if tensor.is_floating_point()
    ]
    # Tied weights are in a checkpoint under several names.
    shared = {
        state[name].data_ptr(): state[name].numel()
        for state, name in weights
        if name.rpartition(".")[2] in LEARNED
    }
    for key in keys:
        for name, tensor in checkpoint[key].items():
            if tensor.is_floating_point():
                total = tensor.double()
                for other in others:
                    total = total + other[key][name].double()
                checkpoint[key][name] = (total / len(paths)).to(tensor.dtype)
    return checkpoint, sum(shared.values())


if __name__ == "__main__":
    main(sys.argv[1:])
