# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/guided_alignment.py [--updates N] [--seeds 0 1]

Does a head that learns alignments align better than the best head that does not, and does the
translation suffer? On a made-up language pair whose alignments are known by construction: each seed
is trained with and without `guided_alignment`, for equally many updates of equal batches.

In the source a clause is `subject verb object`, with adjectives before nouns and particles here and
there. In the target the verb comes last, after its object, adjectives follow nouns, each noun has
an article of its class before it, some nouns are two words, and particles go. An article is a
possible link of its noun; all else is sure, but for particles, which have none.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.report import print_table, write_report
from training.run import main as train
from vaswani_hf import Translator
from vaswani_hf.evaluation import AlignmentScore
from vaswani_hf.text.lines import read_lines
from vaswani_hf.text.pharaoh import parse_links


RECIPE = {
    "extends": "base",
    **{"vocab_size": 800, "d_model": 96, "d_ff": 384, "num_heads": 4},
    **{"encoder_layers": 2, "decoder_layers": 2, "source_tokens": 1500, "target_tokens": 1500},
    **{"warmup_steps": 200, "learning_rate": 1.5e-3, "average_last": 1, "save_minutes": 99},
    **{"logging_steps": 100, "num_beams": 4, "eval_strategy": "no", "disable_tqdm": True},
    **{"use_cpu": True, "save_strategy": "no"},
}
SPLITS = {"train": 20_000, "test": 300}
ARTICLES = ("ol", "ak", "im")


class Language:
    """A dictionary of made-up words, and sentences of it."""

    def __init__(self) -> None:
        self.chooser = random.Random(1)
        self.known: set[str] = set()
        self.nouns = {
            self.word(): (
                self.chooser.choice(ARTICLES),
                [self.word() for _ in range(2 if self.chooser.random() < 0.2 else 1)],
            )
            for _ in range(100)
        }
        self.verbs, self.adjectives = (
            {self.word(): self.word() for _ in range(count)} for count in (60, 60)
        )
        self.particles = [self.word() for _ in range(8)]

    def word(self) -> str:
        """One to three syllables, as no other word has them."""
        while True:
            syllables = self.chooser.choices("bdfgklmnprstvz", k=self.chooser.randint(1, 3))
            word = "".join(each + self.chooser.choice("aeiou") for each in syllables)
            if word not in self.known:
                self.known.add(word)
                return word

    def pair(self) -> tuple[str, str, str]:
        """Source, target, and their links."""
        source: list[str] = []
        target: list[str] = []
        links: list[str] = []
        for number in range(self.chooser.randint(1, 3)):
            if number:
                links.append(f"{len(source)}-{len(target)}")
                source.append("und")
                target.append("et")
            self.clause(source, target, links)
        return " ".join(source), " ".join(target), " ".join(links)

    def clause(self, source: list[str], target: list[str], links: list[str]) -> None:
        self.noun_phrase(source, target, links)
        self.maybe_particle(source)
        place = len(source)
        verb = self.chooser.choice([*self.verbs])
        source.append(verb)
        self.maybe_particle(source)
        self.noun_phrase(source, target, links)
        links.append(f"{place}-{len(target)}")
        target.append(self.verbs[verb])

    def maybe_particle(self, source: list[str]) -> None:
        if self.chooser.random() < 0.3:
            source.append(self.chooser.choice(self.particles))

    def noun_phrase(self, source: list[str], target: list[str], links: list[str]) -> None:
        adjectives = self.chooser.choices([*self.adjectives], k=self.chooser.choice((0, 1, 1, 2)))
        first, noun = len(source), self.chooser.choice([*self.nouns])
        source += [*adjectives, noun]
        article, words = self.nouns[noun]
        links.append(f"{len(source) - 1}p{len(target)}")
        target.append(article)
        for word in words:
            links.append(f"{len(source) - 1}-{len(target)}")
            target.append(word)
        for place, adjective in enumerate(adjectives, start=first):
            links.append(f"{place}-{len(target)}")
            target.append(self.adjectives[adjective])


def main(argv: list[str] | None = None) -> None:
    """Train each seed with and without, align the test set by all heads, write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=1200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args(argv)
    rows = []
    with tempfile.TemporaryDirectory(prefix="vaswani_hf_") as folder:
        write_text(Path(folder))
        for seed in options.seeds:
            for guided in (False, True):
                rows.append(measure(Path(folder), options.updates, seed, guided=guided))
                print_table(rows)
    settings = {"updates": options.updates, "recipe": RECIPE, "pairs": SPLITS}
    write_report("guided_alignment", {**settings, "runs": rows}, options.results)


def write_text(folder: Path) -> None:
    """The files of both splits; what training learns has the sure links alone."""
    language = Language()
    for split, count in SPLITS.items():
        sources, targets, links = zip(*(language.pair() for _ in range(count)), strict=True)
        sure = (" ".join(each for each in line.split() if "-" in each) for line in links)
        contents: dict[str, Sequence[str]] = {
            **{"source": sources, "target": targets, "links": links, "sure": list(sure)}
        }
        for name, lines in contents.items():
            (folder / f"{split}.{name}").write_text("".join(f"{line}\n" for line in lines))


def measure(folder: Path, updates: int, seed: int, *, guided: bool) -> dict[str, Any]:
    """Train, translate, align."""
    output = folder / f"{seed}_{guided}"
    recipe = {**RECIPE, "max_steps": updates, "seed": seed, "output_dir": str(output)}
    for split in SPLITS:
        for side in ("source", "target"):
            recipe[f"{split}_{side}"] = [str(folder / f"{split}.{side}")]
    if guided:
        recipe["guided_alignment"] = [str(folder / "train.sure")]
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    begun = time.process_time()
    train([str(folder / "recipe.yaml")])
    seconds = time.process_time() - begun
    scores = yaml.safe_load((output / "results.json").read_text())["scores"]["test"]
    translator = Translator.from_pretrained(str(output))
    config = translator.model.config
    by_head = {
        (layer, head, step): error_rate(translator, folder, layer=layer, head=head, step=step)
        for layer in range(config.decoder_layers)
        for head in range(config.num_heads)
        for step in ("predicts", "reads")
    }
    best = min(by_head, key=lambda head: by_head[head])
    return {
        **{"seed": seed, "guided_alignment": guided, "bleu": round(scores["bleu"], 2)},
        "aer_by_default": round(error_rate(translator, folder), 4),
        **{"aer_best_head": round(by_head[best], 4), "best_head": list(best)},
        "processor_seconds": round(seconds),
    }


def error_rate(translator: Any, folder: Path, **head: Any) -> float:
    """Of the test set's alignments, by a head; by that of `align` unless one is named."""
    score = AlignmentScore()
    sides = ([*lines(folder, name)] for name in ("source", "target"))
    found = translator.align(*sides, **head)
    for alignment, line in zip(found, lines(folder, "links"), strict=True):
        score.add(alignment.pairs, parse_links(line))
    return score.error_rate


def lines(folder: Path, name: str) -> Iterator[str]:
    return read_lines(folder / f"test.{name}")


if __name__ == "__main__":
    main()
