# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.toolkits DATA --toolkit NAME=PYTHON [--toolkit ...] [--field value ...]

A contest of toolkits: the training programs of JoeyNMT, OpenNMT-py and fairseq beside ours, on the
raw files of Multi30k in the folder DATA (`train.en.gz`, `train.de.gz`, `val.*`, `test_2016.*`), at
the shape of recipe `multi30k_small`, one thread each, in equal minutes. After each mark the test
set is translated by the toolkit's own beam search, with the last weights until then and with the
mean of five checkpoints, and scored by BLEU (sacrebleu, 13a).

`--toolkit joeynmt=/peers/joeynmt/bin/python` names the environment of a toolkit, which has nothing
of ours; `--toolkit vaswani_hf` is ours, to which alone `--field value` goes. `--schedules
documented recipe` trains each with the learning rates of its own documentation, and again with
those of our recipe. Trainings come one after the other, and no other work should have their core.
Calls with other toolkits and the same `--output_dir` may run on other cores meanwhile. The same
command goes on where it was stopped: what has finished is not done again, ours goes on from its
last checkpoint, and another toolkit's training that was cut short begins anew. `--only_report`
trains nothing and reports on what has finished.
"""

import argparse
import json
import logging
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import yaml
from transformers import AutoTokenizer

from benchmarks.report import print_table, write_lines, write_report
from training.loop.checkpoints import checkpoints, read_state
from training.loop.locking import FolderLock
from training.outcome.averaging import average_checkpoints
from training.settings.reading import read_options
from training.settings.recipes import read_recipe
from training.sweep import Run, train_all
from vaswani_hf import Translator, VaswaniForConditionalGeneration
from vaswani_hf.evaluation import Metric
from vaswani_hf.text.lines import read_lines


RECIPE = "multi30k_small"
OURS = "vaswani_hf"
SOURCE, TARGET = "en", "de"
SPLITS = {"train": "train", "validation": "val", "test": "test_2016"}
ENTRY = Path(__file__).resolve().with_name("toolkit_entry.py")
DOCUMENTED, AS_RECIPE = "documented", "recipe"  # whose learning rates
AVERAGED = 5  # as the recipe has it
TOLERANCE_SECONDS = 20  # a checkpoint of a minute is written some seconds later
SECONDS_TO_WRITE = 20  # what has an age within the tolerance is whole so much later
LAST, MEAN = "last", "mean"
BEAMS = 5  # of all three toolkits' own documentation
TRAINED, SCORES = "trained.json", "scores.json"  # in the folder of a training
logger = logging.getLogger("benchmarks")


def main(argv: list[str]) -> None:
    """Train and score what is missing, and report on what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--toolkit", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--marks", type=float, nargs="+", default=[15, 30, 60], help="minutes")
    parser.add_argument(
        "--schedules", nargs="+", choices=(DOCUMENTED, AS_RECIPE), default=[DOCUMENTED]
    )
    parser.add_argument("--save_updates", type=int, default=50, help="of other toolkits")
    parser.add_argument(
        "--apart_minutes", type=float, default=2.5, help="between checkpoints that are averaged"
    )
    parser.add_argument("--test_sentences", type=int, help="all, unless given")
    parser.add_argument("--output_dir", type=Path, default=Path("runs/toolkits"))
    parser.add_argument("--only_report", action="store_true", help="train nothing")
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, others = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    folder = options.output_dir.resolve()
    if not options.only_report:
        contestants = [contestant_of(text) for text in options.toolkit]
        with FolderLock(folder / "text"):
            text = write_text(options.data, folder / "text", options.test_sentences)
        for name, python in contestants:
            if name == OURS:
                run_ours(text, folder, options.marks, options.apart_minutes, read_options(others))
                continue
            for schedule in options.schedules:
                toolkit = TOOLKITS[name](python, text, folder, schedule, options.save_updates)
                run_toolkit(toolkit, options.marks, options.apart_minutes)
    rows = finished_rows(folder)
    if not rows:
        sys.exit(f"Nothing in {folder} has finished yet.")
    print_table(shown(rows))
    write_report("toolkits", {"recipe": RECIPE, "rows": rows}, options.results)


