# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which tensors are embeddings, positions, the source's and the target's, by the words of names.

`torch.nn.Transformer` leaves embeddings, positions and logits to its users, who name them freely.
"""

import re


SOURCE_WORDS = frozenset(("src", "source", "enc", "encoder"))
TARGET_WORDS = frozenset(("tgt", "trg", "target", "dec", "decoder"))
EMBEDDING_WORDS = frozenset(("emb", "embed", "embedding", "embeddings", "lut"))
POSITION_WORDS = frozenset(("pos", "position", "positions", "positional", "pe"))


def words_of(name: str) -> frozenset[str]:
    """The words of a name; the "encoder" of `pos_encoder` is no side of the model."""
    return frozenset(re.split(r"[._]", re.sub(r"(pos[a-z]*)_encoder", r"\1", name.lower())))


def names_of_side(names: list[str], own: frozenset[str], other: frozenset[str]) -> list[str]:
    """Names with a word of this side alone; where there are none, those of neither or both."""
    ours = [name for name in names if own & words_of(name) and not other & words_of(name)]
    return ours or [
        name for name in names if bool(own & words_of(name)) == bool(other & words_of(name))
    ]
