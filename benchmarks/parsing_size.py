# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/parsing_size.py TREES [--automatic 300000] [--folder DIR]

What the paper's two parsing recipes take, on stand-ins of their size made of the file TREES: the
plan of `parsing_wsj` on 39,832 trees in the sections of the Wall Street Journal, with the memory
that the measured updates took; and the memory of `parsing_semi`, streamed, with a narrow model,
while it goes through so many automatic trees. The stand-ins lie in DIR, the system's temporary
folder by default, and are removed.
"""

import argparse
import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.memory import status_bytes
from benchmarks.report import write_report
from training.outcome.results import training_seconds
from vaswani_hf.parsing import read_trees


ROOT = Path(__file__).resolve().parent.parent
TRAINING = {f"{number:02}": 1_991 + (number < 14) for number in range(2, 22)}  # 39,832 in all
SECTIONS = TRAINING | {"22": 1_700, "23": 2_416}
NARROW = {
    **{"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
    **{"vocab_size": 4000, "tokenizer_sample_pairs": 20_000, "eval_strategy": "no"},
    **{"save_total_limit": 1, "average_last": 1, "num_beams": 1, "max_extra_tokens": 5},
}
PLAN = ("parameters", "updates", "updates per epoch", "memory of a device, estimate")
MEASURED = ("seconds per update", "target tokens per second", "hours")


def main() -> None:
    """Write the stand-ins, plan, stream, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", type=Path)
    parser.add_argument("--dry_run_updates", type=int, default=20)
    parser.add_argument("--automatic", type=int, default=300_000)
    parser.add_argument("--folder", type=Path, metavar="DIR")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_treebank(folder / "wsj", [str(tree) for tree in read_trees(options.trees)])
        figures = {
            "wsj": plan(folder, options.dry_run_updates),
            "semi": stream(folder, options.trees, options.automatic),
        }
    write_report("parsing_size", figures, options.results, ("torch", "transformers", "datasets"))


def write_treebank(folder: Path, trees: list[str]) -> None:
    """The sections of the Wall Street Journal, of other trees again and again."""
    lines = itertools.cycle(f"( {tree})\n" for tree in trees)
    for section, count in SECTIONS.items():
        (folder / section).mkdir(parents=True)
        text = "".join(itertools.islice(lines, count))
        (folder / section / f"wsj_{section}00.mrg").write_text(text, encoding="utf-8")


def plan(folder: Path, num_updates: int) -> dict[str, Any]:
    """What a dry run of `parsing_wsj` says, and what it took."""
    options = ["--treebank", str(folder / "wsj"), "--dry_run", "true"]
    watch = Watch(["parsing_wsj", *options, "--dry_run_updates", str(num_updates)], folder)
    rows: dict[str, str] = {}
    for line in watch.output().splitlines():
        name, _, value = line.strip().partition("  ")
        rows.setdefault(name, value.strip())  # the memory of parameters comes after their number
    return {
        **{name: rows[name] for name in (*PLAN, *MEASURED) if name in rows},
        "seconds": watch.seconds,
        "peak_resident_bytes": watch.peak_bytes,
    }


def stream(folder: Path, trees: Path, count: int) -> dict[str, Any]:
    """The memory of a streamed run through automatic trees, by quarters of its time."""
    with gzip.open(folder / "automatic.trees.gz", "wt", encoding="utf-8", compresslevel=1) as file:
        file.writelines(automatic_trees([str(tree) for tree in read_trees(trees)], count))
    corpora = [
        {"name": "treebank", "weight": 40_000, "train_trees": ["02-21"]},
        {
            **{"name": "automatic", "weight": 17_000_000},
            "train_trees": [str(folder / "automatic.trees.gz")],
        },
    ]
    fields = [text for name, value in NARROW.items() for text in (f"--{name}", str(value))]
    few = folder / "few.trees"
    few.write_text("(S (NP (NN a)) (VP (VB b)))\n")
    options = ["--corpora", *map(json.dumps, corpora), "--treebank", str(folder / "wsj")]
    options += ["--validation_trees", str(few), "--test_trees", str(few)]
    # About 62 tokens a tree, and 21,000 an update.
    options += ["--max_steps", str(count * 62 // 21_000), "--output_dir", str(folder / "run")]
    watch = Watch(["parsing_semi", *options, *fields], folder)
    watch.output()
    results = json.loads((folder / "run" / "results.json").read_text(encoding="utf-8"))
    begun = (folder / "run" / "config.yaml").stat().st_mtime  # written when training starts
    samples = [size for second, size in watch.samples if second > begun]
    quarters = [
        samples[len(samples) * number // 4 : len(samples) * (number + 1) // 4]
        for number in range(4)
    ]
    return {
        "bytes_of_automatic_trees": (folder / "automatic.trees.gz").stat().st_size,
        "pairs_read": results["data"]["pairs_read"],
        "updates": results["training"]["updates"],
        "training_seconds": training_seconds(results),
        "median_anonymous_bytes_by_quarter": [statistics.median(each) for each in quarters],
        "peak_anonymous_bytes_by_quarter": [max(each) for each in quarters],
    }


def automatic_trees(trees: list[str], count: int) -> Iterator[str]:
    """Lines of trees, each of whose copies has words of its own."""
    for number in range(count):
        tree = trees[number % len(trees)]
        yield tree.replace("e)", f"e{number // len(trees)})") + "\n"


class Watch:
    """A training command in a process of its own, whose memory is asked for twice a second.

    Attributes:
        seconds: that it took.
        samples: `(time, bytes)`, the anonymous memory.
        peak_bytes: the most resident memory.
    """

    def __init__(self, options: Iterable[str], folder: Path) -> None:
        begun = time.monotonic()
        self.samples: list[tuple[float, int]] = []
        self.peak_bytes = 0
        environment = {**os.environ, "HF_HOME": str(folder / "cache")}
        environment["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
        with (folder / "output").open("w") as output:
            command = [sys.executable, "training/run.py", *options, "--disable_tqdm", "true"]
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, env=environment)
            while process.poll() is None:
                try:
                    anonymous = status_bytes("RssAnon", process.pid)
                    self.peak_bytes = status_bytes("VmHWM", process.pid)
                except (OSError, ValueError):  # it is ending
                    continue
                self.samples.append((time.time(), anonymous))
                time.sleep(0.5)
        if process.returncode:
            raise SystemExit(f"training/run.py {options} ended with {process.returncode}.")
        self.seconds = time.monotonic() - begun
        self._output = folder / "output"

    def output(self) -> str:
        """What it wrote to standard output."""
        return self._output.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
