"""The hyper-parameters: the paper's numbers, the aliases, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassFieldValidationError,
)
from transformers import AutoConfig

from tests.references import num_parameters
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


ALIASES = {  # what the library calls the paper's quantities
    "hidden_size": "d_model",
    "intermediate_size": "d_ff",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "encoder_layers",
    "head_dim": "d_k",
}
SMALL: dict[str, Any] = {
    "vocab_size": 20,
    "d_model": 32,
    "d_ff": 48,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 3,
}


def count_parameters(config: VaswaniConfig) -> int:
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(config)
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


# The paper's numbers


@pytest.mark.parametrize(
    ("make", "table_3"),
    [
        (
            VaswaniConfig,
            {
                "encoder_layers": 6,
                "decoder_layers": 6,
                "d_model": 512,
                "d_ff": 2048,
                "num_heads": 8,
                "d_k": 64,
                "d_v": 64,
                "dropout": 0.1,
                "label_smoothing": 0.1,
            },
        ),
        (
            VaswaniConfig.big,
            {
                "encoder_layers": 6,
                "decoder_layers": 6,
                "d_model": 1024,
                "d_ff": 4096,
                "num_heads": 16,
                "d_k": 64,
                "d_v": 64,
                "dropout": 0.3,
                "label_smoothing": 0.1,
            },
        ),
    ],
    ids=["base", "big"],
)
def test_defaults_are_the_rows_of_table_3(make: Any, table_3: dict[str, float]) -> None:
    config = make()
    assert {name: getattr(config, name) for name in table_3} == table_3


def test_base_is_the_default() -> None:
    assert VaswaniConfig.base().to_dict() == VaswaniConfig().to_dict()


def test_default_vocabulary_is_section_5_1() -> None:
    assert VaswaniConfig().vocab_size == 37000


@pytest.mark.parametrize(("override", "field"), [("hidden_size", "d_model"), ("d_model",) * 2])
def test_an_override_of_big_may_be_spelled_either_way(override: str, field: str) -> None:
    assert getattr(VaswaniConfig.big(**{override: 768}), field) == 768


def test_base_has_63_million_parameters() -> None:
    # 37000 * 512 + 6 * (4 * 512^2 + 2 * 512 * 2048 + 2048 + 512 + 2 * 1024)
    #             + 6 * (8 * 512^2 + 2 * 512 * 2048 + 2048 + 512 + 3 * 1024)
    expected = 63_045_632
    assert num_parameters(37000, 512, 2048, 8, 64, 64, 6) == expected
    assert count_parameters(VaswaniConfig.base()) == expected


def test_big_has_214_million_parameters() -> None:
    # 37000 * 1024 + 6 * (4 * 1024^2 + 2 * 1024 * 4096 + 4096 + 1024 + 2 * 2048)
    #              + 6 * (8 * 1024^2 + 2 * 1024 * 4096 + 4096 + 1024 + 3 * 2048)
    expected = 214_171_648
    assert num_parameters(37000, 1024, 4096, 16, 64, 64, 6) == expected
    assert count_parameters(VaswaniConfig.big()) == expected


@pytest.mark.parametrize(
    "row",
    [
        {"num_heads": 1, "d_k": 512, "d_v": 512},  # A, which keeps h * d_k
        {"num_heads": 32, "d_k": 16, "d_v": 16},
        {"d_k": 16},  # B: keys alone are narrower
        {"d_k": 32},
        {"encoder_layers": 2, "decoder_layers": 2},  # C
        {"encoder_layers": 8, "decoder_layers": 8},
        {"d_model": 256, "d_k": 32, "d_v": 32},
        {"d_model": 1024, "d_k": 128, "d_v": 128},
        {"d_ff": 1024},
        {"d_ff": 4096},
    ],
    ids=str,
)
def test_rows_of_table_3_have_as_many_parameters_as_the_formulas(row: dict[str, int]) -> None:
    config = VaswaniConfig(**row)
    written = {"d_model": 512, "d_ff": 2048, "num_heads": 8, "d_k": 64, "d_v": 64} | row
    num_layers = written.pop("encoder_layers", 6)
    written.pop("decoder_layers", None)
    assert count_parameters(config) == num_parameters(37000, num_layers=num_layers, **written)


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ({"share_embeddings": False}, 20 * 32),  # a second embedding matrix
        ({"tie_word_embeddings": False}, 20 * 32),  # a pre-softmax matrix of its own
        ({"output_bias": True}, 20),
        # 2 encoder layers with one attention and 3 decoder layers with two, of 4 biases each
        ({"attention_bias": True}, 8 * 4 * 32),
        # a matrix of positions for each side, in place of none
        ({"position_encoding": "learned", "max_position_embeddings": 11}, 2 * 11 * 32),
    ],
    ids=str,
)
def test_each_option_adds_exactly_its_own_parameters(option: dict[str, Any], more: int) -> None:
    plain = count_parameters(VaswaniConfig(**SMALL))
    assert count_parameters(VaswaniConfig(**SMALL, **option)) == plain + more


# Aliases


@pytest.mark.parametrize(("alias", "field"), ALIASES.items())
def test_an_alias_given_at_construction_sets_the_field(alias: str, field: str) -> None:
    assert getattr(VaswaniConfig(**{alias: 16}), field) == 16


@pytest.mark.parametrize(("alias", "field"), ALIASES.items())
def test_an_alias_reads_the_field(alias: str, field: str) -> None:
    assert getattr(VaswaniConfig(**{field: 16}), alias) == 16


@pytest.mark.parametrize(("alias", "field"), ALIASES.items())
def test_an_assigned_alias_sets_the_field(alias: str, field: str) -> None:
    config = VaswaniConfig()
    setattr(config, alias, 16)
    assert getattr(config, field) == 16


@pytest.mark.parametrize(("alias", "field"), ALIASES.items())
def test_an_assigned_field_sets_the_alias(alias: str, field: str) -> None:
    config = VaswaniConfig()
    setattr(config, field, 16)
    assert getattr(config, alias) == 16


def test_head_widths_follow_an_aliased_model_width() -> None:
    config = VaswaniConfig(hidden_size=96, num_attention_heads=4)
    assert (config.d_k, config.d_v) == (24, 24)


def test_files_hold_the_papers_names_only(tmp_path: Path) -> None:
    VaswaniConfig(hidden_size=32, num_attention_heads=4).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert not ALIASES.keys() & written.keys()


@pytest.mark.parametrize(("alias", "field"), ALIASES.items())
def test_an_alias_that_contradicts_its_field_is_refused(alias: str, field: str) -> None:
    with pytest.raises(ValueError, match=f"{alias}=64 and {field}=128"):
        VaswaniConfig(**{alias: 64, field: 128})


def test_an_alias_may_repeat_what_its_field_says() -> None:
    assert VaswaniConfig(hidden_size=64, d_model=64).d_model == 64


def test_the_library_finds_the_number_of_decoder_layers() -> None:
    # Caches are sized by what this returns.
    config = VaswaniConfig(encoder_layers=2, decoder_layers=3)
    assert config.get_text_config(decoder=True).num_hidden_layers == 3
    assert config.get_text_config(encoder=True).num_hidden_layers == 2


# Saving and loading


@pytest.mark.parametrize(
    "fields",
    [
        # d_k is what base has, yet not d_model / num_heads = 32
        {"d_model": 256, "num_heads": 8, "d_k": 64, "d_v": 32},
        {"d_model": 256, "num_heads": 8, "d_k": 32, "d_v": 64},
        {"num_heads": 3, "d_k": 7, "d_v": 5},
        {"share_embeddings": False, "vocab_size": 20, "target_vocab_size": 30},
        {"position_encoding": "learned", "dropout": 0, "attention_dropout": 0.2},
        {"alignment_layer": 4, "alignment_head": 0},
        {"eos_token_id": [2, 4], "pad_token_id": 0, "decoder_start_token_id": 3},
    ],
    ids=str,
)
def test_every_field_survives_saving_and_loading(tmp_path: Path, fields: dict[str, Any]) -> None:
    VaswaniConfig(**fields).save_pretrained(tmp_path)
    for load in (VaswaniConfig.from_pretrained, AutoConfig.from_pretrained):
        loaded = load(tmp_path)
        assert {name: getattr(loaded, name) for name in fields} == fields


def test_an_override_at_loading_may_use_an_alias(tmp_path: Path) -> None:
    VaswaniConfig(**SMALL).save_pretrained(tmp_path)
    assert VaswaniConfig.from_pretrained(tmp_path, intermediate_size=99).d_ff == 99


# Refused values


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"vocab_size": 0}, "vocab_size must be at least 1, got vocab_size=0"),
    ({"d_model": -2}, r"d_model \(hidden_size\) must be at least 1, got d_model=-2"),
    ({"hidden_size": -2}, r"d_model \(hidden_size\) must be at least 1, got d_model=-2"),
    ({"d_ff": 0}, r"d_ff \(intermediate_size\) must be at least 1, got d_ff=0"),
    ({"intermediate_size": 0}, r"d_ff \(intermediate_size\) must be at least 1, got d_ff=0"),
    ({"num_heads": 0}, r"num_heads \(num_attention_heads\) must be at least 1, got num_heads=0"),
    (
        {"num_attention_heads": 0},
        r"num_heads \(num_attention_heads\) must be at least 1, got num_heads=0",
    ),
    ({"encoder_layers": 0}, r"encoder_layers \(num_hidden_layers\) .* got encoder_layers=0"),
    ({"num_hidden_layers": 0}, r"encoder_layers \(num_hidden_layers\) .* got encoder_layers=0"),
    ({"decoder_layers": 0}, "decoder_layers must be at least 1, got decoder_layers=0"),
    ({"d_k": 0}, r"d_k \(head_dim\) must be at least 1, got d_k=0"),
    ({"head_dim": 0}, r"d_k \(head_dim\) must be at least 1, got d_k=0"),
    ({"d_v": -1}, "d_v must be at least 1, got d_v=-1"),
    ({"max_position_embeddings": 0}, "max_position_embeddings must be at least 1, got .*=0"),
    ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got dropout=1.0"),
    ({"dropout": -0.1}, "dropout must be at least 0 and below 1, got dropout=-0.1"),
    ({"attention_dropout": 1.5}, "attention_dropout must .* got attention_dropout=1.5"),
    ({"activation_dropout": 2}, "activation_dropout must .* got activation_dropout=2"),
    ({"label_smoothing": 1}, "label_smoothing must .* got label_smoothing=1"),
    ({"dropout": float("nan")}, "dropout must .* got dropout=nan"),
    ({"layer_norm_eps": 0}, "layer_norm_eps must be above 0, got layer_norm_eps=0"),
    ({"pad_token_id": 20}, "pad_token_id must be .* 0 to 19, got pad_token_id=20"),
    ({"eos_token_id": -1}, "eos_token_id must be .* 0 to 19, got eos_token_id=-1"),
    ({"eos_token_id": [2, 20]}, "eos_token_id must be .* 0 to 19, got eos_token_id=20"),
    ({"bos_token_id": 20}, "bos_token_id must be .* got bos_token_id=20"),
    ({"decoder_start_token_id": 20}, "decoder_start_token_id must .* got .*=20"),
    ({"is_encoder_decoder": False}, "is_encoder_decoder must be True"),
    (
        {"alignment_layer": 99, "alignment_head": 0},
        "alignment_layer must be from 0 to .*, got alignment_layer=99",
    ),
    ({"alignment_head": 0}, "name one head together, got alignment_layer=None and .*head=0"),
    (
        {"target_vocab_size": 30},
        "share_embeddings=True needs one vocabulary, got vocab_size=20 and target_vocab_size=30",
    ),
]


@pytest.mark.parametrize(("fields", "message"), IMPOSSIBLE, ids=lambda value: str(value))
def test_an_impossible_value_is_refused_at_construction(
    fields: dict[str, Any], message: str
) -> None:
    widths = {name: value for name, value in SMALL.items() if name not in named_fields(fields)}
    with pytest.raises(ValueError, match=message):
        VaswaniConfig(**(widths | fields))


@pytest.mark.parametrize(("fields", "message"), IMPOSSIBLE, ids=lambda value: str(value))
def test_an_impossible_value_is_refused_at_loading(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    VaswaniConfig(**SMALL).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        VaswaniConfig.from_pretrained(tmp_path, **fields)


@pytest.mark.parametrize(("fields", "message"), IMPOSSIBLE, ids=lambda value: str(value))
def test_an_impossible_value_in_a_file_is_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    VaswaniConfig(**SMALL).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    # A hand that edits the file changes the line that is there.
    edited = {ALIASES.get(name, name): value for name, value in fields.items()}
    file.write_text(json.dumps(json.loads(file.read_text()) | edited))
    with pytest.raises(ValueError, match=message):
        AutoConfig.from_pretrained(tmp_path)


@pytest.mark.parametrize(("fields", "message"), IMPOSSIBLE, ids=lambda value: str(value))
def test_an_impossible_value_is_refused_at_saving(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    config = VaswaniConfig(**SMALL)
    for name, value in fields.items():
        setattr(config, name, value)
    # The library wraps what its validators raise when it saves.
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        config.save_pretrained(tmp_path)
    assert not (tmp_path / "config.json").exists()


def named_fields(fields: dict[str, Any]) -> set[str]:
    return {ALIASES.get(name, name) for name in fields}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("d_model", 512.0),
        ("hidden_size", 512.0),
        ("d_model", "512"),
        ("hidden_size", "512"),
        ("num_heads", None),
        ("num_attention_heads", "8"),
        ("head_dim", 64.0),
        ("dropout", "0.1"),
        ("position_encoding", "rotary"),
        ("attention_bias", "no"),
        ("eos_token_id", "</s>"),
    ],
)
def test_a_wrong_type_is_refused_with_the_name_as_written(field: str, value: Any) -> None:
    with pytest.raises(
        StrictDataclassFieldValidationError, match=rf"'{field}\b"
    ) as at_construction:
        VaswaniConfig(**{field: value})
    assert str(value) in str(at_construction.value)
    config = VaswaniConfig()
    with pytest.raises(StrictDataclassFieldValidationError, match=rf"'{field}\b"):
        setattr(config, field, value)


def test_a_wrong_type_is_refused_at_loading(tmp_path: Path) -> None:
    VaswaniConfig(**SMALL).save_pretrained(tmp_path)
    with pytest.raises(StrictDataclassFieldValidationError, match="num_heads"):
        VaswaniConfig.from_pretrained(tmp_path, num_heads="4")


def test_an_odd_width_is_refused_for_sinusoids() -> None:
    with pytest.raises(ValueError, match="even for sinusoidal positions, got d_model=511"):
        VaswaniConfig(d_model=511, num_heads=7)


def test_an_odd_width_may_have_learned_positions() -> None:
    assert VaswaniConfig(d_model=511, num_heads=7, position_encoding="learned").d_model == 511


@pytest.mark.parametrize(
    "spelling", [("d_model", "num_heads"), ("hidden_size", "num_attention_heads")]
)
def test_a_width_that_heads_do_not_divide_is_refused(spelling: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="d_model=512 and num_heads=7"):
        VaswaniConfig(**dict(zip(spelling, (512, 7), strict=True)))


def test_a_width_that_heads_do_not_divide_may_have_explicit_head_widths() -> None:
    config = VaswaniConfig(d_model=512, num_heads=7, d_k=64, d_v=60)
    assert (config.d_k, config.d_v) == (64, 60)


# Token ids


def test_decoding_starts_with_the_padding_piece() -> None:
    # FIDELITY: the authors' decoder starts with a zero vector, which is the padding piece's.
    assert VaswaniConfig(pad_token_id=7).decoder_start_token_id == 7


def test_a_shared_vocabulary_has_one_size() -> None:
    config = VaswaniConfig(**SMALL)
    config.vocab_size = 25
    assert config.target_vocab_size == 25


def test_a_target_vocabulary_of_its_own_is_kept() -> None:
    config = VaswaniConfig(**SMALL, target_vocab_size=30, share_embeddings=False)
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(config)
    assert model.model.encoder.embed_tokens.num_embeddings == 20
    assert model.model.decoder.embed_tokens.num_embeddings == 30
    assert model.lm_head.out_features == 30


def test_a_target_end_may_lie_beyond_the_sources_vocabulary():
    sizes = {"vocab_size": 10, "target_vocab_size": 30, "share_embeddings": False}
    config = VaswaniConfig(**sizes, eos_token_id=29, decoder_start_token_id=28, pad_token_id=9)
    assert config.eos_token_id == 29
    with pytest.raises(ValueError, match="pad_token_id=10"):
        VaswaniConfig(**sizes, pad_token_id=10)
    with pytest.raises(ValueError, match="0 to 29, got eos_token_id=30"):
        VaswaniConfig(**sizes, eos_token_id=30)
