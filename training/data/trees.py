# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Parse trees as pairs: the words of a sentence, and the sequence of its tree (section 6.3)."""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset

from vaswani_hf.parsing import linearize, read_trees, without_traces
from vaswani_hf.parsing.linearization import is_bracket, with_numbers
from vaswani_hf.parsing.words import numbered, sentence_of

from ..settings.fields import DataArguments
from .files import LINKED_TEXTS, TEXTS, state_of, unwrap_dataset_errors
from .links import WORD_LINKS


_SECTIONS = re.compile(r"(\d\d)(?:-(\d\d))?")
_VERSION = 2  # of what `_rows` gives; another number has all trees read again
_SUFFIXES = ("*.mrg", "*.mrg.gz")  # in a folder; others, such as READMEs, are no trees


def tree_files_of(arguments: DataArguments, split: str) -> tuple[Path, ...] | None:
    """The files of trees that are named for a split; `None` if there are none.

    Raises:
        ValueError: if a section is named without its treebank, or a folder holds no trees.
        FileNotFoundError: if there is no such file or section.
    """
    names = getattr(arguments, f"{split}_trees", None)
    if not names:
        return None
    return tuple(file for name in names for file in _files(name, arguments.treebank, split))


def _files(name: str, treebank: str | None, split: str) -> list[Path]:
    sections = _SECTIONS.fullmatch(name)
    if sections is None:
        return _files_below(Path(name))
    if treebank is None:
        raise ValueError(
            f"{split}_trees={name} names sections of a treebank, and no treebank is named: give "
            f"--treebank FOLDER, such as the Penn Treebank's parsed/mrg/wsj."
        )
    first, last = int(sections[1]), int(sections[2] or sections[1])
    found = [
        file
        for number in range(first, last + 1)
        for file in _files_below(Path(treebank) / f"{number:02}")
    ]
    if not found:
        raise ValueError(f"{split}_trees={name} names no section; write the lower number first.")
    return found


def _files_below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"There is no file and no folder {path}.")
    found = sorted(file for suffix in _SUFFIXES for file in path.rglob(suffix))
    if not found:
        raise ValueError(f"{path} holds no .mrg file; name the files of trees.")
    return found


def pairs_of_trees(
    files: tuple[Path, ...],
    split: str,
    *,
    has_words: bool = False,
    has_numbers: bool = False,
    from_end: bool = False,
    has_links: bool = False,
    streaming: bool = False,
) -> Any:
    """A `Dataset` of columns `source` and `target`; an `IterableDataset` when streaming.

    Trees are without traces and functions; one of traces alone is no pair.

    Args:
        files: of trees.
        split: for messages.
        has_words: whether the words stand in the targets.
        has_numbers: whether their numbers do, and stand in the sources too.
        from_end: whether the numbers are counted from the end of the sentence.
        has_links: whether pairs have the links of `links_of_tree`.
        streaming: whether they are read as they are asked for.

    Raises:
        ValueError: if a file cannot be read, which is named with the line, or there is no tree.
            When streaming, once the line is reached.
    """
    how: dict[str, Any] = {
        **{"files": files, "state": (_VERSION, *state_of(files))},
        **{"has_words": has_words, "has_numbers": has_numbers, "from_end": from_end},
        "has_links": has_links,
    }
    if next(_rows(**how), None) is None:
        raise ValueError(
            f"{', '.join(map(str, files))}: no tree is there; split {split} needs some."
        )
    with unwrap_dataset_errors():
        kind = IterableDataset if streaming else Dataset
        features = LINKED_TEXTS if has_links else TEXTS
        return kind.from_generator(_rows, gen_kwargs=how, features=features)


def links_of_tree(tokens: Sequence[str], tokens_of_word: int = 1) -> list[int]:
    """The word of the sentence that comes next at each token of a sequence, as flat links.

    A word is linked to itself, its tag too, and a bracket to the word that stands behind it; what
    closes at the end of the sentence is not linked.

    Args:
        tokens: as `linearize` gives them.
        tokens_of_word: how many each word has there: a tag, maybe itself, maybe its number.
    """
    leaves = [place for place, token in enumerate(tokens) if not is_bracket(token)]
    tags = leaves[tokens_of_word - 1 :: tokens_of_word]
    links = []
    for word, (before, tag) in enumerate(itertools.pairwise([-1, *tags])):
        for place in range(before + 1, tag + 1):
            links += [word, place]
    return links


def _rows(
    files: tuple[Path, ...],
    state: Any,
    has_words: bool,
    has_numbers: bool,
    from_end: bool,
    has_links: bool,
) -> Iterator[dict[str, Any]]:
    for file in files:
        for tree in read_trees(file):
            clean = without_traces(tree)
            if clean is not None:
                words = clean.words()
                source, tokens = sentence_of(words), linearize(clean, has_words=has_words)
                if has_numbers:
                    source = numbered(words, from_end=from_end)
                    tokens = with_numbers(tokens, words, has_words=has_words, from_end=from_end)
                row: dict[str, Any] = {"source": source, "target": " ".join(tokens)}
                if has_links:
                    links = links_of_tree(tokens, 1 + has_words + has_numbers)
                    if has_numbers:
                        # To the word that is copied, or the number before it that stands for it.
                        links[::2] = [2 * word + has_words for word in links[::2]]
                    row[WORD_LINKS] = links
                yield row
