# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""XLIFF 1.2 and 2.x: each unit or segment gets its target, and the rest stays byte for byte."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from xml.parsers import expat
from xml.sax.saxutils import escape as escape_xml

from .document import Document, hidden_token, read_piece
from .inline import Kind, MarkedText, Token
from .placeholders import ESCAPED_TAG, placeholder_tokens, tag_token


WHITE_SPACE = " \t\n\r"
UNITS = frozenset(("trans-unit", "segment"))  # of 1.2 and of 2.x
# Elements around text; of others, and of what stands in them, the model sees nothing.
AROUND = frozenset(("g", "pc", "mrk"))
# The starts and the ends of what is around text without being an element, and what both name.
STARTS = {"bx": ("rid", "id"), "bpt": ("rid", "id"), "sc": ("id",), "sm": ("id",)}
ENDS = {"ex": ("rid", "id"), "ept": ("rid", "id"), "ec": ("startRef", "id"), "em": ("startRef",)}
KIND_OF_END = {"ex": "bx", "ept": "bpt", "ec": "sc", "em": "sm"}
UNTRANSLATED = frozenset(("new", "needs-translation"))  # states in which a target is replaced
TRANSLATED = frozenset(("translated", "reviewed", "final", "signed-off"))  # in which it never is
_MARKUP = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<data>.*?)\]\]>"
    r"""|<(?P<end>/?)(?P<name>[^\s/>]+)(?P<rest>(?:"[^"]*"|'[^']*'|[^>"'])*)>""",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_STATE = re.compile(r"""\s+state\s*=\s*(?:"[^"]*"|'[^']*')""")
_ENTITY = re.compile(r"&(?:#(\d+)|#[xX]([0-9a-fA-F]+)|(lt|gt|amp|quot|apos));")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


@dataclass
class _Element:
    """A source or a target: its first and last byte, and those of what is in it."""

    start: int
    attributes: dict[str, str]
    end: int = 0
    inner: tuple[int, int] = (0, 0)


@dataclass
class _Unit:
    """A unit of 1.2 or a segment of 2.x, with what it has."""

    depth: int
    is_translated: bool  # whether it is to be translated
    attributes: dict[str, str]
    elements: dict[str, _Element] = field(default_factory=dict)


def read_xliff(text: str) -> Document:
    """The sources of a file that have no translation yet, each in the place of its target.

    Raises:
        ValueError: if it is not XLIFF 1.2 or 2.x in UTF-8, or has a DTD, which could let a small
            file become as large as no memory is.
    """
    data = text.encode()
    pieces: list[str | MarkedText] = []
    end = 0
    for unit in _Reader(data).units:
        source = unit.elements.get("source")
        if source is None or not unit.is_translated:
            continue
        target = unit.elements.get("target")
        raw = data[slice(*source.inner)].decode()
        if target is not None:
            states = {target.attributes.get("state"), unit.attributes.get("state")}
            is_approved = unit.attributes.get("approved") == "yes"
            if _is_done(raw, data[slice(*target.inner)].decode(), states, is_approved=is_approved):
                continue
        segmented = unit.elements.get("seg-source")
        if segmented is not None:
            raw = data[slice(*segmented.inner)].decode()
        if not raw.strip():
            continue
        start_tag = data[source.start : source.inner[0]].decode()
        prefix = re.match(r"<((?:[^\s:>]+:)?)source", start_tag)
        name = f"{prefix[1] if prefix else ''}target"
        if target is None:
            place = max(source.end, segmented.end if segmented else 0)
            kept = data[end:place].decode()
            before = data[max(source.start - 1000, 0) : source.start]
            kept += before[len(before.rstrip()) :].decode() + f"<{name}>"
            end = place
        else:
            opening = data[target.start : target.inner[0]].decode()
            opening = _STATE.sub("", opening).removesuffix("/>").rstrip().removesuffix(">")
            kept = data[end : target.start].decode() + opening + ">"
            end = target.end
        pieces += [kept, *_contents(raw), f"</{name}>"]
    return Document([*pieces, data[end:].decode()], escape_xml)


def _is_done(
    source: str, target: str, states: Collection[str | None], *, is_approved: bool
) -> bool:
    """Whether a target is a translation that somebody made."""
    if not _MARKUP.sub("", target).strip() or UNTRANSLATED.intersection(states):
        return False
    if is_approved or TRANSLATED.intersection(states):  # "Email" is German too
        return True
    return target.split() != source.split()


