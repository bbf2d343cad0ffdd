# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/loader_wait.py NAME RECIPE [--updates 40] [--field value ...]

What share of a run's time does the trainer wait for its batches? Trains RECIPE, as training/run.py
would, for a few updates into a temporary folder, and times the trainer's own call that asks the
loader for the batches of an update. And how many target tokens a second does the loader make, if
nobody trains? The second must stay far above what the model takes, or more
`dataloader_num_workers` are needed. The result is filed under NAME.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import print_table, write_report
from training.data.collating import PairCollator
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
from training.data.mixing import clean_and_mix
from training.loop.model import build_model, build_tokenizers
from training.loop.trainer import VaswaniTrainer
from training.settings.reading import parse_arguments


class WaitingTrainer(VaswaniTrainer):
    """Counts the seconds that it waits for batches, and those of all its updates."""

    waited = 0.0
    begun = 0.0
    target_tokens = 0

    def get_batch_samples(self, *arguments: Any, **named: Any) -> Any:
        """The library's call for the batches of one update."""
        begun = time.perf_counter()
        if self.state.global_step == 1:  # the first update has warmed up
            self.begun = begun
        samples = super().get_batch_samples(*arguments, **named)
        if self.state.global_step:
            self.waited += time.perf_counter() - begun
            self.target_tokens += sum(int((batch["labels"] >= 0).sum()) for batch in samples[0])
        return samples


def main(argv: list[str]) -> None:
    """Measure, print and write to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("recipe")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--results", type=Path, help="folder of the report")
    options, fields = parser.parse_known_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        fixed = ["--output_dir", folder, "--max_steps", str(options.updates)]
        fixed += ["--save_strategy", "no", "--eval_strategy", "no", "--disable_tqdm", "true"]
        arguments = parse_arguments([options.recipe, *fields, *fixed])
        arguments.training.save_minutes = None
        corpus = load_corpus(arguments.data, arguments.training.seed)
        tokenizer, _ = build_tokenizers(arguments, corpus, None)
        pairs = encode_pairs(corpus.splits["train"], tokenizer, arguments.data.segmented)
        pairs = clean_and_mix(corpus, pairs, arguments.training.seed)
        model = build_model(arguments, tokenizer)
        trainer = WaitingTrainer(
            model=model,
            args=arguments.training,
            train_dataset=pairs,
            data_collator=PairCollator(tokenizer, model),
            processing_class=tokenizer,
        )
        trainer.train()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - trainer.begun
        loader = iter(trainer.get_train_dataloader())
        next(loader)  # the order of the epoch is drawn
        begun = time.perf_counter()
        tokens = [int((batch["labels"] >= 0).sum()) for batch in loader]
        loader_seconds = time.perf_counter() - begun
    row = {
        "data": options.name,
        "recipe": arguments.recipe,
        "tokens": f"{arguments.training.source_tokens} + {arguments.training.target_tokens}",
        "updates": options.updates - 1,
        "seconds": round(seconds, 2),
        "waited_seconds": round(trainer.waited, 3),
        "share_waiting": round(trainer.waited / seconds, 4),
        "trained_tokens_per_second": round(trainer.target_tokens / seconds),
        "loader_tokens_per_second": round(sum(tokens) / loader_seconds),
        "loader_milliseconds": round(1000 * loader_seconds / len(tokens), 2),
    }
    print_table([row])
    write_report(f"loader_wait_{options.name}", {"rows": [row]}, options.results)


if __name__ == "__main__":
    main(sys.argv[1:])
