# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""HTML, whole pages or fragments, well-formed or not.

The tokens are those of the HTML standard, and together they are the document, whatever is broken in
it. `html.parser` leaves out some of what it does not understand, and differs between versions.
"""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from .document import Document, hidden_token, read_piece
from .inline import Kind, MarkedText, Token
from .placeholders import placeholder_tokens


WHITE_SPACE = " \t\n\r\f"
# Elements that end the sentence before them, and after them; all others are part of it.
BLOCKS = frozenset(
    "address article aside audio base basefont blockquote body button canvas caption center col "
    "colgroup datalist dd details dialog dir div dl dt fieldset figcaption figure footer form "
    "frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li link listing "
    "main menu meta nav noembed noframes noscript object ol optgroup option p param pre "
    "search section select summary table tbody td textarea tfoot th thead "
    "title tr track ul video xmp".split()
)
EMPTY = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr".split()
)
# What they hold is text for machines, or code.
OPAQUE = frozenset(
    "audio canvas code iframe kbd listing math noembed noframes object pre samp script "
    "style svg template textarea tt var video xmp".split()
)
# They change how text looks, so that each part of what they held can have one of its own.
REPEATABLE = frozenset("b big del em font i ins mark s small span strike strong sub sup u".split())
# Up to their end tag there are no tags.
RAW_TEXT = frozenset("iframe noembed noframes script style textarea title xmp".split())
_TOKEN = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<[!?][^>]*+(?:>|\Z)"
    r"|</(?![A-Za-z])[^>]*+>"
    r"""|<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?:=\s*+"[^"]*+"|=\s*+'[^']*+'|[^>])*+>""",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_NAMES = re.compile(r"""\s(?:id|name)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)


class _Part(NamedTuple):
    """A part of a document: text, where it has no name, or a tag or a comment, named `!`."""

    raw: str
    name: str = ""
    is_end: bool = False


def read_html(text: str) -> Document:
    """The texts of a document: of its title, headings, paragraphs, cells and the like."""
    parts = list(_parts(text))
    ends = _ends(parts)
    pieces: list[str | MarkedText] = []
    tokens: list[Token] = []

    def cut() -> None:
        if tokens:
            pieces.append(read_piece(tokens, WHITE_SPACE))
            tokens.clear()

    place = 0
    while place < len(parts):
        part = parts[place]
        end = place + 1
        if _is_opaque(part):
            end = ends.get(place) or _next_block(parts, end)
            raw = "".join(parts[inner].raw for inner in range(place, end))
            if part.name in BLOCKS:
                cut()
                pieces.append(raw)
            else:
                tokens.append(hidden_token(raw))
        elif part.name in BLOCKS or (part.name == "br" and _ends_in_break(tokens)):
            cut()
            pieces.append(part.raw)
        else:
            tokens.extend(_tokens(part))
        place = end
    cut()
    return Document(pieces, escape)


def escape(text: str) -> str:
    """Text as HTML."""
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


def _parts(text: str) -> Iterator[_Part]:
    end = position = 0
    while (start := text.find("<", position)) >= 0:
        if match := _TOKEN.match(text, start):
            stop, name = match.end(), (match["name"] or "!").lower()
        elif re.match("[A-Za-z/!?]", text[start + 1 : start + 2]):
            stop, name = len(text), "!"  # of a tag that does not end, or within quotes only
        else:
            position = start + 1
            continue
        if start > end:
            yield _Part(text[end:start])
        is_end = bool(match and match["end"])
        yield _Part(text[start:stop], name, is_end)
        end = position = stop
        if name in RAW_TEXT and not is_end:
            closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, end)
            position = closing.start() if closing else len(text)
            if position > end:
                yield _Part(text[end:position])
                end = position
    if end < len(text):
        yield _Part(text[end:])


def _ends(parts: list[_Part]) -> dict[int, int]:
    """For the place of the start of an element the place behind its end, where it has one."""
    found: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for place, part in enumerate(parts):
        if part.is_end:
            if opened.get(part.name):
                found[opened[part.name].pop()] = place + 1
        elif part.name not in EMPTY:
            opened.setdefault(part.name, []).append(place)
    return found


def _next_block(parts: list[_Part], place: int) -> int:
    """The place of the next start or end of a block, from a place on."""
    while place < len(parts) and parts[place].name not in BLOCKS:
        place += 1
    return place


def _is_opaque(part: _Part) -> bool:
    """Whether it starts an element that is left as it is."""
    if part.is_end or part.name in ("", "!") or part.name in EMPTY:
        return False
    if part.name in OPAQUE:
        return True
    raw = part.raw.lower()
    if "translate" not in raw:
        return False
    for match in _ATTRIBUTE.finditer(raw, 1 + len(part.name)):
        value = match[2] or match[3] or match[4] or ""
        if match[1] == "translate" and value == "no":
            return True
        if match[1] == "class" and "notranslate" in value.split():
            return True
    return False


def _ends_in_break(tokens: list[Token]) -> bool:
    """Whether nothing but white space follows a line break."""
    for token in reversed(tokens):
        if token.kind is not Kind.TEXT or not token.raw.isspace():
            return token.name == "br"
    return False


def _tokens(part: _Part) -> list[Token]:
    if not part.name:
        return placeholder_tokens(part.raw, html.unescape)
    if part.name == "!" or part.name in EMPTY:
        is_break = part.name == "br"
        return [Token(part.raw, Kind.POINT, name=part.name, separates=is_break)]
    if part.is_end:
        return [Token(part.raw, Kind.CLOSE, name=part.name)]
    again = _NAMES.sub("", part.raw) if part.name in REPEATABLE else None
    return [Token(part.raw, Kind.OPEN, name=part.name, again=again)]