def contestant_of(text: str) -> tuple[str, str]:
    """Name and interpreter of `NAME=PYTHON`.

    Raises:
        ValueError: if the toolkit is unknown, or has no interpreter.
    """
    name, _, python = text.partition("=")
    if name not in (OURS, *TOOLKITS):
        raise ValueError(f"--toolkit {name} is unknown; known are {OURS}, {', '.join(TOOLKITS)}.")
    if name != OURS and shutil.which(python) is None:
        raise ValueError(f"--toolkit {text}: give the Python of its environment, {name}=PYTHON.")
    return name, python


# Text


@dataclass(frozen=True)
class Text:
    """Where the text of the contest is: `SPLIT.LANGUAGE` raw, and in pieces in `pieces/`."""

    folder: Path

    @property
    def model(self) -> Path:
        """The pieces of the other toolkits, of SentencePiece."""
        return self.folder / "pieces.model"

    @property
    def vocabulary(self) -> Path:
        """The pieces alone, one a line."""
        return self.folder / "pieces.txt"

    def lines(self, split: str, language: str) -> list[str]:
        """The raw sentences of a file."""
        return list(read_lines(self.folder / f"{split}.{language}"))

    def decode(self, lines: Iterable[str]) -> list[str]:
        """Text of lines of pieces."""
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor(model_file=str(self.model))
        return [processor.decode(line.split()) for line in lines]


def write_text(data: Path, folder: Path, test_sentences: int | None = None) -> Text:
    """Write the text raw, and in shared BPE pieces learned from the training text, once."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    text = Text(folder)
    if text.vocabulary.exists():
        return text
    (folder / "pieces").mkdir(parents=True, exist_ok=True)
    for split, name in SPLITS.items():
        for language in (SOURCE, TARGET):
            lines = list(read_lines(data / f"{name}.{language}.gz"))
            kept = lines[:test_sentences] if split == "test" else lines
            write_lines(folder / f"{split}.{language}", kept)
    SentencePieceTrainer.train(
        input=[str(folder / f"train.{language}") for language in (SOURCE, TARGET)],
        model_prefix=str(text.model.with_suffix("")),
        vocab_size=vocabulary_size(),
        model_type="bpe",
        character_coverage=1.0,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=1,
    )
    processor = SentencePieceProcessor(model_file=str(text.model))
    for split in SPLITS:
        for language in (SOURCE, TARGET):
            pieces = processor.encode(text.lines(split, language), out_type=str)
            write_lines(
                folder / "pieces" / f"{split}.{language}", [" ".join(line) for line in pieces]
            )
    ids = range(processor.get_piece_size())
    own = [id_ for id_ in ids if not processor.is_control(id_) and not processor.is_unknown(id_)]
    write_lines(
        text.vocabulary, [processor.id_to_piece(id_) for id_ in own]
    )  # the last: all is there
    return text


def vocabulary_size() -> int:
    """Of the recipe."""
    return int(read_recipe(RECIPE)["vocab_size"])


# Other toolkits


@dataclass(frozen=True)
class Rates:
    """Of the learning: the peak, the updates until it, and Adam's second beta."""

    learning_rate: float
    warmup_steps: int
    adam_beta2: float


def rates_of_the_recipe() -> Rates:
    """Ours."""
    recipe = read_recipe(RECIPE)
    return Rates(
        float(recipe["learning_rate"]), int(recipe["warmup_steps"]), float(recipe["adam_beta2"])
    )


