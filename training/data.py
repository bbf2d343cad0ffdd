# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentence pairs: from the Hub, from files or made up; read and encoded."""

import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import torch
from datasets import (
    Dataset,
    Features,
    IterableDataset,
    Value,
    concatenate_datasets,
    load_dataset,
)
from datasets.config import HF_DATASETS_CACHE
from datasets.exceptions import DatasetGenerationError, DatasetsError
from datasets.fingerprint import Hasher
from huggingface_hub import HfApi
from huggingface_hub.constants import HF_HUB_OFFLINE
from huggingface_hub.utils import HFValidationError, validate_repo_id
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from vaswani_hf.hub import explained
from vaswani_hf.lines import read_decodable_lines, read_lines
from vaswani_hf.loss_vaswani import IGNORED
from vaswani_hf.tokenization_vaswani import join_pieces

from .arguments import Arguments, DataArguments, raised_by
from .batching import full_batch
from .corpora import CorpusPlan, plan_corpora, shares


SPLITS = ("train", "validation", "test")
SAMPLE_PAIRS = 1_000_000  # teach the vocabulary when streaming, unless said otherwise
_ROWS = 10000  # of Arrow tables, at a time
_TIMEOUT_SECONDS = 10.0  # for the Hub to say whether it has a dataset


@dataclass
class Corpus:
    """Pairs of text by split, columns `source` and `target`, and how many were read and dropped.

    A text that could not be decoded is `None`. When streaming there is no split `train`.

    Args:
        splits: the pairs; those of several training corpora one after the other.
        plans: the corpora that `train` is made of.
        sizes: how many pairs each of them has there; empty when streaming.
        counts: what is reported.
        sample_pairs: how many pairs teach the vocabulary; `None` for all.
    """

    splits: dict[str, Dataset]
    plans: list[CorpusPlan] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    sample_pairs: int | None = None

    def sentences(self) -> Iterator[str]:
        """The texts that the vocabulary is learned from, sources and targets."""
        if "train" in self.splits:
            train = self.splits["train"]
            if self.sample_pairs is not None and self.sample_pairs < len(train):
                # Evenly spread: corpora stand one after the other.
                places = np.arange(self.sample_pairs) * len(train) // self.sample_pairs
                train = train.select(places)
            texts = itertools.chain(train["source"], train["target"])
        else:
            texts = itertools.chain.from_iterable(self._first_pairs())
        return (text for text in texts if text is not None)

    def _first_pairs(self) -> Iterator[tuple[str | None, str | None]]:
        count = SAMPLE_PAIRS if self.sample_pairs is None else self.sample_pairs
        for plan, share in zip(self.plans, shares(self.plans) or [1.0], strict=True):
            rows = itertools.islice(stream_pairs(plan.arguments), max(1, round(share * count)))
            yield from (read_row(row, plan.arguments) for row in rows)


def load_corpus(arguments: DataArguments, seed: int = 0) -> Corpus:
    """Read the splits that the arguments name; a split without files or data is left out.

    Args:
        arguments: where to read. With `streaming`, training text is only looked for.
        seed: of the made-up pairs of `dataset: demo`.

    Raises:
        ValueError: if there is no training data, the sides of a pair of files differ in length, or
            a line cannot be read; file and line are named.
        FileNotFoundError: if a file is missing.
    """
    plans = plan_corpora(arguments)
    splits, sizes = {}, []
    for split in SPLITS[1:]:
        pairs = _load_split(arguments, split, seed)
        if pairs is not None:
            splits[split] = pairs
    for plan in plans:
        if arguments.streaming:
            stream_pairs(plan.arguments)
            continue
        pairs = _load_split(plan.arguments, "train", seed)
        if pairs is None:
            raise ValueError(NO_TRAINING_DATA)
        sizes.append(len(pairs))
        splits["train"] = (
            concatenate_datasets([splits["train"], pairs]) if "train" in splits else pairs
        )
    counts = {} if arguments.streaming else {"pairs_read": sum(sizes)}
    return Corpus(splits, plans, sizes, counts, arguments.tokenizer_sample_pairs)


