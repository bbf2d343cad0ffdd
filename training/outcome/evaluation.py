# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a model scores on a split: loss, and by its task BLEU or F1 (section 6)."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import LogitsProcessorList

from vaswani_hf.evaluation import Metric, Score
from vaswani_hf.evaluation.resampling import NUM_RESAMPLES
from vaswani_hf.parsing import TreeConstraint, TreePieces

from ..data.collating import ArrowPairs
from ..loop.sharding import is_sharded
from ..loop.trainer import VaswaniTrainer
from ..settings.fields import PARSING, VaswaniTrainingArguments
from .metrics import SacreBleu, exact_match
from .parses import details_of, figures_of, parse_of


class Translation(NamedTuple):
    """A sentence of the split, what the model made of it, and what was asked for."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found; the same on every process.

    Attributes:
        split: what was evaluated: `eval` in training, then `validation` and `test`.
        sentences: pairs of the split.
        figures: `loss` (nats per token, unsmoothed) and `perplexity_per_token`; where the model has
            translated, `bleu` (0 to 100), `exact_match` (0 to 1) and, where it was asked for,
            `compound_split_bleu`; after training `chrf++` (0 to 100). Where it has parsed, those
            that `parses.figures_of` names.
        translations: in the order of the split; none where the model has not translated.
        signatures: sacrebleu's, by the name of the figure.
        confidence: after training, `bleu` and `chrf++` with their 95 % confidence.
        details: of parses, what `parses.details_of` tells.
    """

    split: str
    sentences: int
    figures: Mapping[str, float]
    translations: tuple[Translation, ...] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)
    confidence: Mapping[str, Score] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


def evaluate(trainer: VaswaniTrainer, loader: DataLoader, split: str, **search: Any) -> Evaluation:
    """Evaluate a trainer's model; all processes call it together.

    Each sentence counts once, whatever the number of processes.

    Args:
        trainer: has the model, the tokenizer and the settings.
        loader: the trainer's, of batches with a column `index`.
        split: its name.
        search: settings of the beam search in place of those for evaluations in training.
    """
    model, args = trainer.model.eval(), trainer.args
    pairs = cast(ArrowPairs, loader.dataset).pairs
    translates = args.predict_with_generate and not args.prediction_loss_only
    parses = args.task == PARSING and translates
    pieces = TreePieces.of(trainer.target_tokenizer) if parses else None
    nats_and_tokens = torch.zeros(2, dtype=torch.float64)
    translated: list[tuple[int, str]] = []
    for inputs in loader:
        index = inputs.pop("index").tolist()
        with torch.no_grad(), trainer.compute_loss_context_manager():
            outputs = model(**inputs)
        tokens = int((inputs["labels"] >= 0).sum())
        nats_and_tokens += torch.tensor([float(outputs.loss) * tokens, tokens])
        if translates:
            translated += zip(index, _translate(trainer, inputs, search, pieces), strict=True)
        trainer.callback_handler.on_prediction_step(args, trainer.state, trainer.control)
    totals = trainer.accelerator.reduce(nats_and_tokens.float().to(args.device))
    nats, tokens = totals.tolist()
    figures = {
        "loss": nats / tokens,
        "perplexity_per_token": math.exp(min(nats / tokens, 700.0)),
    }
    if not translates:
        return Evaluation(split, len(pairs), figures)
    by_place = dict(gather_object(translated))
    if pieces is not None:
        return _evaluation_of_parses(split, figures, pairs, by_place, pieces)
    translations = tuple(
        Translation(source, by_place[place], reference)
        for place, (source, reference) in enumerate(
            zip(pairs["source"], pairs["target"], strict=True)
        )
    )
    scores, signatures = score(translations, args)
    return Evaluation(split, len(pairs), figures | scores, translations, signatures)