@dataclass(frozen=True)
class Toolkit(ABC):
    """A training of a toolkit.

    Attributes:
        python: of its environment.
        text: of the contest.
        runs: the folder of all trainings.
        schedule: `DOCUMENTED` or `AS_RECIPE`.
        save_updates: between checkpoints.
    """

    python: str
    text: Text
    runs: Path
    schedule: str
    save_updates: int

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]  # whose versions are told
    begins: ClassVar[re.Pattern[str]]  # the line of the log with which training begins
    progress: ClassVar[re.Pattern[str]]  # a line of the log with `speed`, target tokens a second
    saved: ClassVar[re.Pattern[str]]  # the name of a checkpoint, with its `updates`
    keys: ClassVar[tuple[str, ...]]  # of the weights in a checkpoint

    @property
    def folder(self) -> Path:
        """Of this training."""
        return self.runs / f"{self.name}-{self.schedule}"

    @abstractmethod
    def prepare(self) -> None:
        """Write its data and configuration."""

    @abstractmethod
    def training(self) -> list[str]:
        """Module and arguments that train."""

    @abstractmethod
    def translate(self, checkpoint: Path) -> list[str]:
        """The test set by the weights of a checkpoint and the toolkit's own beam search."""

    def settings(self) -> Any:
        """What it was told, for the report."""
        return self.training()[1:]

    def call(self, *arguments: str, log: str) -> str:
        """Run a program of the toolkit, whose output goes to a log; what that says.

        Raises:
            SystemExit: if it fails.
        """
        path = self.folder / log
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        path.write_text(done.stdout, encoding="utf-8")
        if done.returncode:
            sys.exit(f"{self.name}: {arguments[0]} has failed; see {path}.")
        return done.stdout

    def run(self, *arguments: str, log: str) -> str:
        """`call` one of the toolkit's own modules."""
        return self.call("run", *arguments, log=log)

    def command(self, *arguments: str) -> list[str]:
        """What `toolkit_entry.py` does in the toolkit's environment."""
        return [self.python, "-W", "ignore", str(ENTRY), *arguments]

    def checkpoints(self) -> dict[Path, int]:
        """Updates of each checkpoint that is there, in their order."""
        found = {
            path: int(match["updates"])
            for path in (self.folder / "model").iterdir()
            if (match := self.saved.fullmatch(path.name))
        }
        return dict(sorted(found.items(), key=lambda item: item[1]))


