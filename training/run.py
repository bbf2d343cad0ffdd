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
from typing import Any

from training.loop.signals import exit_if_stopped, exit_on_signals, silence_ctrl_c
from training.loop.terminal import ignore_lost_output
from vaswani_hf.processor import keep_freed_memory, prepare_for_torch


if __name__ == "__main__":
    silence_ctrl_c()  # the imports below take seconds
    prepare_for_torch()

from training.errors import in_one_line, require_packages


if __name__ == "__main__":
    require_packages()  # before the imports that would end in a traceback

import transformers
from transformers import set_seed
from transformers.trainer_utils import is_main_process

from training.data.cleaning import describe
from training.data.collating import PairCollator
from training.data.corpus import Corpus, load_corpus
from training.data.encoding import encode_splits
from training.data.lengths import check_lengths
from training.data.mixing import clean, clean_and_mix
from training.data.streaming import TokenBatchStream
from training.loop.adapters import check_packages, describe_parameters
from training.loop.callbacks import StageLog, StreamGuard
from training.loop.checkpoints import find_checkpoint
from training.loop.distillation import with_teacher
from training.loop.guided_alignment import GuidedAlignment
from training.loop.locking import lock_output_dir
from training.loop.model import (
    Tokenizers,
    build_model,
    build_tokenizers,
    fetch_pretrained,
    set_trained_length,
)
from training.loop.output_dir import check_output_dir
from training.loop.processes import check_launch, end_processes, raise_on_all_processes
from training.loop.resumption import Settings, config_of
from training.loop.saving import explain_failed_write
from training.loop.threads import note_products, take_threads
from training.loop.trainer import VaswaniTrainer
from training.outcome.before import TEST_SETS, ScoresBefore
from training.outcome.dry_run import show_plan, use_temporary_folder
from training.outcome.evaluation import evaluate, evaluate_with_beams
from training.outcome.final_model import final_checkpoints, load_average
from training.outcome.publishing import (
    CheckpointPusher,
    check_push,
    push_model,
    pushes_checkpoints,
)
from training.outcome.results import Results, current_commit, write_config
from training.outcome.samples import report_translations
from training.settings.fields import Arguments
from training.settings.reading import parse_arguments
from training.settings.rules import check_streaming, do_without_validation
from training.settings.stages import Stage, read_stages
from training.settings.usage import asks_for_help, usage
from vaswani_hf.hub.upload import export
from vaswani_hf.text.terminal import escape_unprintable


logger = logging.getLogger("training")


def main(argv: list[str]) -> None:
    """Train by a recipe; an error in it, or in what it names, is told in one line."""
    escape_unprintable()
    with ignore_lost_output(), exit_on_signals(), in_one_line(), ExitStack() as exits:
        if asks_for_help(argv):
            sys.stdout.write(usage(argv))
            return
        train(argv, exits)


def train(argv: list[str], exits: ExitStack) -> None:
    """Sections 5 and 6, in the paper's order: from a recipe to a model that others load."""
    # At the start: the files may change while a long run goes on.
    begun, commit = time.monotonic(), current_commit()
    arguments = parse_arguments(argv)
    training = arguments.training
    set_up_logging(arguments)
    checkpoint, settings = check(arguments, exits)

    # Section 5.1: training data and batching
    corpus, tokenizers, pairs = read_data(arguments, checkpoint, settings)
    tokenizer, target_tokenizer = tokenizers

    # Section 3: the model
    learns_alignment = arguments.data.aligned_by is not None
    model = build_model(arguments, *tokenizers, learns_alignment=learns_alignment)
    set_trained_length(tokenizer, check_lengths(arguments, model, pairs), arguments)
    logger.info("The model has %s.", describe_parameters(model))
    aligning = None
    if learns_alignment:
        aligning = GuidedAlignment(model, training.guided_alignment_weight)
    if training.dry_run:
        show_plan(arguments, model, tokenizer, pairs["train"], aligning)
        return
    if arguments.data.streamed_by:
        pairs["train"] = TokenBatchStream(
            corpus, tokenizer, arguments.data, training, checkpoint, target_tokenizer
        )
    write_config(arguments, model)

    # Sections 5.2 to 5.4: schedule, optimizer, regularization
    pusher = CheckpointPusher(arguments) if pushes_checkpoints(training) else None
    trainer = VaswaniTrainer(
        model=model,
        args=training,
        train_dataset=pairs["train"],
        eval_dataset=pairs.get("validation"),
        data_collator=PairCollator(tokenizer, model, training.distillation_weight),
        processing_class=tokenizer,
        evaluator=evaluate,
        on_evaluation=report_translations,
        on_checkpoint=pusher.push if pusher else None,
        settings=settings,
        target_tokenizer=target_tokenizer,
        guided_alignment=aligning,
    )
    before = None
    if training.model_name_or_path:
        before = ScoresBefore(trainer, {name: pairs[name] for name in TEST_SETS if name in pairs})
        trainer.add_callback(before)
    stages = read_stages(arguments.data.stages)
    seconds = optimize(trainer, corpus, checkpoint, stages)
    results = Results(arguments, corpus, trainer, seconds, checkpoint, commit)
    if before is not None:
        results.add_before(before.scores)

    # Section 6.1: averaged checkpoints, beam search
    folders = final_checkpoints(trainer)
    load_average(trainer.model, folders)
    results.add_average(folders)
    for split in ("validation", *TEST_SETS):
        if split in pairs:
            results.add(evaluate_with_beams(trainer, split, pairs[split]))

    # What others load
    if trainer.is_world_process_zero():
        with explain_failed_write(Path(training.output_dir)):
            export(trainer.model, tokenizer, training.output_dir, target_tokenizer=target_tokenizer)
            results.write(wall_seconds=time.monotonic() - begun)
        results.show()
    end_processes(trainer)
    if pusher is not None:
        pusher.wait()
    push_model(arguments)