class _Reader:
    """Finds the units of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.units: list[_Unit] = []
        self.opened: list[str] = []
        self.translated = [True]  # whether what is in each of these is to be translated
        self.unit: _Unit | None = None
        self.parser = expat.ParserCreate("utf-8")
        self.parser.XmlDeclHandler = self._declare
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            raise ValueError(f"The file is not well-formed XML: {error}.") from None

    def _declare(self, version: str, encoding: str | None, standalone: int) -> None:
        if (encoding or "utf-8").lower() not in ("utf-8", "utf8"):  # of which a target may need all
            raise ValueError(
                f"XLIFF must be UTF-8 here, got encoding={encoding}; convert the file."
            )

    def _refuse(self, *declaration: object) -> None:
        raise ValueError("A DTD is not allowed in XLIFF here; remove <!DOCTYPE ...> from the file.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if not self.opened and name != "xliff":
            raise ValueError(f"The file is not XLIFF: its first element is <{name}>, not <xliff>.")
        if not self.opened and attributes.get("version", "1.2")[:2] not in ("1.", "2."):
            raise ValueError(f"XLIFF must be 1.x or 2.x, got version={attributes['version']}.")
        chosen = {"yes": True, "no": False}.get(attributes.get("translate", ""))
        self.translated.append(self.translated[-1] if chosen is None else chosen)
        if name in UNITS and self.unit is None:
            self.unit = _Unit(len(self.opened), self.translated[-1], attributes)
        elif self.unit is not None and len(self.opened) == self.unit.depth + 1:
            element = _Element(self.parser.CurrentByteIndex, attributes)
            self.unit.elements.setdefault(name, element)
        self.opened.append(name)

    def _end(self, name: str) -> None:
        name = self.opened.pop()
        self.translated.pop()
        if self.unit is None:
            return
        if len(self.opened) == self.unit.depth:
            self.units.append(self.unit)
            self.unit = None
        elif len(self.opened) == self.unit.depth + 1:
            element = self.unit.elements[name]
            if not element.end:
                self._close(element)

    def _close(self, element: _Element) -> None:
        match = re.compile(rb"""<(?:"[^"]*"|'[^']*'|[^>"'])*>""").match(self.data, element.start)
        first = match.end() if match else element.start
        here = self.parser.CurrentByteIndex
        if self.data.endswith(b"/>", element.start, first):
            element.inner, element.end = (first, first), first
        else:
            element.inner = (first, here)
            element.end = self.data.index(b">", here) + 1


@dataclass
class _Code:
    """Text, where it has no name, a comment, named `!`, or an element or one end of it."""

    raw: str
    name: str = ""
    kind: Kind = Kind.POINT
    attributes: dict[str, str] = field(default_factory=dict)


def _contents(raw: str) -> Iterator[str | MarkedText]:
    """What a target gets: the text of a source, or those of the segments that are marked in it."""
    tokens: list[Token] = []
    containers = [0]
    num_containers = 0
    segments: list[bool] = []  # whether each open mrk is one
    for code in _codes(raw):
        if code.name == "mrk" and code.kind is not Kind.POINT:
            if code.kind is Kind.OPEN:
                segments.append(code.attributes.get("mtype") == "seg")
            if segments[-1]:
                if tokens:
                    yield read_piece(tokens, WHITE_SPACE)
                    tokens = []
                yield code.raw
            if segments.pop() if code.kind is Kind.CLOSE else segments[-1]:
                continue
        if code.kind is Kind.OPEN:
            num_containers += 1
            containers.append(num_containers)
        elif code.kind is Kind.CLOSE:
            containers.pop()
        tokens += _tokens(code, containers[-1])
    if tokens:
        yield read_piece(tokens, WHITE_SPACE)


def _codes(raw: str) -> Iterator[_Code]:
    """Text, the ends of elements around text, and other elements whole."""
    end, depth, start = 0, 0, 0
    whole = _Code("")
    for match in _MARKUP.finditer(raw):
        name = (match["name"] or "").rpartition(":")[2]
        is_end = bool(match["end"])
        is_empty = not name or match["rest"].endswith("/")
        if depth:
            depth += 0 if is_empty else -1 if is_end else 1
            end = match.end()
            if not depth:
                whole.raw = raw[start:end]
                yield whole
            continue
        if match.start() > end:
            yield _Code(raw[end : match.start()])
        end = match.end()
        attributes = {one[1]: one[2] or one[3] or "" for one in _ATTRIBUTE.finditer(match[0])}
        is_protected = attributes.get("translate") == "no" or attributes.get("mtype") == "protected"
        if match["data"] is not None:
            yield _Code(escape_xml(match["data"]))
        elif is_empty:
            yield _Code(match[0], name or "!", Kind.POINT, attributes)
        elif name in AROUND and (is_end or not is_protected):
            yield _Code(match[0], name, Kind.CLOSE if is_end else Kind.OPEN, attributes)
        else:
            depth, start, whole = 1, match.start(), _Code("", name, Kind.POINT, attributes)
    if end < len(raw):
        yield _Code(raw[end:])


def _tokens(code: _Code, container: int) -> list[Token]:
    """The tokens of a code.

    Args:
        code: text, or an element, or an end of one.
        container: the number of the element that it is in. What is no element of XML belongs to
            another of its kind only within the same element, so that those stay well-formed.
    """
    if not code.name:
        return _text_tokens(code.raw, container)
    if code.kind is not Kind.POINT:
        return [Token(code.raw, code.kind, name=code.name)]
    for kind, names in ((Kind.OPEN, STARTS), (Kind.CLOSE, ENDS)):
        if code.name in names:
            pair = KIND_OF_END.get(code.name, code.name)
            id_ = next(
                (code.attributes[one] for one in names[code.name] if one in code.attributes), ""
            )
            return [Token(code.raw, kind, name=f"{container} {pair} {id_}")]
    if code.name == "!":
        return [Token(code.raw, Kind.POINT)]
    return [hidden_token(code.raw)]


def _text_tokens(raw: str, container: int) -> list[Token]:
    """Text with the placeholders and the tags that are written in it as text."""
    tokens: list[Token] = []
    end = 0
    for match in ESCAPED_TAG.finditer(raw):
        tokens += placeholder_tokens(raw[end : match.start()], _decode)
        tag = tag_token(match)
        tokens.append(replace(tag, name=f"{container} &{tag.name}"))
        end = match.end()
    return tokens + placeholder_tokens(raw[end:], _decode)


def _decode(raw: str) -> str:
    def said(match: re.Match[str]) -> str:
        decimal, hexadecimal, name = match.groups()
        return _NAMED[name] if name else chr(int(decimal or hexadecimal, 10 if decimal else 16))

    return _ENTITY.sub(said, raw)
