# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The tokenizers and the model that a run starts with."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.utils import HFValidationError, validate_repo_id
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

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
from vaswani_hf.tokenization_vaswani import add_source_tags, tokenizer_of_segmented_text
from vaswani_hf.translation.loading import check_finite

from ..data.corpus import Corpus
from ..settings.fields import PARSING, Arguments
from .adapters import add_adapter, quantization
from .guided_alignment import choose_head
from .saving import explain_failed_write


TOKENIZER_FOLDER = "tokenizer"  # in the output folder, from the start of the run
_TOKENIZER_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja")
# Of the source, and of the target where it has one of its own.
Tokenizers = tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase | None]
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
    teacher = training.distillation_teacher
    if teacher:
        training.distillation_teacher = str(fetch(teacher))
        _config_of(training.distillation_teacher, teacher, "distillation_teacher")
        if not name and not data.tokenizer:
            data.tokenizer = training.distillation_teacher
    if name:
        training.model_name_or_path = str(fetch(name))
        config = _config_of(training.model_name_or_path, name)
        _set_fields(config, arguments, name)
        if not data.tokenizer:
            own = load_tokenizers(training.model_name_or_path, name)
            _check_sizes(own, name, config, name)
    if data.tokenizer:
        named, data.tokenizer = data.tokenizer, str(_fetch_tokenizer(data.tokenizer))
        tokenizers = load_tokenizers(data.tokenizer, named)
        if name and config is not None:
            _check_pieces(tokenizers, named, config, str(training.model_name_or_path), name)


def _config_of(folder: str, name: str, setting: str = "model_name_or_path") -> VaswaniConfig:
    content, _ = VaswaniConfig.get_config_dict(folder)
    if content.get("model_type") != VaswaniConfig.model_type:
        raise ValueError(
            f"{setting}={name} is a model of type {content.get('model_type')}; training "
            f"needs type {VaswaniConfig.model_type}; see `vaswani-hf convert --help`."
        )
    return VaswaniConfig.from_dict(content)


def _fetch_tokenizer(name: str) -> Path:
    if Path(name).is_dir():
        return Path(name)
    try:
        validate_repo_id(name)
    except HFValidationError:
        raise ValueError(f"tokenizer={name} is neither a folder nor an id on the Hub.") from None
    with as_hub_error(f"fetch the tokenizer {name}", name):
        return Path(snapshot_download(name, allow_patterns=list(_TOKENIZER_FILES)))


def load_tokenizers(folder: str | Path, name: str | Path | None = None) -> Tokenizers:
    """The tokenizer of a folder, and the target's where `target_tokenizer/` is there.

    Args:
        folder: has their files.
        name: for messages; the folder unless given.

    Raises:
        ValueError: as `load_tokenizer` does.
    """
    tokenizer, target = load_tokenizer(folder, name), Path(folder) / TARGET_TOKENIZER
    if not target.is_dir():
        return tokenizer, None
    # An empty config keeps the library from looking for one in the subfolder.
    own = load_tokenizer(target, f"{name or folder}/{TARGET_TOKENIZER}", config=PreTrainedConfig())
    return tokenizer, own


