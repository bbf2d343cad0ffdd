# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/tatoeba.py DATA [--minutes 20] [--output_dir runs/tatoeba] [--field value ...]

Train recipe `multi30k_small` on the raw files of Tatoeba, English to German, in the folder DATA
(`train.en.gz`, `train.de.gz`, `valid.*`, `test.*`), for a fixed time, first with one process and
then with two on the same cores: tokens per second, loss and BLEU. An update has the same number of
tokens in both, cut into other batches. A training that has finished is not repeated.
"""

import argparse
import json
import subprocess
import sys
from itertools import pairwise
from operator import mul
from pathlib import Path
from typing import Any

from benchmarks.report import write_report


ROOT = Path(__file__).resolve().parent.parent
SPLITS = {"train": "train", "validation": "valid", "test": "test"}
RECIPE = "multi30k_small"
# Text of another kind, of which 20 minutes see each pair about twice.
FIELDS = {"--dropout": "0.1", "--eval_strategy": "no", "--logging_steps": "100"}
LAUNCHERS = {
    1: [sys.executable],
    2: [
        *(sys.executable, "-m", "accelerate.commands.launch"),
        *("--config_file", "training/configs/cpu_2.yaml"),
    ],
}


def main(argv: list[str]) -> None:
    """Train with one and with two processes, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/tatoeba"))
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, fields = parser.parse_known_args(argv)
    files = [
        item
        for split, name in SPLITS.items()
        for side, language in (("source", "en"), ("target", "de"))
        for item in (f"--{split}_{side}", str((options.data / f"{name}.{language}.gz").resolve()))
    ]
    usual = [item for pair in FIELDS.items() if pair[0] not in fields for item in pair]
    fields = [*usual, *fields]
    runs = {}
    for processes, launcher in LAUNCHERS.items():
        output = (options.output_dir / str(processes)).resolve()
        command = [*launcher, "training/run.py", RECIPE, *files, "--use_cpu", "true"]
        command += ["--max_minutes", str(options.minutes), "--output_dir", str(output), *fields]
        if not (output / "results.json").exists():
            subprocess.run(command, cwd=ROOT, check=True)
        runs[processes] = measured(output)
        print(processes, json.dumps(runs[processes]["scores"], indent=1), flush=True)
    figures = {"recipe": RECIPE, "fields": fields}
    figures |= {"minutes": options.minutes, "runs": runs}
    write_report("tatoeba", figures, options.results)


def measured(output: Path) -> dict[str, Any]:
    """What a run came to, and its losses by update."""
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    history = json.loads((output / "log_history.json").read_text(encoding="utf-8"))
    names = ("commit", "parameters", "data", "training", "averaged_checkpoints", "scores")
    speeds, ends = zip(
        *(
            (entry["target_tokens_per_second"], entry["elapsed_seconds"])
            for entry in history
            if "target_tokens_per_second" in entry
        ),
        strict=True,
    )
    spans = [end - begin for begin, end in pairwise((0.0, *ends))]
    return {name: results[name] for name in (*names, "hardware", "versions")} | {
        # Over the whole run, also where it was resumed.
        "target_tokens_per_second": sum(map(mul, speeds, spans)) / ends[-1],
        "seconds": ends[-1],
        "loss_nats_per_token_by_update": {
            entry["step"]: entry["loss_nats_per_token"]
            for entry in history
            if "loss_nats_per_token" in entry
        },
    }


if __name__ == "__main__":
    main(sys.argv[1:])
