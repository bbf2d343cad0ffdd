# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From and to the library's own Marian classes, which hold the OPUS-MT models.

Marian's Transformer is the paper's but for this:

| Topic | Marian | Here |
|---|---|---|
| sinusoids | all sines, then all cosines | interleaved (section 3.5): a permutation of `d_model` |
| positions | a table of `max_position_embeddings` rows, which ends | computed on demand |
| biases | in all projections, and in the pre-softmax layer | `attention_bias`, `output_bias` |
| layer normalization epsilon | PyTorch's, 1e-5, no setting | `layer_norm_eps` |
| beam search | the library's | also the paper's (section 6.1) |
"""

import copy
import pickle
from pathlib import Path
from typing import Any, cast, get_args

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    PreTrainedConfig,
)
from transformers.utils import CONFIG_NAME, logging

from ..configuration_vaswani import VaswaniConfig
from ..extras import require
from ..hub.download import find
from ..hub.folder import export
from ..hub.names import TARGET_TOKENIZER
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..search_settings_vaswani import POWER
from ..text.lines import read_lines
from ..translation.loading import check_finite, load_tokenizers
from .differences import Differences, listed
from .folders import load_config, load_vaswani
from .positions import (
    halves_to_pairs,
    has_paper_positions,
    pairs_to_halves,
    permute_model_dimension,
)
from .sentencepieces import (
    NotTheSameError,
    are_marians,
    fast_tokenizers,
    load_sentencepiece,
    marian_tokenizer,
)
from .targets import AnyPath, check_target, new_folder
from .tensors import TensorReader, build_model


logger = logging.get_logger(__name__)

# Replaced in this order: a name that is part of another comes after it.
NAMES = (  # here, Marian
    ("self_attention_norm", "self_attn_layer_norm"),
    ("cross_attention_norm", "encoder_attn_layer_norm"),
    ("feed_forward_norm", "final_layer_norm"),
    ("feed_forward.inner", "fc1"),
    ("feed_forward.outer", "fc2"),
    ("self_attention", "self_attn"),
    ("cross_attention", "encoder_attn"),
    ("query_proj", "q_proj"),
    ("key_proj", "k_proj"),
    ("value_proj", "v_proj"),
    ("output_proj", "out_proj"),
    ("embedding.positions", "embed_positions"),
)
ACTIVATIONS = get_args(VaswaniConfig.__dataclass_fields__["activation_function"].type)
OUR_ENTRIES = ("length_penalty_type", "max_extra_tokens")  # of a generation config
# Relative to the largest logit. If layer_norm_eps is tensor2tensor's 1e-6, Marian's 1e-5 changes
# the logits of a trained model by about a tenth of this.
TOLERANCE = 1e-4


def from_marian(
    source: AnyPath,
    target: AnyPath,
    *,
    sample_source: AnyPath | None = None,
    sample_target: AnyPath | None = None,
) -> None:
    """Write a Vaswani folder that translates as a Marian folder does, such as one of OPUS-MT.

    Weights, dtype, settings, generation config and tokenizer are carried over, and greedy and beam
    search give the same ids: the generation config has `length_penalty_type="power"`, which is
    Marian's. `label_smoothing` is 0, since Marian's loss has none.

    A `MarianTokenizer`, which is slow, becomes one or two tokenizers of the `tokenizers` library if
    these cut a sample of text into the same pieces. If they do not, it is kept, and a warning says
    why.

    Args:
        source: folder or Hub id of a `MarianMTModel` and its tokenizer, of any kind.
        target: a new folder; it loads as those of `hub.export` do.
        sample_source: a file of sources for that sample, a sentence a line, plain or .gz; unless
            given, the sample is made up of the pieces.
        sample_target: a file of as many targets.

    Raises:
        ValueError: if the source is not a Marian model, has no tokenizer, lacks weights, or has
            settings that `VaswaniConfig` lacks, all listed, or if one of the files of a sample is
            named without the other, or they differ in length; nothing is written then.
        FileExistsError: if the target exists and is not an empty folder.
        ImportError: if its tokenizer needs sentencepiece, which is not installed.
    """
    check_target(target)
    sample = _read_sample(sample_source, sample_target)
    folder = find(source, allow_pickles=True)
    config = load_config(folder, source, MarianConfig)
    differences = _differences_to_vaswani(source)
    _refuse_settings(config, differences)
    differences.check()
    tokenizer, _ = _load_tokenizers(folder)
    _refuse_ids_without_rows(tokenizer, config, differences)
    differences.check()
    tokenizer, target_tokenizer = _as_fast(tokenizer, sample)
    marian = _load_marian(folder, source, differences)
    model = vaswani_from_marian(marian).to(_dtype(config))
    model.name_or_path = str(source)
    check_finite(model)
    with new_folder(target) as folder:
        export(model, tokenizer, folder, target_tokenizer=target_tokenizer)


def to_marian(source: AnyPath, target: AnyPath) -> None:
    """Write a Marian folder, which transformers loads without this package or its code.

    Three things are lost: positions beyond `max_position_embeddings`, where Marian raises an error;
    the beam search of Wu et al. with its limit for each sentence, whose replacement is logged; and
    `label_smoothing`, which Marian leaves to the library's trainer. Tokenizers that `from_marian`
    made of a `MarianTokenizer` become one again.

    Args:
        source: folder or Hub id of a `VaswaniForConditionalGeneration` and its tokenizer.
        target: a new folder.

    Raises:
        ValueError: if the source is not a Vaswani model, has no tokenizer, lacks weights, or has
            what Marian lacks, all listed; or if Marian's logits differ. Nothing is written then.
        FileExistsError: if the target exists and is not an empty folder.
        ImportError: if its tokenizer needs sentencepiece, which is not installed.
    """
    check_target(target)
    folder = find(source)
    config = load_config(folder, source, VaswaniConfig)
    tokenizer, target_tokenizer = _load_tokenizers(folder)
    differences = _differences_to_marian(source)
    _refuse_what_marian_lacks(config, differences)
    differences.refuse_if(
        target_tokenizer is not None and not are_marians(tokenizer, target_tokenizer),
        f"{TARGET_TOKENIZER}/ holds a tokenizer of the target alone; a Marian folder has one for "
        f"both sides",
    )
    differences.check()
    model = load_vaswani(folder, source)
    tokenizer = marian_tokenizer(tokenizer, target_tokenizer) or tokenizer
    marian = marian_from_vaswani(model).to(_dtype(config))
    # Truncation then ends where Marian's table does.
    limit = config.max_position_embeddings
    tokenizer.model_max_length = min(tokenizer.model_max_length, limit)
    with new_folder(target) as folder:
        marian.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def vaswani_from_marian(marian: MarianMTModel) -> VaswaniForConditionalGeneration:
    """A Vaswani model that computes what a Marian model does, in evaluation mode.

    A table of positions that is not the sinusoids of section 3.5 is carried as learned positions.

    Args:
        marian: left as it is.

    Raises:
        ValueError: if it has settings that `VaswaniConfig` lacks, all listed.
    """
    differences = _differences_to_vaswani(marian.name_or_path)
    _refuse_settings(marian.config, differences)
    differences.check()
    tensors = {name: tensor.detach().cpu() for name, tensor in marian.state_dict().items()}
    tensors["lm_head.bias"] = tensors.pop("final_logits_bias").squeeze(0)
    tables = [name for name in tensors if name.endswith("embed_positions.weight")]
    is_sinusoidal = all(_is_sinusoidal(tensors[name]) for name in tables)
    has_bias = bool(tensors["lm_head.bias"].any())
    model = VaswaniForConditionalGeneration(_vaswani_config(marian, is_sinusoidal, has_bias))

    reader = TensorReader(tensors, differences)
    weights = {
        name: reader.take(_marian_name(name), *tensor.shape)
        for name, tensor in model.state_dict().items()
    }
    reader.ignore("model.shared.weight")  # unused if nothing is tied
    if is_sinusoidal:
        reader.ignore(*tables)
    if not has_bias:
        reader.ignore("lm_head.bias")
    reader.refuse_rest()
    differences.check()
    model.load_state_dict(weights)
    if is_sinusoidal:
        permute_model_dimension(model, halves_to_pairs(marian.config.d_model))

    model.generation_config = copy.deepcopy(marian.generation_config)
    model.generation_config.length_penalty_type = POWER
    model.generation_config.max_extra_tokens = None
    return model.to(device=marian.device, dtype=marian.dtype).eval()


def marian_from_vaswani(model: VaswaniForConditionalGeneration) -> MarianMTModel:
    """A Marian model that computes what a Vaswani model does, in evaluation mode.

    Marian's layer normalization has an epsilon of its own. Both models are compared on random ids
    in float64, and the difference is logged.

    Args:
        model: left as it is.

    Raises:
        ValueError: if it has what Marian lacks, all listed, or if a logit differs by more than
            `TOLERANCE` times the largest.
    """
    config, differences = model.config, _differences_to_marian(model.name_or_path)
    _refuse_what_marian_lacks(config, differences)
    differences.check()
    carried = {key: tensor.detach().float().cpu() for key, tensor in model.state_dict().items()}
    ours = build_model(copy.deepcopy(config), carried)
    permuted = copy.deepcopy(ours)
    permute_model_dimension(permuted, pairs_to_halves(config.d_model))
    weights = {_marian_name(key): tensor for key, tensor in permuted.state_dict().items()}
    if config.output_bias:
        weights["final_logits_bias"] = weights.pop("lm_head.bias").unsqueeze(0)

    marian = MarianMTModel(_marian_config(config)).eval()
    # Left over are the tables of positions, which Marian has computed, and biases.
    left = {
        key: tensor if key.endswith("embed_positions.weight") else torch.zeros_like(tensor)
        for key, tensor in marian.state_dict().items()
        if key not in weights
    }
    marian.load_state_dict({key: weights.get(key, left.get(key)) for key in marian.state_dict()})
    _compare(ours.double(), marian.double(), differences)  # free of rounding
    marian.generation_config = _marian_generation_config(model)
    return marian.to(device=model.device, dtype=model.dtype)


def _differences_to_vaswani(source: AnyPath) -> Differences:
    return Differences(f"{source or 'this Marian model'} as a Vaswani model")


def _differences_to_marian(source: AnyPath) -> Differences:
    return Differences(f"{source or 'this Vaswani model'} as a Marian model")


def _load_marian(folder: Path, source: AnyPath, differences: Differences) -> MarianMTModel:
    """In float32, where Marian builds tables of positions that are not stored."""
    if not any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "*.bin")):
        raise ValueError(f"{source} has no weights: no .safetensors file and no .bin file.")
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # the library's report of what is listed below
    try:
        model, loading = MarianMTModel.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True
        )
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"The weights of {source} cannot be loaded: {reason}") from error
    except (SafetensorError, pickle.UnpicklingError, OSError, EOFError, KeyError) as error:
        raise ValueError(
            f"The weights of {source} are damaged or hold Python objects, which are never loaded. "
            f"Fetch the model again, or save it with save_pretrained, which writes safetensors."
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    for name, *shapes in sorted(loading["mismatched_keys"]):
        found, expected = map(tuple, shapes)
        differences.add(f"{name} has shape {found}, its {CONFIG_NAME} says {expected}")
    for name in sorted(loading["missing_keys"]):
        differences.add(f"{name} is missing")
    for name in sorted(loading["unexpected_keys"]):
        differences.add(f"{name} has no place in the model of its {CONFIG_NAME}")
    differences.check()
    return model


def _load_tokenizers(folder: Path) -> tuple[Any, Any]:
    """The tokenizer, and the target's, where that has one of its own."""
    try:
        return load_tokenizers(folder)
    except ImportError:
        require("sentencepiece")
        raise
    except ValueError as error:
        for path in sorted(folder.glob("*.spm")):
            load_sentencepiece(path)  # names it if it is damaged
        raise ValueError(
            f"{error} A MarianTokenizer is source.spm, target.spm and vocab.json, and needs "
            f'pip install "vaswani-hf[export]".'
        ) from error


