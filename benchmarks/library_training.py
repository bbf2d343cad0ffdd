# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.library_training MODEL [--sentences 8] [--by_length] RECIPE [--field value]

Train in the library's own `Seq2SeqTrainer`, by a recipe of `training/run.py` as far as the library
goes: text, vocabulary and optimizer are the recipe's, `max_minutes` and `save_minutes` are kept,
and with `--resume_from_checkpoint auto` it goes on where it was stopped. MODEL is `vaswani`, or
`marian` of the same shape, whose labels the library smooths. Batches are of so many sentences; of
as many as the recipe's token batches have on average, unless `--sentences` is given. The library
draws them at random, or with `--by_length` of sentences of like lengths.
"""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from vaswani_hf.processor import keep_freed_memory, prepare_for_torch


if __name__ == "__main__":
    prepare_for_torch()  # before torch is imported

from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, PreTrainedModel, Seq2SeqTrainer

from benchmarks.contest import marian
from benchmarks.report import write_lines
from training.data.batching import training_batches
from training.data.lengths import side_lengths
from training.errors import in_one_line
from training.loop.callbacks import CheckpointClock
from training.loop.checkpoints import find_checkpoint
from training.loop.locking import lock_output_dir
from training.loop.model import build_model
from training.loop.resumption import Settings, config_of
from training.loop.schedule import peak_learning_rate
from training.loop.threads import take_threads
from training.outcome.results import RESULTS, current_commit
from training.run import read_data, set_up_logging
from training.settings.budget import TokenBudget
from training.settings.fields import VaswaniTrainingArguments
from training.settings.reading import parse_arguments


VASWANI, MARIAN = MODELS = ("vaswani", "marian")


def main(argv: list[str]) -> None:
    """Train, or go on, and write `results.json`."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("recipe")
    parser.add_argument("--sentences", type=int)
    parser.add_argument("--by_length", action="store_true")
    options, others = parser.parse_known_args(argv)
    with in_one_line(), ExitStack() as exits:
        commit, arguments = current_commit(), parse_arguments([options.recipe, *others])
        training = arguments.training
        set_up_logging(arguments)
        lock_output_dir(training, exits)
        checkpoint = find_checkpoint(training)
        take_threads(training, config_of(arguments), Path(checkpoint) if checkpoint else None)
        corpus, (tokenizer, _), pairs = read_data(arguments, checkpoint, Settings(arguments))
        ours = build_model(arguments, tokenizer)
        if training.learning_rate is None:
            warmup_steps = training.get_warmup_steps(training.max_steps)
            training.learning_rate = peak_learning_rate(ours.config.d_model, warmup_steps)
        # What a recipe refuses, since our own trainer would ignore it.
        sentences = options.sentences or sentences_of_token_batches(pairs["train"], training)
        training.per_device_train_batch_size = sentences
        if options.by_length:
            training.train_sampling_strategy = "group_by_length"
        model: PreTrainedModel = ours
        if options.model == MARIAN:
            model = marian(ours.config, seed=training.seed)
            training.label_smoothing_factor = ours.config.label_smoothing
        clock = CheckpointClock()
        trainer = Seq2SeqTrainer(
            model,
            training,
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
            train_dataset=pairs["train"],
            processing_class=tokenizer,
            callbacks=[clock],
        )
        try:
            trainer.train(resume_from_checkpoint=checkpoint)
        finally:
            clock.signals.restore()
        if clock.stopped_by:
            sys.exit(128 + clock.stopped_by)
        figures = {
            "recipe": arguments.recipe,
            "commit": commit,
            "chosen": arguments.chosen,
            "model": options.model,
            "sentences_of_a_batch": sentences,
            "sampling": training.train_sampling_strategy,
            "parameters": model.num_parameters(),
            "data": corpus.counts,
            "training": {"updates": trainer.state.global_step, "epochs": trainer.state.epoch},
        }
        text = json.dumps(figures, indent=2, default=str)
        write_lines(Path(training.output_dir) / RESULTS, [text])


def sentences_of_token_batches(pairs: Dataset, training: VaswaniTrainingArguments) -> int:
    """How many sentences the batches of our own trainer have on average."""
    batches = training_batches(*side_lengths(pairs), TokenBudget.of(training))
    return round(len(pairs) / len(batches))


if __name__ == "__main__":
    keep_freed_memory()
    main(sys.argv[1:])