def check(arguments: Arguments, exits: ExitStack) -> tuple[str | None, Settings]:
    """Refuse what cannot work before anything takes time; lock the output folder.

    Returns:
        The checkpoint to resume from, if any, and the settings that the run's checkpoints keep.
    """
    training = arguments.training
    check_launch(training)
    if training.dry_run:
        use_temporary_folder(training)
    check_streaming(arguments.data, training)
    check_packages(training)
    lock = None if training.dry_run else lock_output_dir(training, exits)
    checkpoint = find_checkpoint(training)
    with raise_on_all_processes(training):
        check_output_dir(training, checkpoint, has_begun=lock is not None and lock.was_there)
    settings = Settings(arguments)
    with training.main_process_first(desc="fetching the model"):
        fetch_pretrained(arguments)
    take_threads(training, config_of(arguments), Path(checkpoint) if checkpoint else None)
    settings.keep("threads", training.threads)
    note_products(training, settings, Path(checkpoint) if checkpoint else None)
    if checkpoint is not None:
        with raise_on_all_processes(training):
            settings.resume_from(Path(checkpoint))
    return checkpoint, settings


def read_data(
    arguments: Arguments, checkpoint: str | None, settings: Settings
) -> tuple[Corpus, Tokenizers, dict[str, Any]]:
    """The text, its tokenizers, and encoded pairs of each split; of training clean ones.

    While text is streamed there are no pairs of training yet.
    """
    data, training = arguments.data, arguments.training
    with training.main_process_first(desc="reading the text"):
        corpus = load_corpus(data, training.seed)
    if "validation" not in corpus.splits and (
        note := do_without_validation(training, arguments.given)
    ):
        logger.info(note)
    if not training.dry_run:
        check_push(arguments)
    set_seed(training.seed)
    with training.main_process_first(desc="learning the vocabulary"):
        tokenizers = build_tokenizers(arguments, corpus, checkpoint)
    with training.main_process_first(desc="encoding"):
        pairs: dict[str, Any] = encode_splits(corpus, tokenizers[0], data.segmented, tokenizers[1])
    if data.streaming:
        return corpus, tokenizers, pairs
    if data.redrawn_by and not training.dry_run:
        pairs["train"] = clean(corpus, pairs["train"])
    else:
        pairs["train"] = clean_and_mix(corpus, pairs["train"], training.seed)
    logger.info("Training text: %s.", describe(corpus.counts))
    if not training.dry_run:
        with raise_on_all_processes(training):
            settings.check_text(pairs["train"])
    if training.distillation_teacher:
        with training.main_process_first(desc="asking the teacher"):
            pairs["train"] = with_teacher(pairs["train"], training, tokenizers)
    return corpus, tokenizers, pairs


def optimize(
    trainer: VaswaniTrainer, corpus: Corpus, checkpoint: str | None, stages: list[Stage]
) -> float:
    """Train, from a checkpoint or from the start; the seconds that it took.

    Raises:
        SystemExit: if a signal ended it.
        ValueError: if the text of a stream ended it.
    """
    stream = trainer.train_dataset
    guard = StreamGuard(stream) if isinstance(stream, TokenBatchStream) else None
    if guard is not None:
        trainer.add_callback(guard)
    if stages:
        trainer.add_callback(StageLog(stages))
    outcome = trainer.train(resume_from_checkpoint=checkpoint)
    exit_if_stopped(trainer)
    if guard is not None:
        guard.raise_if_broken(trainer)
    if guard is not None and corpus.loaded is None:
        corpus.counts = stream.report()
        logger.info("Training text: %s.", describe(corpus.counts))
    return outcome.metrics["train_runtime"]


def set_up_logging(arguments: Arguments) -> None:
    """Log progress from the main process and warnings from every process."""
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
    keep_freed_memory()
    main(sys.argv[1:])
