# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/corpus_memory.py [--pairs 5000000] [--folder FOLDER]

How much memory, and how long until the first batch, a large corpus takes: streaming, and otherwise,
when it is encoded once and mapped from disk. Writes two made-up text files into a temporary folder,
reads each way in a process of its own, and writes figures to `results/`. The files and the cache of
`datasets` lie in FOLDER, the system's temporary folder by default, and are removed: about 5 GB for
5 million pairs. A text of few pairs may have fewer batches than fifty.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

from benchmarks.memory import status_bytes
from benchmarks.report import write_report


NUM_BATCHES = 50
SAMPLE_PAIRS = 100_000  # teach the vocabulary both times, so that the rest can be compared
WORDS = 4, 16  # a sentence


def main() -> None:
    """Write the text, measure both ways, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--measure", choices=("streaming", "in_memory"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        figures = {"pairs": options.pairs, "bytes_of_text": write_text(folder, options.pairs)}
        for way in ("streaming", "in_memory"):
            done = subprocess.run(
                [sys.executable, __file__, "--measure", way, "--folder", name],
                env={
                    **os.environ,
                    "HF_HOME": str(folder / "cache"),
                    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
                },
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            figures[way] = json.loads(done.stdout.splitlines()[-1])
            print(json.dumps({way: figures[way]}), file=sys.stderr)
    write_report("corpus_memory", figures, options.results, ("torch", "transformers", "datasets"))


def write_text(folder: Path, pairs: int) -> int:
    """Two parallel files of made-up words, the frequent ones as frequent as in a language."""
    chooser = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chooser.choices(letters, k=chooser.randint(2, 9))) for _ in range(20000)]
    frequencies = [1 / (rank + 1) for rank in range(len(words))]
    with (folder / "text.source").open("w") as source, (folder / "text.target").open("w") as target:
        for _ in range(0, pairs, 1000):
            drawn = chooser.choices(words, frequencies, k=1000 * WORDS[1])
            for start in range(0, len(drawn), WORDS[1]):
                sentence = drawn[start : start + chooser.randint(*WORDS)]
                source.write(" ".join(sentence) + "\n")
                target.write(" ".join(word[::-1] for word in sentence) + "\n")
    return sum((folder / f"text.{side}").stat().st_size for side in ("source", "target"))


def measure(way: str, folder: Path) -> dict[str, float]:
    """Seconds and bytes until there are batches."""
    peak = Peak()
    from training.data.batching import TokenBatchSampler
    from training.data.corpus import load_corpus
    from training.data.encoding import encode_pairs
    from training.data.lengths import side_lengths
    from training.data.mixing import clean_and_mix
    from training.data.streaming import TokenBatchStream
    from training.settings.budget import TokenBudget
    from training.settings.fields import DataArguments, VaswaniTrainingArguments
    from vaswani_hf import train_tokenizer

    imported = status_bytes("VmRSS")
    data = DataArguments(
        train_source=[str(folder / "text.source")],
        train_target=[str(folder / "text.target")],
        streaming=way == "streaming",
        tokenizer_sample_pairs=SAMPLE_PAIRS,
    )
    training = VaswaniTrainingArguments(
        output_dir=str(folder / "out"), max_steps=1, max_padding=1, use_cpu=True
    )
    seconds = {}
    begun = time.monotonic()

    def lap(name: str) -> None:
        seconds[f"{name}_seconds"] = round(time.monotonic() - begun, 1)

    corpus = load_corpus(data)
    lap("read")
    tokenizer = train_tokenizer(corpus.sentences(), 8000, are_files=False, show_progress=False)
    lap("vocabulary")
    if way == "streaming":
        batches = iter(TokenBatchStream(corpus, tokenizer, data, training))
        sizes = [len(next(batches))]
        lap("first_batch")
        sizes += [len(next(batches)) for _ in range(NUM_BATCHES - 1)]
        lap("fifty_batches")
        batches.close()
    else:
        pairs = encode_pairs(corpus.splits["train"], tokenizer)
        lap("encoded")
        pairs = clean_and_mix(corpus, pairs, seed=0)
        lap("cleaned")
        sampler = TokenBatchSampler(*side_lengths(pairs), TokenBudget.of(training))
        batches = (pairs[batch] for batch in sampler)
        sizes = [len(next(batches)["labels"])]
        lap("first_batch")
        sizes += [len(batch["labels"]) for batch in islice(batches, NUM_BATCHES - 1)]
        lap("fifty_batches")
    return {
        **seconds,  # each from the start of reading
        "pairs_in_fifty_batches": sum(sizes),
        "imported_bytes": imported,
        "peak_resident_bytes": status_bytes("VmHWM"),  # with pages of mapped files
        "peak_anonymous_bytes": peak.anonymous_bytes,  # without: what the system cannot drop
    }


class Peak:
    """The most anonymous memory that this process had, asked of Linux again and again."""

    def __init__(self) -> None:
        self.anonymous_bytes = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.anonymous_bytes = max(self.anonymous_bytes, status_bytes("RssAnon"))
            time.sleep(0.02)


if __name__ == "__main__":
    main()
