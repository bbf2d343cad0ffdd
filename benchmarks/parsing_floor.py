# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/parsing_floor.py TRAIN GOLD [--parents 1] [--max_words 60] [--sentences N]

What a grammar reaches on trees that a parser is scored by: nltk's PCFG read off the trees TRAIN,
binarised (children as far as `--siblings` back, ancestors as far as `--parents` up), rare and
unknown words by classes, and the most likely tree of each sentence of GOLD. The search is CKY in
numpy, as nltk's `ViterbiParser` takes minutes for a sentence; of the constituents over the same
words those are dropped whose probability is less than the best one's times `e ** -BEAM`. Longer
sentences, and those that no tree is found for, count with all words under one bracket.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from nltk import Nonterminal, induce_pcfg
from nltk import Tree as NltkTree

from benchmarks.report import print_table, write_report
from training.outcome.parses import Parse, details_of, figures_of
from vaswani_hf.parsing import Repairs, Tree, read_trees, score_parse, without_traces
from vaswani_hf.parsing.trees import TOP


RARE = 1  # a word that training has so often is known by its class
# The first that fits; after Petrov et al. 2006, whose classes are finer.
CLASSES = {
    "number": r"[\d.,:/-]*\d[\d.,:/-]*",
    "digits": r".*\d.*",
    "capitals": r"[A-Z]{2,}s?",
    "mixed": r".+[A-Z].*",
    "Capital": r"[A-Z].*",
    "hyphen": r".*-.*",
    **{f"-{end}": rf".+{end}" for end in ("ing", "ed", "ly", "ion", "ity", "ous", "al", "ive")},
    **{f"-{end}": rf".+{end}" for end in ("ic", "able", "ment", "ness", "er", "est", "s")},
}


