# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/kills.py [--processes 1] [--kills 24] [--max_steps 1000] [--seed 0]

Kill a small training by SIGKILL again and again, at random moments and while it writes checkpoints,
resume it each time, and compare what it ends with to a run that nobody disturbed: the weights, the
optimizer, the schedule and the random state of the last checkpoint, and the averaged model, bit for
bit. With several processes, either all of them die at once or one of them, and its launcher ends
the others. Ends with status 1 where anything differs.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import torch
from safetensors.torch import load_file

from benchmarks.report import write_report
from training.loop.saving import UNFINISHED
from training.outcome.results import current_commit


ROOT = Path(__file__).resolve().parent.parent
RECIPE = """\
extends: base
vocab_size: 300
d_model: 32
d_ff: 64
num_heads: 2
encoder_layers: 1
decoder_layers: 1
dropout: 0.1
source_tokens: 240
target_tokens: 240
gradient_accumulation_steps: 2
warmup_steps: 100
learning_rate: 1.0e-3
save_strategy: steps
save_steps: 5
save_minutes: null
save_total_limit: 3
average_last: 3
eval_strategy: "no"
num_beams: 2
logging_steps: 100
disable_tqdm: true
use_cpu: true
resume_from_checkpoint: auto
"""
PARTS = ("optimizer.pt", "scheduler.pt")
LONGEST_LIFE_SECONDS = 900.0


def main(argv: list[str]) -> None:
    """Train undisturbed, train with kills, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--max_steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="folder of the report")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="kills_") as folder:
        report = measure(Path(folder), options)
    packages = ("torch", "transformers", "accelerate")
    path = write_report(f"kills_{options.processes}", report, options.results, packages)
    print(path.read_text(encoding="utf-8"))
    sys.exit(0 if report["is_identical"] else 1)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The whole test in one folder."""
    chooser = random.Random(options.seed)
    write_text(folder, chooser)
    begun = time.monotonic()
    run_to_the_end(folder, "whole", options)
    undisturbed_seconds = time.monotonic() - begun
    kills: list[dict[str, Any]] = []
    while len(kills) < options.kills:
        kills.append(live_and_die(folder, options, chooser, len(kills)))
        print(json.dumps(kills[-1]), flush=True)
    run_to_the_end(folder, "killed", options)
    differences = compare(folder / "whole", folder / "killed", options)
    return {
        "commit": current_commit(),
        "processes": options.processes,
        "updates": options.max_steps,
        "gradient_accumulation_steps": 2,
        "kills": len(kills),
        "kills_while_a_checkpoint_was_written": sum(kill["unfinished"] != [] for kill in kills),
        "kills_before_training": sum(kill["moment"] == "starting" for kill in kills),
        "kills_of_one_process_of_several": sum(kill["killed"] == "one" for kill in kills),
        "differences": differences,
        "is_identical": not differences,
        "undisturbed_seconds": round(undisturbed_seconds, 1),
        "seconds": round(time.monotonic() - begun, 1),
        "cpu_cores": os.cpu_count(),
        "each": kills,
    }


def run_to_the_end(folder: Path, name: str, options: argparse.Namespace) -> None:
    """Train without a kill."""
    done = subprocess.run(
        command(folder, name, options),
        cwd=ROOT,
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"The run {name} ended with {done.returncode}:\n{done.stderr}")


def write_text(folder: Path, chooser: random.Random) -> None:
    """Pairs of words and their reversed letters, and the recipe."""
    words = ["".join(chooser.choices("abcdefgh", k=chooser.randint(1, 4))) for _ in range(50)]
    for split, count in [("train", 1000), ("test", 5)]:
        sources = [" ".join(chooser.choices(words, k=chooser.randint(1, 9))) for _ in range(count)]
        lines = [
            f"{source}\t{' '.join(word[::-1] for word in source.split())}\n" for source in sources
        ]
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "tiny.yaml").write_text(RECIPE, encoding="utf-8")


def command(folder: Path, name: str, options: argparse.Namespace) -> list[str]:
    """The training's command line."""
    launch = [sys.executable]
    if options.processes > 1:
        launch += ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
        launch += ["--num_processes", str(options.processes), "--main_process_port", "0"]
        launch += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    files = ["--train_file", str(folder / "train.tsv"), "--test_file", str(folder / "test.tsv")]
    fields = ["--output_dir", str(folder / name), "--max_steps", str(options.max_steps)]
    return [*launch, "training/run.py", str(folder / "tiny.yaml"), *files, *fields]


