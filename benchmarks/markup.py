# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/markup.py FOLDER TEXT [--ctranslate2 FOLDER] [--sentences 200]

What becomes of markup: the first sentences of TEXT (plain or gzipped) get, at random, an element
around some of their words, another within it, an image and a placeholder. Counted are the
translations whose tags are balanced, the tags and placeholders that are there once each, and the
BLEU of the text without markup against the translation of the same text that never had any, which
is 100 where markup changes no word. FOLDER is a model that `training/run.py` has left.

Then stand-ins: the same placeholder where the model sees it, in several spellings: how many come
out once, and how like the rest is to the translation without it, by chrF.
"""

import argparse
import json
import random
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import sacrebleu

from benchmarks.report import first_sentences, write_report
from vaswani_hf import CTranslate2Translator, Translator


STAND_INS = ("{name}", "%s", "https://example.com/a?b=1", "X1", "Anna", "7", "4711", "__0__", "[0]")
_MARKUP = re.compile(r"<[^>]*>|\{n\}")


def marked_up(sentence: str, chooser: random.Random) -> str:
    """A sentence with two elements, an image and a placeholder."""
    words = [word.replace("&", "&amp;").replace("<", "&lt;") for word in sentence.split()]
    first, end = sorted(chooser.sample(range(len(words) + 1), 2))
    kind = chooser.choice(("b", "a"))
    inner = chooser.randrange(first, end)
    words[inner] = f"<i>{words[inner]}</i>"
    words[first] = f'<{kind} id="x">{words[first]}'
    words[end - 1] = f"{words[end - 1]}</{kind}>"
    words.insert(chooser.randrange(len(words) + 1), "{n}")
    place = chooser.randrange(len(words))
    words[place] = f'<img src="x">{words[place]}'
    return " ".join(words)


def is_balanced(markup: str) -> bool:
    opened = []
    for end, name in re.findall(r"<(/?)(b|a|i)\b[^>]*>", markup):
        if not end:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


def without_markup(html: str) -> str:
    return " ".join(_MARKUP.sub(" ", html).split())


def measure(translator: Any, sentences: list[str]) -> dict[str, Any]:
    """Shares of the translations, and BLEU."""
    chooser = random.Random(1)
    marked = [marked_up(sentence, chooser) for sentence in sentences]
    texts = list(map(without_markup, marked))
    translator.translate_markup(marked[:32], "html", language="en")  # chooses a head
    begun = time.process_time()
    plain = translator(texts, split="sentences", language="en")
    between = time.process_time()
    found = translator.translate_markup(marked, "html", language="en")
    ratio = (time.process_time() - between) / (between - begun)
    kept = split = filled = 0
    for source, target in zip(marked, found, strict=True):
        before, after = (Counter(_MARKUP.findall(text)) for text in (source, target))
        kept += before.keys() <= after.keys() and all(
            after[tag] == 1
            for tag in ("{n}", '<img src="x">', '<a id="x">', '<b id="x">')
            if tag in before
        )
        split += sum(after.values()) > sum(before.values())
        filled += not re.search(r"<(\w+)[^>]*></\1>", target)
    texts = [re.sub(r"\s+([.,!?])", r"\1", without_markup(text)) for text in found]
    plain = [re.sub(r"\s+([.,!?])", r"\1", text) for text in plain]
    return {
        "sentences": len(sentences),
        "balanced": sum(map(is_balanced, found)) / len(found),
        "tags_and_placeholders_kept": kept / len(found),
        "no_element_left_empty": filled / len(found),
        "with_an_element_in_parts": split / len(found),
        "same_text": sum(map(str.__eq__, texts, plain)) / len(found),
        "bleu_against_the_plain_translation": sacrebleu.corpus_bleu(texts, [plain]).score,
        "processor_time_of_plain_translation": ratio,
        "examples": list(zip(marked[:5], found[:5], strict=True)),
    }


def stand_ins(translator: Any, sentences: list[str]) -> dict[str, Any]:
    """Of each spelling the share that comes out once, and chrF of the rest."""
    plain, found = translator(sentences), {}
    for spelling in STAND_INS:
        chooser, given = random.Random(2), []
        for sentence in sentences:
            words = sentence.split()
            place = chooser.randrange(1, len(words))
            given.append(" ".join([*words[:place], spelling, *words[place:]]))
        out = translator(given)
        rest = [" ".join(text.replace(spelling, " ", 1).split()) for text in out]
        found[spelling] = {
            "once": sum(text.count(spelling) == 1 for text in out) / len(out),
            "chrf_of_the_rest": sacrebleu.corpus_chrf(rest, [plain]).score,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--ctranslate2", metavar="FOLDER")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    sentences = first_sentences(arguments.text, arguments.sentences)
    translator = Translator.from_pretrained(arguments.folder)
    report = {"transformers": measure(translator, sentences)}
    if arguments.ctranslate2:
        other = CTranslate2Translator(arguments.ctranslate2)
        report["ctranslate2"] = measure(other, sentences)
    report["stand_ins"] = stand_ins(translator, sentences)
    print(json.dumps(report, indent=2, ensure_ascii=False))
    packages = ("torch", "transformers", "ctranslate2", "sacrebleu")
    write_report("markup", report, arguments.results, packages)


if __name__ == "__main__":
    main()