def environment() -> dict[str, str]:
    """Of a toolkit: one thread, nothing of ours, and nothing that waits for a network."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }


class JoeyNMT(Toolkit):
    """JoeyNMT 2.3.0, as its `transformer_iwslt14_deen_bpe.yaml` has it, at our shape."""

    name = "joeynmt"
    packages = ("joeynmt", "torch", "sentencepiece")
    begins = re.compile(r"\bEPOCH 1$")
    progress = re.compile(r"Tokens per Sec: +(?P<speed>[\d.]+)")
    saved = re.compile(r"(?P<updates>\d+)\.ckpt")
    keys = ("model_state",)

    def prepare(self) -> None:
        """Write the configuration; text is cut into pieces while it is read."""
        write_yaml(self.folder / "train.yaml", self.settings())

    def settings(self) -> dict[str, Any]:
        """The configuration."""
        recipe = read_recipe(RECIPE)
        side = {
            "level": "bpe",
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": str(self.text.model)},
            "voc_file": str(self.text.vocabulary),
        }
        files = {"train": "train", "dev": "validation"}
        return {
            "name": "multi30k",
            "joeynmt_version": "2.3.0",
            "model_dir": str(self.folder / "model"),
            "use_cuda": False,
            "random_seed": 42,
            "data": {
                **{key: str(self.text.folder / split) for key, split in files.items()},
                "dataset_type": "plain",
                "sample_dev_subset": 20,  # translated before each checkpoint is written
                "src": {"lang": SOURCE, **side},
                "trg": {"lang": TARGET, **side},
            },
            "testing": {
                "beam_size": BEAMS,
                "beam_alpha": 1.0,
                "batch_size": 100,
                "batch_type": "sentence",
                "max_output_length": 100,
                "eval_metrics": ["bleu"],
                "sacrebleu_cfg": {"tokenize": "13a"},
            },
            "training": {
                "optimizer": "adam",
                **self.rates(),
                "normalization": "tokens",
                "loss": "crossentropy",
                "label_smoothing": 0.1,
                "weight_decay": 0.0,
                "batch_size": recipe["target_tokens"],
                "batch_type": "token",
                "epochs": 1_000_000,  # the minutes end it
                "validation_freq": self.save_updates,
                "logging_freq": math.gcd(self.save_updates, 50),
                "early_stopping_metric": "ppl",
                "keep_best_ckpts": -1,  # all
                "print_valid_sents": [],
                "shuffle": True,
                "overwrite": True,
            },
            "model": {
                "initializer": "xavier",
                "init_gain": 1.0,
                "bias_initializer": "zeros",
                "embed_initializer": "xavier",
                "embed_init_gain": 1.0,
                "tied_embeddings": True,
                "tied_softmax": True,
                **{
                    side: {
                        "type": "transformer",
                        "num_layers": recipe[f"{side}_layers"],
                        "num_heads": recipe["num_heads"],
                        "hidden_size": recipe["d_model"],
                        "ff_size": recipe["d_ff"],
                        "dropout": recipe["dropout"],
                        "embeddings": {
                            "embedding_dim": recipe["d_model"],
                            "scale": True,
                            "dropout": 0.0,
                        },
                    }
                    for side in ("encoder", "decoder")
                },
            },
        }

    def rates(self) -> dict[str, Any]:
        """Plateaus are five validations of 1,000 updates, and ours come more often."""
        if self.schedule == DOCUMENTED:
            return {
                "scheduling": "plateau",
                "learning_rate": 3e-4,
                "learning_rate_min": 1e-8,
                "patience": round(5 * 1000 / self.save_updates),
                "decrease_factor": 0.7,
                "adam_betas": [0.9, 0.999],
            }
        rates = rates_of_the_recipe()
        return {
            "scheduling": "warmupinversesquareroot",
            "learning_rate": rates.learning_rate,
            "learning_rate_min": 1e-8,
            "learning_rate_warmup": rates.warmup_steps,
            "adam_betas": [0.9, rates.adam_beta2],
        }

    def training(self) -> list[str]:
        """Train, and leave the test set alone."""
        return ["joeynmt", "train", "train.yaml", "--skip-test"]

    def translate(self, checkpoint: Path) -> list[str]:
        """It writes text, not pieces."""
        configuration = self.settings()
        del configuration["data"]["train"], configuration["data"]["dev"]
        configuration["data"]["test"] = str(self.text.folder / "test")
        configuration["testing"]["load_model"] = str(checkpoint)
        write_yaml(self.folder / "test.yaml", configuration)
        self.run("joeynmt", "test", "test.yaml", "--output-path", "output", log="translating.log")
        return list(read_lines(self.folder / "output.test"))


class OpenNMT(Toolkit):
    """OpenNMT-py 3.5.1, as its `config-transformer-base-1GPU.yml` has it, at our shape."""

    name = "opennmt"
    packages = ("OpenNMT-py", "torch")
    begins = re.compile(r"Starting training on CPU")
    progress = re.compile(r"Step +\d+/.*/ *(?P<speed>[\d.]+) tok/s")
    saved = re.compile(r"step_step_(?P<updates>\d+)\.pt")
    keys = ("model", "generator")

    def prepare(self) -> None:
        """Write the configuration, and have it count the pieces."""
        (self.folder / "model").mkdir()
        write_yaml(self.folder / "train.yaml", self.settings())
        counting = ["onmt.bin.build_vocab", "-config", "train.yaml", "-n_sample", "-1"]
        self.run(*counting, log="vocabulary.log")

    def settings(self) -> dict[str, Any]:
        """The configuration."""
        recipe = read_recipe(RECIPE)
        pieces = self.text.folder / "pieces"
        return {
            "save_data": str(self.folder / "data"),
            "data": {
                name: {
                    "path_src": str(pieces / f"{split}.{SOURCE}"),
                    "path_tgt": str(pieces / f"{split}.{TARGET}"),
                }
                for name, split in (("corpus", "train"), ("valid", "validation"))
            },
            "overwrite": True,
            "src_vocab": str(self.folder / "vocabulary"),
            "tgt_vocab": str(self.folder / "vocabulary"),
            "share_vocab": True,
            "src_vocab_size": vocabulary_size() + 10,
            "tgt_vocab_size": vocabulary_size() + 10,
            "save_model": str(self.folder / "model" / "step"),
            "save_checkpoint_steps": self.save_updates,
            "keep_checkpoint": -1,
            "seed": 3435,
            "report_every": 50,
            "train_steps": 1_000_000,  # the minutes end it
            "valid_steps": 500,
            "num_workers": 0,
            "encoder_type": "transformer",
            "decoder_type": "transformer",
            "position_encoding": True,
            "enc_layers": recipe["encoder_layers"],
            "dec_layers": recipe["decoder_layers"],
            "hidden_size": recipe["d_model"],
            "word_vec_size": recipe["d_model"],
            "transformer_ff": recipe["d_ff"],
            "heads": recipe["num_heads"],
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "param_init": 0.0,
            "param_init_glorot": True,
            "dropout": [recipe["dropout"]],
            "attention_dropout": [recipe["dropout"]],
            "label_smoothing": 0.1,
            "batch_type": "tokens",
            "batch_size": recipe["target_tokens"],
            "valid_batch_size": recipe["target_tokens"],
            "normalization": "tokens",
            "accum_count": [1],
            "max_grad_norm": 0.0,
            "optim": "adam",
            "adam_beta1": 0.9,
            "decay_method": "noam",
            **self.rates(),
        }

    def rates(self) -> dict[str, Any]:
        """`noam` peaks at `learning_rate` / sqrt(d_model x warmup)."""
        if self.schedule == DOCUMENTED:
            return {"learning_rate": 2.0, "warmup_steps": 8000, "adam_beta2": 0.998}
        rates = rates_of_the_recipe()
        factor = rates.learning_rate * math.sqrt(
            read_recipe(RECIPE)["d_model"] * rates.warmup_steps
        )
        return {
            "learning_rate": factor,
            "warmup_steps": rates.warmup_steps,
            "adam_beta2": rates.adam_beta2,
        }

    def training(self) -> list[str]:
        """Train by the configuration."""
        return ["onmt.bin.train", "-config", "train.yaml"]

    def translate(self, checkpoint: Path) -> list[str]:
        """Of pieces, by its defaults."""
        output = self.folder / "output.test"
        command = ["onmt.bin.translate", "-model", str(checkpoint), "-output", str(output)]
        command += ["-src", str(self.text.folder / "pieces" / f"test.{SOURCE}")]
        command += ["-beam_size", str(BEAMS), "-batch_size", "100", "-gpu", "-1"]
        self.run(*command, log="translating.log")
        return self.text.decode(read_lines(output))


class Fairseq(Toolkit):
    """fairseq 0.12.2, as its example for IWSLT'14 German to English has it, at our shape."""

    name = "fairseq"
    packages = ("fairseq", "torch")
    begins = re.compile(r"Start iterating over samples")
    progress = re.compile(r"train_inner.*\bwps=(?P<speed>[\d.]+)")
    saved = re.compile(r"checkpoint_\d+_(?P<updates>\d+)\.pt")
    keys = ("model",)
    hypothesis = re.compile(r"^H-(\d+)\t[^\t]*\t(.*)$", re.MULTILINE)

    def prepare(self) -> None:
        """Have it make its files of the pieces."""
        splits = {"train": "train", "valid": "validation", "test": "test"}
        pieces = self.text.folder / "pieces"
        files = [
            item
            for option, split in splits.items()
            for item in (f"--{option}pref", str(pieces / split))
        ]
        languages = ["--source-lang", SOURCE, "--target-lang", TARGET, "--joined-dictionary"]
        destination = ["--destdir", "data", "--workers", "1"]
        self.run("fairseq_cli.preprocess", *languages, *files, *destination, log="preparing.log")

    def training(self) -> list[str]:
        """Train, all by options."""
        recipe = read_recipe(RECIPE)
        shape = [
            item
            for side in ("encoder", "decoder")
            for item in (
                *(f"--{side}-layers", str(recipe[f"{side}_layers"])),
                *(f"--{side}-embed-dim", str(recipe["d_model"])),
                *(f"--{side}-ffn-embed-dim", str(recipe["d_ff"])),
                *(f"--{side}-attention-heads", str(recipe["num_heads"])),
            )
        ]
        return [
            *("fairseq_cli.train", "data", "--save-dir", "model", "--cpu", "--seed", "1"),
            *("--arch", "transformer_iwslt_de_en", *shape, "--share-all-embeddings"),
            *("--dropout", str(recipe["dropout"])),
            *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
            *("--optimizer", "adam", "--clip-norm", "0.0"),
            *("--lr-scheduler", "inverse_sqrt", *self.rates()),
            *("--max-tokens", str(recipe["target_tokens"]), "--num-workers", "0"),
            *("--save-interval-updates", str(self.save_updates), "--no-epoch-checkpoints"),
            *("--no-save-optimizer-state", "--disable-validation"),
            *("--log-format", "simple", "--log-interval", "50"),
        ]

    def rates(self) -> list[str]:
        """The documented weight decay goes with the documented rates."""
        if self.schedule == DOCUMENTED:
            rates, decay = Rates(learning_rate=5e-4, warmup_steps=4000, adam_beta2=0.98), 1e-4
        else:
            rates, decay = rates_of_the_recipe(), 0.0
        return [
            *("--lr", str(rates.learning_rate), "--warmup-updates", str(rates.warmup_steps)),
            *("--adam-betas", f"(0.9, {rates.adam_beta2})", "--weight-decay", str(decay)),
        ]

    def translate(self, checkpoint: Path) -> list[str]:
        """Of pieces; hypotheses come in the order of their lengths."""
        command = ["fairseq_cli.generate", "data", "--path", str(checkpoint), "--cpu"]
        command += ["--gen-subset", "test", "--beam", str(BEAMS), "--batch-size", "128"]
        command += ["--num-workers", "0"]
        found = self.hypothesis.findall(self.run(*command, log="translating.log"))
        return self.text.decode(line for _, line in sorted(found, key=lambda one: int(one[0])))


