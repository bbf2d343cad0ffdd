# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Where the heads of a model look, for one sentence and its translation (section 3.2.3).

Pieces become words as in Clark et al. (2019, "What Does BERT Look At?", section 4.1): what a query
gives to the pieces of a word is summed, and over the queries of a word's pieces it is averaged. So
each row sums to 1 still. A piece that spells parts of several words belongs to each of them in
equal shares, one that spells nothing to the word after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..translation.alignment import PREDICTS, READS, STEPS, Aligner, eager_attention
from ..translation.forcing import forced
from ..translation.words import Segmentation, segment


if TYPE_CHECKING:
    import torch

    from ..translation import Translator


ENCODER, DECODER, CROSS = KINDS = ("encoder", "decoder", "cross")
START = "<start>"
NEXT = "…"  # what the last step of a target predicts that has not ended


@dataclass(frozen=True)
class Attention:
    """The weights of every head, for a sentence of `S` words or pieces and a target of `T`.

    Attributes:
        source: the sentence.
        target: its translation.
        weights: of each kind. `"encoder"` `(layers, H, S, S)`, encoder self-attention; `"decoder"`
            `(layers, H, T, T)`, decoder self-attention; `"cross"` `(layers, H, T, S)`, attention of
            the decoder over the memory. A row is a query, a column a key; rows sum to 1.
        queries: what the rows of each kind stand for.
        keys: what its columns stand for. The decoder reads a start before the first word.
        step: `"reads"` or `"predicts"`, what a step of the decoder does to the word of its row.
    """

    source: str
    target: str
    weights: dict[str, "torch.Tensor"]
    queries: dict[str, list[str]]
    keys: dict[str, list[str]]
    step: str

    def of(
        self, kind: str, layers: int | Sequence[int] | None, heads: int | Sequence[int] | None
    ) -> tuple["torch.Tensor", list[int], list[int]]:
        """The weights of some layers and heads, and which these are; `None` for all.

        Returns:
            `(layers, heads, queries, keys)`.

        Raises:
            ValueError: if there is no such kind, layer or head.
        """
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind=}.")
        weights = self.weights[kind]
        chosen_layers = places_of("layer", layers, weights.shape[0])
        chosen_heads = places_of("head", heads, weights.shape[1])
        return weights[chosen_layers][:, chosen_heads], chosen_layers, chosen_heads


def attention_of(
    translator: "Translator",
    sentence: str,
    target: str | Sequence[int] | None = None,
    *,
    in_pieces: bool = False,
    step: str = READS,
) -> Attention:
    """Where every head looks while a model reads a sentence and translates it (section 3.2.3).

    The weights are those that the model returns by `output_attentions`.

    Args:
        translator: of any sequence-to-sequence model of transformers.
        sentence: a source of one sentence.
        target: its translation, as text or ids; `None` for the model's own, by its beam search.
        in_pieces: whether rows and columns are the tokenizer's pieces instead of words.
        step: what the rows of the decoder are named by: the word that a step `"reads"`, which its
            query is made of, or the one that it `"predicts"`, which comes after it.

    Raises:
        ValueError: if the sentence has no words, `step` is another one, the model does not tell
            where it looks, or it is not known which characters a piece spells.
    """
    import torch

    if step not in STEPS:
        raise ValueError(f'step must be "{READS}" or "{PREDICTS}", got {step=}.')
    if not sentence.strip():
        raise ValueError("There is nothing to look at: the sentence has no words.")
    if target is None:
        target = translator.target_ids(translator.encode([sentence]))[0]
    ((pair,),) = translator.pair_reader(1).chunks([sentence], [target])
    model, padding = translator.model, translator.tokenizer.pad_token_id
    aligner = Aligner(model, translator.tokenizer, translator.target_tokenizer, 1)
    read = aligner.read_ids(pair.target)
    with torch.inference_mode(), eager_attention(model):
        outputs = forced(model, padding, [pair.source], [read], output_attentions=True)
    layers = {kind: outputs.get(f"{kind}_attentions") for kind in KINDS}
    if not all(found and found[0] is not None for found in layers.values()):
        raise ValueError(
            f"This {type(model).__name__} does not tell where it looks: it returns no weights for "
            f"output_attentions."
        )
    weights = {kind: torch.cat(found).float().cpu() for kind, found in layers.items()}
    source = segment(translator.tokenizer, pair.source, sentence)
    spoken = segment(translator.target_tokenizer, pair.target, pair.target_text, is_target=True)
    read_pieces = _part(spoken, len(read), START, 0)
    predicted = _part(spoken, len(read) + 1) if len(pair.target) > len(read) else None
    rows = read_pieces
    if step == PREDICTS:
        rows = predicted or _part(spoken, len(read), NEXT, len(read))
    sides = {"source": source, "read": read_pieces, "rows": rows}
    units = {name: _units(side, in_pieces) for name, side in sides.items()}
    labels = {name: found for name, (found, _) in units.items()}
    shares = {name: share for name, (_, share) in units.items()}
    where = {ENCODER: ("source", "source"), DECODER: ("rows", "read"), CROSS: ("rows", "source")}
    return Attention(
        source=sentence,
        target=spoken.text,
        weights={
            kind: in_units(weights[kind], shares[queries], shares[keys])
            for kind, (queries, keys) in where.items()
        },
        queries={kind: labels[queries] for kind, (queries, _) in where.items()},
        keys={kind: labels[keys] for kind, (_, keys) in where.items()},
        step=step,
    )


