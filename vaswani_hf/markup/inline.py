# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text with markup in it: without the markup, and with the markup put into a translation.

The rules are those of Hanneman & Dinu (2020, "How Should Markup Tags Be Translated?") and of the
transfer of HTML in Bergamot's translator. The markup around a source unit goes around the target
units that come from it. What that leaves open is decided so:

- A unit that comes from nowhere has the markup that both its neighbours have.
- An element whose units are not side by side is written as often as needed, if it only changes how
  text looks. Any other is written once: it takes in what lies between its parts if that is no
  longer than they are, else it keeps its longest part.
- An element that no unit comes from takes the unit that comes nearest to it; if there is none, it
  is empty and stands where it stood among its neighbours.
- What stands at a place, such as an image or a placeholder, stays beside the unit that it touched.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from .units import Span, UnitAlignment


ROOT = -1  # the parent of the outermost marks
LEAST_SHARE = 0.1  # of a unit, that an element without a unit of its own must have to take it
CLOSING_PUNCTUATION = tuple(".,;:!?)]}…%»”’、。，！？")


class Kind(Enum):
    """What a token is."""

    TEXT = "text"
    OPEN = "open"
    CLOSE = "close"
    POINT = "point"  # has no text that is translated


@dataclass(frozen=True)
class Token:
    """A part of a document as it is written there.

    Attributes:
        raw: what is written.
        kind: what it is.
        text: of a text, what it says.
        name: of the start and the end of an element, to find the two that belong together.
        again: of a start, what is written where the element is opened once more; `None` if it must
            not be.
        separates: of a point, whether it parts words as white space does.
    """

    raw: str
    kind: Kind
    text: str = ""
    name: str = ""
    again: str | None = None
    separates: bool = False


@dataclass
class Mark:
    """An element around `text[start:end]`, or a point at `start`.

    Attributes:
        last: the place of its last descendant in the list of marks, or its own.
        closing: `None` for a point.
        again: as for `Token`.
        has_space: whether white space stood before it and after it.
        separates: as for `Token`.
    """

    start: int
    end: int
    parent: int
    last: int
    opening: str
    closing: str | None = None
    again: str | None = None
    has_space: tuple[bool, bool] = (False, False)
    separates: bool = False

    @property
    def spaces(self) -> tuple[bool, bool]:
        """The same as `has_space`, but where its text is lost it takes no room."""
        return self.has_space if self.start == self.end else (False, False)


@dataclass(frozen=True)
class MarkedText:
    """A text without its markup, and the markup.

    Attributes:
        before: markup and white space before the text, as they were written.
        text: without white space at its ends; other white space is single spaces.
        marks: in the order in which they begin; a descendant comes after its ancestors.
        owners: the innermost element of each character, by its place among the marks, or `ROOT`.
        after: as `before`.
    """

    before: str
    text: str
    marks: list[Mark]
    owners: list[int]
    after: str

    def with_translation(
        self, target: str, alignment: UnitAlignment | None, escape: Callable[[str], str]
    ) -> str:
        """The translation with all the markup.

        Args:
            target: the translation.
            alignment: of the two; not needed where there are no marks.
            escape: writes text as the format wants it.
        """
        written = escape(target)
        if self.marks:
            known = alignment or UnitAlignment([], [], [])
            written = _Transfer(self, target, known).written(escape)
        return self.before + written + self.after


def read_tokens(tokens: Sequence[Token], white_space: str) -> MarkedText:
    """The text of tokens that follow each other, and their markup.

    What encloses or surrounds all of the text is part of `before` and `after`. A start without an
    end, or an end without a start, is a point.

    Args:
        tokens: of no more than one paragraph.
        white_space: the characters that count as such.
    """
    tokens = _split_edges(tokens, white_space)
    partners = _partners(tokens)
    first, end = _inner_part(tokens, partners)
    builder = _Builder(white_space)
    for place in range(first, end):
        builder.add(tokens[place], partners.get(place) is not None)
    before = "".join(token.raw for token in tokens[:first])
    after = "".join(token.raw for token in tokens[end:])
    return MarkedText(before, builder.text(), builder.marks, builder.owners, after)