def _read_sample(sources: AnyPath | None, targets: AnyPath | None) -> list[tuple[str, str]] | None:
    """Pairs of two files, line by line; `None` if none are named."""
    if sources is None and targets is None:
        return None
    if sources is None or targets is None:
        raise ValueError("sample_source and sample_target go together; give both or none.")
    sides = [list(read_lines(Path(side))) for side in (sources, targets)]
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        raise ValueError(
            f"sample_source={sources} has {len(sides[0])} lines and sample_target={targets} "
            f"{len(sides[1])}; give files with a line for each line of the other."
        )
    return list(zip(*sides, strict=True))


def _as_fast(tokenizer: Any, sample: list[tuple[str, str]] | None) -> tuple[Any, Any]:
    """A `MarianTokenizer` as fast ones where they make the same, and any other as it is."""
    if type(tokenizer).__name__ != "MarianTokenizer":
        return tokenizer, None
    try:
        return fast_tokenizers(tokenizer, sample)
    except NotTheSameError as difference:
        logger.warning(
            f"The MarianTokenizer is kept, which is slow and needs sentencepiece: of a fast "
            f"tokenizer, {difference}."
        )
        return tokenizer, None


def _dtype(config: PreTrainedConfig) -> torch.dtype:
    """What a folder's weights are stored in."""
    return config.dtype or torch.float32


