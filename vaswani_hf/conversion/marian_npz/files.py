# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The files of a model: `model.npz`, and `decoder.yml`, which says what else there is."""

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from torch import Tensor

from ..differences import listed


MODEL, DECODER = "model.npz", "decoder.yml"
OPTIONS = "special:model.yml"


class Files(NamedTuple):
    """A model's file, its vocabularies as far as they are named, and what `decoder.yml` sets."""

    model: Path
    vocabularies: list[Path]
    decoder: dict[str, Any]


def find_files(source: Path) -> Files:
    """The files that a `.npz` file, a `decoder.yml`, or a folder with one of these names.

    Raises:
        FileNotFoundError: if there is none, or a folder does not say which.
        ValueError: if `decoder.yml` is damaged or names several models.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source} is neither a file nor a folder.")
    if source.is_file() and source.suffix in (".yml", ".yaml"):
        return _named_files(source)
    if source.is_file():
        for decoder in (Path(f"{source}.{DECODER}"), source.parent / DECODER):
            if decoder.is_file():
                return _named_files(decoder)._replace(model=source)
        return Files(source, [], {})
    decoders = [source / DECODER] if (source / DECODER).is_file() else []
    decoders = decoders or sorted(source.glob(f"*.{DECODER}"))
    if len(decoders) == 1:
        return _named_files(decoders[0])
    models = [path for path in sorted(source.glob("*.npz")) if ".optimizer." not in path.name]
    if not decoders and len(models) == 1:
        return Files(models[0], [], {})
    found = [path.name for path in (*decoders, *models)]
    raise FileNotFoundError(
        f"{source} must hold {DECODER} or one .npz file: it has {listed(found) or 'neither'}"
        f"{'; name one' if found else ''}."
    )


def _named_files(path: Path) -> Files:
    decoder = parse_yaml(path.read_text(encoding="utf-8", errors="replace"), str(path))
    for name in ("models", "vocabs"):
        if not isinstance(decoder.get(name) or [], list):
            raise ValueError(f"{path}: {name} must be a list of files, got {decoder[name]!r}.")
    models, vocabularies = decoder.get("models") or [], decoder.get("vocabs") or []
    if len(models) != 1:
        raise ValueError(
            f"{path} must name one model, got {listed(models) or 'none'}; convert each .npz file, "
            f"and translate by all of them together."
        )
    if len(vocabularies) != 2:
        raise ValueError(
            f"{path} must name the vocabularies of source and target, got {listed(vocabularies)}."
        )
    return Files(_beside(path, models[0]), [_beside(path, name) for name in vocabularies], decoder)


def _beside(decoder: Path, name: Any) -> Path:
    """The file that `decoder.yml` names; one that has moved is looked for beside it."""
    named = decoder.parent / str(name)
    return named if named.is_file() else decoder.parent / Path(str(name)).name


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """The entries of a YAML file; a `ValueError` names it where it is damaged."""
    try:
        entries = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is not valid YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{name} must hold options and their values.")
    return entries


def read_npz(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file by name, and the options of its model.

    Raises:
        ValueError: if the file is another one, damaged, or holds Python objects.
        FileNotFoundError: if there is none.
    """
    if path.suffix == ".bin":
        raise ValueError(
            f"{path} is in Marian's binary format; `marian-conv -f {path.name} -t {MODEL}` makes a "
            f".npz file of it, unless it is quantized."
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            tensors = {name: torch.from_numpy(archive[name]) for name in archive.files}
    except (ValueError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        # `AttributeError`: a single array, which is no archive. `TypeError`: an array of texts.
        raise ValueError(
            f"{path} is no .npz file of arrays, is damaged, or holds Python objects, which are "
            f"never loaded."
        ) from error
    if OPTIONS not in tensors:
        raise ValueError(f"{path} has no {OPTIONS}, so it is no model of Marian.")
    text = tensors.pop(OPTIONS).numpy().tobytes().rstrip(b"\0")
    return tensors, parse_yaml(text.decode("utf-8", errors="replace"), f"{OPTIONS} of {path}")


def write_npz(tensors: dict[str, Tensor], options: dict[str, Any], path: Path) -> None:
    """Write a model's file."""
    text = yaml.safe_dump(options).encode() + b"\0"
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    np.savez(path, **arrays | {OPTIONS: np.frombuffer(text, dtype=np.int8)})


def write_decoder(decoder: dict[str, Any], path: Path) -> None:
    """Write `decoder.yml`."""
    path.write_text(yaml.safe_dump(decoder, sort_keys=False), encoding="utf-8")
