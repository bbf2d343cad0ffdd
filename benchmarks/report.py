# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What benchmarks share: texts, scores of seeds, calls timed in turn, tables, the dated report."""

import gc
import gzip
import itertools
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from vaswani_hf.evaluation import Metric, SeedScore
from vaswani_hf.processor import available_cores
from vaswani_hf.text.lines import read_lines


RESULTS = Path(__file__).resolve().parent / "results"
CPUINFO = Path("/proc/cpuinfo")
# By the flags of `CPUINFO`, what products of matrices can use; the rest says little about a speed.
FEATURES = (
    *("avx2", "fma", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve", "sve2"),  # of Arm
)


def first_sentences(text: str, count: int | None) -> list[str]:
    """The first lines of a text, plain or gzipped; all of them for `None`."""
    return list(itertools.islice(read_lines(Path(text)), count))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text, a line each, gzipped where the name ends in `.gz`; whole or not at all."""
    content = "".join(f"{line}\n" for line in lines).encode()
    part = path.with_name(f"{path.name}.part")  # of which a killed process may leave half
    part.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    part.replace(path)


def seed_score(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], samples: Iterable[Any]
) -> SeedScore:
    """The score of translations, on all sentences and on samples of them."""
    counts = metric.statistics(hypotheses, [references])
    return SeedScore(metric.score(counts).score, metric.rescore(counts, samples))


def time_in_turn(
    calls: Mapping[str, Callable[[], Any]], rounds: int, wait: Callable[[], Any] = lambda: None
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of each call, one after the other, round after round; and what each returned last.

    Args:
        calls: each is expected to be warm.
        rounds: how many.
        wait: returns when the device is idle.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    returned = {}
    for number in range(rounds):
        for name, call in calls.items():
            gc.collect()
            wait()
            begun = time.perf_counter()
            returned[name] = call()
            wait()
            seconds[name].append(time.perf_counter() - begun)
        last = {name: round(times[-1], 3) for name, times in seconds.items()}
        print(f"round {number + 1}: {last}", flush=True)
    return seconds, returned


def medians(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each call."""
    return {name: statistics.median(times) for name, times in seconds.items()}


def print_table(rows: list[dict[str, Any]]) -> None:
    """Rows of like keys, in columns."""
    cells = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def write_report(
    name: str,
    figures: Mapping[str, Any],
    folder: Path | None = None,
    packages: Sequence[str] = ("torch", "transformers"),
) -> Path:
    """Put figures, date, processor, cores, threads and versions into a dated file.

    Args:
        name: of the benchmark; the file is `DATE-NAME.json`.
        figures: what was measured.
        folder: where to, made if it is missing; `results/` unless given.
        packages: whose versions matter.
    """
    date = datetime.now(UTC).date().isoformat()
    report = {
        "date": date,
        "machine": processor(),
        "processor": processor_facts(),
        "cores": available_cores(),
        "threads": torch.get_num_threads(),
        "versions": {package: version(package) for package in packages},
        **figures,
    }
    path = (folder or RESULTS) / f"{date}-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"Wrote {path}.")
    return path


def processor() -> str:
    """The name of the GPU, or else of the CPU, with its family and model where Linux tells them."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    facts = processor_facts()
    known = [f"{name} {facts[name]}" for name in ("family", "model") if name in facts]
    return ", ".join([str(facts["name"]), *known, platform.machine()])


def processor_facts() -> dict[str, Any]:
    """What is known of the CPU: a name alone, such as "AMD EPYC", may be of any age.

    Returns:
        `vendor`, `name`, `family` and `model` as Linux has them, those that it has; `features`, of
        its instructions those that products of matrices can use; `torch_capability`, those that
        torch's own loops are compiled for.
    """
    text = CPUINFO.read_text(encoding="utf-8") if CPUINFO.is_file() else ""
    first = text.partition("\n\n")[0]  # of as many paragraphs as there are processors
    entries = dict(
        [part.strip() for part in line.split(":", 1)] for line in first.splitlines() if ":" in line
    )
    names = {  # of x86, and of Arm
        "vendor": ("vendor_id", "CPU implementer"),
        "name": ("model name",),
        "family": ("cpu family", "CPU architecture"),
        "model": ("model", "CPU part"),
    }
    facts: dict[str, Any] = {
        name: next(entries[key] for key in keys if key in entries)
        for name, keys in names.items()
        if not entries.keys().isdisjoint(keys)
    }
    facts.setdefault("name", platform.processor() or platform.machine())
    flags = (entries.get("flags") or entries.get("Features") or "").split()
    facts["features"] = [name for name in FEATURES if name in flags]
    return facts | {"torch_capability": torch.backends.cpu.get_cpu_capability()}