def _refuse_settings(config: MarianConfig, differences: Differences) -> None:
    """Note the settings that `VaswaniConfig` lacks."""
    for setting in ("attention_heads", "ffn_dim"):
        encoder = getattr(config, f"encoder_{setting}")
        decoder = getattr(config, f"decoder_{setting}")
        differences.refuse_if(
            encoder != decoder,
            f"encoder_{setting}={encoder} and decoder_{setting}={decoder} differ; both sides have "
            f"one number here",
        )
    differences.refuse_if(
        config.share_encoder_decoder_embeddings and config.decoder_vocab_size != config.vocab_size,
        f"share_encoder_decoder_embeddings=True needs one vocabulary, but vocab_size="
        f"{config.vocab_size} and decoder_vocab_size={config.decoder_vocab_size}",
    )
    differences.refuse_if(
        config.activation_function not in ACTIVATIONS,
        f"activation_function={config.activation_function!r} is none of {listed(ACTIVATIONS)}",
    )
    differences.refuse_if(
        config.pad_token_id is None, "pad_token_id is None, but padding needs an id here"
    )


def _refuse_ids_without_rows(
    tokenizer: Any, config: MarianConfig, differences: Differences
) -> None:
    """Note a vocabulary of another model, whose ids the embeddings lack."""
    vocabularies = {"source": (tokenizer.get_vocab(), config.vocab_size)}
    if getattr(tokenizer, "separate_vocabs", False):
        vocabularies["target"] = (tokenizer.target_encoder, config.decoder_vocab_size)
    for side, (pieces, rows) in vocabularies.items():
        largest = max(pieces.values(), default=-1)
        differences.refuse_if(
            largest >= rows,
            f"the {side}'s vocabulary has ids up to {largest}, the model embeds {rows} pieces",
        )


