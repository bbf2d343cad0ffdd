# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.back_translation DATA [--minutes 45] [--seeds 1 2] [--field value ...]

What does back-translation give where there is little bitext? Of Tatoeba, English to German, in the
folder DATA (`train.en.gz`, `train.de.gz`, `test.*`), the first 30,000 pairs are bitext, and of the
others the German sides alone are monolingual text. A model of the other direction, trained on the
bitext, translates each into English, by beam search or, with `--sampling_topk`, by samples. Then
models are trained for equal minutes on bitext alone, on bitext and back-translated text in equal
shares, and on these with a tag before what was back-translated; each with each seed. BLEU and
chrF++ on the test set stand beside those of bitext alone, with sacrebleu's paired tests for each
seed, and over all seeds with 95 % confidence.

All have one vocabulary, learned from the bitext, and the shape of recipe `multi30k_small`, which is
made for 29,000 pairs and two cores. One training comes after the other, and no other work should
have its cores meanwhile: the report has the updates of each. The same command goes on where it was
stopped; `--only_report` trains nothing and reports on what has finished.
"""

import argparse
import itertools
import json
import logging
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import first_sentences, print_table, seed_score, write_lines, write_report
from training.loop.model import TOKENIZER_FOLDER
from training.settings.reading import read_options
from training.sweep import Run, train_all
from vaswani_hf import Translator, cli
from vaswani_hf.evaluation import Metric, compare, difference, resamples, seed_deviation
from vaswani_hf.text.lines import read_lines


RECIPE = "multi30k_small"
SETTINGS = {
    "dataset": "none",
    "vocab_size": 4000,  # of 30,000 short pairs, 8,000 pieces would be rare ones
    "max_steps": 1_000_000,  # the minutes end a training
    "save_minutes": 1.5,
    "disable_tqdm": True,
}
BACKWARD = "backward"
BITEXT, PLAIN, TAGGED = SYSTEMS = ("bitext", "back_translated", "tagged")
TAG = "<bt>"
METRICS = {"bleu": "BLEU", "chrf++": "chrF++"}
HYPOTHESES = "test.hypotheses"  # of a run


def main(argv: list[str]) -> None:
    """Train what is missing, and report on what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=45, help="of each training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bitext_pairs", type=int, default=30_000)
    parser.add_argument("--mono_sentences", type=int, help="all others, unless given")
    parser.add_argument("--test_sentences", type=int, default=5000)
    parser.add_argument("--sampling_topk", type=int, help="draw the back-translations")
    parser.add_argument("--output_dir", type=Path, default=Path("runs/back_translation"))
    parser.add_argument("--only_report", action="store_true", help="train nothing")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, others = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    torch.set_num_threads(options.threads)
    text, runs = options.output_dir.resolve() / "text", options.output_dir.resolve()
    common = {
        **SETTINGS,
        "max_minutes": options.minutes,
        "threads": options.threads,
        **read_options(others),
    }
    backward = Run(BACKWARD, RECIPE, {**common, **files_of(text), "swap_sides": True, "seed": 1})
    common["tokenizer"] = runs / BACKWARD / TOKENIZER_FOLDER
    forward = {
        (system, seed): Run(
            f"{system}-seed_{seed}", RECIPE, {**common, **text_of(system, text), "seed": seed}
        )
        for seed in options.seeds
        for system in SYSTEMS
    }
    sources, references = (
        first_sentences(str(options.data / f"test.{side}.gz"), options.test_sentences)
        for side in ("en", "de")
    )
    if not options.only_report:
        write_texts(options, text)
        if not list(train_all([backward], runs)):
            sys.exit("The model of the other direction could not be trained.")
        translate_back(runs / BACKWARD, text, options)
        for run in train_all(forward.values(), runs):
            translate_test(runs / run.name, sources)
    finished: dict[str, dict[int, dict[str, Any]]] = {}
    for (system, seed), run in forward.items():
        results = run.results(runs)
        if results is not None:
            translate_test(runs / run.name, sources)
            hypotheses = list(read_lines(runs / run.name / HYPOTHESES))
            finished.setdefault(system, {})[seed] = {**results, "hypotheses": hypotheses}
    report = report_of(finished, references)
    told = ("minutes", "bitext_pairs", "mono_sentences", "sampling_topk", "threads")
    report |= {name: getattr(options, name) for name in told}
    settings = {  # names of files, not where this machine has them
        name: value.name if isinstance(value, Path) else value for name, value in common.items()
    }
    report |= {"recipe": RECIPE, "settings": settings, "runs_planned": len(forward)}
    print_table(shown(report))
    write_report("back_translation", report, options.results)


# Text


def files_of(folder: Path, name: str = "bitext") -> dict[str, Path]:
    """The training files of a text."""
    return {"train_source": folder / f"{name}.en", "train_target": folder / f"{name}.de"}


def text_of(system: str, folder: Path) -> dict[str, Any]:
    """The settings of a system's training text."""
    if system == BITEXT:
        return files_of(folder)
    tag = {"source_tag": TAG} if system == TAGGED else {}
    corpora = [
        {"name": BITEXT, "weight": 1, **files_of(folder)},
        {"name": PLAIN, "weight": 1, **tag, **files_of(folder, "mono")},
    ]
    return {"corpora": [json.dumps(corpus, default=str) for corpus in corpora]}


