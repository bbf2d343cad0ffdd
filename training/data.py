# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentence pairs: from the Hub, from files or made up; read, counted, cleaned and encoded."""

import copy
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset, load_dataset
from transformers import DataCollatorForSeq2Seq, PreTrainedModel, PreTrainedTokenizerFast

from vaswani_hf.lines import read_lines
from vaswani_hf.tokenization_vaswani import join_pieces

from .arguments import DataArguments
from .batching import full_batch


SPLITS = ("train", "validation", "test")


@dataclass
class Corpus:
    """Pairs of text by split, columns `source` and `target`, and how many were read and dropped."""

    splits: dict[str, Dataset]
    counts: dict[str, int] = field(default_factory=dict)


def load_corpus(arguments: DataArguments, seed: int = 0) -> Corpus:
    """Read the splits that the arguments name; a split without files or data is left out.

    Args:
        arguments: where to read.
        seed: of the made-up pairs of `dataset: demo`.

    Raises:
        ValueError: if there is no training data, the sides of a pair of files differ in length, or
            a line cannot be read; file and line are named.
        FileNotFoundError: if a file is missing.
    """
    splits = {}
    for split in SPLITS:
        pairs = _load_split(arguments, split, seed)
        if pairs is not None:
            splits[split] = pairs
    if "train" not in splits:
        raise ValueError(
            "There is no training data: give --dataset, or --train_source and --train_target, or "
            "--train_file."
        )
    return Corpus(splits, {"pairs_read": len(splits["train"])})


