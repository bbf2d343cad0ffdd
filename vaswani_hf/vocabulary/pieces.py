# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The pieces of a fast tokenizer, edited in what its `tokenizer.json` holds."""

import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..hub.names import SENTENCEPIECE


BYTE = re.compile(r"<0x[0-9A-F]{2}>")
BATCH = 1000  # lines


class EditableTokenizer:
    """A fast tokenizer whose pieces can be dropped, and a byte-pair one that can learn more.

    Args:
        tokenizer: left as it is.
        side: what a message calls it.

    Raises:
        ValueError: if it is of a kind that cannot be edited.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, side: str) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(
                f"The {side}'s tokenizer is a {type(tokenizer).__name__}, which has no "
                f"tokenizer.json; only fast tokenizers can be edited."
            )
        self.tokenizer, self.side = tokenizer, side
        self.content: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
        self.kind = self.content["model"]["type"]
        if self.kind not in ("BPE", "Unigram", "WordLevel"):
            raise ValueError(
                f"The {side}'s tokenizer has a model of type {self.kind!r}; those of type BPE, "
                f"Unigram and WordLevel can be edited."
            )
        if self.content["model"].get("continuing_subword_prefix"):
            raise ValueError(
                f"The {side}'s tokenizer marks pieces inside a word by a prefix, and cannot be "
                f"edited."
            )
        processor = self.content.get("post_processor")
        if processor is not None and processor["type"] != "TemplateProcessing":
            raise ValueError(
                f"The {side}'s tokenizer ends sentences by {processor['type']}; only "
                f"TemplateProcessing can be edited."
            )

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return 1 + max(self.ids().values())

    def ids(self) -> dict[str, int]:
        """The id of each piece."""
        return self.tokenizer.get_vocab()

    @property
    def special_ids(self) -> set[int]:
        """The ids of the pieces that stand beside the model's."""
        return {entry["id"] for entry in self.content["added_tokens"]}

    def spelled(self, text: str) -> list[int]:
        """The ids of a text, without those that end it."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def used(self, lines: Iterable[str]) -> set[int]:
        """The ids that come in a text."""
        found: set[int] = set()
        for batch in _batches(lines):
            for ids in self.tokenizer(batch, verbose=False)["input_ids"]:
                found.update(ids)
        return found

    def needed(self, used: set[int]) -> set[int]:
        """The ids used, what their pieces are made of, and all special pieces, bytes, characters.

        Without other pieces, the text that the ids come from is cut as before.
        """
        ids = self.ids()
        pieces = {token: piece for piece, token in ids.items()}
        needed = used | self.special_ids
        # Words of a dictionary are whole; no text needs those of one character.
        if self.kind != "WordLevel":
            needed |= {token for piece, token in ids.items() if self._is_character(piece)}
        unknown = self.content["model"].get("unk_token")
        if unknown in ids:
            needed.add(ids[unknown])
        if self.kind == "Unigram" and self.content["model"]["unk_id"] is not None:
            needed.add(self.content["model"]["unk_id"])
        if self.kind == "BPE":
            ranks = {merge: rank for rank, merge in enumerate(self._merges())}
            for token in used:
                made = _made(self._symbols(pieces[token]), ranks)
                needed.update(ids[piece] for piece in made if piece in ids)
        return needed

    def keep(self, kept: Sequence[int]) -> None:
        """Drop all pieces but these, which get their places here as ids."""
        model, place = self.content["model"], {old: new for new, old in enumerate(kept)}
        if self.kind == "Unigram":
            num_listed = sum(old < len(model["vocab"]) for old in kept)
            if any(old >= len(model["vocab"]) for old in kept[:num_listed]):
                raise ValueError(
                    f"The {self.side}'s tokenizer has padding after its own pieces, which cannot "
                    f"have the other side's id."
                )
            model["vocab"] = [model["vocab"][old] for old in kept if old < len(model["vocab"])]
            if model["unk_id"] is not None:
                model["unk_id"] = place[model["unk_id"]]
        else:
            pieces = {piece: place[old] for piece, old in model["vocab"].items() if old in place}
            model["vocab"] = pieces
        if self.kind == "BPE":
            model["merges"] = [
                list(merge)
                for merge in self._merges()
                if all(part in pieces for part in (*merge, "".join(merge)))
            ]
        for entry in self.content["added_tokens"]:
            entry["id"] = place[entry["id"]]
        processor = self.content.get("post_processor") or {}
        for entry in processor.get("special_tokens", {}).values():
            entry["ids"] = [place[old] for old in entry["ids"]]

    def learn(self, lines: Iterable[str], num_pieces: int) -> list[list[int]]:
        """Add pieces that make a text shorter: characters spelled by bytes, then frequent pairs.

        Pairs are joined as in learning a byte-pair encoding, after all pairs that are known.

        Returns:
            For each new piece, whose ids follow the old ones, the ids of its parts, which are old.

        Raises:
            ValueError: if the tokenizer is no byte-pair one, or the text has fewer pairs.
        """
        if self.kind != "BPE":
            raise ValueError(
                f"The {self.side}'s tokenizer has a model of type {self.kind!r}; only byte-pair "
                f"ones (BPE) learn more pieces."
            )
        model, ids = self.content["model"], self.ids()
        words = self._words(lines)
        parts = {piece: [token] for piece, token in ids.items()}
        added: list[str] = []

        def add(piece: str, made_of: list[int]) -> None:
            parts[piece] = made_of
            added.append(piece)

        if model.get("byte_fallback"):
            characters: Counter[str] = Counter()
            for word, count in words.items():
                for character in word:
                    characters[character] += count
            for character, count in characters.most_common():
                spelled = [f"<0x{byte:02X}>" for byte in character.encode()]
                is_new = character not in ids and all(byte in ids for byte in spelled)
                if is_new and count > 1 and len(added) < num_pieces:
                    add(character, [ids[byte] for byte in spelled])
        merges = [list(merge) for merge in self._merges()]
        for left, right in self._pairs(words, set(added), num_pieces - len(added), parts):
            if left + right not in parts:
                add(left + right, parts[left] + parts[right])
            merges.append([left, right])
        if len(added) < num_pieces:
            raise ValueError(
                f"num_pieces={num_pieces}, but the {self.side}'s text has only {len(added)} "
                f"characters and pairs of pieces that come twice; give more text or fewer pieces."
            )
        model["merges"] = merges
        # New pieces follow special ones that stood behind the model's own.
        for entry in self.content["added_tokens"]:
            model["vocab"].setdefault(entry["content"], entry["id"])
        for number, piece in enumerate(added, start=self.size):
            model["vocab"][piece] = number
        return [parts[piece] for piece in added]

    def save(self, folder: Path) -> None:
        """Write it as `save_pretrained` does."""
        self.tokenizer.save_pretrained(folder)
        path = folder / "tokenizer.json"
        text = json.dumps(self.content, ensure_ascii=False, indent=2)
        path.write_text(text, encoding="utf-8")
        path = folder / "tokenizer_config.json"
        entries = json.loads(path.read_text(encoding="utf-8"))
        # The first is in tokenizer.json too; the second's pieces are the old ones.
        for name in ("added_tokens_decoder", SENTENCEPIECE):
            entries.pop(name, None)
        path.write_text(json.dumps(entries, indent=2), encoding="utf-8")

    def _symbols(self, piece: str) -> list[str]:
        """The characters of a piece; the last one may have the mark of a word's end."""
        end = self.content["model"].get("end_of_word_suffix") or ""
        if not end or not piece.endswith(end):
            return list(piece)
        characters = list(piece.removesuffix(end))
        return [*characters[:-1], "".join(characters[-1:]) + end]

    def _is_character(self, piece: str) -> bool:
        return len(self._symbols(piece)) == 1 or bool(BYTE.fullmatch(piece))

    def _merges(self) -> list[tuple[str, str]]:
        return [(left, right) for left, right in self.content["model"]["merges"]]

    def _words(self, lines: Iterable[str]) -> Counter[str]:
        """What the tokenizer cuts into pieces on its own, with counts."""
        backend = self.tokenizer.backend_tokenizer
        words: Counter[str] = Counter()
        for line in lines:
            text = backend.normalizer.normalize_str(line) if backend.normalizer else line
            cut = backend.pre_tokenizer
            words.update([word for word, _ in cut.pre_tokenize_str(text)] if cut else [text])
        return words

    def _pairs(
        self, words: Counter[str], characters: set[str], num_pieces: int, parts: dict[str, Any]
    ) -> Iterable[tuple[str, str]]:
        """The most frequent pair of neighbours, again and again, until enough pieces are new."""
        model = self.tokenizer.backend_tokenizer.model
        cuts, counts = [], []
        for word, count in words.items():
            cut = []
            # A new character stands between what the old pieces make of its neighbours.
            for stretch in _stretches(word, characters):
                is_new = stretch in characters
                cut += [stretch] if is_new else [token.value for token in model.tokenize(stretch)]
            cuts.append(cut)
            counts.append(count)
        frequencies: Counter[tuple[str, str]] = Counter()
        places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for place, cut in enumerate(cuts):
            for pair in itertools.pairwise(cut):
                frequencies[pair] += counts[place]
                places[pair].add(place)
        new: set[str] = set()
        while len(new) < num_pieces and frequencies:
            # The first in the alphabet among equals, so that every run finds the same.
            pair = min(frequencies, key=lambda each: (-frequencies[each], each))
            if frequencies[pair] < 2:
                return
            is_known = all(part in parts or part in new for part in pair)
            if not is_known or any(BYTE.fullmatch(part) for part in pair):
                del frequencies[pair]
                continue
            joined = "".join(pair)
            if joined not in parts:
                new.add(joined)
            yield pair
            for place in list(places[pair]):
                cut = cuts[place]
                for old in itertools.pairwise(cut):
                    frequencies[old] -= counts[place]
                cuts[place] = cut = _joined(cut, pair)
                for found in itertools.pairwise(cut):
                    frequencies[found] += counts[place]
                    places[found].add(place)
            frequencies.pop(pair, None)


def _batches(lines: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _made(symbols: list[str], ranks: dict[tuple[str, str], int]) -> set[str]:
    """All pieces that come up where symbols are joined, by the first merges first."""
    seen = set(symbols)
    while len(symbols) > 1:
        pair = min(itertools.pairwise(symbols), key=lambda each: ranks.get(each, 1e9))
        if pair not in ranks:
            break
        symbols = _joined(symbols, pair)
        seen.add("".join(pair))
    return seen


def _joined(symbols: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """The symbols with a pair of neighbours made one, from left to right."""
    joined: list[str] = []
    place = 0
    while place < len(symbols):
        if tuple(symbols[place : place + 2]) == pair:
            joined.append("".join(pair))
            place += 2
        else:
            joined.append(symbols[place])
            place += 1
    return joined


def _stretches(word: str, characters: set[str]) -> list[str]:
    """A word cut before and after each of some characters."""
    if not characters.intersection(word):
        return [word]
    expression = "([" + "".join(map(re.escape, sorted(characters))) + "])"
    return [stretch for stretch in re.split(expression, word) if stretch]
