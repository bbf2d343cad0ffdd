# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Trees as sequences (Vinyals et al. 2015, "Grammar as a Foreign Language"), and back.

The tree `(S (NP (NNP John)) (VP (VBZ sleeps)) (. .))` of the sentence `John sleeps .` becomes
`(S (NP NNP )NP (VP VBZ )VP . )S`: a bracket that opens, one that closes with its label, and for
each word its tag. The words come from the sentence, so that no output can change them. Vinyals et
al. replace all tags by `XX`; the code of the paper's authors keeps them (tensor2tensor,
`words_and_tags_from_wsj_tree`), as we do: EVALB knows punctuation by its tags.

With its words it becomes `(S (NP John /NNP )NP (VP sleeps /VBZ )VP . /. )S`: a model that writes
each word before its tag knows what the tag is of.

With numbers it is `(0S (1NP 7) John /NNP )1 (1VP 8) sleeps /VBZ )1 9) . /. )0`, of the sentence
`7) John 8) sleeps 9) .`. The number of a word says which one a leaf is: what is copied behind it
need not be right. The digit of a bracket is its depth, and says what closes what; after 9 comes
`a`. A model that reads where it stands need not count.

Numbers may be counted from the end, as in `-3) John -2) sleeps -1) .`: they say how many words are
left. And they may stand alone, as in `(0S (1NP -3) NNP )1 (1VP -2) VBZ )1 -1) . )0`: nothing is
copied at all.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .trees import TOP, Tree, walk
from .words import NUMBERS, NUMBERS_FROM_END, numbers_of, sentence_of


TAG_MARK = "/"  # begins a tag that stands behind its word
UNKNOWN_TAG = "XX"  # of a word that the sequence has no tag for
DEPTHS = "0123456789abcdefghijklmnopqrstuvwxyz"  # of brackets; deeper ones begin again


_NUMBERS = frozenset((*NUMBERS, *NUMBERS_FROM_END))


@dataclass(frozen=True, slots=True)
class Repairs:
    """How many tokens of a sequence had to be mended so that it became a tree over its words.

    Args:
        missing_brackets: that had to be put in.
        surplus_brackets: that had to go, as they close nothing or hold no word.
        missing_words: of the sentence, for which there was no tag.
        extra_words: tags beyond the words of the sentence.
        changed_words: tokens that are no tag where a word's tag should be, or another word.
    """

    missing_brackets: int = 0
    surplus_brackets: int = 0
    missing_words: int = 0
    extra_words: int = 0
    changed_words: int = 0

    def __bool__(self) -> bool:
        """Whether there was anything to mend."""
        return self != Repairs()


def linearize(tree: Tree, *, has_words: bool = False) -> list[str]:
    """The sequence of a tree.

    Args:
        tree: to write as brackets and tags.
        has_words: whether each word stands before its tag, which then begins with a slash.
    """
    tokens: list[str] = []
    for node, is_end in walk(tree):
        if node.word is None:
            tokens.append(f"{')' if is_end else '('}{node.label}")
        elif has_words:
            tokens += [sentence_of([node.word]), TAG_MARK + node.label]
        else:
            tokens.append(node.label)
    return tokens