def _part(
    whole: Segmentation, count: int, extra: str | None = None, place: int = 0
) -> Segmentation:
    """The first pieces of a text, with one more that spells nothing of it."""
    pieces, spans = list(whole.pieces[:count]), list(whole.spans[:count])
    if extra is not None:
        pieces.insert(place, extra)
        spans.insert(place, None)
    return Segmentation(whole.text, pieces, spans)


def _units(segmentation: Segmentation, in_pieces: bool) -> tuple[list[str], "torch.Tensor"]:
    """What the rows or columns of a picture stand for, and what share of each piece each has.

    Returns:
        The names of words, or of pieces, and `(pieces, names)`, whose rows sum to 1.
    """
    import torch

    pieces = segmentation.pieces
    if in_pieces:
        return pieces, torch.eye(len(pieces))
    owners: list[list[tuple[str, int]]] = []  # of each piece: the words it is a part of
    for place, (span, words) in enumerate(
        zip(segmentation.spans, segmentation.words_of_pieces, strict=True)
    ):
        owners.append([("piece", place)] if span is None else [("word", word) for word in words])
    for place in reversed(range(len(owners))):  # what spells nothing
        if not owners[place]:
            later = owners[place + 1] if place + 1 < len(owners) else []
            owners[place] = later or [("piece", place)]
    found = list(dict.fromkeys(owner for some in owners for owner in some))
    shares = torch.zeros(len(pieces), len(found))
    for place, some in enumerate(owners):
        for owner in some:
            shares[place, found.index(owner)] = 1 / len(some)
    names = {"word": segmentation.words, "piece": pieces}
    return [names[kind][place] for kind, place in found], shares


def in_units(
    weights: "torch.Tensor", queries: "torch.Tensor", keys: "torch.Tensor"
) -> "torch.Tensor":
    """The weights between words, out of those between pieces: keys summed, queries averaged.

    Args:
        weights: `(..., query pieces, key pieces)`, whose rows sum to 1.
        queries: `(query pieces, query words)`, the share of each piece in each word.
        keys: `(key pieces, key words)`, likewise.

    Returns:
        `(..., query words, key words)`, whose rows sum to 1.
    """
    averaging = (queries / queries.sum(dim=0)).T
    return averaging @ weights @ keys


def places_of(name: str, given: int | Sequence[int] | None, count: int) -> list[int]:
    """The layers or heads that are named; `None` names all.

    Raises:
        ValueError: if there is no such one.
    """
    if given is None:
        return list(range(count))
    places = [given] if isinstance(given, int) else list(given)
    wrong: list[Any] = [place for place in places if not 0 <= place < count]
    if wrong or not places:
        raise ValueError(
            f"{name} must be from 0 to {count - 1} for this model, got "
            f"{name}={wrong[0] if wrong else places}."
        )
    return places


__all__ = ["CROSS", "DECODER", "ENCODER", "KINDS", "Attention", "attention_of"]