TOOLKITS: dict[str, type[Toolkit]] = {kind.name: kind for kind in (JoeyNMT, OpenNMT, Fairseq)}


def write_yaml(path: Path, value: Any) -> None:
    """Write a configuration."""
    path.write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), encoding="utf-8")


def run_toolkit(toolkit: Toolkit, marks: Sequence[float], apart_minutes: float) -> None:
    """Train for the last mark's minutes, and score each mark, unless that is done."""
    folder = toolkit.folder
    if not (folder / TRAINED).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        logger.info("Preparing %s.", folder.name)
        toolkit.prepare()
        logger.info("Training %s.", folder.name)
        train_toolkit(toolkit, max(marks))
    told = json.loads((folder / TRAINED).read_text(encoding="utf-8"))
    if told["minutes"] < max(marks):
        raise ValueError(
            f"{folder} has finished with {told['minutes']:g} minutes, and {max(marks):g} are asked "
            "for; choose another folder."
        )
    updates = toolkit.checkpoints()
    seconds = {path: path.stat().st_mtime - told["begun"] for path in updates}

    def translate(paths: list[Path]) -> tuple[list[str], int]:
        average = folder / "average.pt"
        words = ["average", str(average), *map(str, paths), "--keys", *toolkit.keys]
        printed = toolkit.call(*words, log="averaging.log")
        return toolkit.translate(average), json.loads(printed.splitlines()[-1])["parameters"]

    facts = {
        "toolkit": toolkit.name,
        "schedule": toolkit.schedule,
        "versions": versions_of(toolkit),
        "settings": without_folders(toolkit.settings(), toolkit.runs),
        "target_tokens_per_second": told["target_tokens_per_second"],
    }
    score_marks(
        Trained(folder, facts, updates, seconds, translate), toolkit.text, marks, apart_minutes
    )


