# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/multi30k_small.py DATA [--minutes 60] [--output_dir DIR] [--field value ...]

Train recipe `multi30k_small` on the raw files of Multi30k in the folder DATA (`train.en.gz`,
`train.de.gz`, `val.*`, `test_2016.*`) and score `test_2016` after each quarter of its minutes: the
mean of the last five checkpoints until then, beam 4. A finished training is scored without a new
one.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoTokenizer

from benchmarks.report import write_report
from training.loop.checkpoints import checkpoints
from training.outcome.averaging import average_checkpoints
from training.outcome.metrics import SacreBleu
from vaswani_hf import Translator, VaswaniForConditionalGeneration
from vaswani_hf.text.lines import read_lines


ROOT = Path(__file__).resolve().parent.parent
SPLITS = {"train": "train", "validation": "val", "test": "test_2016"}
AVERAGED = 5
SECONDS_TO_WRITE = 30  # a checkpoint is written within seconds of its minute


def main(argv: list[str]) -> None:
    """Train where that is not done yet, then score each quarter of the time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/multi30k_small"))
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, fields = parser.parse_known_args(argv)
    data, output = options.data.resolve(), options.output_dir.resolve()
    if not (output / "results.json").exists():
        files = [
            item
            for split, name in SPLITS.items()
            for side, language in (("source", "en"), ("target", "de"))
            for item in (f"--{split}_{side}", str(data / f"{name}.{language}.gz"))
        ]
        fixed = ["--output_dir", str(output), "--max_minutes", str(options.minutes)]
        fixed += ["--save_total_limit", "1000"]
        command = ["training/run.py", "multi30k_small", *files, *fixed, *fields]
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    rows = score_quarters(output, data, options.minutes)
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    results["chosen"] = {
        name: Path(value).name if isinstance(value, str) and "/" in value else value
        for name, value in results["chosen"].items()
    }  # names of files, not where this machine has them
    curve = log_history(output)
    figures = {"quarters": rows, "curve": curve, "results": results}
    write_report("multi30k_small", figures, options.results)


def log_history(output: Path) -> list[dict[str, float]]:
    """The validation curve: update, seconds, perplexity and BLEU (greedy)."""
    state = json.loads((checkpoints(output)[-1] / "trainer_state.json").read_text(encoding="utf-8"))
    names = ("step", "elapsed_seconds", "eval_perplexity_per_token", "eval_bleu")
    return [
        {name: entry[name] for name in names}
        for entry in state["log_history"]
        if "eval_bleu" in entry
    ]


def score_quarters(output: Path, data: Path, minutes: float) -> list[dict[str, object]]:
    """BLEU of `test_2016` after each quarter of the training's minutes."""
    sources = list(read_lines(data / "test_2016.en.gz"))
    references = list(read_lines(data / "test_2016.de.gz"))
    folders = checkpoints(output)
    begun = (output / "config.yaml").stat().st_mtime  # written when training starts
    saved = [(folder / "model.safetensors").stat().st_mtime - begun for folder in folders]
    tokenizer = AutoTokenizer.from_pretrained(output)
    model = VaswaniForConditionalGeneration.from_pretrained(output)
    rows: list[dict[str, object]] = []
    for quarter in range(1, 5):
        until = quarter * minutes / 4 * 60 + SECONDS_TO_WRITE
        last = [folder for folder, age in zip(folders, saved, strict=True) if age <= until]
        last = last[-AVERAGED:]
        model.load_state_dict(average_checkpoints(last), strict=False)
        with torch.inference_mode():
            translations = Translator(model, tokenizer)(sources)
        row: dict[str, object] = {"minutes": quarter * minutes / 4, "checkpoint": last[-1].name}
        for name, settings in {
            "bleu": {},
            "bleu_lowercase": {"lowercase": True},
        }.items():
            score = SacreBleu().compute(predictions=translations, references=references, **settings)
            row |= {name: round(score["score"], 2), f"{name}_signature": score["signature"]}
        print(row, flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
