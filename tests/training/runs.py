"""Small trainings: in this process, or in processes of their own where they are killed or many."""

import atexit
import contextlib
import functools
import gzip
import io
import json
import logging
import os
import random
from pathlib import Path
from types import SimpleNamespace

from tests.training.warm import WarmStart, together


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
warmup_steps: 10
learning_rate: 1.0e-3
save_strategy: steps
save_steps: 4
save_minutes: null
average_last: 2
eval_strategy: "no"
logging_steps: 5
num_beams: 2
disable_tqdm: true
use_cpu: true
"""


def write_pairs(path: Path, count: int, seed: int = 0) -> None:
    """Words and their reversed letters, one to six a pair."""
    chooser = random.Random(seed)
    words = ["".join(chooser.choices("abcde", k=chooser.randint(1, 4))) for _ in range(20)]
    with path.open("w") as lines:
        for _ in range(count):
            source = chooser.choices(words, k=chooser.randint(1, 6))
            target = [word[::-1] for word in source]
            lines.write(f"{' '.join(source)}\t{' '.join(target)}\n")


def write_sides(folder: Path, counts: dict[str, int]) -> None:
    """The pairs of `write_pairs`, a gzipped file a side: `train.en.gz` and `train.de.gz`.

    Args:
        folder: of the files.
        counts: of pairs, by the name of their files.
    """
    for name, count in counts.items():
        write_pairs(folder / name, count)
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        sides = zip(*(line.split("\t") for line in lines), strict=True)
        for language, texts in zip(("en", "de"), sides, strict=True):
            with gzip.open(folder / f"{name}.{language}.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{text}\n" for text in texts)


@functools.cache
def warm_start() -> WarmStart:
    """Where processes of this session come from; it ends with the session, as its input does."""
    start = WarmStart(os.environ)
    atexit.register(start.close)
    return start


def run(
    folder: Path,
    *options: str,
    processes: int = 1,
    script: Path | None = None,
    status: int | None = 0,
    environment: dict[str, str] | None = None,
    start: WarmStart | None = None,
) -> SimpleNamespace:
    """Train by the recipe of a folder; `script` stands in for training/run.py.

    Args:
        environment: variables; imports have seen those of `start`.
        start: where the processes come from, if not from the session's.
    """
    done = (start or warm_start()).run(
        *(str(script or "training/run.py"), str(folder / "tiny.yaml"), *options),
        environments=together(os.environ if environment is None else environment, processes),
    )
    assert status is None or done.returncode == status, (
        done.returncode,
        done.stdout[-2000:] + done.stderr[-6000:],
    )
    return done


def run_here(*argv: str, status: int | None = 0) -> SimpleNamespace:
    """training/run.py in this process: the seconds that its imports take are spent once.

    Returns:
        Status, standard output and standard error as `subprocess.run` has them.
    """
    from training.run import main

    shown, told, code = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO()), 0
    handler, root = logging.StreamHandler(told), logging.getLogger()
    root.addHandler(handler)
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(told):
            main(list(argv))
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            told.write(f"{code}\n")
            code = 1
    finally:
        root.removeHandler(handler)
    texts = []
    for stream in (shown, told):
        stream.seek(0)
        texts.append(stream.read())
    done = SimpleNamespace(returncode=code, stdout=texts[0], stderr=texts[1])
    assert status is None or code == status, (code, texts[0][-2000:] + texts[1][-6000:])
    return done


def results_of(output: Path) -> dict:
    return json.loads((output / "results.json").read_text())
