# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/marian_npz.py FOLDER TEXT [--sentences 200]

Hold `vaswani-hf convert --to marian_npz` and `--from marian_npz` against Marian NMT itself: how
many of the first sentences of TEXT the model that comes back translates as Marian does, from the
same file, and how many as the model of FOLDER. Marian is the package `pymarian`, which no extra of
ours brings: it has 600 MB. FOLDER has one tokenizer, as those of `training/run.py` have.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.report import first_sentences
from vaswani_hf import Translator
from vaswani_hf.conversion import from_marian_npz, to_marian_npz


MARIAN = "import sys, _pymarian; _pymarian.main(sys.argv[1:])"
BATCH = 50
WAYS = ((1, 0.0), (4, 0.0), (4, 0.6))  # beams, alpha


def by_marian(folder: Path, lines: list[str], num_beams: int, alpha: float) -> list[str]:
    """Pieces with spaces between them, of source and target."""
    (folder / "pieces.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    options = {"-c": folder / "decoder.yml", "-i": folder / "pieces.txt", "-b": num_beams}
    options |= {"-n": alpha, "--cpu-threads": 1, "-w": 500, "--mini-batch": 16}
    words = [str(word) for option in options.items() for word in option]
    command = [sys.executable, "-c", MARIAN, "decode", *words, "--quiet"]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return run.stdout.splitlines()


@torch.inference_mode()
def by_us(folder: str | Path, sources: list[str], num_beams: int, alpha: float) -> list[str]:
    """Pieces with spaces between them."""
    translator = Translator.from_pretrained(folder, device="cpu")
    model, tokenizer = translator.model, translator.tokenizer
    penalty = {"length_penalty": alpha} if num_beams > 1 else {}
    found = []
    for start in range(0, len(sources), BATCH):
        batch = tokenizer(sources[start : start + BATCH], return_tensors="pt", padding=True)
        ids = model.generate(**batch, num_beams=num_beams, length_penalty_type="power", **penalty)
        for row in ids.tolist():
            pieces = tokenizer.convert_ids_to_tokens(row)
            found.append(" ".join(piece for piece in pieces if piece not in ("<pad>", "</s>")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--sentences", type=int, default=200)
    arguments = parser.parse_args()
    sources = first_sentences(arguments.text, arguments.sentences)
    with tempfile.TemporaryDirectory() as scratch:
        npz, back = Path(scratch) / "npz", Path(scratch) / "back"
        to_marian_npz(arguments.folder, npz)
        from_marian_npz(npz, back)
        tokenizer = Translator.from_pretrained(back, device="cpu").tokenizer
        lines = [" ".join(tokenizer.tokenize(source)) for source in sources]
        for num_beams, alpha in WAYS:
            theirs = by_marian(npz, lines, num_beams, alpha)
            ours, original = (
                by_us(folder, sources, num_beams, alpha) for folder in (back, arguments.folder)
            )
            same = [sum(map(str.__eq__, theirs, each)) for each in (ours, original)]
            names = ("same_as_converted", "same_as_original")
            figures = {"beams": num_beams, "alpha": alpha, "sentences": len(sources)}
            print(json.dumps(figures | dict(zip(names, same, strict=True))), flush=True)


if __name__ == "__main__":
    main()
