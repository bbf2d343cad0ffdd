# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tokenizer and the model that a run starts with."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.utils import HFValidationError, validate_repo_id
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.hub.download import fetch
from vaswani_hf.hub.errors import as_hub_error
from vaswani_hf.hub.names import TARGET_TOKENIZER
from vaswani_hf.modeling_vaswani import (
    DecoderLayer,
    EmbeddingWithPositions,
    EncoderLayer,
    FeedForward,
)
from vaswani_hf.parsing.constraint import tree_words
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text

from ..data.corpus import Corpus
from ..settings.fields import PARSING, Arguments
from .saving import explain_failed_write


TOKENIZER_FOLDER = "tokenizer"  # in the output folder, from the start of the run
_TOKENIZER_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja")
_CHANGEABLE = ("dropout", "attention_dropout", "activation_dropout", "label_smoothing")


def fetch_pretrained(arguments: Arguments) -> None:
    """Fetch the model and the tokenizer that the settings name, and put their folders there.

    Raises:
        ValueError: if one cannot be loaded or has the wrong type, or they do not fit each other or
            the recipe.
        HubError: if one cannot be fetched.
    """
    data, training = arguments.data, arguments.training
    name, config = training.model_name_or_path, None
    if name:
        training.model_name_or_path = str(fetch(name))
        config = _config_of(training.model_name_or_path, name)
        _set_fields(config, arguments, name)
        _refuse_two_tokenizers(training.model_name_or_path, name)
        if not data.tokenizer:
            load_tokenizer(training.model_name_or_path, name)
    if data.tokenizer:
        named, data.tokenizer = data.tokenizer, str(_fetch_tokenizer(data.tokenizer))
        tokenizer = load_tokenizer(data.tokenizer, named)
        if name and config is not None:
            _check_pieces(tokenizer, named, config, str(training.model_name_or_path), name)


def _config_of(folder: str, name: str) -> VaswaniConfig:
    content, _ = VaswaniConfig.get_config_dict(folder)
    if content.get("model_type") != VaswaniConfig.model_type:
        raise ValueError(
            f"model_name_or_path={name} is a model of type {content.get('model_type')}; training "
            f"needs type {VaswaniConfig.model_type}; see `vaswani-hf convert --help`."
        )
    return VaswaniConfig.from_dict(content)


def _refuse_two_tokenizers(folder: str, name: str) -> None:
    """Training would encode the targets by the tokenizer of the sources."""
    if (Path(folder) / TARGET_TOKENIZER).is_dir():
        raise ValueError(
            f"model_name_or_path={name} has a tokenizer of its own for targets, "
            f"{TARGET_TOKENIZER}/, and training encodes both sides by one: this model can be used "
            f"and converted, but not trained."
        )


def _fetch_tokenizer(name: str) -> Path:
    if Path(name).is_dir():
        return Path(name)
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise ValueError(f"tokenizer={name} is neither a folder nor an id on the Hub.") from None
    with as_hub_error(f"fetch the tokenizer {name}", name):
        return Path(snapshot_download(name, allow_patterns=list(_TOKENIZER_FILES)))


def load_tokenizer(folder: str | Path, name: str | Path | None = None) -> PreTrainedTokenizerFast:
    """The tokenizer of a folder.

    Args:
        folder: has its files.
        name: for messages; the folder unless given.

    Raises:
        ValueError: if there is none, its files are damaged, or it is not one of the `tokenizers`
            library with padding and end-of-sentence tokens.
    """
    name = name or folder
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # a foreign file can make the libraries raise anything
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} has no tokenizer that can be loaded: {reason}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(
            f"The tokenizer of {name} is a {type(tokenizer).__name__}; training needs one of the "
            f"`tokenizers` library, with a tokenizer.json."
        )
    for token in ("pad_token", "eos_token"):
        if getattr(tokenizer, token) is None:
            raise ValueError(f"The tokenizer of {name} has no {token}, which ends or pads a text.")
    return tokenizer


def _check_pieces(
    tokenizer: PreTrainedTokenizerFast, named: str, config: VaswaniConfig, folder: str, name: str
) -> None:
    """Refuse a tokenizer whose ids differ from those that the model was trained with."""
    if (Path(folder) / "tokenizer.json").is_file():
        expected = load_tokenizer(folder, name).get_vocab()
        given = tokenizer.get_vocab()
        differing = sum(given.get(piece) != token for piece, token in expected.items())
        if differing or len(given) != len(expected):
            raise ValueError(
                f"tokenizer={named} is not that of model_name_or_path={name}: it has {len(given)} "
                f"pieces, and {differing} of that one's {len(expected)} are missing or have "
                f"another id. Leave tokenizer out."
            )
    elif len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"tokenizer={named} has {len(tokenizer)} pieces and model_name_or_path={name} "
            f"{config.vocab_size}; they do not fit each other."
        )