def _load_split(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    sources, targets = (getattr(arguments, f"{split}_{side}") for side in ("source", "target"))
    files = getattr(arguments, f"{split}_file")
    if len(sources) != len(targets):
        raise ValueError(
            f"{split}_source names {len(sources)} files and {split}_target {len(targets)}; "
            f"give them in pairs."
        )
    if not sources and not files:
        return _load_named(arguments, split, seed) if arguments.dataset else None
    return _dataset_of_files(
        [*map(Path, sources)], [*map(Path, targets)], [*map(Path, files)], arguments
    )


def _load_named(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    if arguments.dataset == "demo":
        from .demo_text import demo_pairs

        pairs = demo_pairs(seed)[split]
        return Dataset.from_dict(
            {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
        )
    name = getattr(arguments, f"{split}_split")
    try:
        loaded = load_dataset(arguments.dataset, arguments.dataset_config, split=name)
    except ValueError as error:
        if split != "train" and "split" in str(error):
            return None
        raise
    keys = (arguments.source_column, arguments.target_column)

    def texts(row: dict[str, Any]) -> dict[str, str]:
        pair = _pair_of(row, keys, f"{arguments.dataset}, split {name}")
        return {"source": pair[0], "target": pair[1]}

    return loaded.map(texts, remove_columns=loaded.column_names)


def _dataset_of_files(
    sources: list[Path], targets: list[Path], files: list[Path], arguments: DataArguments
) -> Dataset:
    for path in (*sources, *targets, *files):
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}.")
    # `datasets` keeps what a generator gave under the hash of its arguments: a changed file must
    # change them. Tuples, as it takes a list for shards and would read the files once for each.
    state = tuple(
        (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns)
        for path in (*sources, *targets, *files)
    )
    keys = (arguments.source_column, arguments.target_column)
    # Read once before: an error of `read_pairs` reaches the user as it is, not wrapped.
    for _ in read_pairs(sources, targets, files, keys):
        pass
    return Dataset.from_generator(
        _rows,
        gen_kwargs={
            "files": (tuple(sources), tuple(targets), tuple(files)),
            "keys": keys,
            "state": state,
        },
    )


def _rows(
    files: tuple[tuple[Path, ...], tuple[Path, ...], tuple[Path, ...]],
    keys: tuple[str, str],
    state: Any,
) -> Iterator[dict[str, str]]:
    for source, target in read_pairs(*files, keys):
        yield {"source": source, "target": target}


def read_pairs(
    sources: Sequence[Path],
    targets: Sequence[Path],
    files: Sequence[Path] = (),
    keys: tuple[str, str] = ("source", "target"),
) -> Iterator[tuple[str, str]]:
    """Pairs from parallel files, and from files that hold both sides.

    Args:
        sources: files of source sentences, one a line, plain or gzipped (`.gz`), UTF-8.
        targets: files of their translations, in the same order.
        files: `.tsv` (source, tab, target) or `.jsonl` (an object a line).
        keys: the two keys of a JSON object; or language codes below its key `translation`.

    Raises:
        ValueError: if two files differ in length, or a line is not UTF-8 or not as described.
    """
    for source, target in zip(sources, targets, strict=True):
        yield from _aligned(source, target)
    for path in files:
        suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
        if suffix not in (".tsv", ".jsonl"):
            raise ValueError(f"{path} must end in .tsv or .jsonl (or .tsv.gz, .jsonl.gz).")
        for number, line in enumerate(read_lines(path), start=1):
            where = f"{path}, line {number}"
            yield _tab_separated(line, where) if suffix == ".tsv" else _json_pair(line, keys, where)


def _aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    pairs = itertools.zip_longest(read_lines(source), read_lines(target))
    for count, (left, right) in enumerate(pairs):
        if left is None or right is None:
            rest = sum(1 for _ in read_lines(target if left is None else source))
            lines = (count, rest) if left is None else (rest, count)
            raise ValueError(
                f"{source} has {lines[0]} lines and {target} has {lines[1]}; they must be parallel."
            )
        yield left, right


def _tab_separated(line: str, where: str) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) != 2:
        raise ValueError(f"{where} has {len(cells)} columns; source and target make two.")
    return cells[0], cells[1]


def _json_pair(line: str, keys: tuple[str, str], where: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object.")
    return _pair_of(row, keys, where)


def _pair_of(row: dict[str, Any], keys: tuple[str, str], where: str) -> tuple[str, str]:
    inner = row.get("translation")
    if isinstance(inner, dict):
        row = inner
    texts = [row.get(key) for key in keys]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{where} has no text under '{keys[0]}' and '{keys[1]}', but "
            f"{', '.join(map(repr, row))}; set source_column and target_column."
        )
    return texts[0], texts[1]  # type: ignore[return-value]


def encode_pairs(
    pairs: Dataset, tokenizer: PreTrainedTokenizerFast, segmented: bool = False
) -> Dataset:
    """Add `input_ids` and `labels`, both ending in `</s>`, to columns `source` and `target`.

    Args:
        pairs: columns `source` and `target`.
        tokenizer: makes the ids.
        segmented: the text is cut by subword-nmt; its words are joined again, so that translations
            are compared with words.
    """

    def encode(rows: dict[str, list[str]]) -> dict[str, list[Any]]:
        encoded: dict[str, list[Any]] = {
            "input_ids": tokenizer(rows["source"])["input_ids"],
            "labels": tokenizer(text_target=rows["target"])["input_ids"],
        }
        if segmented:
            encoded |= {side: [join_pieces(text) for text in rows[side]] for side in rows}
        return encoded

    return pairs.map(encode, batched=True, desc="Encoding")


def drop_unusable(pairs: Dataset, max_length: int) -> tuple[Dataset, dict[str, int]]:
    """Leave out pairs with an empty side, and pairs that are too long on either side.

    Args:
        pairs: encoded pairs.
        max_length: tokens that a side may have, `</s>` included.

    Returns:
        The rest, and how many pairs were dropped as `dropped_empty` and `dropped_too_long` and how
        many stayed, `pairs_kept`.

    Raises:
        ValueError: if nothing is left.
    """
    sources, targets = pairs["source"], pairs["target"]
    kept, counts = [], {"dropped_empty": 0, "dropped_too_long": 0}
    lengths = zip(*side_lengths(pairs), strict=True)
    for place, (source, target, sizes) in enumerate(zip(sources, targets, lengths, strict=True)):
        if not source.strip() or not target.strip():
            counts["dropped_empty"] += 1
        elif max(sizes) > max_length:
            counts["dropped_too_long"] += 1
        else:
            kept.append(place)
    counts["pairs_kept"] = len(kept)
    if not kept:
        raise ValueError(
            f"None of {len(pairs)} training pairs is usable: {counts['dropped_empty']} have an "
            f"empty side and {counts['dropped_too_long']} are longer than "
            f"max_length={max_length} tokens."
        )
    return pairs.select(kept), counts


def side_lengths(pairs: Dataset) -> tuple[list[int], list[int]]:
    """Tokens of each source and of each target."""
    return [len(ids) for ids in pairs["input_ids"]], [len(ids) for ids in pairs["labels"]]


class PairCollator:
    """Pads pairs to a batch; a column `index` passes through as `(B,)`."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> None:
        self.pad = DataCollatorForSeq2Seq(tokenizer, model=model)
        self.budget: tuple[int, int] | None = None  # tokens of a full batch, source and target

    def in_few_shapes(
        self, pad_to_multiple_of: int, source_tokens: int, target_tokens: int
    ) -> "PairCollator":
        """One that pads lengths to multiples, and batches by empty pairs to as many as they hold.

        Two batches of equal padded lengths then have equally many sentences. Empty pairs have no
        labels: the loss does not change.
        """
        collator = copy.copy(self)
        collator.pad = replace(self.pad, pad_to_multiple_of=pad_to_multiple_of)
        collator.budget = source_tokens, target_tokens
        return collator

    def __call__(self, pairs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Batch rows with `input_ids`, `labels` and maybe `index`."""
        sides = [{side: pair[side] for side in ("input_ids", "labels")} for pair in pairs]
        if self.budget is not None:
            step = cast(int, self.pad.pad_to_multiple_of)
            source, target = (
                -(-max(len(pair[side]) for pair in sides) // step) * step
                for side in ("input_ids", "labels")
            )
            # A source of no tokens would leave attention nothing to look at.
            empty = {"input_ids": [self.pad.tokenizer.eos_token_id], "labels": []}
            sides += [empty] * (full_batch(source, target, *self.budget) - len(sides))
        batch = dict(self.pad(sides))
        if "index" in pairs[0]:
            batch["index"] = torch.tensor([pair["index"] for pair in pairs])
        return batch