def train_toolkit(toolkit: Toolkit, minutes: float) -> None:
    """Run its training program for so many minutes from the line with which it begins.

    Raises:
        SystemExit: if it ends by itself before that.
    """
    log, begun, speeds = toolkit.folder / "training.log", 0.0, []
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            toolkit.command("run", *toolkit.training()),
            cwd=toolkit.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            process.kill()

        timer = threading.Timer(minutes * 60 + TOLERANCE_SECONDS + SECONDS_TO_WRITE, end)
        try:
            for line in process.stdout or ():
                file.write(line)
                file.flush()
                if not begun and toolkit.begins.search(line.rstrip()):
                    begun = time.time()
                    timer.start()
                if match := toolkit.progress.search(line):
                    speeds.append(float(match["speed"]))
        finally:
            timer.cancel()
            process.kill()
    if not is_over.is_set():
        sys.exit(f"{toolkit.name} has ended before its minutes; see {log}.")
    facts = {
        "begun": begun,
        "minutes": minutes,
        # The median of what it logs leaves out validation and what else had the core meanwhile.
        "target_tokens_per_second": statistics.median(speeds) if speeds else None,
    }
    write_lines(toolkit.folder / TRAINED, [json.dumps(facts)])


def versions_of(toolkit: Toolkit) -> dict[str, str]:
    """Of Python and of the packages that matter, in the toolkit's environment."""
    code = (
        "import json, platform, sys; from importlib.metadata import version; print(json.dumps("
        "{'python': platform.python_version()} | {name: version(name) for name in sys.argv[1:]}))"
    )
    command = [toolkit.python, "-c", code, *toolkit.packages]
    found: dict[str, str] = json.loads(subprocess.check_output(command, text=True))
    return found