def _split_edges(tokens: Sequence[Token], white_space: str) -> list[Token]:
    """The same with the white space at the ends of texts as tokens of its own."""
    found: list[Token] = []
    for token in tokens:
        raw = token.raw
        core = raw.strip(white_space)
        if token.kind is not Kind.TEXT or core == raw or not core:
            found.append(token)
            continue
        before, after = raw[: raw.index(core)], raw[len(raw.rstrip(white_space)) :]
        parts = ((before, before), (core, token.text.strip(white_space)), (after, after))
        found.extend(Token(part, Kind.TEXT, said) for part, said in parts if part)
    return found


def _partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The places of starts and ends that belong together, either way."""
    found: dict[int, int] = {}
    opened: list[int] = []
    counts: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.kind is Kind.OPEN:
            opened.append(place)
            counts[token.name] = counts.get(token.name, 0) + 1
        elif token.kind is Kind.CLOSE and counts.get(token.name):
            while True:  # what was opened since and is not closed has no end
                start = opened.pop()
                counts[tokens[start].name] -= 1
                if tokens[start].name == token.name:
                    break
            found |= {start: place, place: start}
    return found


def _inner_part(tokens: Sequence[Token], partners: dict[int, int]) -> tuple[int, int]:
    """The part of the tokens that the text fills, as in `tokens[first:end]`."""
    num_said = [0]  # by the tokens before each place
    for token in tokens:
        num_said.append(num_said[-1] + (token.kind is Kind.TEXT and not token.text.isspace()))
    first, end = 0, len(tokens)
    while first < end:
        after_first = partners.get(first, first) + 1  # of a token, or of an element
        before_last = partners.get(end - 1, end - 1)
        if num_said[after_first] == num_said[first]:
            first = after_first
        elif num_said[before_last] == num_said[end]:
            end = before_last
        elif after_first == end and before_last == first and first < end - 1:
            first, end = first + 1, end - 1
        else:
            break
    return first, end


class _Builder:
    """Gathers the text and the marks of tokens."""

    def __init__(self, white_space: str) -> None:
        self.spaces = re.compile(f"[{re.escape(white_space)}]+")
        self.parts: list[str] = []
        self.owners: list[int] = []
        self.ends_in_space = True
        self.follows_space = False  # and it was written so
        self.marks: list[Mark] = []
        self.opened: list[int] = []
        self.waiting: list[int] = []  # marks that no text has followed yet
        self.num_followed = 0  # of these, by another mark

    def text(self) -> str:
        return "".join(self.parts).rstrip(" ")

    def add(self, token: Token, has_partner: bool) -> None:
        if token.kind is Kind.TEXT:
            self._add_text(self.spaces.sub(" ", token.text))
            return
        if token.kind is Kind.CLOSE and has_partner:
            place = self.opened.pop()
            mark = self.marks[place]
            mark.end, mark.closing, mark.last = len(self.owners), token.raw, len(self.marks) - 1
            self.waiting.append(place)
            return
        place = len(self.marks)
        parent = self.opened[-1] if self.opened else ROOT
        mark = Mark(
            len(self.owners),
            len(self.owners),
            parent,
            place,
            token.raw,
            again=token.again,
            has_space=(self.follows_space, False),
            separates=token.separates,
        )
        self.marks.append(mark)
        self.num_followed = len(self.waiting)
        if token.kind is Kind.OPEN and has_partner:
            self.opened.append(place)
            return
        self.waiting.append(place)
        self.follows_space = False
        if token.separates and not self.ends_in_space:
            self._add(" ")

    def _add_text(self, text: str) -> None:
        is_parted = any(self.marks[place].separates for place in self.waiting)
        if is_parted and self.ends_in_space and text.startswith(CLOSING_PUNCTUATION):
            self._drop_space()
        self.follows_space = text.endswith(" ")
        if text.startswith(" "):
            for place in self.waiting[self.num_followed :]:
                self.marks[place].has_space = (self.marks[place].has_space[0], True)
        self.waiting.clear()
        self.num_followed = 0
        self._add(text.removeprefix(" ") if self.ends_in_space else text)

    def _drop_space(self) -> None:
        """Let punctuation follow the word before a point, as in `Dear {name},`."""
        if self.parts:
            self.parts[-1] = self.parts[-1].removesuffix(" ")
            self.owners.pop()
            for place in self.waiting:
                mark = self.marks[place]
                mark.start = min(mark.start, len(self.owners))
                mark.end = min(mark.end, len(self.owners))

    def _add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.owners += [self.opened[-1] if self.opened else ROOT] * len(text)
            self.ends_in_space = text.endswith(" ")


class _Atom(NamedTuple):
    """A unit of the target, or a part of one whose letters have different markup.

    Attributes:
        span: its characters.
        source: the source unit that it comes from; `None` if from nowhere.
        row: as in `UnitAlignment`.
    """

    span: Span
    source: int | None
    row: dict[int, float]


class _Transfer:
    """Puts the marks of a text into its translation.

    Attributes:
        owners: of each atom the innermost element that it is in, or `ROOT`.
    """

    def __init__(self, marked: MarkedText, target: str, alignment: UnitAlignment) -> None:
        self.marked, self.marks, self.target = marked, marked.marks, target
        self.source_units = alignment.source
        self.depths: dict[int, int] = {ROOT: 0}
        for place, mark in enumerate(self.marks):
            self.depths[place] = self.depths[mark.parent] + 1
        self.atoms: list[_Atom] = []
        self.owners: list[int] = []
        self._take_over(alignment)
        self._fill_gaps()
        self._gather()
        self._rescue()

    def _take_over(self, alignment: UnitAlignment) -> None:
        """Give each target unit the markup of the source unit that it comes from most."""
        text = self.marked.text
        for span, row in zip(alignment.target, alignment.rows, strict=True):
            if not row:
                self._add_atom(_Atom(span, None, row), ROOT)
                continue
            source = max(row, key=lambda place: (row[place], -place))
            start, end = alignment.source[source]
            owners = self.marked.owners[start:end]
            if len(set(owners)) > 1 and self.target[slice(*span)] == text[start:end]:
                cuts = [i for i in range(1, len(owners)) if owners[i] != owners[i - 1]]
                for first, last in itertools.pairwise([0, *cuts, len(owners)]):
                    part = (span[0] + first, span[0] + last)
                    self._add_atom(_Atom(part, source, row), owners[first])
            else:
                self._add_atom(_Atom(span, source, row), Counter(owners).most_common(1)[0][0])

    def _add_atom(self, atom: _Atom, owner: int) -> None:
        self.atoms.append(atom)
        self.owners.append(owner)

    def _fill_gaps(self) -> None:
        """Give what comes from nowhere the markup that both its neighbours have."""
        known = [place for place, atom in enumerate(self.atoms) if atom.source is not None]
        for left, right in itertools.pairwise(known):
            if right - left > 1:
                common = self._common(self.owners[left], self.owners[right])
                self.owners[left + 1 : right] = [common] * (right - left - 1)

    def _gather(self) -> None:
        """Bring the atoms together of each element that must be written once."""
        places = self._places()
        for element, mark in enumerate(self.marks):
            own = places.get(element)
            if own is None or mark.again is not None or own[-1] - own[0] + 1 == len(own):
                continue
            between = sorted(set(range(own[0], own[-1])).difference(own))
            is_free = all(self._is_inside(element, self.owners[place]) for place in between)
            if is_free and len(between) <= len(own):
                for place in between:
                    self.owners[place] = element
            else:
                runs = [[own[0]]]
                for place in own[1:]:
                    if place == runs[-1][-1] + 1:
                        runs[-1].append(place)
                    else:
                        runs.append([place])
                longest = max(runs, key=len)
                for run in runs:
                    if run is not longest:
                        self.owners[run[0] : run[-1] + 1] = [mark.parent] * len(run)
            places = self._places()

    def _rescue(self) -> None:
        """Give each element that has text, and lost it, the atom that comes nearest to it."""
        places = self._places()
        atoms_of: dict[int, list[int]] = {}  # of each source unit
        for place, atom in enumerate(self.atoms):
            for unit in atom.row:
                atoms_of.setdefault(unit, []).append(place)
        for element, mark in enumerate(self.marks):
            if element in places or mark.start == mark.end:
                continue
            shares: dict[int, float] = {}
            for unit in self._units_within(mark):
                for place in atoms_of.get(unit, ()):
                    if self.owners[place] == mark.parent:
                        row = self.atoms[place].row
                        share = row[unit] / sum(row.values())
                        shares[place] = shares.get(place, 0.0) + share
            if shares:
                best = max(shares, key=lambda place: (shares[place], -place))
                if shares[best] >= LEAST_SHARE:
                    self.owners[best] = element
                    places[element] = [best]

    def _units_within(self, mark: Mark) -> range:
        """The source units that have a character of an element."""
        first = bisect_right(self.source_units, mark.start, key=lambda span: span[1])
        return range(first, bisect_left(self.source_units, mark.end, key=lambda span: span[0]))

    def _places(self) -> dict[int, list[int]]:
        """The atoms of each element that has some."""
        found: dict[int, list[int]] = {}
        for place, owner in enumerate(self.owners):
            while owner != ROOT:
                found.setdefault(owner, []).append(place)
                owner = self.marks[owner].parent
        return found

    def _is_inside(self, mark: int, element: int) -> bool:
        """Whether a mark is an element or one of its descendants."""
        return element == ROOT or element <= mark <= self.marks[element].last

    def _common(self, one: int, other: int) -> int:
        """The innermost element that both are in."""
        while one != other:
            if self.depths[one] >= self.depths[other]:
                one = self.marks[one].parent
            else:
                other = self.marks[other].parent
        return one

    def _child(self, element: int, mark: int) -> int | None:
        """The child of an element that a mark is in; `None` if it is in none."""
        if not self._is_inside(mark, element):
            return None
        depth, child = self.depths[element], None
        while self.depths[mark] > depth:
            child, mark = mark, self.marks[mark].parent
        return child

    # Marks that no atom is in

    def _standing(self) -> dict[int, list[tuple[int, bool]]]:
        """What stands before each atom, or after the last, and whether it belongs to the left."""
        places = self._places()
        aligned: dict[int, tuple[int, int]] = {}  # the first and the last atom of source units
        for place, atom in enumerate(self.atoms):
            if atom.source is not None:
                first = aligned.get(atom.source, (place, place))[0]
                aligned[atom.source] = (first, place)
        units = sorted(aligned)
        found: dict[int, list[tuple[int, bool]]] = {}
        for place, mark in enumerate(self.marks):
            if place not in places and (mark.parent == ROOT or mark.parent in places):
                before, is_left = self._best_place(mark, aligned, units)
                before = self._allowed_place(mark.parent, before)
                found.setdefault(before, []).append((place, is_left))
        return found

    def _best_place(
        self, mark: Mark, aligned: dict[int, tuple[int, int]], units: list[int]
    ) -> tuple[int, bool]:
        left_unit, right_unit = self._units_beside(mark)
        num_left = bisect_right(units, left_unit)
        num_right = bisect_left(units, right_unit)
        if num_left == 0 and num_right == len(units):
            share = mark.start / max(len(self.marked.text), 1)
            return round(share * len(self.atoms)), True
        if num_left == 0:
            return aligned[units[num_right]][0], False
        left = aligned[units[num_left - 1]][1] + 1
        if num_right == len(units):
            return left, True
        right = aligned[units[num_right]][0]
        touches = [not has_space for has_space in mark.spaces]
        is_known = [left_unit in aligned, right_unit in aligned]
        for sides in (touches, is_known):
            if sides[0] != sides[1]:
                return (left, True) if sides[0] else (right, False)
        first, last = sorted((left, right))
        # What comes from before the mark and lies between the two places, less what from behind it.
        balance = sum(
            1 if atom.source <= left_unit else -1
            for atom in self.atoms[first:last]
            if atom.source is not None
        )
        if balance == 0:
            return left, True
        best = last if balance > 0 else first
        return best, best == left

    def _units_beside(self, mark: Mark) -> tuple[int, int]:
        """The source units before and after a mark; there may be no such ones."""
        before = bisect_left(self.source_units, mark.start, key=lambda span: span[0]) - 1
        return before, bisect_left(self.source_units, mark.end, key=lambda span: span[0])

    def _allowed_place(self, parent: int, before: int) -> int:
        """The nearest place that is within an element and tears none of its children."""
        for distance in range(len(self.atoms) + 1):
            for place in (before - distance, before + distance):
                if 0 <= place <= len(self.atoms) and self._is_allowed(parent, place):
                    return place
        raise ValueError(f"No place is left for markup within element {parent}.")

    def _is_allowed(self, parent: int, before: int) -> bool:
        sides = self._sides(before)
        if not any(self._is_inside(side, parent) for side in sides):
            return False
        left, right = (self._child(parent, side) for side in sides)
        return left is None or left != right

    def _sides(self, before: int) -> tuple[int, int]:
        """The owners of the atoms at a place."""
        return (
            self.owners[before - 1] if before > 0 else ROOT,
            self.owners[before] if before < len(self.atoms) else ROOT,
        )

    # Writing

    def written(self, escape: Callable[[str], str]) -> str:
        """The translation with its markup."""
        standing = self._standing()
        opened: set[int] = set()
        out: list[str] = []
        end = 0
        for place in range(len(self.atoms) + 1):
            is_last = place == len(self.atoms)
            start = len(self.target) if is_last else self.atoms[place].span[0]
            gap = escape(self.target[end:start])
            left, right = self._sides(place)
            common = self._common(left, right)
            here: dict[int, list[tuple[int, bool]]] = {}  # by their parents
            for one in standing.get(place, ()):
                here.setdefault(self.marks[one[0]].parent, []).append(one)
            while left != common:
                for mark, _ in here.get(left, ()):
                    out.append(" " * self.marks[mark].spaces[0] + self._element(mark))
                out.append(self.marks[left].closing or "")
                left = self.marks[left].parent
            out.extend(self._with_gap(here.get(common, []), gap, place))
            path = []
            while right != common:
                path.append(right)
                right = self.marks[right].parent
            for element in reversed(path):
                mark_ = self.marks[element]
                out.append(mark_.again or "" if element in opened else mark_.opening)
                opened.add(element)
                for mark, _ in here.get(element, ()):
                    out.append(self._element(mark) + " " * self.marks[mark].spaces[1])
            if not is_last:
                end = self.atoms[place].span[1]
                out.append(escape(self.target[start:end]))
        return "".join(out)

    def _with_gap(self, standing: list[tuple[int, bool]], gap: str, place: int) -> Iterator[str]:
        """What stands between two atoms, with the white space that is between them."""
        if not standing:
            yield gap
            return
        marks = [self.marks[mark] for mark, _ in standing]
        wanted = [False] * (len(marks) + 1)
        for number, mark in enumerate(marks):
            wanted[number] |= mark.spaces[0]
            wanted[number + 1] |= mark.spaces[1]
        if place == 0:
            wanted[0] = False
        elif gap and any(wanted):  # what they touch now is not what they touched
            beside = self._units_beside(marks[0])[0]
            wanted[0] |= self.atoms[place - 1].source != beside
        if place == len(self.atoms) or self.target.startswith(
            CLOSING_PUNCTUATION, self.atoms[place].span[0]
        ):
            wanted[-1] = False
        elif gap and any(wanted):
            beside = self._units_beside(marks[-1])[1]
            wanted[-1] |= self.atoms[place].source != beside
        if gap and not any(wanted) and not (gap.isspace() and self._is_back(marks[0], place)):
            wanted[-1 if standing[-1][1] else 0] = True
        rest = gap or " "
        for number, (mark_place, _) in enumerate(standing):
            if wanted[number]:
                yield rest
                rest = " "
            yield self._element(mark_place)
        if wanted[-1]:
            yield rest

    def _is_back(self, mark: Mark, place: int) -> bool:
        """Whether a mark parted two words without white space, and these are at its sides again."""
        if not (mark.separates and 0 < place < len(self.atoms)):
            return False
        sides = (self.atoms[place - 1].source, self.atoms[place].source)
        return sides == self._units_beside(mark)

    def _element(self, place: int) -> str:
        """An element without text, with all that is in it, or a point."""
        out: list[str] = []
        opened: list[int] = []
        for inner in range(place, self.marks[place].last + 1):
            while opened and not self._is_inside(inner, opened[-1]):
                out.append(self.marks[opened.pop()].closing or "")
            mark = self.marks[inner]
            out.append(" " * (inner != place and mark.spaces[0]) + mark.opening)
            if mark.closing is not None:
                opened.append(inner)
        out.extend(self.marks[inner].closing or "" for inner in reversed(opened))
        return "".join(out)
