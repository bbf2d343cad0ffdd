# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Constituency trees, and the brackets of the Penn Treebank (Marcus et al. 1993)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from ..text.lines import read_lines


TOP = "TOP"  # EVALB's name for a bracket around everything, which it does not score
TRACE = "-NONE-"  # tag of what is not in the sentence: traces and other empty elements
SPACES = " \t\r\n\f\v"  # a no-break space is part of a word
_TOKENS = re.compile(rf"[()]|[^(){SPACES}]+")
# Lines between trees: the header of the treebank's files, and what programs write.
_COMMENTS = ("*x*", "#", "%", ";")
_FUNCTION = re.compile(r"(?<=.)[-=].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Tree:
    """A constituent, or a word with its part of speech.

    Args:
        label: category of the constituent, such as `NP`, or tag of the word, such as `DT`.
        children: at least one, for a constituent; none for a word.
        word: `None` for a constituent.
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def __str__(self) -> str:
        """The brackets in one line: `(S (NP (DT The) (NN cat)) (VP (VBD sat)))`."""
        parts: list[str] = []
        for node, is_end in walk(self):
            if is_end:
                parts.append(")")
                continue
            parts.append(" " if parts else "")
            parts.append(f"({node.label}" + ("" if node.word is None else f" {node.word})"))
        return "".join(parts)

    def leaves(self) -> list["Tree"]:
        """The words with their tags, in the order of the sentence."""
        return [node for node, _ in walk(self) if node.word is not None]

    def words(self) -> list[str]:
        """The words of the sentence."""
        return [str(leaf.word) for leaf in self.leaves()]

    def with_words(self, words: Sequence[str]) -> "Tree":
        """The same tree over other words, as many as it has."""
        levels: list[list[Tree]] = [[]]
        left = iter(words)
        for node, is_end in walk(self):
            if node.word is not None:
                levels[-1].append(Tree(node.label, word=next(left)))
            elif not is_end:
                levels.append([])
            else:
                children = levels.pop()
                levels[-1].append(Tree(node.label, tuple(children)))
        return levels[0][0]

    def indented(self, width: int = 80) -> str:
        """The brackets over several lines, a constituent a line unless it fits into `width`."""
        lines: list[str] = []
        stack = [(self, 0, "")]  # a node, its depth, and the brackets that close behind it
        while stack:
            node, depth, closing = stack.pop()
            text, indent = str(node), "  " * depth
            if node.word is not None or len(indent + text + closing) <= width:
                lines.append(indent + text + closing)
                continue
            lines.append(f"{indent}({node.label}")
            *first, last = node.children
            stack.append((last, depth + 1, ")" + closing))
            stack += [(child, depth + 1, "") for child in reversed(first)]
        return "\n".join(lines)


def walk(tree: Tree) -> Iterator[tuple[Tree, bool]]:
    """The nodes of a tree in the order of its brackets, and whether one ends there.

    A constituent comes twice, a word once. A tree may be deeper than Python's stack.
    """
    stack = [(tree, False)]
    while stack:
        node, is_end = stack.pop()
        yield node, is_end
        if node.word is None and not is_end:
            stack.append((node, True))
            stack += [(child, False) for child in reversed(node.children)]


def without_traces(tree: Tree) -> Tree | None:
    """The tree that a parser learns: without traces, what holds nothing else, and functions.

    `NP-SBJ-1` and `NP=2` become `NP`. `None` if nothing is left.
    """
    levels: list[list[Tree]] = [[]]
    for node, is_end in walk(tree):
        if node.word is not None:
            levels[-1] += [node] if node.label != TRACE else []
        elif not is_end:
            levels.append([])
        elif children := levels.pop():
            levels[-1].append(Tree(_FUNCTION.sub("", node.label), tuple(children)))
    return levels[0][0] if levels[0] else None


def read_trees(path: str | PathLike[str]) -> Iterator[Tree]:
    """The trees of a file, plain or gzipped: the treebank's `.mrg`, or a tree a line.

    An empty outer bracket is left out; around several trees it becomes `TOP`. Blank lines and
    comments between trees are passed over.

    Raises:
        ValueError: if brackets are not balanced, or hold no tree; file and line are named.
        FileNotFoundError: if the file is missing.
    """
    return trees_of_lines(read_lines(Path(path)), str(path))


def tree_of_text(text: str, name: str = "this text") -> Tree:
    """The one tree that a text holds.

    Args:
        text: brackets, in one line or several.
        name: for messages.

    Raises:
        ValueError: as `read_trees`, and if there are none or several.
    """
    trees = list(trees_of_lines(text.split("\n"), name))
    if len(trees) != 1:
        raise ValueError(f"{name} must hold one tree, got {len(trees)}.")
    return trees[0]


@dataclass(slots=True)
class _Bracket:
    """A bracket that is open, the number of its line, and what it holds so far."""

    line: int
    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)

    def add(self, text: str, where: str) -> None:
        """Take a text: the label comes first, then the word, which may have spaces in it."""
        if self.children:
            raise ValueError(
                f"{where}: '{text}' stands beside brackets in the bracket '{self.label or ''}'; a "
                f"word needs a bracket of its own with its tag."
            )
        if self.label is None:
            self.label = text
        else:
            self.word = text if self.word is None else f"{self.word} {text}"

    def closed(self, where: str, *, is_outermost: bool) -> Tree:
        """The tree of this bracket, now that it is closed."""
        if self.word is not None:
            return Tree(str(self.label), word=self.word)
        if not self.children:
            raise ValueError(f"{where}: the bracket '{self.label or ''}' holds nothing.")
        if self.label is not None:
            return Tree(self.label, tuple(self.children))
        if not is_outermost:
            raise ValueError(f"{where}: a bracket inside a tree has no label.")
        return self.children[0] if len(self.children) == 1 else Tree(TOP, tuple(self.children))


def trees_of_lines(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """As `read_trees`, of lines without their ends."""
    brackets: list[_Bracket] = []
    number = 0
    for number, line in enumerate(lines, start=1):
        where = f"{name}, line {number}"
        if not brackets and line.lstrip(SPACES).startswith(_COMMENTS):
            continue
        if brackets and line.startswith("("):  # a tree's own further lines are indented
            raise ValueError(f"{where} begins a tree, but {_left_open(brackets)}.")
        for token in _TOKENS.findall(line):
            if token == "(":
                if brackets and brackets[-1].word is not None:
                    raise ValueError(
                        f"{where}: a bracket begins behind the word '{brackets[-1].word}' in the "
                        f"bracket '{brackets[-1].label}'."
                    )
                brackets.append(_Bracket(number))
            elif not brackets:
                problem = "closes no bracket" if token == ")" else "stands outside of any tree"
                raise ValueError(f"{where}: '{token}' {problem}.")
            elif token != ")":
                brackets[-1].add(token, where)
            else:
                closed = brackets.pop().closed(where, is_outermost=not brackets)
                if brackets:
                    brackets[-1].children.append(closed)
                else:
                    yield closed
    if brackets:
        raise ValueError(f"{name} ends in line {number}, but {_left_open(brackets)}.")


def _left_open(brackets: list[_Bracket]) -> str:
    labels = " ".join(f"({bracket.label or ''}" for bracket in brackets)
    count = len(brackets)
    return (
        f"the tree of line {brackets[0].line} has {count} bracket{'' if count == 1 else 's'} open: "
        f"{labels}"
    )
