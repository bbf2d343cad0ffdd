# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Placeholders, URLs and tags in plain text.

The model does not see them, since it copies only what it has learned to copy: one of Multi30k
copied none of 1,800, and translated the words around them worse (`benchmarks/markup.py`). They are
put back by the alignment of their neighbours.
"""

import re
from collections.abc import Callable, Sequence

from ..text.lines import BYTE_ORDER_MARK
from .document import Document, hidden_token, read_piece, text_token
from .inline import Kind, Token


_NUMBER = r"[-+\#0]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?(?:hh?|ll?|[Lqjzt])?"  # of printf
# A URL does not end in punctuation, nor in an entity that stands for some.
_URL = r"""(?:(?!&(?:lt|gt|quot|apos|\#39);)[^\s<>"'])+(?<![.,:!?)\]}»”’])(?<!(?<!&amp);)"""
_PLACEHOLDER = re.compile(
    rf"""
    [$%\#]?\{{\{{[^{{}}\n]*\}}\}}                   # {{{{var}}}}
    | [$%\#]\{{[^{{}}\n]*\}}                        # ${{var}}, %{{var}}, #{{var}}
    | \{{%[^{{}}\n]*%\}}                            # {{% url %}}
    | \{{[\w.\-\[\]]*(?:![rsa])?(?::[^{{}}\n]*)?\}} # {{name}}, {{0}}, {{price:.2f}}
    | \{{\{{ | \}}\}} | %%                          # what stands for a brace or a percent sign
    | %(?:\(\w+\)|\d+\$){_NUMBER}[a-zA-Z@]          # %(name)s, %1$d
    # %s, %.2f and the %d of %dpx, but not what begins 5%a and %age.
    | (?<!\d)%{_NUMBER}(?:[difsu@]|[aAcCeEFgGnopSxX](?![a-zA-Z]))
    | (?:https?|ftps?|file)://{_URL}
    | (?<!\w)(?:www\.|mailto:){_URL}
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+      # an e-mail address
    """,
    re.VERBOSE,
)
# What a placeholder may be in: nothing would be left in it.
_ENCLOSING = {"(": ")", "[": "]", "'": "'", '"': '"', "‘": "’", "“": "”", "„": "“", "«": "»"}
_MARKS = re.compile(r"[^\w.!?…。！？&<>\n]*")  # but what ends a sentence
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*+)[^<>]*?(?P<empty>/?)>")
ESCAPED_TAG = re.compile(  # in XML
    r"&lt;(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*+)(?:[^<>&]|&(?!lt;|gt;))*?(?P<empty>/?)&gt;"
)
WHITE_SPACE = " \t\n\r\f\v"


def read_placeholders(text: str) -> Document:
    """A line of plain text, with placeholders, URLs, e-mail addresses and tags."""
    tokens: list[Token] = []
    mark = text[: text.startswith(BYTE_ORDER_MARK)]
    end = len(mark)
    for match in _TAG.finditer(text):
        tokens += placeholder_tokens(text[end : match.start()], str)
        tokens.append(tag_token(match))
        end = match.end()
    tokens += placeholder_tokens(text[end:], str)
    piece = read_piece(tokens, WHITE_SPACE)
    return Document([mark, piece] if mark else [piece], str)


def placeholder_tokens(raw: str, decode: Callable[[str], str]) -> list[Token]:
    """Text and the placeholders in it.

    Placeholders with nothing but marks between them, as in `{name}: {value}`, are one, and so are
    they with the brackets or quotation marks around them.

    Args:
        raw: as it is written.
        decode: what it says.
    """
    spans: list[tuple[int, int]] = []
    for match in _PLACEHOLDER.finditer(raw):
        start, end = _enclosed(raw, *match.span(), spans)
        if spans and _MARKS.fullmatch(raw, spans[-1][1], start):
            start, end = _enclosed(raw, spans.pop()[0], end, spans)
        spans.append((start, end))
    tokens: list[Token] = []
    done = 0
    for start, end in spans:
        if start > done:
            tokens.append(text_token(raw[done:start], decode))
        tokens.append(hidden_token(raw[start:end]))
        done = end
    if done < len(raw):
        tokens.append(text_token(raw[done:], decode))
    return tokens


def _enclosed(raw: str, start: int, end: int, before: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """A part of a text with the brackets or the quotation marks around it, where it has some."""
    first = before[-1][1] if before else 0
    if start > first and _ENCLOSING.get(raw[start - 1]) == raw[end : end + 1]:
        return start - 1, end + 1
    return start, end


def tag_token(match: re.Match[str]) -> Token:
    """The start or the end of an element, or an empty one, which are written once."""
    if match["empty"] and not match["end"]:
        return Token(match[0], Kind.POINT)
    return Token(match[0], Kind.CLOSE if match["end"] else Kind.OPEN, name=match["name"])