NO_TRAINING_DATA = (
    "There is no training data: give --dataset, or --train_source and --train_target, or "
    "--train_file, or --corpora."
)


def stream_pairs(arguments: DataArguments) -> IterableDataset:
    """The training rows of one corpus, read as they are asked for; `read_row` makes pairs of them.

    Raises:
        ValueError: if there is no training data, or it cannot be streamed.
        FileNotFoundError: if a file is missing.
    """
    files = _files_of(arguments, "train")
    if files is not None:
        _require_files(files)
        how = _how_to_read(files, arguments, arguments.drop_undecodable)
        _require_lines(how, "train")
        return IterableDataset.from_generator(_rows, gen_kwargs=how, features=_TEXTS)
    if not arguments.dataset:
        raise ValueError(NO_TRAINING_DATA)
    if arguments.dataset == "demo":
        raise ValueError("dataset=demo is made in memory; leave out streaming.")
    rows = _load_dataset(arguments, arguments.train_split, streaming=True)
    if rows is None:
        raise ValueError(
            f"{arguments.dataset} has no split {arguments.train_split}; set train_split."
        )
    return rows


def read_row(row: dict[str, Any], arguments: DataArguments) -> tuple[str | None, str | None]:
    """Source and target of a row of `stream_pairs`; `None` for what could not be decoded.

    Raises:
        ValueError: if the columns that the arguments name are not there.
    """
    if _files_of(arguments, "train") is not None:
        return row["source"], row["target"]
    keys = (arguments.source_column, arguments.target_column)
    return _pair_of(row, keys, f"{arguments.dataset}, split {arguments.train_split}")


Files = tuple[tuple[Path, ...], tuple[Path, ...], tuple[Path, ...]]  # source, target, both
_TEXTS = Features({"source": Value("string"), "target": Value("string")})


def _load_split(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    files = _files_of(arguments, split)
    if files is None:
        return _load_named(arguments, split, seed) if arguments.dataset else None
    _require_files(files)
    # A test set is not to lose sentences.
    how = _how_to_read(files, arguments, arguments.drop_undecodable and split == "train")
    _require_lines(how, split)
    with _told_by_cause():
        return Dataset.from_generator(_rows, gen_kwargs=how, features=_TEXTS)


@contextmanager
def _told_by_cause() -> Iterator[None]:
    """What `datasets` wraps its own error around, as it is; a full disk with the cache's folder."""
    try:
        yield
    except (DatasetGenerationError, OSError) as error:
        cause = error.__cause__ if isinstance(error, DatasetGenerationError) else error
        if isinstance(cause, ValueError):
            raise cause from None
        if isinstance(cause, OSError) and cause.errno in (ENOSPC, EDQUOT, EFBIG):
            raise OSError(
                f"{HF_DATASETS_CACHE}: no space is left for the text that was read; make room, or "
                f"set HF_DATASETS_CACHE to a folder of another disk."
            ) from error
        if isinstance(cause, OSError):
            raise cause from None
        raise


def _files_of(arguments: DataArguments, split: str) -> Files | None:
    sources, targets = (getattr(arguments, f"{split}_{side}") for side in ("source", "target"))
    files = getattr(arguments, f"{split}_file")
    if len(sources) != len(targets):
        raise ValueError(
            f"{split}_source names {len(sources)} files and {split}_target {len(targets)}; "
            f"give them in pairs."
        )
    if not sources and not files:
        return None
    return tuple(map(Path, sources)), tuple(map(Path, targets)), tuple(map(Path, files))


def _require_files(files: Files) -> None:
    for path in itertools.chain(*files):
        if path.is_dir():
            raise ValueError(f"{path} is a folder; name a file, or give it as --dataset.")
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}.")


