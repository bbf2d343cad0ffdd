# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What the names say that users give to embeddings and positions."""

import re


# Words of the names that users give what `torch.nn.Transformer` leaves to them.
SOURCE_WORDS = frozenset(("src", "source", "enc", "encoder"))
TARGET_WORDS = frozenset(("tgt", "trg", "target", "dec", "decoder"))
EMBEDDING_WORDS = frozenset(("emb", "embed", "embedding", "embeddings", "lut"))
POSITION_WORDS = frozenset(("pos", "position", "positions", "positional", "pe"))


def _words(name: str) -> frozenset[str]:
    """The words of a name; the "encoder" of `pos_encoder` is no side of the model."""
    return frozenset(re.split(r"[._]", re.sub(r"(pos[a-z]*)_encoder", r"\1", name.lower())))


def _of_side(names: list[str], own: frozenset[str], other: frozenset[str]) -> list[str]:
    """Names with a word of this side alone; where there are none, those of neither or both."""
    ours = [name for name in names if own & _words(name) and not other & _words(name)]
    return ours or [
        name for name in names if bool(own & _words(name)) == bool(other & _words(name))
    ]