def environment() -> dict[str, str]:
    """One thread a process; this tree before any installed one."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def live_and_die(
    folder: Path, options: argparse.Namespace, chooser: random.Random, number: int
) -> dict[str, Any]:
    """Start or resume the run, kill it at a random moment, say what was found and left."""
    output = folder / "killed"
    unfinished = f"{UNFINISHED}checkpoint-*"
    moment = "starting" if number % 8 == 7 else chooser.choice(["training", "saving"])
    before = newest(output)
    log = folder / f"{number}.log"
    with log.open("w", encoding="utf-8") as stream:
        process = psutil.Popen(
            command(folder, "killed", options),
            cwd=ROOT,
            env=environment(),
            stdout=stream,
            stderr=stream,
        )
        limit = time.monotonic() + LONGEST_LIFE_SECONDS
        if moment == "starting":
            time.sleep(chooser.uniform(0.5, 6.0))
        else:
            while newest(output) <= before and process.poll() is None:
                if time.monotonic() > limit:
                    kill(process, options, chooser)
                    raise TimeoutError(f"No checkpoint came: {log.read_text(encoding='utf-8')}")
                time.sleep(0.005)
            time.sleep(chooser.uniform(0.0, 0.8))
        if moment == "saving":
            # Its parts are written within milliseconds: look without a pause, then wait a little.
            while not list(output.glob(unfinished)) and process.poll() is None:
                pass
            time.sleep(chooser.uniform(0.0, 0.012))
        killed = kill(process, options, chooser)
    text = log.read_text(encoding="utf-8")
    if killed is None:
        raise RuntimeError(f"The run ended before kill {number + 1}; raise --max_steps.\n{text}")
    resumed = re.search(r"Resuming from (checkpoint-\d+)", text)
    return {
        "moment": moment,
        "killed": killed,
        "resumed_from": resumed[1] if resumed else None,
        "newest": newest(output),
        "unfinished": [
            {"name": path.name, "parts": sorted(part.name for part in path.iterdir())}
            for path in output.glob(unfinished)
        ],
    }


def newest(output: Path) -> int:
    """Update of the newest checkpoint, or 0."""
    return max((int(path.name[11:]) for path in output.glob("checkpoint-*")), default=0)


def kill(process: psutil.Popen, options: argparse.Namespace, chooser: random.Random) -> str | None:
    """SIGKILL to all processes of the run, or to one worker; `None` where the run was over."""
    try:
        children = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    workers = [child for child in children if is_worker(child)]
    is_one = len(workers) == options.processes > 1 and chooser.random() < 0.5
    if process.poll() is not None:
        return None
    if is_one:
        chooser.choice(workers).kill()
        process.wait(timeout=60)
    for each in [process, *children]:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(children, timeout=10)
    return "one" if is_one else "all"


def is_worker(process: psutil.Process) -> bool:
    """Whether it trains, and is no helper of the launcher."""
    try:
        return "training/run.py" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def compare(whole: Path, killed: Path, options: argparse.Namespace) -> list[str]:
    """What differs between two finished runs, bit for bit."""
    last = f"checkpoint-{options.max_steps}"
    differences = []
    for name in ("model.safetensors", f"{last}/model.safetensors"):
        one, other = load_file(whole / name), load_file(killed / name)
        if one.keys() != other.keys():
            differences.append(f"{name}: names")
        differences += [f"{name}: {key}" for key in one if not torch.equal(one[key], other[key])]
    for name in PARTS:
        states = [torch.load(run / last / name, weights_only=True) for run in (whole, killed)]
        if not is_equal(*states):
            differences.append(name)
    for path in sorted((whole / last).glob("rng_state*.pth")):
        if path.read_bytes() != (killed / last / path.name).read_bytes():
            differences.append(path.name)
    return differences


def is_equal(one: Any, other: Any) -> bool:
    """Whether two nested states are the same, tensors bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return bool(one == other)


if __name__ == "__main__":
    main(sys.argv[1:])