def _vaswani_config(marian: MarianMTModel, is_sinusoidal: bool, has_bias: bool) -> VaswaniConfig:
    config = marian.config
    # The model shows what is tied: the library ties nothing if `tie_word_embeddings` is off, and
    # nothing that has different values in a checkpoint.
    source = marian.model.encoder.embed_tokens.weight
    target = marian.model.decoder.embed_tokens.weight
    return VaswaniConfig(
        vocab_size=len(source),
        target_vocab_size=len(target),
        d_model=config.d_model,
        d_ff=config.encoder_ffn_dim,
        num_heads=config.encoder_attention_heads,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        activation_function=config.activation_function,
        layer_norm_eps=marian.model.encoder.layers[0].self_attn_layer_norm.eps,
        attention_bias=True,
        output_bias=has_bias,
        scale_embedding=config.scale_embedding,
        position_encoding="sinusoidal" if is_sinusoidal else "learned",
        max_position_embeddings=config.max_position_embeddings,
        share_embeddings=source is target,
        tie_word_embeddings=marian.lm_head.weight is target,
        label_smoothing=0.0,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        bos_token_id=config.bos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )


def _refuse_what_marian_lacks(config: VaswaniConfig, differences: Differences) -> None:
    differences.refuse_if(
        config.position_encoding != "sinusoidal",
        f'position_encoding="{config.position_encoding}"; Marian saves no positions, it computes '
        f"sinusoids",
    )
    width = config.d_model / config.num_heads
    for name, value in zip(("d_k", "d_v"), config.head_widths, strict=True):
        differences.refuse_if(
            value != width, f"{name}={value}; Marian's is d_model / num_heads = {width:g}"
        )
    differences.refuse_if(
        config.final_norm, "final_norm=True; Marian's stacks end in no further normalization"
    )


