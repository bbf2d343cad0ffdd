# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The pairs of languages that a server translates between, and the model of each."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..hub.card import card_languages, language_name
from ..translation.texts import Splitter, split_for
from .errors import RequestError


if TYPE_CHECKING:
    from ..translation import TextTranslator


AUTO = "auto"  # the client leaves it to us to tell the source language
_CODE = "[a-z]{2,3}(?:-(?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))?"  # such as en, zh-Hans, pt-BR
_NAMED = re.compile(f"({_CODE})-({_CODE})=(.+)")


class LanguagePair(NamedTuple):
    """The codes of two languages, such as `en` and `de`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class Served(NamedTuple):
    """A pair with what translates it.

    Attributes:
        share: as `TextTranslator.sharing` returns it.
    """

    languages: LanguagePair
    translator: "TextTranslator"
    splitter: Splitter
    share: Callable[[int, int], None]


class Pairs:
    """The pairs of a server, in the order in which they were given.

    Args:
        translators: the translator of each pair; `None` in place of a pair for the languages of the
            model's card, the source's before the target's.

    Raises:
        ValueError: if the languages of a model are not known, or two models have the same.
        ImportError: if sentencex, which splits texts into sentences, is missing.
    """

    def __init__(self, translators: Iterable[tuple[LanguagePair | None, "TextTranslator"]]) -> None:
        self._served: dict[LanguagePair, Served] = {}
        for pair, translator in translators:
            languages = pair or _languages_of(translator)
            if languages in self._served:
                raise ValueError(f"Two models translate {languages}; leave out one.")
            splitter = split_for(translator, split="sentences", language=languages.source)
            self._served[languages] = Served(languages, translator, splitter, translator.sharing())

    @property
    def languages(self) -> list[LanguagePair]:
        return list(self._served)

    @property
    def num_workers(self) -> int:
        """Batches that the translator with the most workers translates at a time."""
        return max(served.translator.num_workers for served in self._served.values())

    @property
    def sources(self) -> list[str]:
        """The languages that texts may be in, each once."""
        return list(dict.fromkeys(pair.source for pair in self._served))

    def find(self, source: str, target: str) -> Served:
        """What translates between two languages.

        Args:
            source: its code, or `"auto"`.
            target: its code.

        Raises:
            RequestError: if there is no such pair, or `"auto"` could be any of several languages.
        """
        known = dict.fromkeys(code for pair in self._served for code in pair)
        for code in (target,) if source == AUTO else (source, target):
            if code not in known:
                raise RequestError(400, f"{code} is not supported")
        found = [pair for pair in self._served if pair.target == target]
        if source == AUTO and len(found) > 1:
            codes = ", ".join(pair.source for pair in found)
            raise RequestError(
                400,
                f"source=auto is not supported for {target}: this server does not tell languages "
                f"apart; name one of {codes}",
            )
        if source != AUTO:
            found = [pair for pair in found if pair.source == source]
        if not found:
            raise RequestError(400, f"{target} is not available as a target language from {source}")
        return self._served[found[0]]

    def described(self) -> list[dict[str, Any]]:
        """Each language with its name in English and those that it is translated into."""
        codes = dict.fromkeys([*self.sources, *(pair.target for pair in self._served)])
        return [
            {
                "code": code,
                "name": language_name(code),
                "targets": [pair.target for pair in self._served if pair.source == code],
            }
            for code in codes
        ]


def parse_model(text: str) -> tuple[LanguagePair | None, str]:
    """The pair and the folder of `en-de=FOLDER`; of `FOLDER` alone no pair."""
    match = _NAMED.fullmatch(text)
    return (LanguagePair(match[1], match[2]), match[3]) if match else (None, text)


def _languages_of(translator: "TextTranslator") -> LanguagePair:
    folder = translator.folder
    codes = [] if folder is None else card_languages(folder)
    if len(codes) != 2:
        raise ValueError(
            f"It is not known which languages {folder} translates between, since it has no card "
            f"that names the two; name them, on the command line --model en-de={folder}."
        )
    return LanguagePair(*codes)