def evaluate_with_beams(trainer: VaswaniTrainer, split: str, pairs: Dataset) -> Evaluation:
    """Evaluate the trainer's model on a split with the recipe's beam search, and log it.

    Returns:
        What training's own evaluations find, and chrF++ and confidence.
    """
    training = trainer.args
    trainer.evaluate(
        pairs,
        metric_key_prefix=split,
        num_beams=training.num_beams,
        length_penalty=training.length_penalty,
        length_penalty_type=training.length_penalty_type,
    )
    evaluation = trainer.last_evaluation
    assert isinstance(evaluation, Evaluation)
    has_bleu = "bleu" in evaluation.figures
    return with_confidence(evaluation, training) if has_bleu else evaluation


def _evaluation_of_parses(
    split: str,
    figures: Mapping[str, float],
    pairs: Dataset,
    by_place: Mapping[int, str],
    pieces: TreePieces,
) -> Evaluation:
    sources = pairs["source"]
    parses = [
        parse_of(source, by_place[place], reference, pieces)
        for place, (source, reference) in enumerate(zip(sources, pairs["target"], strict=True))
    ]
    trees = tuple(
        Translation(source, str(parse.tree), str(parse.gold))
        for source, parse in zip(sources, parses, strict=True)
    )
    return Evaluation(
        split, len(pairs), {**figures, **figures_of(parses)}, trees, details=details_of(parses)
    )


def _translate(
    trainer: VaswaniTrainer,
    inputs: dict[str, torch.Tensor],
    search: dict[str, Any],
    pieces: TreePieces | None,
) -> list[str]:
    args, model = trainer.args, trainer.model
    options = {
        "num_beams": args.generation_num_beams or 1,
        "max_extra_tokens": args.max_extra_tokens,
        **search,
        "max_new_tokens": args.generation_max_length,
        "synced_gpus": is_sharded(model) and args.world_size > 1,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if pieces is not None and args.constrained_search:
        limits = inputs["attention_mask"].sum(dim=1) + args.max_extra_tokens
        if args.generation_max_length is not None:
            limits = limits.clamp(max=args.generation_max_length)
        constraint = TreeConstraint.of(pieces, inputs["input_ids"], limits.tolist())
        options["logits_processor"] = LogitsProcessorList([constraint])
    with torch.no_grad(), trainer.compute_loss_context_manager():
        generated = model.generate(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], **options
        )
    return trainer.target_tokenizer.batch_decode(generated, skip_special_tokens=True)


def score(
    translations: tuple[Translation, ...], training: VaswaniTrainingArguments
) -> tuple[dict[str, float], dict[str, str]]:
    """The figures of translations, by name, and the signatures of those that have one."""
    texts = {
        "predictions": [each.translation for each in translations],
        "references": [each.reference for each in translations],
    }
    bleu, lowercase = SacreBleu(), training.bleu_lowercase
    result = bleu.compute(**texts, lowercase=lowercase, tokenize=training.bleu_tokenize)
    figures = {"bleu": result["score"], "exact_match": exact_match(**texts)}
    signatures = {"bleu": result["signature"]}
    if training.compound_split_bleu is not None:
        result = bleu.compute(
            **texts,
            lowercase=lowercase,
            tokenize=training.compound_split_bleu,
            split_compounds=True,
        )
        figures["compound_split_bleu"] = result["score"]
        signatures["compound_split_bleu"] = result["signature"]
    return figures, signatures


def with_confidence(evaluation: Evaluation, training: VaswaniTrainingArguments) -> Evaluation:
    """An evaluation that has translated, with chrF++ and with the 95 % confidence of BLEU too."""
    hypotheses = [each.translation for each in evaluation.translations]
    references = [[each.reference for each in evaluation.translations]]
    tokenize, lowercase = training.bleu_tokenize, training.bleu_lowercase
    scores, confidence = {}, {}
    for name in ("bleu", "chrf++"):
        metric = Metric(name, tokenize=tokenize, lowercase=lowercase)
        statistics = metric.statistics(hypotheses, references)
        scores[name] = metric.score(statistics)
        confidence[name] = metric.score(statistics, NUM_RESAMPLES)
    return dataclasses.replace(
        evaluation,
        figures={**evaluation.figures, "chrf++": scores["chrf++"].score},
        signatures={**evaluation.signatures, "chrf++": scores["chrf++"].signature},
        confidence=confidence,
    )
