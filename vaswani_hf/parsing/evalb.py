# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Brackets that two trees share, counted as EVALB counts them (Sekine and Collins 1997).

Everything is EVALB's: what is deleted, how labels are cut, when a sentence is left out as an error,
how equal brackets are matched, and the lines of its summary (version of 2008).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ..text.lines import read_lines
from .trees import Tree, walk


VALID, ERROR, SKIPPED = 0, 1, 2  # status of a sentence
_QUOTES = ("'", '"', "/")  # words that may be a quotation mark or something else
_TOKENS = re.compile(r"([()])|([^() \t\r\n\f\v]+)|[ \t\r\n\f\v]+")
_PUNCTUATION = (",", ":", "``", "''", ".")


@dataclass(frozen=True)
class Parameters:
    """What a parameter file of EVALB sets; the defaults are those of `COLLINS.prm`.

    Args:
        labeled: whether labels count.
        cutoff_words: sentences of at most so many words have a summary of their own.
        max_errors: the number of errors that EVALB stops at.
        delete_labels: brackets that do not count, and words that are left out with them.
        delete_labels_for_length: tags of words that do not count for the length.
        quote_labels: tags that punctuation is mistaken for, whose words may be put back.
        equal_labels: pairs of labels that count as the same.
        equal_words: pairs of words that count as the same.
    """

    labeled: bool = True
    cutoff_words: int = 40
    max_errors: int = 10
    delete_labels: tuple[str, ...] = ("TOP", "-NONE-", *_PUNCTUATION)
    delete_labels_for_length: tuple[str, ...] = ("-NONE-",)
    quote_labels: tuple[str, ...] = ()
    equal_labels: tuple[tuple[str, str], ...] = (("ADVP", "PRT"),)
    equal_words: tuple[tuple[str, str], ...] = ()


_NUMBERS = {"LABELED": "labeled", "CUTOFF_LEN": "cutoff_words", "MAX_ERROR": "max_errors"}
_LISTS = {
    "DELETE_LABEL": ("delete_labels", 1),
    "DELETE_LABEL_FOR_LENGTH": ("delete_labels_for_length", 1),
    "QUOTE_LABEL": ("quote_labels", 1),
    "EQ_LABEL": ("equal_labels", 2),
    "EQ_WORD": ("equal_words", 2),
}
_WITHOUT_EFFECT = "DEBUG"  # what EVALB prints of single sentences


def read_parameters(path: str | PathLike[str]) -> Parameters:
    """The parameters of a file such as `COLLINS.prm`; what it does not name is empty.

    Raises:
        ValueError: if a line cannot be read; file and line are named.
        FileNotFoundError: if the file is missing.
    """
    numbers: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {name: [] for name, _ in _LISTS.values()}
    for place, line in enumerate(read_lines(Path(path)), start=1):
        where, text = f"{path}, line {place}", line.strip()
        if line.startswith("#") or not text:
            continue
        keyword, *values = text.split()
        if keyword in _LISTS:
            name, count = _LISTS[keyword]
            if len(values) != count:
                raise ValueError(f"{where}: {keyword} takes {count} value(s), got '{text}'.")
            lists[name].append(values[0] if count == 1 else tuple(values))
        elif keyword in (*_NUMBERS, _WITHOUT_EFFECT):
            if len(values) != 1 or not values[0].isdecimal():
                raise ValueError(f"{where}: {keyword} takes a whole number, got '{text}'.")
            if keyword in _NUMBERS:
                numbers[_NUMBERS[keyword]] = int(values[0])
        else:
            known = ", ".join((*_LISTS, *_NUMBERS, _WITHOUT_EFFECT))
            raise ValueError(f"{where}: unknown keyword '{keyword}'; there are {known}.")
    return Parameters(
        labeled=bool(numbers.pop("labeled", 1)),
        **numbers,
        **{name: tuple(values) for name, values in lists.items()},  # type: ignore[arg-type]
    )


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """What EVALB counts of a sentence.

    Args:
        length: words of the gold tree, but for traces.
        status: `VALID`, `ERROR` (brackets or words do not fit) or `SKIPPED` (nothing to score).
        matched: brackets that both trees have.
        gold_brackets: brackets of the gold tree that count.
        test_brackets: those of the test tree.
        crossing: brackets of the test tree that cross one of the gold tree.
        words: that count.
        correct_tags: words with the same tag in both trees.
        problem: what the error is.
    """

    length: int
    status: int = VALID
    matched: int = 0
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    problem: str = ""