def leaves_of(tokens: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """The brackets and tags of a sequence with words, and the word before each tag.

    Yields:
        A bracket or tag, the tag without its slash, and the word; `None` where there is none. Of a
        word without a tag the tag is `""`.
    """
    word: str | None = None
    for token in tokens:
        if word is not None and not is_bracket(token) and token.startswith(TAG_MARK):
            yield token.removeprefix(TAG_MARK), word
            word = None
            continue
        if word is not None:
            yield "", word
        word = None if is_bracket(token) else token
        if is_bracket(token):
            yield token, None
    if word is not None:
        yield "", word


def with_numbers(
    tokens: Iterable[str],
    words: Sequence[str],
    *,
    has_words: bool = True,
    from_end: bool = False,
) -> list[str]:
    """A sequence, with the number of each word before it or its tag, and the depths of brackets.

    Args:
        tokens: as `linearize` gives them.
        words: of the sentence.
        has_words: as for `linearize`.
        from_end: as for `numbers_of`.
    """
    numbers = iter(numbers_of(words, from_end=from_end))
    numbered, is_word, depth = [], False, 0
    for token in tokens:
        if is_bracket(token):
            is_word, is_opening = False, token[0] == "("
            depth -= not is_opening
            digit = DEPTHS[depth % len(DEPTHS)]
            numbered.append(f"({digit}{token[1:]}" if is_opening else f"){digit}")
            depth += is_opening
        else:
            is_word = not (has_words and is_word)
            numbered += [next(numbers), token] if is_word else [token]
    return numbered


def only_numbers(tokens: Iterable[str]) -> list[str]:
    """A sequence with numbers, without the word behind each of them."""
    kept, is_word = [], False
    for token in tokens:
        if not is_word or is_bracket(token):
            kept.append(token)
        is_word = is_number(token) and not is_word
    return kept


def with_marks(tokens: Iterable[str]) -> list[str]:
    """A sequence with numbers alone, and a slash before each tag, as if they were its words."""
    return [
        token if is_bracket(token) or is_number(token) else TAG_MARK + token for token in tokens
    ]


def is_number(token: str) -> bool:
    """Whether a token of a sequence with numbers is one of these, where no word stands."""
    return token in _NUMBERS


def is_bracket(token: str) -> bool:
    """Whether a token of a sequence opens or closes a bracket, and is neither word nor tag."""
    return len(token) > 1 and token[0] in "()"


def tree_of(tokens: Sequence[str], words: Sequence[str], *, has_words: bool = False) -> Tree:
    """The tree that a sequence describes.

    Args:
        tokens: as `linearize` gives them.
        words: of the sentence.
        has_words: as for `linearize`.

    Raises:
        ValueError: if they are no tree over these words; `repair_tree` makes one.
    """
    tree, repairs = repair_tree(tokens, words, has_words=has_words)
    if repairs:
        raise ValueError(f"'{' '.join(tokens)}' is no tree over {len(words)} words: {repairs}.")
    return tree


def repair_tree(
    tokens: Sequence[str],
    words: Sequence[str],
    tags: Collection[str] | None = None,
    *,
    has_words: bool = False,
    has_depths: bool = False,
) -> tuple[Tree, Repairs]:
    """A tree over exactly these words that keeps what it can of a sequence.

    A bracket closes the nearest one of its label, or of its digit, and with it all that opened
    since; one that has none is left out. What is open at the end is closed. Several trees get a
    bracket `TOP` around them. Words without a tag are put at the end as `XX`; tags without a word
    are left out from the end, and so are brackets around nothing.

    Args:
        tokens: a sequence that is meant to be a tree.
        words: of the sentence, at least one.
        tags: the tags that there are; `None` for any.
        has_words: as for `linearize`. A word of the sequence that is not the one of the sentence
            counts as changed.
        has_depths: whether the brackets have the digits of `with_numbers`. That of a bracket which
            opens is not compared with its depth, only with the one that closes it.

    Returns:
        The tree, and what was mended.

    Raises:
        ValueError: if there are no words.
    """
    if not words:
        raise ValueError("A tree needs at least one word.")
    num_missing = num_surplus = num_extra = num_changed = num_words = 0
    levels: list[list[Tree]] = [[]]
    labels: list[str] = []
    names: list[str] = []  # by which brackets are closed

    def close() -> int:
        """Close the innermost bracket; 2 if both its ends go, as it holds nothing."""
        names.pop()
        label, children = labels.pop(), levels.pop()
        if children:
            levels[-1].append(Tree(label, tuple(children)))
        return 0 if children else 2

    begin = 2 if has_depths else 1  # of a label
    pairs = leaves_of(tokens) if has_words else ((token, None) for token in tokens)
    for token, word in pairs:
        if token.startswith("(") and len(token) > begin:
            labels.append(token[begin:])
            names.append(token[1:begin] if has_depths else token[1:])
            levels.append([])
        elif token.startswith(")") and len(token) > 1:
            if token[1:] not in names:
                num_surplus += 1
                continue
            while names[-1] != token[1:]:
                empty = close()
                num_missing += not empty
                num_surplus += bool(empty)  # the end that is not there need not go
            num_surplus += close()
        elif num_words == len(words):
            num_extra += 1
        else:
            is_tag = bool(token) and not set("()") & set(token)
            is_tag = is_tag and (tags is None or token in tags)
            is_right = word is None or word == sentence_of([words[num_words]])
            num_changed += not (is_tag and is_right)
            levels[-1].append(Tree(token if is_tag else UNKNOWN_TAG, word=words[num_words]))
            num_words += 1
    while names:
        empty = close()
        num_missing += not empty
        num_surplus += bool(empty)
    left = [Tree(UNKNOWN_TAG, word=word) for word in words[num_words:]]
    roots = levels[0]
    if left and len(roots) == 1 and roots[0].word is None:
        roots = [Tree(roots[0].label, (*roots[0].children, *left))]
    else:
        roots += left
    if len(roots) > 1:
        num_missing += 2
        roots = [Tree(TOP, tuple(roots))]
    repairs = Repairs(num_missing, num_surplus, len(left), num_extra, num_changed)
    return roots[0], repairs