def _marian_config(config: VaswaniConfig) -> MarianConfig:
    both = {"attention_heads": config.num_heads, "ffn_dim": config.d_ff}
    return MarianConfig(
        vocab_size=config.vocab_size,
        decoder_vocab_size=config.num_target_pieces,
        d_model=config.d_model,
        **{f"{side}_{key}": both[key] for side in ("encoder", "decoder") for key in both},
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        activation_function=config.activation_function,
        scale_embedding=config.scale_embedding,
        max_position_embeddings=config.max_position_embeddings,
        # Marian ties all three matrices, or the target's two, or none.
        share_encoder_decoder_embeddings=config.share_embeddings and config.tie_word_embeddings,
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        bos_token_id=config.bos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        forced_eos_token_id=None,  # the generation config may have it
    )


def _marian_generation_config(model: VaswaniForConditionalGeneration) -> GenerationConfig:
    """Ours without its two entries, and no longer than Marian's table of positions."""
    config = copy.deepcopy(model.generation_config)
    entries = {name: vars(config).pop(name, None) for name in OUR_ENTRIES}
    limit = model.config.max_position_embeddings
    if config.max_new_tokens is not None:
        config.max_new_tokens = min(config.max_new_tokens, limit)
    if config.max_new_tokens is None or config.max_length is not None:
        config.max_length = min(config.max_length or limit, limit)
    lost = [f"{name}={entry!r}" for name, entry in entries.items() if entry not in (None, POWER)]
    if lost:
        longest = config.max_new_tokens or config.max_length
        logger.warning(
            f"Marian's generate() has no {' and no '.join(lost)}: it divides log-probabilities by "
            f"the length to the power of length_penalty={config.length_penalty}, and stops at "
            f"{longest} tokens for any source. Some translations will differ."
        )
    return config


def _is_sinusoidal(table: Tensor) -> bool:
    """Whether Marian's table, of sines and then cosines, is the paper's in another order."""
    d_model = table.shape[1]
    return d_model % 2 == 0 and has_paper_positions(table[:, halves_to_pairs(d_model)])


def _marian_name(name: str) -> str:
    for ours, theirs in NAMES:
        name = name.replace(ours, theirs)
    return name


@torch.no_grad()
def _compare(
    model: VaswaniForConditionalGeneration, marian: MarianMTModel, differences: Differences
) -> None:
    """Log how far the logits of both are apart on random ids, and refuse too much."""
    config, chooser = model.config, torch.Generator().manual_seed(0)
    shape = (8, min(32, config.max_position_embeddings))
    source = torch.randint(config.vocab_size, shape, generator=chooser)
    target = torch.randint(config.num_target_pieces, shape, generator=chooser)
    target[:, 0] = cast(int, config.decoder_start_token_id)
    ours = model(input_ids=source, decoder_input_ids=target).logits
    theirs = marian(input_ids=source, decoder_input_ids=target).logits
    difference, largest = (ours - theirs).abs().max().item(), ours.abs().max().item()
    text = f"on random ids, logits up to {largest:.3g} differ by up to {difference:.2g}"
    differences.refuse_if(
        not difference <= TOLERANCE * largest,  # also true of NaN
        f"{text}; layer_norm_eps={config.layer_norm_eps}, and Marian's is always 1e-5",
    )
    differences.check()
    logger.info(f"{differences.what}: {text}.")


__all__ = ["from_marian", "marian_from_vaswani", "to_marian", "vaswani_from_marian"]