def main(argv: list[str] | None = None) -> None:
    """Read the grammar off, parse, score, write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("gold", type=Path)
    parser.add_argument("--siblings", type=int, default=2, help="of the Markov grammar")
    parser.add_argument("--parents", type=int, default=0, help="of the Markov grammar")
    parser.add_argument("--beam", type=float, default=10.0, help="in nats")
    parser.add_argument("--max_words", type=int, default=60)
    parser.add_argument("--sentences", type=int, help="of GOLD, the first ones; all by default")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args(argv)
    begun = time.process_time()
    grammar = Grammar(options.train, options.siblings, options.parents, options.beam)
    learned = time.process_time() - begun
    print(f"{len(grammar.names)} symbols, {len(grammar.rules)} rules of two", flush=True)
    parses, seconds, is_found = [], [], []
    for gold in islice(clean_trees(options.gold), options.sentences):
        begun, words = time.process_time(), gold.words()
        found = grammar.parse(words) if len(words) <= options.max_words else None
        seconds.append(time.process_time() - begun)
        is_found.append(found is not None)
        tree = found or Tree(
            TOP, tuple(Tree(grammar.likely_tag(word), word=word) for word in words)
        )
        parses.append(Parse(tree, Repairs(), gold, score_parse(gold, tree)))
        if len(parses) % 100 == 0:
            print(len(parses), f"F1 {figures_of(parses)['f1']:.2f}", f"{sum(seconds):.0f} s")
            sys.stdout.flush()
    rows = [{"sentences": len(parses), **figures_of(parses)}, *details_of(parses)["by_words"]]
    for row in rows:
        low, high = row.get("min_words", 1), row.get("max_words")
        chosen = [
            place
            for place, parse in enumerate(parses)
            if low <= parse.score.length and (high is None or parse.score.length <= high)
        ]
        row["parsed"] = float(np.mean([is_found[place] for place in chosen]))
        row["processor_seconds"] = float(np.sum([seconds[place] for place in chosen]))
        del row["well_formed"]
    print_table(
        [
            {"words": f"{row.get('min_words', 1)}-{row.get('max_words') or ''}"}
            | {
                name: f"{value:.2f}" if isinstance(value, float) else value
                for name, value in row.items()
                if not name.endswith("_words")
            }
            for row in rows
        ]
    )
    settings = {name: getattr(options, name) for name in ("siblings", "parents", "beam")}
    figures = {
        **{"train": options.train.name, "gold": options.gold.name, **settings},
        **{"max_words": options.max_words, "symbols": len(grammar.names)},
        **{"binary_rules": len(grammar.rules), "learning_processor_seconds": learned},
        **{"all": rows[0], "by_words": rows[1:]},
    }
    write_report(f"parsing_floor_{options.parents}", figures, options.results, ("nltk", "numpy"))


def clean_trees(path: Path) -> Iterator[Tree]:
    """The trees of a file as a model of ours learns and is scored by them."""
    return (clean for tree in read_trees(path) if (clean := without_traces(tree)) is not None)


class Grammar:
    """A probabilistic context-free grammar in Chomsky's normal form, with one rule over a tag.

    Args:
        path: trees to read it off.
        siblings: how many children a binary rule remembers.
        parents: how many ancestors a symbol remembers.
        beam: in nats; see above.
    """

    def __init__(self, path: Path, siblings: int, parents: int, beam: float) -> None:
        self.beam = beam
        trees = list(clean_trees(path))
        counts = Counter(word for tree in trees for word in tree.words())
        self.known = {word for word, count in counts.items() if count > RARE}
        productions = []
        for tree in trees:
            root = NltkTree(TOP, [nltk_tree(tree, self.form)])
            root.collapse_unary()
            root.chomsky_normal_form(horzMarkov=siblings, vertMarkov=parents)
            productions += root.productions()
        self.pcfg = induce_pcfg(Nonterminal(TOP), productions)
        symbols = sorted({rule.lhs().symbol() for rule in self.pcfg.productions()})
        self.names = symbols
        places = {symbol: place for place, symbol in enumerate(symbols)}
        total = Counter(rule.lhs().symbol() for rule in productions)
        share = np.array([total[symbol] for symbol in symbols]) / len(productions)
        self.prior = np.log(share).astype(np.float32)
        self.words: dict[str, list[tuple[int, float]]] = {}
        unary, binary = [], []
        for rule in self.pcfg.productions():
            parent, log = places[rule.lhs().symbol()], np.log(rule.prob())
            if rule.is_lexical():
                self.words.setdefault(str(rule.rhs()[0]), []).append((parent, log))
                continue
            children = [places[child.symbol()] for child in rule.rhs()]
            (unary if len(children) == 1 else binary).append((parent, *children, log))
        self.top = places[TOP]
        self.roots = [rule for rule in unary if rule[0] == self.top]
        self.unary = [rule for rule in unary if rule[0] != self.top]
        # In the order of their parents, of which each then has a slice.
        self.rules = np.array(sorted(binary))
        self.parents, self.left, self.right = self.rules[:, :3].T.astype(int)
        self.log = self.rules[:, 3].astype(np.float32)
        tags: dict[str, Counter[str]] = {}
        for tree in trees:
            for leaf in tree.leaves():
                tags.setdefault(self.form(str(leaf.word)), Counter())[leaf.label] += 1
        self.likely = {form: count.most_common(1)[0][0] for form, count in tags.items()}

    def form(self, word: str) -> str:
        """A word that is frequent enough, or its class."""
        if word in self.known:
            return word
        found = (name for name, rule in CLASSES.items() if re.fullmatch(rule, word))
        return f"<{next(found, 'other')}>"

    def likely_tag(self, word: str) -> str:
        """What a word mostly is."""
        return self.likely.get(self.form(word), "NN")

    def parse(self, words: list[str]) -> Tree | None:
        """The most likely tree; `None` if the grammar has none within the beam."""
        count, size = len(words), len(self.names)
        # Log-probability of each symbol from a word up to before another.
        chart = np.full((count, count + 1, size), -np.inf, np.float32)
        for place, word in enumerate(words):
            cell = chart[place, place + 1]
            for tag, log in self.words.get(self.form(word), ()):
                cell[tag] = log
            for parent, child, log in self.unary:
                cell[parent] = max(cell[parent], cell[child] + log)
        for width in range(2, count + 1):
            for start in range(count - width + 1):
                self._fill(chart, start, start + width)
        root = chart[0, count]
        best = max(((root[child] + log, child) for _, child, log in self.roots), default=None)
        if best is None or best[0] == -np.inf:
            return None
        tree = NltkTree(TOP, [self._tree(chart, words, 0, count, best[1])])
        tree.un_chomsky_normal_form()
        return our_tree(tree[0])

    def _fill(self, chart: np.ndarray, start: int, end: int) -> None:
        left, right = chart[start, start + 1 : end], chart[start + 1 : end, end]
        is_left, is_right = (np.isfinite(side).any(axis=0) for side in (left, right))
        rules = np.flatnonzero(is_left[self.left] & is_right[self.right])
        if not len(rules):
            return
        scores = (left[:, self.left[rules]] + right[:, self.right[rules]]).max(axis=0)
        scores += self.log[rules]
        parents = self.parents[rules]
        begins = np.flatnonzero(np.diff(parents, prepend=-1))
        best = np.maximum.reduceat(scores, begins)
        merit = best + self.prior[parents[begins]]
        kept = merit >= merit.max() - self.beam
        chart[start, end, parents[begins][kept]] = best[kept]

    def _tree(
        self, chart: np.ndarray, words: list[str], start: int, end: int, symbol: int
    ) -> NltkTree:
        """What the chart's figure of a symbol came from, found again."""
        name, score = self.names[symbol], chart[start, end, symbol]
        if end == start + 1:
            tags = dict(self.words.get(self.form(words[start]), ()))
            if symbol in tags:
                return NltkTree(name, [words[start]])
            cell = chart[start, end]
            rules = [rule for rule in self.unary if rule[0] == symbol and rule[1] in tags]
            _, child, _ = max(rules, key=lambda rule: cell[rule[1]] + rule[2])
            return NltkTree(name, [self._tree(chart, words, start, end, child)])
        rules = slice(*np.searchsorted(self.parents, (symbol, symbol + 1)))
        left, right = chart[start, start + 1 : end], chart[start + 1 : end, end]
        scores = left[:, self.left[rules]] + right[:, self.right[rules]] + self.log[rules]
        split, rule = np.unravel_index(scores.argmax(), scores.shape)
        assert np.isclose(scores[split, rule], score, atol=1e-3)
        middle = start + 1 + int(split)
        children = (self.left[rules][rule], self.right[rules][rule])
        return NltkTree(
            name,
            [
                self._tree(chart, words, start, middle, children[0]),
                self._tree(chart, words, middle, end, children[1]),
            ],
        )


def nltk_tree(tree: Tree, form: Any) -> NltkTree:
    """A tree as nltk has it, its words as the grammar knows them."""
    children = [nltk_tree(child, form) for child in tree.children]
    return NltkTree(tree.label, [form(tree.word)] if tree.word is not None else children)


def our_tree(tree: NltkTree) -> Tree:
    """A tree of nltk's as ours."""
    if isinstance(tree[0], str):
        return Tree(tree.label(), word=tree[0])
    return Tree(tree.label(), tuple(our_tree(child) for child in tree))


if __name__ == "__main__":
    main()