def load_tokenizer(
    folder: str | Path, name: str | Path | None = None, **options: Any
) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder.

    Args:
        folder: has its files.
        name: for messages; the folder unless given.
        options: of `AutoTokenizer.from_pretrained`.

    Raises:
        ValueError: if there is none, its files are damaged, or it has no padding or
            end-of-sentence token.
    """
    name = name or folder
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    except Exception as error:  # a foreign file can make the libraries raise anything
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} has no tokenizer that can be loaded: {reason}") from error
    if tokenizer.is_fast and getattr(tokenizer.backend_tokenizer.model, "dropout", None):
        # It would cut the texts of evaluations anew too, and those of who loads the trained model.
        tokenizer.backend_tokenizer.model.dropout = None
    for token in ("pad_token", "eos_token"):
        if getattr(tokenizer, token) is None:
            raise ValueError(f"The tokenizer of {name} has no {token}, which ends or pads a text.")
    return tokenizer


def _check_pieces(
    tokenizers: Tokenizers, named: str, config: VaswaniConfig, folder: str, name: str
) -> None:
    """Refuse tokenizers whose ids differ from those that the model was trained with."""
    if not (Path(folder) / "tokenizer_config.json").is_file():
        _check_sizes(tokenizers, named, config, name)
        return
    both = zip(tokenizers, load_tokenizers(folder, name), strict=True)
    for side, (tokenizer, own) in zip(("tokenizer", TARGET_TOKENIZER), both, strict=True):
        if tokenizer is None and own is None:
            continue
        if tokenizer is None or own is None:
            raise ValueError(
                f"tokenizer={named} is not that of model_name_or_path={name}: one of them has a "
                f"{TARGET_TOKENIZER}/ and the other has none. Leave tokenizer out."
            )
        expected, given = own.get_vocab(), tokenizer.get_vocab()
        differing = sum(given.get(piece) != token for piece, token in expected.items())
        if differing or len(given) != len(expected):
            raise ValueError(
                f"tokenizer={named} is not that of model_name_or_path={name}: its {side} has "
                f"{len(given)} pieces, and {differing} of that one's {len(expected)} are missing "
                f"or have another id. Leave tokenizer out."
            )


def _check_sizes(tokenizers: Tokenizers, named: str, config: VaswaniConfig, name: str) -> None:
    """Refuse tokenizers with more pieces than the model embeds."""
    tokenizer, target_tokenizer = tokenizers
    for each, size in (
        (tokenizer, config.vocab_size),
        (target_tokenizer, config.num_target_pieces),
    ):
        if each is not None and len(each) > size:
            raise ValueError(
                f"The tokenizer {named} has {len(each)} pieces and model_name_or_path={name} "
                f"{size}; they do not fit each other."
            )


def build_tokenizers(arguments: Arguments, corpus: Corpus, checkpoint: str | None) -> Tokenizers:
    """The checkpoint's tokenizers, those that are named, or one learned from the training set.

    The first process learns and writes it; the others read what it wrote. All know the tags of the
    corpora, which are added to one that is learned or is named for a new model.

    Raises:
        ValueError: if a trained model has no piece for a tag, or a tokenizer cannot have one.
    """
    named = checkpoint or arguments.data.tokenizer or arguments.training.model_name_or_path
    tags = corpus.source_tags
    if named:
        tokenizers = load_tokenizers(named)
        if arguments.training.model_name_or_path and not checkpoint:
            _require_pieces(tokenizers[0], tags, arguments.training.model_name_or_path)
        add_source_tags(tokenizers[0], tags)
        return tokenizers
    folder = Path(arguments.training.output_dir) / TOKENIZER_FOLDER
    if arguments.training.process_index and folder.is_dir():
        return load_tokenizers(folder)
    if arguments.data.segmented:
        tokenizer = tokenizer_of_segmented_text(corpus.sentences(), are_files=False)
    else:
        vocab_size = arguments.model.get("vocab_size", VaswaniConfig.vocab_size) - len(tags)
        is_parsing = arguments.training.task == PARSING
        whole_words: list[str] = []
        if is_parsing:
            sequences = (text.split(" ") for text in corpus.sentences(("target",)))
            whole_words = tree_words(sequences, **arguments.data.form_of_trees)
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
    add_source_tags(tokenizer, tags)
    with explain_failed_write(folder):
        tokenizer.save_pretrained(folder)
    return tokenizer, None


def _require_pieces(tokenizer: PreTrainedTokenizerBase, tags: list[str], trained: str) -> None:
    """Refuse tags that a trained model has no embedding for."""
    pieces = tokenizer.get_vocab()
    for tag in tags:
        if tag not in pieces:
            raise ValueError(
                f"source_tag={tag} is no piece of {trained}; add it by: vaswani-hf vocabulary "
                f"extend {trained} NEW --source_tags '{tag}'"
            )


def build_model(
    arguments: Arguments,
    tokenizer: PreTrainedTokenizerBase,
    target_tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    learns_alignment: bool = False,
) -> VaswaniForConditionalGeneration:
    """A new model by the recipe, or the trained one that is named.

    Args:
        arguments: of the run.
        tokenizer: of the sources, and of the targets too unless these have one of their own.
        target_tokenizer: the targets' own.
        learns_alignment: whether a head learns alignments; the model's configuration names it.

    Raises:
        ValueError: if the recipe changes the shape of a trained model, one of its weights is NaN or
            infinite, a new model is to share one embedding where there are two vocabularies, or
            there is no such head.
    """
    training = arguments.training
    if training.model_name_or_path:
        model = AutoModelForSeq2SeqLM.from_pretrained(
            training.model_name_or_path, **quantization(training)
        )
        check_finite(model)  # else training is said to have diverged
        _set_fields(model.config, arguments, training.model_name_or_path)
        _set_dropout(model)
        if training.lora_rank is not None:
            # As it was named: what was fetched lies in a cache.
            name = arguments.chosen["model_name_or_path"]
            add_adapter(model, training, str(Path(name).resolve()) if Path(name).is_dir() else name)
    else:
        writes = target_tokenizer or tokenizer  # the model says its ids
        fields = {**arguments.model, "vocab_size": len(tokenizer)}
        if target_tokenizer is not None:
            fields["target_vocab_size"] = len(target_tokenizer)
        tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": writes.eos_token_id}
        model = VaswaniForConditionalGeneration(VaswaniConfig(**fields, **tokens))
    if learns_alignment:
        choose_head(model.config, training)
    # The saved model translates with the beam search that it is evaluated with.
    for name in ("num_beams", "length_penalty", "length_penalty_type", "max_extra_tokens"):
        setattr(model.generation_config, name, getattr(training, name))
    if training.num_beams == 1:  # the library refuses to save settings of beams for one beam
        model.generation_config.length_penalty = model.generation_config.early_stopping = None
    return model


def set_trained_length(
    tokenizer: PreTrainedTokenizerBase, longest: int, arguments: Arguments
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
