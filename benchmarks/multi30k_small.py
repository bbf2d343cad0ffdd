# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/multi30k_small.py DATA [--minutes 60] [--output_dir DIR] [--field value ...]

Train recipe `multi30k_small`, or another by `--recipe multi30k_best`, on the raw files of Multi30k
in the folder DATA (`train.en.gz`, `train.de.gz`, `val.*`, `test_2016.*`), and score `test_2016`
after each quarter of its minutes, or each hour of three by `--minutes 180 --marks 3`: the mean of
the last checkpoints until then, beam 4. `--target fr` is English to French, and `--processes 2`
trains by as many. The same command goes on where it was stopped; a finished training is scored
without a new one.

Scored are translations as they are, lower-cased, and lower-cased and tokenised by Moses' rules,
which gives the very references of published figures such as 41.02 (Wu et al. 2021).
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from sacremoses import MosesTokenizer
from transformers import AutoTokenizer

from benchmarks.report import write_report
from training.loop.checkpoints import checkpoints
from training.outcome.averaging import average_checkpoints
from training.outcome.metrics import SacreBleu
from vaswani_hf import Translator, VaswaniForConditionalGeneration
from vaswani_hf.text.lines import read_lines


ROOT = Path(__file__).resolve().parent.parent
LAUNCH = "training/configs/cpu_2.yaml"
SPLITS = {"train": "train", "validation": "val", "test": "test_2016"}
SECONDS_TO_WRITE = 30  # the last checkpoint is of the first update after the last minute


def main(argv: list[str]) -> None:
    """Train where that is not done yet, then score each quarter of the time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--recipe", default="multi30k_small")
    parser.add_argument("--target", choices=("de", "fr"), default="de", help="English to what")
    parser.add_argument("--marks", type=int, default=4, help="how often it is scored")
    parser.add_argument("--processes", type=int, default=1, help="that train, by accelerate")
    parser.add_argument("--output_dir", type=Path, help="runs/RECIPE, unless given")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, fields = parser.parse_known_args(argv)
    name = options.recipe if options.target == "de" else f"{options.recipe}_{options.target}"
    data, output = options.data.resolve(), (options.output_dir or Path("runs") / name).resolve()
    if not (output / "results.json").exists():
        files = [
            item
            for split, file in SPLITS.items()
            for side, language in (("source", "en"), ("target", options.target))
            for item in (f"--{split}_{side}", str(data / f"{file}.{language}.gz"))
        ]
        fixed = ["--output_dir", str(output), "--max_minutes", str(options.minutes)]
        fixed += ["--save_total_limit", "1000", "--resume_from_checkpoint", "auto"]
        fixed += ["--target_language", options.target]
        command = [sys.executable]
        if options.processes > 1:
            command += ["-m", "accelerate.commands.launch", "--config_file", LAUNCH]
            command += ["--num_processes", str(options.processes)]
            fixed += ["--use_cpu", "true"]
        command += ["training/run.py", options.recipe, *files, *fixed, *fields]
        subprocess.run(command, cwd=ROOT, check=True)
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    results["chosen"] = {
        name: Path(value).name if isinstance(value, str) and "/" in value else value
        for name, value in results["chosen"].items()
    }  # names of files, not where this machine has them
    minutes = [options.minutes * mark / options.marks for mark in range(1, options.marks + 1)]
    average_last = results["chosen"]["average_last"]
    rows = score_marks(output, data, options.target, minutes, average_last)
    figures = {"marks": rows, "curve": log_history(output), "results": results}
    write_report(name, figures, options.results)


def log_history(output: Path) -> list[dict[str, float]]:
    """The validation curve: update, seconds, perplexity and BLEU (greedy)."""
    state = json.loads((checkpoints(output)[-1] / "trainer_state.json").read_text(encoding="utf-8"))
    names = ("step", "elapsed_seconds", "eval_perplexity_per_token", "eval_bleu")
    return [
        {name: entry[name] for name in names}
        for entry in state["log_history"]
        if "eval_bleu" in entry
    ]


def minutes_of(checkpoint: Path) -> float:
    """How long training had taken when a checkpoint was written, over all resumptions."""
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    return state["stateful_callbacks"]["CheckpointClock"]["attributes"]["seconds_before"] / 60


def score_marks(
    output: Path, data: Path, language: str, marks: Sequence[float], average_last: int
) -> list[dict[str, object]]:
    """BLEU of `test_2016` after these minutes of training, each of a mean of checkpoints."""
    sources = list(read_lines(data / "test_2016.en.gz"))
    references = list(read_lines(data / f"test_2016.{language}.gz"))
    saved = [(folder, minutes_of(folder)) for folder in checkpoints(output)]
    tokenizer = AutoTokenizer.from_pretrained(output)
    model = VaswaniForConditionalGeneration.from_pretrained(output)
    rows: list[dict[str, object]] = []
    for minutes in marks:
        until = minutes + SECONDS_TO_WRITE / 60
        last = [folder for folder, at in saved if at <= until][-average_last:]
        model.load_state_dict(average_checkpoints(last), strict=False)
        with torch.inference_mode():
            translations = Translator(model, tokenizer)(sources)
        row = {"minutes": minutes, "checkpoint": last[-1].name}
        row |= scores(translations, references, language)
        print(row, flush=True)
        rows.append(row)
    return rows


def scores(
    translations: Sequence[str], references: Sequence[str], language: str
) -> dict[str, object]:
    """BLEU with case, without, and of tokenised text without, with the signatures."""
    moses = MosesTokenizer(language)

    def tokenized(texts: Sequence[str]) -> list[str]:
        return [moses.tokenize(text.lower(), return_str=True) for text in texts]

    found: dict[str, object] = {}
    for name, texts, settings in [
        ("bleu", (translations, references), {}),
        ("bleu_lowercase", (translations, references), {"lowercase": True}),
        ("bleu_moses_lowercase", map(tokenized, (translations, references)), {"tokenize": "none"}),
    ]:
        hypotheses, right = texts
        score = SacreBleu().compute(predictions=hypotheses, references=right, **settings)
        found |= {name: round(score["score"], 2), f"{name}_signature": score["signature"]}
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