def _require_lines(how: dict[str, Any], split: str) -> None:
    if next(_rows(**how), None) is None:
        names = ", ".join(map(str, itertools.chain(*how["files"])))
        raise ValueError(f"{names}: no line is there; split {split} needs pairs.")


def _load_named(arguments: DataArguments, split: str, seed: int) -> Dataset | None:
    if arguments.dataset == "demo":
        from .demo_text import demo_pairs

        pairs = demo_pairs(seed)[split]
        return Dataset.from_dict(
            {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
        )
    name = getattr(arguments, f"{split}_split")
    loaded = _load_dataset(arguments, split)
    if loaded is None:
        return None
    keys, where = (arguments.source_column, arguments.target_column), arguments.dataset

    # Only what the texts depend on: what `map` keeps is found again by a hash of this function.
    def texts(row: dict[str, Any]) -> dict[str, str]:
        pair = _pair_of(row, keys, f"{where}, split {name}")
        return {"source": pair[0], "target": pair[1]}

    with _told_by_cause():
        return loaded.map(texts, remove_columns=loaded.column_names)


def _load_dataset(arguments: DataArguments, split: str, streaming: bool = False) -> Any:
    """A split of a dataset of the Hub or of a folder; `None` without one to validate or test on.

    Raises:
        ValueError: if it cannot be read, or has no split to train on.
        HubError: if it cannot be fetched.
    """
    name, split_name = str(arguments.dataset), getattr(arguments, f"{split}_split")
    _require_dataset(name)
    try:
        with _told_by_cause():
            return load_dataset(
                name, arguments.dataset_config, split=split_name, streaming=streaming
            )
    except (ValueError, DatasetsError) as error:
        if split != "train" and isinstance(error, ValueError) and "split" in str(error):
            return None
        cause = error.__cause__ or error
        reason = " ".join(str(cause).split())
        raise ValueError(f"dataset={name}, split {split_name}: {reason}") from error


def _require_dataset(name: str) -> None:
    """Ask the Hub for a dataset once, quickly; `datasets` would ask for half a minute."""
    if Path(name).exists():
        return
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise ValueError(
            f"dataset={name} is no folder, and no id on the Hub looks like it."
        ) from None
    if HF_HUB_OFFLINE or Path(HF_DATASETS_CACHE, name.replace("/", "___")).is_dir():
        return
    with explained(f"fetch the dataset {name}", name):
        HfApi().dataset_info(name, timeout=_TIMEOUT_SECONDS)


def _how_to_read(files: Files, arguments: DataArguments, drop_undecodable: bool) -> dict[str, Any]:
    # `datasets` keeps what a generator gave under the hash of its arguments: a changed file must
    # change them. Tuples, as it takes a list for shards and would read the files once for each.
    state = tuple(
        (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns)
        for path in itertools.chain(*files)
    )
    return {
        "files": files,
        "keys": (arguments.source_column, arguments.target_column),
        "drop_undecodable": drop_undecodable,
        "state": state,
    }


def _rows(
    files: Files, keys: tuple[str, str], drop_undecodable: bool, state: Any
) -> Iterator[dict[str, str | None]]:
    for source, target in read_pairs(*files, keys, drop_undecodable=drop_undecodable):
        yield {"source": source, "target": target}


def read_pairs(
    sources: Sequence[Path],
    targets: Sequence[Path],
    files: Sequence[Path] = (),
    keys: tuple[str, str] = ("source", "target"),
    *,
    drop_undecodable: bool = False,
) -> Iterator[tuple[str | None, str | None]]:
    """Pairs from parallel files, and from files that hold both sides.

    Args:
        sources: files of source sentences, one a line, plain or gzipped (`.gz`), UTF-8.
        targets: files of their translations, in the same order.
        files: `.tsv` (source, tab, target) or `.jsonl` (an object a line).
        keys: the two keys of a JSON object; or language codes below its key `translation`.
        drop_undecodable: whether a line that is not UTF-8 gives `None`, to be counted and dropped.

    Raises:
        ValueError: if two files differ in length, or a line is not UTF-8 or not as described.
    """
    read = read_decodable_lines if drop_undecodable else read_lines
    for source, target in zip(sources, targets, strict=True):
        yield from _aligned(source, target, read)
    for path in files:
        suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
        if suffix not in (".tsv", ".jsonl"):
            raise ValueError(f"{path} must end in .tsv or .jsonl (or .tsv.gz, .jsonl.gz).")
        for number, line in enumerate(read(path), start=1):
            where = f"{path}, line {number}"
            if line is None:
                yield None, None
            elif suffix == ".tsv":
                yield _tab_separated(line, where)
            else:
                yield _writable(_json_pair(line, keys, where), where, drop_undecodable)


_END: Any = object()  # of a file; a line may be `None`


def _aligned(
    source: Path, target: Path, read: Callable[[Path], Iterator[str | None]]
) -> Iterator[tuple[str | None, str | None]]:
    pairs = itertools.zip_longest(read(source), read(target), fillvalue=_END)
    for count, (left, right) in enumerate(pairs):
        if left is _END or right is _END:
            rest = sum(1 for _ in read(target if left is _END else source))
            lines = (count, rest) if left is _END else (rest, count)
            raise ValueError(
                f"{source} has {lines[0]} lines and {target} has {lines[1]}; they must be parallel."
            )
        yield left, right


def _tab_separated(line: str, where: str) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) != 2:
        raise ValueError(f"{where} has {len(cells)} columns; source and target make two.")
    return cells[0], cells[1]


