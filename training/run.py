# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""accelerate launch training/run.py RECIPE [--field value ...]

Train a Transformer by a recipe: a name in training/recipes, or the path of a YAML file. Every field
of the model, the data and the library's Seq2SeqTrainingArguments can be set. On one device, plain
`python training/run.py RECIPE` does the same. `--help` describes the recipes and the fields, and
`RECIPE --help` shows a recipe's values.
"""

import logging
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from training.loop.signals import end_silently, ending_at_once, lasting_output, leave_if_stopped


if __name__ == "__main__":
    end_silently()  # amid the imports, which take seconds

from training.errors import in_one_line, require_packages


if __name__ == "__main__":
    require_packages()  # before the imports that would end in a traceback

import transformers
from transformers import set_seed
from transformers.trainer_utils import is_main_process

from training.data.cleaning import CleaningRules, clean_and_mix, describe
from training.data.collating import PairCollator
from training.data.corpus import load_corpus
from training.data.encoding import check_lengths, encode_pairs
from training.data.streaming import TokenBatchStream
from training.loop.callbacks import StreamGuard
from training.loop.checkpoints import check_output_dir, find_checkpoint, last_checkpoints, writing
from training.loop.locking import hold_folder
from training.loop.model import build_model, build_tokenizer, fetch_start
from training.loop.processes import check_launch, leave_processes, together
from training.loop.resumption import Settings
from training.loop.trainer import VaswaniTrainer
from training.outcome.dry_run import show_plan, write_elsewhere
from training.outcome.publishing import CheckpointPusher, check_push, push_model
from training.outcome.results import Results, current_commit, final_checkpoints, write_config
from training.settings.fields import Arguments
from training.settings.reading import parse_arguments
from training.settings.rules import check_streaming, do_without_validation
from training.settings.usage import asks_for_help, usage
from vaswani_hf.hub.upload import export
from vaswani_hf.text.lines import escape_unprintable


logger = logging.getLogger("training")


def main(argv: list[str]) -> None:
    """Train by a recipe; what is wrong with it, or with what it names, is told in one line."""
    escape_unprintable()
    with lasting_output(), ending_at_once(), in_one_line(), ExitStack() as exits:
        if asks_for_help(argv):
            sys.stdout.write(usage(argv))
            return
        train(argv, exits)


def train(argv: list[str], exits: ExitStack) -> None:
    """Recipe, data, model, training, averaging, evaluation, export."""
    # At the start: the files may change while a long run goes on.
    begun, commit = time.monotonic(), current_commit()
    arguments = parse_arguments(argv)
    set_up_logging(arguments)
    training, data = arguments.training, arguments.data
    check_launch(training)
    if training.dry_run:
        write_elsewhere(training)
    check_streaming(data, training)
    lock = None if training.dry_run else hold_folder(training, exits)
    checkpoint = find_checkpoint(training)
    with together(training):
        check_output_dir(training, checkpoint, is_begun=lock is not None and lock.was_there)
    settings = Settings(arguments)
    with training.main_process_first(desc="fetching the model"):
        fetch_start(arguments)
    if checkpoint is not None:
        with together(training):
            settings.go_on_from(Path(checkpoint))
    with training.main_process_first(desc="reading the text"):
        corpus = load_corpus(data, training.seed)
    if "validation" not in corpus.splits and (
        note := do_without_validation(training, arguments.given)
    ):
        logger.info(note)
    if not training.dry_run:
        check_push(arguments)
    set_seed(training.seed)

    # Section 5.1: training data and batching
    with training.main_process_first(desc="learning the vocabulary"):
        tokenizer = build_tokenizer(arguments, corpus, checkpoint)
    with training.main_process_first(desc="encoding"):
        pairs = {
            name: encode_pairs(split, tokenizer, data.segmented)
            for name, split in corpus.splits.items()
        }
    if data.streaming:
        pairs["train"] = TokenBatchStream(corpus, tokenizer, data, training, checkpoint)
    else:
        rules = CleaningRules.of(data)
        pairs["train"] = clean_and_mix(corpus, pairs["train"], rules, training.seed)
        logger.info("Training text: %s.", describe(corpus.counts))
        if not training.dry_run:
            with together(training):
                settings.check_text(pairs["train"])

    # Section 3: the model
    model = build_model(arguments, tokenizer)
    check_lengths(arguments, model, pairs)
    logger.info("The model has %s parameters.", f"{model.num_parameters():,}")
    if training.dry_run:
        show_plan(arguments, model, tokenizer, pairs["train"])
        return
    write_config(arguments, model)

    # Sections 5.2 to 5.4: schedule, optimizer, regularization
    trainer = VaswaniTrainer(
        model=model,
        args=training,
        train_dataset=pairs["train"],
        eval_dataset=pairs.get("validation"),
        data_collator=PairCollator(tokenizer, model),
        processing_class=tokenizer,
    )
    trainer.settings = settings
    if training.push_to_hub and training.hub_strategy == "every_save" and training.should_save:
        trainer.pusher = CheckpointPusher(arguments)
    if data.streaming:
        guard = StreamGuard(pairs["train"])
        trainer.add_callback(guard)
    outcome = trainer.train(resume_from_checkpoint=checkpoint)
    leave_if_stopped(trainer)
    model = trainer.model
    if data.streaming:
        guard.leave_if_broken(trainer)
        corpus.counts = pairs["train"].report()
        logger.info("Training text: %s.", describe(corpus.counts))
    results = Results(arguments, corpus, model, outcome.metrics, trainer, checkpoint, commit)

    # Section 6.1: averaged checkpoints, beam search
    folders = last_checkpoints(
        training.output_dir, training.average_last, trainer.state.global_step
    )
    results.average(trainer, final_checkpoints(trainer, folders))
    for split in ("validation", "test"):
        if split in pairs:
            results.evaluate(trainer, split, pairs[split])

    # What others load
    if trainer.is_world_process_zero():
        with writing(Path(training.output_dir)):
            export(model, tokenizer, training.output_dir)
            results.write(trainer, wall_seconds=time.monotonic() - begun)
        results.show_translations(trainer)
    leave_processes(trainer)
    if trainer.pusher is not None:
        trainer.pusher.wait()
    push_model(arguments)


def set_up_logging(arguments: Arguments) -> None:
    """Progress from the main process, warnings from every one."""
    is_main = is_main_process(arguments.training.local_process_index)
    logging.basicConfig(
        level=logging.INFO if is_main else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    for library in ("httpx", "httpx2", "datasets", "fsspec", "filelock"):
        logging.getLogger(library).setLevel(logging.WARNING)
    transformers.utils.logging.set_verbosity_warning()
    logger.setLevel(logging.INFO if is_main else logging.WARNING)
    for note in arguments.notes:
        logger.info(note)


if __name__ == "__main__":
    main(sys.argv[1:])