def without_folders(value: Any, folder: Path) -> Any:
    """The same, without where this machine has its files."""
    text = json.dumps(value).replace(f"{folder}/", "")
    return json.loads(text)


# Ours


def run_ours(
    text: Text,
    folder: Path,
    marks: Sequence[float],
    apart_minutes: float,
    fields: Mapping[str, Any],
) -> None:
    """Train the recipe for the last mark's minutes, and score each mark, unless that is done."""
    files = {
        f"{split}_{side}": text.folder / f"{split}.{language}"
        for split in SPLITS
        for side, language in (("source", SOURCE), ("target", TARGET))
    }
    fixed = {"max_minutes": max(marks), "threads": 1, "save_minutes": 1.0}
    fixed |= {"save_total_limit": 1000}
    run = Run(OURS, RECIPE, {"dataset": "none", **files, **fixed, **fields})
    if not list(train_all([run], folder, has_logs=True)):
        sys.exit(f"{OURS} could not be trained; see {folder / OURS}.log.")
    output = folder / OURS
    results = run.results(folder) or {}
    found = checkpoints(output)
    updates = {path: int(read_state(path)["global_step"]) for path in found}
    seconds = {path: seconds_until(path) for path in found}
    model = VaswaniForConditionalGeneration.from_pretrained(output)
    translator = Translator(model, AutoTokenizer.from_pretrained(output))

    def translate(paths: list[Path]) -> tuple[list[str], int]:
        model.load_state_dict(average_checkpoints(paths), strict=False)
        return translator(text.lines("test", SOURCE)), results["parameters"]

    logged = [
        entry["target_tokens_per_second"]
        for entry in read_state(found[-1])["log_history"]
        if "target_tokens_per_second" in entry
    ]
    facts = {
        "toolkit": OURS,
        "schedule": AS_RECIPE,
        "versions": results["versions"],
        "commit": results["commit"],
        "settings": without_folders(results["chosen"], folder),
        "target_tokens_per_second": statistics.median(logged) if logged else None,
    }
    score_marks(Trained(output, facts, updates, seconds, translate), text, marks, apart_minutes)