def _writable(
    pair: tuple[str, str], where: str, drop_undecodable: bool
) -> tuple[str | None, str | None]:
    """The pair, if its texts can be written as UTF-8: JSON can spell half a surrogate pair."""
    try:
        for text in pair:
            text.encode("utf-8")
    except UnicodeEncodeError as error:
        if drop_undecodable:
            return None, None
        escape = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(
            f"{where} has half of a surrogate pair, {escape}, which is no text; mend the line, or "
            f"set drop_undecodable."
        ) from error
    return pair


def _json_pair(line: str, keys: tuple[str, str], where: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # also of numbers and nesting beyond all bounds
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

    What is read from files or the Hub is encoded once: a later run with the same text and the same
    tokenizer finds it in the cache of `datasets`.

    Args:
        pairs: columns `source` and `target`; `None` where a text could not be decoded.
        tokenizer: makes the ids.
        segmented: the text is cut by subword-nmt; its words are joined again, so that translations
            are compared with words.
    """

    def encode(rows: dict[str, list[str | None]]) -> dict[str, list[Any]]:
        encoded: dict[str, list[Any]] = encode_texts(rows["source"], rows["target"], tokenizer)
        if segmented:
            encoded |= {side: [text and join_pieces(text) for text in rows[side]] for side in rows}
        return encoded

    # Of our own: the library's would hash the tokenizer's whole object, whose inner state changes
    # with its use.
    made_of = (pairs._fingerprint, _identity(tokenizer), segmented, _ENCODING)
    fingerprint = Hasher.hash(made_of)
    with _told_by_cause():
        return pairs.map(encode, batched=True, desc="Encoding", new_fingerprint=fingerprint)


_ENCODING = 1  # to be raised when `encode_pairs` gives other columns


def encode_texts(
    sources: Sequence[str | None],
    targets: Sequence[str | None],
    tokenizer: PreTrainedTokenizerFast,
) -> dict[str, list[list[int]]]:
    """`input_ids` and `labels` of pairs; `None` is encoded as an empty text."""
    lefts, rights = ([text or "" for text in side] for side in (sources, targets))
    if type(tokenizer) is not PreTrainedTokenizerFast:  # its targets may be encoded differently
        options = {"return_attention_mask": False, "verbose": False}
        return {
            "input_ids": tokenizer(lefts, **options)["input_ids"],
            "labels": tokenizer(text_target=rights, **options)["input_ids"],
        }
    # What the call above comes to, without the offsets and masks that it works out beside the ids.
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = tokenizer.split_special_tokens
    encoded = backend.encode_batch_fast(lefts + rights)
    ids = [encoding.ids for encoding in encoded]
    return {"input_ids": ids[: len(lefts)], "labels": ids[len(lefts) :]}


def _identity(tokenizer: PreTrainedTokenizerFast) -> tuple[str, ...]:
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content.pop("truncation", None)  # set anew by every call
    content.pop("padding", None)
    return (
        type(tokenizer).__qualname__,
        json.dumps(content, sort_keys=True),
        str(tokenizer.split_special_tokens),
        str(getattr(tokenizer, "src_lang", None)),
        str(getattr(tokenizer, "tgt_lang", None)),
    )


def side_lengths(pairs: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of each source and of each target, `(len(pairs),)` each."""
    sources, targets = (np.empty(len(pairs), dtype=np.int32) for _ in range(2))
    first = 0
    for table in arrow_tables(pairs, ["input_ids", "labels"]):
        rows = slice(first, first + len(table))
        sources[rows], targets[rows] = lengths_of(table, "input_ids"), lengths_of(table, "labels")
        first = rows.stop
    return sources, targets


def check_lengths(
    arguments: Arguments, model: PreTrainedModel, pairs: Mapping[str, Dataset]
) -> None:
    """Refuse pairs that are longer than a training batch holds, or than positions were learned.

    Args:
        arguments: of the run.
        model: the model to train.
        pairs: encoded pairs by split; where training text is a stream, all but that.

    Raises:
        ValueError: naming the split, the pair's place in it from 0, its length and what would do.
    """
    data, training, config = arguments.data, arguments.training, model.config
    parts = training.world_size * training.gradient_accumulation_steps
    positions = math.inf
    if config.position_encoding == "learned":  # sinusoids do not end
        positions = config.max_position_embeddings
    if data.streaming and data.max_length > positions:
        raise ValueError(
            f"max_length={data.max_length} but max_position_embeddings={positions} are learned; "
            f"raise that or lower max_length."
        )
    for split in pairs:
        if split == "train" and data.streaming:
            continue
        sides = zip(("source", "target"), side_lengths(pairs[split]), strict=True)
        for side, lengths in sides:
            pair, longest = int(lengths.argmax()), int(lengths.max())
            where = f"Pair {pair} of split {split} has {longest} {side} tokens but"
            budget = getattr(training, f"{side}_tokens") // parts
            if split == "train" and longest > budget:
                way_out = f"raise {raised_by(training, f'{side}_tokens')} or lower max_length"
                raise ValueError(f"{where} a batch holds {budget}; {way_out}.")
            if longest > positions:
                way_out = "lower max_length" if split == "train" else "leave the pair out"
                raise ValueError(
                    f"{where} max_position_embeddings={positions} are learned; raise that or "
                    f"{way_out}."
                )


def arrow_tables(pairs: Dataset, columns: list[str]) -> Iterator[pa.Table]:
    """The rows as Arrow has them, a bounded number at a time: no row becomes Python objects."""
    yield from pairs.select_columns(columns).with_format("arrow").iter(batch_size=_ROWS)


def lengths_of(table: pa.Table, column: str) -> np.ndarray:
    """How many items the lists of a column have, `(len(table),)`."""
    return pc.list_value_length(table[column]).to_numpy()


class ArrowPairs(torch.utils.data.Dataset):
    """Encoded pairs for a `DataLoader`, whose batches stay Arrow tables.

    A token never becomes a Python object, which is most of what loading would cost.

    Args:
        pairs: columns `input_ids`, `labels` and maybe `index`; others are not put into batches.
    """

    def __init__(self, pairs: Dataset) -> None:
        self.pairs = pairs
        columns = [name for name in _BATCH_COLUMNS if name in pairs.column_names]
        self._rows = pairs.select_columns(columns).with_format("arrow")

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitems__(self, places: list[int]) -> pa.Table:
        """The pairs at these places, in their order."""
        return self._rows[places]


_BATCH_COLUMNS = ("input_ids", "labels", "index")


class PairCollator:
    """Pads pairs to a batch, on the right; a column `index` passes through as `(B,)`."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> None:
        self.pad_token_id = tokenizer.pad_token_id
        self.eos_token_id = tokenizer.eos_token_id
        self.model = model
        self.pad_to_multiple_of = 1
        self.budget: tuple[int, int] | None = None  # tokens of a full batch, source and target

    def in_few_shapes(
        self, pad_to_multiple_of: int, source_tokens: int, target_tokens: int
    ) -> "PairCollator":
        """One that pads lengths to multiples, and batches by empty pairs to as many as they hold.

        Two batches of equal padded lengths then have equally many sentences. Empty pairs have no
        labels: the loss does not change.
        """
        collator = copy.copy(self)
        collator.pad_to_multiple_of = pad_to_multiple_of
        collator.budget = source_tokens, target_tokens
        return collator

    def __call__(self, pairs: pa.Table | list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Batch pairs with `input_ids`, `labels` and maybe `index`: a table, or a row each.

        Returns:
            What the model's `forward` takes: `input_ids` and `attention_mask`, `(B, S)`; `labels`
            and `decoder_input_ids`, `(B, T)`.
        """
        (source_ids, sources), (target_ids, targets) = (
            _flat(pairs, side) for side in ("input_ids", "labels")
        )
        step = self.pad_to_multiple_of
        source, target = (-(-int(lengths.max()) // step) * step for lengths in (sources, targets))
        if self.budget is not None:
            missing = full_batch(source, target, *self.budget) - len(pairs)
            # A source of no tokens would leave attention nothing to look at.
            source_ids = np.append(source_ids, np.full(missing, self.eos_token_id))
            sources = np.append(sources, np.full(missing, 1))
            targets = np.append(targets, np.full(missing, 0))
        input_ids, is_real = pad_right(source_ids, sources, source, self.pad_token_id)
        labels, _ = pad_right(target_ids, targets, target, IGNORED)
        batch = {"input_ids": input_ids, "attention_mask": is_real.long(), "labels": labels}
        batch["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(labels)
        if isinstance(pairs, pa.Table):
            if "index" in pairs.column_names:
                batch["index"] = torch.tensor(pairs["index"].to_numpy())
        elif "index" in pairs[0]:
            batch["index"] = torch.tensor([pair["index"] for pair in pairs])
        return batch


def _flat(pairs: pa.Table | list[dict[str, Any]], side: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all pairs one after the other, and how many each pair has."""
    if isinstance(pairs, pa.Table):
        return pc.list_flatten(pairs[side]).to_numpy(), lengths_of(pairs, side)
    lengths = np.array([len(pair[side]) for pair in pairs])
    ids = itertools.chain.from_iterable(pair[side] for pair in pairs)
    return np.fromiter(ids, np.int64, lengths.sum()), lengths


def pad_right(
    ids: np.ndarray, lengths: np.ndarray, longest: int, value: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of these lengths as `(rows, longest)`, filled up with a value; and where they are real.

    Args:
        ids: `(lengths.sum(),)`, the rows one after the other.
        lengths: `(rows,)`.
        longest: the length of all rows when padded.
        value: what is put behind the ids.
    """
    is_real = np.arange(longest) < lengths[:, None]
    padded = np.full(is_real.shape, value)
    padded[is_real] = ids
    return torch.from_numpy(padded), torch.from_numpy(is_real)