def write_texts(options: argparse.Namespace, folder: Path) -> None:
    """Write the bitext, and the German sentences of the other pairs that it lacks, each once."""
    if (folder / "mono.de").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    sides = (read_lines(options.data / f"train.{side}.gz") for side in ("en", "de"))
    pairs = zip(*sides, strict=True)
    bitext = list(itertools.islice(pairs, options.bitext_pairs))
    known = {target for _, target in bitext}
    others = dict.fromkeys(target for _, target in pairs if target not in known)
    for side, language in enumerate(("en", "de")):
        write_lines(folder / f"bitext.{language}", [pair[side] for pair in bitext])
    write_lines(folder / "mono.de", list(others)[: options.mono_sentences])


def translate_back(model: Path, text: Path, options: argparse.Namespace) -> None:
    """Write an English sentence for each German one; go on where it was stopped."""
    command = ["translate", "--model", str(model), str(text / "mono.de")]
    command += ["--threads", str(options.threads), "--chunk_sentences", "2000"]
    if options.sampling_topk is not None:
        command += ["--sampling_topk", str(options.sampling_topk), "--seed", "1"]
    command += ["--output", str(text / "mono.en"), "--resume"]
    if cli.main(command):
        sys.exit("The monolingual text could not be translated.")


def translate_test(folder: Path, sources: Sequence[str]) -> None:
    """Write what a trained model makes of the test set into its folder, once."""
    if not (folder / HYPOTHESES).exists():
        write_lines(folder / HYPOTHESES, Translator.from_pretrained(folder)(sources))


# The report


def report_of(
    finished: Mapping[str, Mapping[int, Mapping[str, Any]]], references: Sequence[str]
) -> dict[str, Any]:
    """Figures of each system, and how far they are from those of bitext alone.

    Args:
        finished: results and translations of the test set, by system and seed.
        references: of the test set.

    Raises:
        ValueError: if no run on bitext alone has finished.
    """
    if BITEXT not in finished:
        raise ValueError(f"All are compared with {BITEXT}, of which no run has finished.")
    samples = list(resamples(len(references)))
    report: dict[str, Any] = {"sentences": len(references), "systems": {}}
    for name in METRICS:
        metric = Metric(name)
        scores = {
            system: [
                seed_score(metric, run["hypotheses"], references, samples) for run in seeds.values()
            ]
            for system, seeds in finished.items()
        }
        deviation, degrees = seed_deviation(
            [[seed.score for seed in seeds] for seeds in scores.values()]
        )
        for system, seeds in finished.items():
            entry = report["systems"].setdefault(system, {"seeds": {}})
            entry[name] = statistics.fmean(seed.score for seed in scores[system])
            for seed, one in zip(seeds, scores[system], strict=True):
                entry["seeds"].setdefault(seed, facts_of(seeds[seed]))[name] = one.score
            for other in (BITEXT, PLAIN):
                if other in scores and SYSTEMS.index(other) < SYSTEMS.index(system):
                    found = difference(scores[system], scores[other], deviation, degrees)
                    entry.setdefault("differences", {}).setdefault(other, {})[name] = asdict(found)
        report.setdefault("seed_deviation", {})[name] = deviation
        report["seed_degrees_of_freedom"] = degrees
    report["paired_tests"] = [
        test for baseline in (BITEXT, PLAIN) for test in tests_of(finished, references, baseline)
    ]
    return report


def facts_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """What a run took."""
    training = results["training"]
    return {
        "commit": results["commit"],
        "parameters": results["parameters"],
        "data": results["data"],
        **{name: training[name] for name in ("updates", "seconds", "target_tokens")},
    }


def tests_of(
    finished: Mapping[str, Mapping[int, Mapping[str, Any]]],
    references: Sequence[str],
    baseline: str,
) -> Iterator[dict[str, Any]]:
    """The paired tests of sacrebleu, of a baseline and the systems after it, for each seed."""
    later = SYSTEMS[SYSTEMS.index(baseline) :]
    for seed in finished.get(baseline, {}):
        systems = {
            system: finished[system][seed]["hypotheses"]
            for system in later
            if seed in finished.get(system, {})
        }
        if len(systems) > 1:
            for found in compare(systems, [references], map(Metric, METRICS)):
                yield {"seed": seed, "baseline": baseline, **asdict(found)}


def shown(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that are printed: means over the seeds, and what they are above bitext alone."""
    rows = []
    for system, entry in report["systems"].items():
        row = {
            "system": system,
            "seeds": len(entry["seeds"]),
            "updates": "/".join(str(seed["updates"]) for seed in entry["seeds"].values()),
        }
        for name, title in METRICS.items():
            row[title] = f"{entry[name]:.2f}"
            for other in (BITEXT, PLAIN):
                found = entry.get("differences", {}).get(other, {}).get(name)
                told = f"{found['value']:+.2f} ± {found['ci']:.2f}" if found else ""
                row[f"{title}, less {other}"] = told
        rows.append(row)
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