def build_tokenizer(
    arguments: Arguments, corpus: Corpus, checkpoint: str | None
) -> PreTrainedTokenizerFast:
    """The checkpoint's tokenizer, the one that is named, or one learned from the training set.

    The first process learns and writes it; the others read what it wrote.
    """
    named = checkpoint or arguments.data.tokenizer or arguments.training.model_name_or_path
    if named:
        return load_tokenizer(named)
    folder = Path(arguments.training.output_dir) / TOKENIZER_FOLDER
    if arguments.training.process_index and folder.is_dir():
        return load_tokenizer(folder)
    if arguments.data.segmented:
        tokenizer = tokenizer_of_segmented_text(corpus.sentences(), are_files=False)
    else:
        vocab_size = arguments.model.get("vocab_size", VaswaniConfig.vocab_size)
        is_parsing = arguments.training.task == PARSING
        whole_words: list[str] = []
        if is_parsing:
            whole_words = tree_words(map(str.split, corpus.sentences(("target",))))
        # Python handles signals in the main thread only, and not while that merges pieces, which
        # takes minutes.
        with ThreadPoolExecutor(1) as learner:
            tokenizer = learner.submit(
                train_tokenizer,
                corpus.sentences(("source",)) if is_parsing else corpus.sentences(),
                vocab_size,
                are_files=False,
                whole_words=whole_words,
                split_digits=arguments.data.split_digits,
                # The bar is not written through Python: a closed output would be an error.
                show_progress=not arguments.training.disable_tqdm and sys.stdout.isatty(),
            ).result()
    with explain_failed_write(folder):
        tokenizer.save_pretrained(folder)
    return tokenizer


def build_model(
    arguments: Arguments, tokenizer: PreTrainedTokenizerFast
) -> VaswaniForConditionalGeneration:
    """A new model by the recipe, or the trained one that is named.

    Raises:
        ValueError: if the recipe changes the shape of a trained model, or the tokenizer has more
            pieces than the model.
    """
    training = arguments.training
    if training.model_name_or_path:
        model = AutoModelForSeq2SeqLM.from_pretrained(training.model_name_or_path)
        _set_fields(model.config, arguments, training.model_name_or_path)
        _set_dropout(model)
        if len(tokenizer) > model.config.vocab_size:
            raise ValueError(
                f"The tokenizer has {len(tokenizer)} pieces and {training.model_name_or_path} "
                f"{model.config.vocab_size}; they do not fit each other."
            )
    else:
        fields = {**arguments.model, "vocab_size": len(tokenizer)}
        tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        model = VaswaniForConditionalGeneration(VaswaniConfig(**fields, **tokens))
    # The saved model translates with the beam search that it is evaluated with.
    for name in ("num_beams", "length_penalty", "length_penalty_type", "max_extra_tokens"):
        setattr(model.generation_config, name, getattr(training, name))
    if training.num_beams == 1:  # the library refuses to save settings of beams for one beam
        model.generation_config.length_penalty = model.generation_config.early_stopping = None
    return model


def set_trained_length(
    tokenizer: PreTrainedTokenizerFast, longest: int, arguments: Arguments
) -> None:
    """Say in the tokenizer how long a source the model knows, for those who translate by it.

    Args:
        tokenizer: is saved with the model.
        longest: tokens of the longest source that is trained on.
        arguments: of the run. A trained model that they name has seen longer ones before, perhaps.
    """
    if arguments.training.model_name_or_path:
        longest = max(longest, tokenizer.model_max_length)
    tokenizer.model_max_length = longest


def _set_fields(config: VaswaniConfig, arguments: Arguments, name: str) -> None:
    """Set what the recipe may change in a trained model's configuration; refuse other shapes."""
    for field, value in arguments.model.items():
        if field in _CHANGEABLE:
            setattr(config, field, value)
        elif field != "vocab_size" and getattr(config, field) != value:
            raise ValueError(
                f"{field}={value} differs from the {getattr(config, field)} of {name}, whose shape "
                f"is fixed."
            )
    config.check()


def _set_dropout(model: VaswaniForConditionalGeneration) -> None:
    for module in model.modules():
        if isinstance(module, EncoderLayer | DecoderLayer | EmbeddingWithPositions):
            module.dropout.p = model.config.dropout
        elif isinstance(module, FeedForward):
            module.dropout.p = model.config.activation_dropout
