# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tokenizer and the model that a run starts with."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.modeling_vaswani import AddAndNorm, EmbeddingWithPositions, FeedForward
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text

from .arguments import Arguments
from .checkpoints import writing
from .data import Corpus


TOKENIZER_FOLDER = "tokenizer"  # in the output folder, from the start of the run


def build_tokenizer(
    arguments: Arguments, corpus: Corpus, checkpoint: str | None
) -> PreTrainedTokenizerFast:
    """The tokenizer of the checkpoint, the one that is named, or one learned from the training set.

    Learned once, by the process that comes first; the others read what it wrote.
    """
    named = checkpoint or arguments.data.tokenizer or arguments.training.model_name_or_path
    if named:
        return AutoTokenizer.from_pretrained(named)
    folder = Path(arguments.training.output_dir) / TOKENIZER_FOLDER
    if arguments.training.process_index and folder.is_dir():
        return AutoTokenizer.from_pretrained(folder)
    if arguments.data.segmented:
        tokenizer = tokenizer_of_segmented_text(corpus.sentences(), are_files=False)
    else:
        vocab_size = arguments.model.get("vocab_size", VaswaniConfig.vocab_size)
        # Signals reach the main thread alone, and not while it merges pieces, which takes minutes.
        with ThreadPoolExecutor(1) as learner:
            tokenizer = learner.submit(
                train_tokenizer,
                corpus.sentences(),
                vocab_size,
                are_files=False,
                split_digits=arguments.data.split_digits,
                show_progress=not arguments.training.disable_tqdm,
            ).result()
    with writing(folder):
        tokenizer.save_pretrained(folder)
    return tokenizer


def build_model(
    arguments: Arguments, tokenizer: PreTrainedTokenizerFast
) -> VaswaniForConditionalGeneration:
    """A new model by the recipe, or the trained one that is named, ready for the tokenizer.

    Raises:
        ValueError: if the recipe changes the shape of a trained model, or the model has too few
            pieces for the tokenizer.
    """
    training = arguments.training
    if training.model_name_or_path:
        model = AutoModelForSeq2SeqLM.from_pretrained(training.model_name_or_path)
        _set_regularization(model, arguments)
        if len(tokenizer) > model.config.vocab_size:
            raise ValueError(
                f"The tokenizer has {len(tokenizer)} pieces and {training.model_name_or_path} "
                f"{model.config.vocab_size}; they do not belong together."
            )
    else:
        fields = {**arguments.model, "vocab_size": len(tokenizer)}
        tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        model = VaswaniForConditionalGeneration(VaswaniConfig(**fields, **tokens))
    # Whoever loads the model translates as it was evaluated.
    for name in ("num_beams", "length_penalty", "length_penalty_type", "max_extra_tokens"):
        setattr(model.generation_config, name, getattr(training, name))
    if training.num_beams == 1:  # the library saves no settings of beams that are not there
        model.generation_config.length_penalty = model.generation_config.early_stopping = None
    return model


def _set_regularization(model: VaswaniForConditionalGeneration, arguments: Arguments) -> None:
    changeable = {"dropout", "attention_dropout", "activation_dropout", "label_smoothing"}
    for name, value in arguments.model.items():
        if name in changeable:
            setattr(model.config, name, value)
        elif name != "vocab_size" and getattr(model.config, name) != value:
            raise ValueError(
                f"{name}={value} differs from the {getattr(model.config, name)} of "
                f"{arguments.training.model_name_or_path}, whose shape is fixed."
            )
    for module in model.modules():
        if isinstance(module, AddAndNorm | EmbeddingWithPositions):
            module.dropout.p = model.config.dropout
        elif isinstance(module, FeedForward):
            module.dropout.p = model.config.activation_dropout
