# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Sentence pairs from files: parallel text, .tsv and .jsonl."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, IterableDataset, List, Value
from datasets.config import HF_DATASETS_CACHE
from datasets.exceptions import DatasetGenerationError

from vaswani_hf.text.lines import read_decodable_lines, read_lines

from ..settings.fields import DataArguments
from .links import WORD_LINKS, with_links


Files = tuple[tuple[Path, ...], tuple[Path, ...], tuple[Path, ...]]  # source, target, both
TEXTS = Features({"source": Value("string"), "target": Value("string")})
LINKED_TEXTS = Features({**TEXTS, WORD_LINKS: List(Value("int32"))})


@contextmanager
def unwrap_dataset_errors() -> Iterator[None]:
    """Raise the cause that `datasets` wraps its own error around; a full disk with its folder."""
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


def files_of(arguments: DataArguments, split: str) -> Files | None:
    """The files that are named for a split; `None` if there are none.

    Raises:
        ValueError: if the source side has more files than the target side, or fewer.
    """
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


def pairs_of_files(
    files: Files, arguments: DataArguments, split: str, *, streaming: bool = False
) -> Any:
    """A `Dataset` of columns `source` and `target`; an `IterableDataset` when streaming.

    Training pairs with `guided_alignment` have a column of their links too.

    Raises:
        ValueError: if the sides of a pair of files differ in length, or a line cannot be read;
            file and line are named. When streaming, once the line is reached.
        FileNotFoundError: if a file is missing.
    """
    links = tuple(map(Path, arguments.guided_alignment)) if split == "train" else ()
    _require_files((*files, links))
    how = _how_to_read(files, arguments, split)
    if links:
        how |= {"links": links, "state": state_of(itertools.chain(*files, links))}
    if next(_rows(**how), None) is None:
        names = ", ".join(map(str, itertools.chain(*files)))
        raise ValueError(f"{names}: no line is there; split {split} needs pairs.")
    with unwrap_dataset_errors():
        kind = IterableDataset if streaming else Dataset
        features = LINKED_TEXTS if links else TEXTS
        return kind.from_generator(_rows, gen_kwargs=how, features=features)


def _require_files(files: Iterable[tuple[Path, ...]]) -> None:
    for path in itertools.chain(*files):
        if path.is_dir():
            raise ValueError(f"{path} is a folder; name a file, or give it as --dataset.")
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}.")


def state_of(files: Iterable[Path]) -> tuple[Any, ...]:
    """What changes with the content of files.

    `datasets` keeps what a generator gave under the hash of its arguments: a changed file must
    change them. A tuple, as it takes a list for shards and would read the files once for each.
    """
    return tuple((str(path.resolve()), *_size_and_time(path)) for path in files)


def _size_and_time(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _how_to_read(files: Files, arguments: DataArguments, split: str) -> dict[str, Any]:
    return {
        "files": files,
        "keys": (arguments.source_column, arguments.target_column),
        # A test set is not to lose sentences.
        "drop_undecodable": arguments.drop_undecodable and split == "train",
        "state": state_of(itertools.chain(*files)),
    }


def _rows(
    files: Files,
    keys: tuple[str, str],
    drop_undecodable: bool,
    state: Any,
    links: tuple[Path, ...] = (),
) -> Iterator[dict[str, Any]]:
    if not links:
        for source, target in read_pairs(*files, keys, drop_undecodable=drop_undecodable):
            yield {"source": source, "target": target}
    for left, right, path in zip(*files[:2], links, strict=bool(links)):
        pairs = read_pairs([left], [right], drop_undecodable=drop_undecodable)
        for row in with_links(pairs, path, left):
            yield dict(zip(LINKED_TEXTS, row, strict=True))


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
    return pair_of(row, keys, where)


def pair_of(row: dict[str, Any], keys: tuple[str, str], where: str) -> tuple[str, str]:
    """Source and target of a row, flat or below its key `translation`.

    Args:
        row: of a dataset or a JSON file.
        keys: of source and target.
        where: what the error calls the row.

    Raises:
        ValueError: if there is no text under the keys.
    """
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
