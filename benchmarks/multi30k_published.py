# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/multi30k_published.py DATA [--field value ...]

Recipe `multi30k` on the very files of the published 41.02 BLEU (Wu et al. 2021), in the folder DATA
(`train.en.gz`, `train.de.gz`, `valid.*`, `test.2016.*`; lower-cased, tokenised, cut by 10,000 joint
BPE merges). Meant for a GPU: 8,000 updates of 8,192 tokens.
"""

import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
SPLITS = {"train": "train", "validation": "valid", "test": "test.2016"}


def main(argv: list[str]) -> None:
    """Train and score; figures go to `runs/multi30k/results.json`."""
    data, options = Path(argv[0]).resolve(), argv[1:]
    files = [
        item
        for split, name in SPLITS.items()
        for side, language in (("source", "en"), ("target", "de"))
        for item in (f"--{split}_{side}", str(data / f"{name}.{language}.gz"))
    ]
    command = ["training/run.py", "multi30k", *files, "--segmented", *options]
    sys.exit(subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