def seconds_until(checkpoint: Path) -> float:
    """Of training, those before a resumption included."""
    clock = read_state(checkpoint)["stateful_callbacks"]["CheckpointClock"]
    return float(clock["attributes"]["seconds_before"])


# The scores


@dataclass(frozen=True)
class Trained:
    """What a training has left.

    Attributes:
        folder: of the training.
        facts: of the report.
        updates: of each checkpoint.
        seconds: of training until each checkpoint.
        translate: the test set by the mean of some checkpoints, and how many parameters they have.
    """

    folder: Path
    facts: Mapping[str, Any]
    updates: Mapping[Path, int]
    seconds: Mapping[Path, float]
    translate: Callable[[list[Path]], tuple[list[str], int]]


def score_marks(trained: Trained, text: Text, marks: Sequence[float], apart_minutes: float) -> None:
    """Translate and score the test set as of each mark, unless that is done."""
    path = trained.folder / SCORES
    report: dict[str, Any] = {**trained.facts, "marks": {}}
    if path.exists():
        report["marks"] = json.loads(path.read_text(encoding="utf-8"))["marks"]
    metric, references = Metric("bleu"), text.lines("test", TARGET)
    for mark in sorted(marks):
        if str(mark) in report["marks"]:
            continue
        chosen = choose(trained.seconds, mark, apart_minutes)
        if not chosen:
            raise ValueError(f"{trained.folder} has no checkpoint by minute {mark}; save sooner.")
        row: dict[str, Any] = {
            "minutes": mark,
            "updates": trained.updates[chosen[-1]],
            "last_minutes": round(trained.seconds[chosen[-1]] / 60, 2),
            "averaged": len(chosen),
        }
        for name, paths in ((LAST, chosen[-1:]), (MEAN, chosen)):
            logger.info("Translating by %s after %g minutes: %s.", trained.folder.name, mark, name)
            hypotheses, report["parameters"] = trained.translate(paths)
            write_lines(trained.folder / f"test.{mark:g}.{name}.{TARGET}", hypotheses)
            score = metric.score(metric.statistics(hypotheses, [references]))
            row[f"bleu_{name}"], row["signature"] = round(score.score, 2), score.signature
        report["marks"][str(mark)] = row
        write_lines(path, [json.dumps(report)])


def choose(seconds: Mapping[Path, float], mark: float, apart_minutes: float) -> list[Path]:
    """The last checkpoint by a mark, after those that are averaged with it; oldest first.

    Args:
        seconds: of training until each.
        mark: minutes.
        apart_minutes: between two that are averaged.
    """
    ages = sorted((age, path) for path, age in seconds.items())
    until = mark * 60 + TOLERANCE_SECONDS
    chosen: dict[Path, None] = {}
    for _ in range(AVERAGED):
        before = [(age, path) for age, path in ages if age <= until]
        if not before:
            break
        age, path = before[-1]
        chosen[path] = None
        until = age - apart_minutes * 60
    return list(chosen)[::-1]


def finished_rows(folder: Path) -> list[dict[str, Any]]:
    """What each training in a folder has scored."""
    paths = sorted(folder.glob(f"*/{SCORES}"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def shown(reports: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are printed."""
    return [
        {
            "toolkit": report["toolkit"],
            "rates": report["schedule"],
            "parameters": report["parameters"],
            "target tokens/s": round(report["target_tokens_per_second"] or math.nan, 1),
            "minutes": f"{row['minutes']:g}",
            "updates": row["updates"],
            "BLEU": f"{row[f'bleu_{LAST}']:.2f}",
            f"BLEU, mean of {AVERAGED}": f"{row[f'bleu_{MEAN}']:.2f}",
        }
        for report in reports
        for row in report["marks"].values()
    ]


if __name__ == "__main__":
    # Else a toolkit would train on without anyone to stop it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(sys.argv[1:])
