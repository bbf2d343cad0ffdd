# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.distillation TEACHER DATA [--minutes 20] [--seeds 1 2] [--field value ...]

What does a student gain by its teacher's translations? TEACHER is a model of Multi30k, English to
German, and DATA the folder of the raw files (`train.en.gz`, `train.de.gz`, `val.*`, `test_2016.*`).
The teacher translates the training text into 8 translations a sentence. A student of less than a
third of its parameters learns, for equal minutes, from the references; from what the teacher scores
highest; or from the one of the 8 that is nearest to the reference. Reported are BLEU and chrF++ on
test_2016 with their 95 % confidence over sentences and seeds and with paired tests of each seed,
and what the student takes of the teacher's processor time, by CTranslate2 with int8.

The same command goes on where it was stopped; `--only_report` reports on what has finished.
"""

import argparse
import dataclasses
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.report import medians, print_table, seed_score, write_lines, write_report
from training.outcome.results import HYPOTHESES, training_seconds
from training.settings.reading import read_options
from training.sweep import Run, train_all
from vaswani_hf import Translator
from vaswani_hf.cli import main as vaswani_hf
from vaswani_hf.conversion import to_ctranslate2
from vaswani_hf.evaluation import Metric, compare, difference, resamples, seed_deviation
from vaswani_hf.text.lines import read_lines
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator


RECIPE = "multi30k_small"
REFERENCES, BEST, NEAREST = "references", "the teacher's best", "the nearest of 8"
# By what the student learns from: the options of `vaswani-hf distill`, and the name of the folder.
SYSTEMS = {
    REFERENCES: (None, "references"),
    BEST: (["--choose", "score"], "best"),
    NEAREST: (["--choose", "chrf"], "nearest"),
}
# Deep encoder, shallow decoder, as the recipe `student`; half of the teacher's width.
STUDENT = {
    **{"encoder_layers": 6, "decoder_layers": 2, "d_model": 128, "d_ff": 256, "num_heads": 4},
    **{"dropout": 0.1},  # 29,000 pairs are few
}
SPLITS = {"train": "train", "validation": "val", "test": "test_2016"}
METRICS = ("bleu", "chrf++")
TEACHER = "teacher"
SPEEDS = {  # by name: whose, quantization, beams
    "teacher, float32, beam 4": (TEACHER, None, 4),
    "teacher, int8, beam 4": (TEACHER, "int8", 4),
    "student, int8, beam 4": ("student", "int8", 4),
    "student, int8, greedy": ("student", "int8", 1),
}
PEER = "teacher, transformers, beam 4"


class Place(NamedTuple):
    """Where things lie."""

    teacher: str
    data: Path
    work: Path

    def file(self, split: str, language: str) -> Path:
        """The text of a split."""
        return self.data / f"{SPLITS[split]}.{language}.gz"


def main(argv: list[str]) -> None:
    """Translate, choose and train what is missing, and report on what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("teacher", help="folder of a model of Multi30k")
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=20.0, help="of each training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--output_dir", type=Path, default=Path("runs/distillation"))
    parser.add_argument("--only_report", action="store_true", help="train nothing")
    parser.add_argument("--sentences", type=int, help="of the test set, for the speeds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, others = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    common = {**STUDENT, "max_minutes": options.minutes, **read_options(others)}
    place = Place(options.teacher, options.data.resolve(), options.output_dir)
    place.work.mkdir(parents=True, exist_ok=True)
    runs = {
        (system, seed): run_of(place, system, seed, common)
        for seed in options.seeds
        for system in SYSTEMS
    }
    if not options.only_report:
        prepare(place)
        for _ in train_all(runs.values(), place.work):
            pass
    finished: dict[str, dict[int, dict[str, Any]]] = {}
    for (system, seed), run in runs.items():
        if (results := run.results(place.work)) is not None:
            finished.setdefault(system, {})[seed] = results
    report = report_of(place, runs, finished)
    system = BEST if BEST in finished else REFERENCES
    student = runs[system, min(finished[system])]
    report["speeds"] = speeds(place, student, options.rounds, options.sentences)
    show(report)
    write_report("distillation", report, options.results, ("torch", "transformers", "ctranslate2"))


def prepare(place: Place) -> None:
    """The teacher's translations of the training text, and the pairs that are made of them."""
    converted, n_best = place.work / "teacher-float32", place.work / "train.jsonl"
    convert(place.teacher, converted)
    source, target = (place.file("train", language) for language in ("en", "de"))
    plain = place.work / "train.en"
    if not plain.exists():
        write_lines(plain, read_lines(source))
    search = ["--n_best", "8", "--num_beams", "8", "--format", "jsonl"]
    engine = ["--engine", "ctranslate2", "--model", str(converted)]
    call("translate", str(plain), *engine, *search, "--output", str(n_best), "--resume")
    for options, name in SYSTEMS.values():
        files = [place.work / f"{name}.{language}" for language in ("en", "de")]
        if options is not None and not all(file.exists() for file in files):
            outputs = ["--output_source", str(files[0]), "--output_target", str(files[1])]
            call("distill", str(n_best), "--target", str(target), *options, *outputs)


def call(*argv: str) -> None:
    """Run a command of the package.

    Raises:
        SystemExit: if it fails.
    """
    status = vaswani_hf(argv)
    if status:
        raise SystemExit(status)


def convert(source: str | Path, target: Path, quantization: str | None = None) -> None:
    """Write a folder of CTranslate2, unless it is there."""
    if not target.exists():
        to_ctranslate2(source, target, quantization=quantization)


def run_of(place: Place, system: str, seed: int, common: Mapping[str, Any]) -> Run:
    """The training of a system with a seed."""
    options, name = SYSTEMS[system]
    sides = {"source": "en", "target": "de"}
    files: dict[str, Any] = {
        f"{split}_{side}": place.file(split, language)
        for split in SPLITS
        for side, language in sides.items()
    }
    if options is not None:
        files |= {
            f"train_{side}": (place.work / f"{name}.{language}").resolve()
            for side, language in sides.items()
        }
    fields = {**files, "tokenizer": place.teacher, **common, "seed": seed}
    return Run(f"{name}-seed_{seed}", RECIPE, fields)


# The report


def report_of(
    place: Place,
    runs: Mapping[tuple[str, int], Run],
    finished: Mapping[str, Mapping[int, Mapping[str, Any]]],
) -> dict[str, Any]:
    """Scores of each system, beside those of the student that learnt from the references.

    Raises:
        ValueError: if no run of that student has finished.
    """
    if REFERENCES not in finished:
        raise ValueError("Students are compared with that of the references, which is not there.")
    references = list(read_lines(place.file("test", "de")))
    texts = {
        system: {
            seed: list(
                read_lines(place.work / runs[system, seed].name / HYPOTHESES.format(split="test"))
            )
            for seed in seeds
        }
        for system, seeds in finished.items()
    }
    samples = list(resamples(len(references)))
    found: dict[str, Any] = {}
    for name in METRICS:
        metric = Metric(name)
        scores = {
            system: [seed_score(metric, text, references, samples) for text in of_seeds.values()]
            for system, of_seeds in texts.items()
        }
        deviation, degrees = seed_deviation([one.score for one in of] for of in scores.values())
        found[name] = {
            "signature": metric.score(metric.statistics(references, [references])).signature,
            "seed_deviation": deviation,
            "seed_degrees_of_freedom": degrees,
            "systems": {
                system: {
                    "mean": statistics.fmean(one.score for one in scores[system]),
                    "seeds": dict(
                        zip(texts[system], [one.score for one in scores[system]], strict=True)
                    ),
                    "less_references": None
                    if system == REFERENCES
                    else dataclasses.asdict(
                        difference(scores[system], scores[REFERENCES], deviation, degrees)
                    ),
                }
                for system in scores
            },
            "paired_tests": paired_tests(texts, references, metric),
        }
    training = {
        runs[system, seed].name: {
            "parameters": results["parameters"],
            "updates": results["training"]["updates"],
            "minutes": round(training_seconds(results) / 60, 2),
            "commit": results["commit"],
        }
        for system, seeds in finished.items()
        for seed, results in seeds.items()
    }
    return {
        "recipe": RECIPE,
        "runs": f"{len(training)} of {len(runs)}",
        "scores": found,
        "training": training,
    }


def paired_tests(
    texts: Mapping[str, Mapping[int, list[str]]], references: list[str], metric: Metric
) -> dict[int, Any]:
    """By seed, every system against that of the references."""
    found = {}
    for seed, baseline in texts[REFERENCES].items():
        others = {system: of[seed] for system, of in texts.items() if seed in of}
        if len(others) > 1:
            systems = {REFERENCES: baseline, **others}
            (comparison,) = compare(systems, [references], [metric])
            found[seed] = [dataclasses.asdict(system) for system in comparison.systems]
    return found


def speeds(place: Place, run: Run, rounds: int, sentences: int | None) -> list[dict[str, Any]]:
    """Processor time of teacher and student for the test set, in turn, and what they score."""
    torch.set_num_threads(1)
    sources = list(read_lines(place.file("test", "en")))[:sentences]
    references = list(read_lines(place.file("test", "de")))[:sentences]
    folders = {TEACHER: Path(place.teacher), "student": place.work / run.name}
    translators: dict[str, Any] = {
        PEER: Translator.from_pretrained(place.teacher, device="cpu", num_beams=4)
    }
    sizes = {PEER: (folders[TEACHER] / "model.safetensors").stat().st_size}
    for name, (whose, quantization, num_beams) in SPEEDS.items():
        named = whose if whose == TEACHER else run.name
        folder = place.work / f"{named}-{quantization or 'float32'}"
        convert(folders[whose], folder, quantization)
        options = {"num_beams": num_beams, "length_penalty_type": "power", "threads": 1}
        translators[name] = CTranslate2Translator(folder, device="cpu", **options)
        sizes[name] = (folder / "model.bin").stat().st_size
    for translator in translators.values():
        translator(sources[:16])  # warm
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    texts = {}
    for _ in range(rounds):
        for name, translator in translators.items():
            texts[name], spent = processor_seconds(translator, sources)
            seconds[name].append(spent)
    times, bleu = medians(seconds), Metric("bleu")
    return [
        {
            "engine": name,
            "processor_seconds": round(median, 3),
            **{
                f"times_{short}": round(times[peer] / median, 2)
                for short, peer in (("teacher", PEER), ("teacher_int8", "teacher, int8, beam 4"))
            },
            "bleu": round(bleu.score(bleu.statistics(texts[name], [references])).score, 2),
            "megabytes": round(sizes[name] / 1e6, 2),
        }
        for name, median in times.items()
    ]


def processor_seconds(
    translator: Callable[[list[str]], list[str]], sources: list[str]
) -> tuple[list[str], float]:
    """The translations, and the processor time of this process that they took."""
    begun = time.process_time()
    texts = translator(sources)
    return texts, time.process_time() - begun


def show(report: Mapping[str, Any]) -> None:
    """Print the tables."""
    rows = []
    for system in report["scores"]["bleu"]["systems"]:
        row = {"learns from": system}
        for name in METRICS:
            found = report["scores"][name]["systems"][system]
            row[name] = f"{found['mean']:.2f}"
            less = found["less_references"]
            row[f"{name}, less references"] = (
                f"{less['value']:+.2f} ± {less['ci']:.2f}" if less else ""
            )
        rows.append(row)
    print_table(rows)
    print(json.dumps(report["training"], indent=1))
    print_table(report["speeds"])


if __name__ == "__main__":
    main(sys.argv[1:])