@dataclass(slots=True)
class _Bracket:
    label: str
    start: int
    end: int = -1


@dataclass(slots=True)
class _Quote:
    """A word that may be put back.

    Its place among the words, how many brackets were begun before it, and which of them were open.
    """

    tag: str
    word: str
    place: int
    num_before: int
    around: list[_Bracket]


@dataclass
class _Sentence:
    """A line as EVALB reads it; words that are deleted are not in it."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    brackets: list[_Bracket] = field(default_factory=list)
    quotes: list[_Quote] = field(default_factory=list)
    length: int = 0
    problem: str = ""
    is_unreadable: bool = False

    def unreadable(self, problem: str) -> "_Sentence":
        """This sentence, whose line could be read no further, and why."""
        self.problem, self.is_unreadable = problem, True
        return self

    def put_back(self, number: int) -> None:
        """Put the deleted word of a quote back, and move the brackets after and around it."""
        quote = self.quotes[number]
        self.words.insert(quote.place, quote.word)
        self.tags.insert(quote.place, quote.tag)
        for bracket in self.brackets[quote.num_before :]:
            bracket.start += 1
            bracket.end += 1
        for bracket in quote.around:
            bracket.end += 1
        for other in self.quotes[number:]:
            other.place += 1


def _read(line: str, parameters: Parameters) -> _Sentence:
    """A line of brackets; it need not hold one tree, nor any."""
    sentence = _Sentence()
    stack: list[_Bracket] = []
    tokens = [match.group(1) or match.group(2) or " " for match in _TOKENS.finditer(line)]
    place = 0
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if token == ")":
            if not stack:
                sentence.problem = "it has more brackets that close than open"
                return sentence
            stack.pop().end = len(sentence.words)
        elif token == "(":
            label = ""
            if place < len(tokens) and tokens[place] not in ("(", ")", " "):
                label = tokens[place]
                place += 1
            # With a space behind the label, a text up to the end of the bracket is a word.
            rest = tokens[place : place + 3]
            if rest[:1] == [" "]:
                word = rest[1] if len(rest) > 1 and rest[1] not in ("(", ")") else ""
                after = place + (2 if word else 1)
                if after < len(tokens) and tokens[after] == " ":
                    return sentence.unreadable(f"the bracket '{label}' has more than a word")
                if after < len(tokens) and tokens[after] == ")":
                    place = after + 1
                    _add_word(sentence, label, word, stack, parameters)
                    continue
                if word:
                    return sentence.unreadable(f"the bracket '{label}' has more than a word")
            stack.append(_Bracket(label, len(sentence.words)))
            sentence.brackets.append(stack[-1])
        elif token != " ":
            return sentence.unreadable(f"'{token}' stands where a bracket should")
    if stack:
        sentence.problem = f"it has {len(stack)} more bracket(s) that open than close"
    return sentence


def _add_word(
    sentence: _Sentence, tag: str, word: str, stack: list[_Bracket], parameters: Parameters
) -> None:
    sentence.length += tag not in parameters.delete_labels_for_length
    if tag in parameters.quote_labels and word in _QUOTES:
        place, num_before = len(sentence.words), len(sentence.brackets)
        sentence.quotes.append(_Quote(tag, word, place, num_before, list(stack)))
    if tag not in parameters.delete_labels:
        sentence.words.append(word)
        sentence.tags.append(tag)


def _mend_quotes(gold: _Sentence, test: _Sentence, delete_labels: Sequence[str]) -> None:
    """Put back punctuation that one side deletes and the other, for its tag, does not."""
    for j, other in enumerate(test.quotes):
        place = other.place
        for i, quote in enumerate(gold.quotes):
            if quote.place != place or quote.tag == other.tag:
                continue
            if quote.tag in delete_labels and other.tag not in delete_labels:
                gold.put_back(i)
            elif other.tag in delete_labels and quote.tag not in delete_labels:
                test.put_back(j)


def _are_equal(one: str, two: str, pairs: Iterable[tuple[str, str]]) -> bool:
    return one == two or any({one, two} == set(pair) for pair in pairs)


def _scored_brackets(sentence: _Sentence, parameters: Parameters) -> list[_Bracket]:
    """The brackets that hold a word and are not deleted, their labels cut at a function."""
    kept = []
    for bracket in sentence.brackets:
        label = re.split("[-=]", bracket.label, maxsplit=1)[0]
        is_deleted = any(
            _are_equal(label, deleted, parameters.equal_labels)
            for deleted in parameters.delete_labels
        )
        if bracket.start != bracket.end and not is_deleted:
            kept.append(_Bracket(label, bracket.start, bracket.end))
    return kept


def _num_matched(gold: Sequence[_Bracket], test: Sequence[_Bracket], parameters: Parameters) -> int:
    unmatched: dict[tuple[int, int], list[str]] = defaultdict(list)
    for bracket in test:
        unmatched[bracket.start, bracket.end].append(bracket.label)
    matched = 0
    for bracket in gold:
        labels = unmatched[bracket.start, bracket.end]
        for place, label in enumerate(labels):
            if not parameters.labeled or _are_equal(bracket.label, label, parameters.equal_labels):
                del labels[place]
                matched += 1
                break
    return matched


def _cross(one: _Bracket, two: _Bracket) -> bool:
    return one.start < two.start < one.end < two.end or two.start < one.start < two.end < one.end


def score_tree(gold: str, test: str, parameters: Parameters | None = None) -> SentenceScore:
    """Score a test tree against a gold tree, each in a line of brackets.

    Args:
        gold: what is right.
        test: what a parser found.
        parameters: `None` for those of `COLLINS.prm`.
    """
    parameters = parameters or Parameters()
    right, found = _read(gold, parameters), _read(test, parameters)
    length = right.length
    if not found.words and not found.is_unreadable:
        return SentenceScore(length, SKIPPED)
    if problem := right.problem or found.problem:
        side = "gold" if right.problem else "test"
        return SentenceScore(length, ERROR, problem=f"the {side} tree: {problem}")
    if len(right.words) != len(found.words):
        _mend_quotes(right, found, parameters.delete_labels)
    if len(right.words) != len(found.words):
        problem = f"{len(right.words)} words in the gold tree, {len(found.words)} in the test tree"
        return SentenceScore(length, ERROR, problem=problem)
    for one, two in zip(right.words, found.words, strict=True):
        if not _are_equal(one, two, parameters.equal_words):
            problem = f"'{one}' in the gold tree is '{two}' in the test tree"
            return SentenceScore(length, ERROR, problem=problem)
    gold_brackets, test_brackets = (
        _scored_brackets(sentence, parameters) for sentence in (right, found)
    )
    return SentenceScore(
        length=length,
        matched=_num_matched(gold_brackets, test_brackets, parameters),
        gold_brackets=len(gold_brackets),
        test_brackets=len(test_brackets),
        crossing=sum(any(_cross(one, two) for one in gold_brackets) for two in test_brackets),
        words=len(right.words),
        correct_tags=sum(
            _are_equal(one, two, parameters.equal_labels)
            for one, two in zip(right.tags, found.tags, strict=True)
        ),
    )


def score_parse(gold: Tree, test: Tree, parameters: Parameters | None = None) -> SentenceScore:
    """Score a tree over the very words of a gold tree, by whose tags punctuation is known.

    Where a parser gives a comma another tag, EVALB finds a word too many and leaves the sentence
    out as an error: a parser would be scored without what it does worst. Here every sentence
    counts, and a wrong tag costs tagging accuracy alone.

    Raises:
        ValueError: if the words differ.
    """
    parameters = parameters or Parameters()
    right, found = gold.leaves(), test.leaves()
    if [leaf.word for leaf in right] != [leaf.word for leaf in found]:
        raise ValueError("The two trees are not over the same words.")
    tags = iter(leaf.label for leaf in right)
    levels: list[list[Tree]] = [[]]
    for node, is_end in walk(test):
        if node.word is not None:
            levels[-1].append(Tree(next(tags), word=node.word))
        elif not is_end:
            levels.append([])
        else:
            children = levels.pop()
            levels[-1].append(Tree(node.label, tuple(children)))
    score = score_tree(str(gold), str(levels[0][0]), parameters)
    correct_tags = sum(
        _are_equal(one.label, two.label, parameters.equal_labels)
        for one, two in zip(right, found, strict=True)
        if one.label not in parameters.delete_labels
    )
    return replace(score, correct_tags=correct_tags if score.status == VALID else 0)


def score_trees(
    gold: Iterable[str], test: Iterable[str], parameters: Parameters | None = None
) -> Iterator[SentenceScore]:
    """Score trees, a line of brackets each; as many of one side as of the other.

    Raises:
        ValueError: if one side has more, once that is seen.
    """
    for one, two in zip(gold, test, strict=True):
        yield score_tree(one, two, parameters)


@dataclass(frozen=True)
class Summary:
    """The totals of sentences; shares are in percent, and 0 where there is nothing to share.

    Args:
        scores: of the sentences.
    """

    scores: Sequence[SentenceScore]

    def up_to(self, num_words: int) -> "Summary":
        """Of the sentences that have at most so many words."""
        return Summary([score for score in self.scores if score.length <= num_words])

    def total(self, name: str) -> int:
        """The sum of a count of `SentenceScore` over the valid sentences."""
        return sum(getattr(score, name) for score in self.scores if score.status == VALID)

    def num_sentences(self, status: int | None = None) -> int:
        """How many sentences there are, of a status or of any."""
        return sum(status is None or score.status == status for score in self.scores)

    @property
    def recall(self) -> float:
        """Share of the gold brackets that were found."""
        return _percent(self.total("matched"), self.total("gold_brackets"))

    @property
    def precision(self) -> float:
        """Share of the test brackets that are right."""
        return _percent(self.total("matched"), self.total("test_brackets"))

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def complete_match(self) -> float:
        """Share of the valid sentences whose brackets are all right, and all there."""
        return self._of_valid(
            score.matched == score.gold_brackets == score.test_brackets for score in self._valid()
        )

    @property
    def average_crossing(self) -> float:
        """Test brackets that cross a gold one, for each valid sentence."""
        return self.total("crossing") / max(self.num_sentences(VALID), 1)

    def crossing_at_most(self, most: int) -> float:
        """Share of the valid sentences with so few crossing brackets."""
        return self._of_valid(score.crossing <= most for score in self._valid())

    @property
    def tagging_accuracy(self) -> float:
        """Share of the words that count whose tag is right."""
        return _percent(self.total("correct_tags"), self.total("words"))

    def lines(self, heading: str) -> list[str]:
        """The lines of EVALB's summary under a heading such as `All`."""
        return [
            f"-- {heading} --",
            f"Number of sentence        = {self.num_sentences():6d}",
            f"Number of Error sentence  = {self.num_sentences(ERROR):6d}",
            f"Number of Skip  sentence  = {self.num_sentences(SKIPPED):6d}",
            f"Number of Valid sentence  = {self.num_sentences(VALID):6d}",
            f"Bracketing Recall         = {self.recall:6.2f}",
            f"Bracketing Precision      = {self.precision:6.2f}",
            f"Bracketing FMeasure       = {self.f1:6.2f}",
            f"Complete match            = {self.complete_match:6.2f}",
            f"Average crossing          = {self.average_crossing:6.2f}",
            f"No crossing               = {self.crossing_at_most(0):6.2f}",
            f"2 or less crossing        = {self.crossing_at_most(2):6.2f}",
            f"Tagging accuracy          = {self.tagging_accuracy:6.2f}",
        ]

    def _valid(self) -> Iterator[SentenceScore]:
        return (score for score in self.scores if score.status == VALID)

    def _of_valid(self, holds: Iterable[bool]) -> float:
        return _percent(sum(holds), self.num_sentences(VALID))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
