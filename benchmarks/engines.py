# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/engines.py FOLDER TEXT [--sentences 1000] [--rounds 5] [--threads 2]

How fast does each engine translate the same text with the same weights? Ours by `generate()`, the
library's Marian of the same shape (from `to_marian`), and CTranslate2 in float32 and int8 (from
`to_ctranslate2`), in turn, round after round, with the same tokenizer, the same order by length and
the same batches, beam 4, loading left out. All but ours divide by n^alpha alone; ours does by the
paper's penalty, and once more by theirs. Given are the median seconds of a round and the ratio of
speeds to Marian's; and how many translations equal ours by n^alpha: speed must not buy others.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from benchmarks.report import first_sentences, medians, print_table, time_in_turn, write_report
from vaswani_hf import Translator
from vaswani_hf.conversion import to_ctranslate2, to_marian
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator


PEER = "Marian, generate()"
OURS = "vaswani_hf, generate()"
POWER = "vaswani_hf, generate(), power"


def engines(folder: str, work: Path, threads: int, options: dict[str, Any]) -> dict[str, Any]:
    """Every engine under the name that the table gives it."""
    to_marian(folder, work / "marian")
    to_ctranslate2(folder, work / "float32")
    to_ctranslate2(folder, work / "int8", quantization="int8")
    fast = {"device": "cpu", "threads": threads, "length_penalty_type": "power", **options}
    return {
        PEER: Translator.from_pretrained(work / "marian", device="cpu", **options),
        OURS: Translator.from_pretrained(folder, device="cpu", length_penalty_type="wu", **options),
        POWER: Translator.from_pretrained(
            folder, device="cpu", length_penalty_type="power", **options
        ),
        "CTranslate2, float32": CTranslate2Translator(work / "float32", **fast),
        "CTranslate2, int8": CTranslate2Translator(work / "int8", **fast),
    }


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, help="folder of the report")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    sentences = first_sentences(arguments.text, arguments.sentences)
    with tempfile.TemporaryDirectory() as work:
        options = {"num_beams": 4, "length_penalty": 0.6}
        translators = engines(arguments.folder, Path(work), arguments.threads, options)
        for translator in translators.values():
            translator(sentences[:64])  # warm
        calls = {name: partial(engine, sentences) for name, engine in translators.items()}
        seconds, translations = time_in_turn(calls, arguments.rounds)
    times = medians(seconds)
    rows = [
        {
            "engine": name,
            "median_seconds": round(median, 2),
            "times_marian": round(times[PEER] / median, 2),
            "same_as_ours_by_power": sum(map(str.__eq__, translations[POWER], translations[name])),
        }
        for name, median in times.items()
    ]
    print_table(rows)
    figures = {"sentences": len(sentences), "rounds": seconds, "rows": rows}
    packages = ("torch", "transformers", "ctranslate2")
    write_report("engines", figures, arguments.results, packages)


if __name__ == "__main__":
    main()
