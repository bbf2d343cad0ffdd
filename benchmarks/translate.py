# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/translate.py FOLDER TEXT [--sentences N] [--rounds 5] [--threads 2]

How long does it take from a folder and a text to the translations: load, tokenise, sort, generate,
detokenise? Ours is `translate`, by `generate()` and by CTranslate2 (from `to_ctranslate2`). The
peer is Marian with the same weights (from `to_marian`) as the documentation of transformers shows
it: `tokenizer(batch, padding=True)`, `generate()`, `batch_decode`, over batches of 64 sentences as
they come; and once more over our sorted batches, which tells the model from the loop. Beam 4, alpha
0.6, in turn, round after round; converting and importing are left out. FOLDER is a model that
`training/run.py` has left, TEXT one sentence a line, plain or gzipped.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import AutoTokenizer, MarianMTModel
from transformers.utils import logging

from benchmarks.report import first_sentences, medians, print_table, time_in_turn, write_report
from vaswani_hf import Translator
from vaswani_hf.conversion import to_ctranslate2, to_marian
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator


PEER = "Marian, as documented"
BEAM = {"num_beams": 4, "length_penalty": 0.6}
BATCH_SENTENCES, EXTRA_TOKENS = 64, 50


@torch.inference_mode()
def marian_as_documented(folder: Path, sentences: list[str]) -> list[str]:
    """Batches as they come, each padded to its longest sentence."""
    model = MarianMTModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    translations = []
    for first in range(0, len(sentences), BATCH_SENTENCES):
        texts = sentences[first : first + BATCH_SENTENCES]
        batch = tokenizer(texts, return_tensors="pt", padding=True)
        limit = batch["input_ids"].shape[1] + EXTRA_TOKENS
        ids = model.generate(**batch, **BEAM, max_new_tokens=limit)
        translations += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return translations


def ways(folder: str, work: Path, threads: int) -> dict[str, Callable[[list[str]], list[str]]]:
    """Every way to translate, from the folder on, under the name that the table gives it."""
    to_marian(folder, work / "marian")
    to_ctranslate2(folder, work / "float32")
    to_ctranslate2(folder, work / "int8", quantization="int8")

    def ours(folder: str | Path) -> Callable[[list[str]], list[str]]:
        return lambda sentences: Translator.from_pretrained(folder, device="cpu", **BEAM)(sentences)

    def fast(folder: Path) -> Callable[[list[str]], list[str]]:
        return lambda sentences: CTranslate2Translator(
            folder, device="cpu", threads=threads, **BEAM
        )(sentences)

    return {
        PEER: lambda sentences: marian_as_documented(work / "marian", sentences),
        "Marian, sorted": ours(work / "marian"),
        "vaswani_hf": ours(folder),
        "vaswani_hf, CTranslate2 float32": fast(work / "float32"),
        "vaswani_hf, CTranslate2 int8": fast(work / "int8"),
    }


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--sentences", type=int, help="the first so many; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, help="folder of the report")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    sentences = first_sentences(arguments.text, arguments.sentences)
    with tempfile.TemporaryDirectory() as work:
        translators = ways(arguments.folder, Path(work), arguments.threads)
        for translate in translators.values():
            translate(sentences[:64])  # warm
        calls = {name: partial(way, sentences) for name, way in translators.items()}
        seconds, translations = time_in_turn(calls, arguments.rounds)
    times = medians(seconds)
    rows = [
        {
            "way": name,
            "median_seconds": round(median, 2),
            "times_documented": round(times[PEER] / median, 2),
            "same_translations": sum(map(str.__eq__, translations[PEER], translations[name])),
        }
        for name, median in times.items()
    ]
    print_table(rows)
    figures = {"sentences": len(sentences), "rounds": seconds, "rows": rows}
    packages = ("torch", "transformers", "ctranslate2")
    write_report("translate", figures, arguments.results, packages)


if __name__ == "__main__":
    main()
