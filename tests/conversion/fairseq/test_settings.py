from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conversion.fairseq import reference
from tests.conversion.fairseq.archives import assert_refused, assert_same_logits
from vaswani_hf.conversion.fairseq import vaswani_from_fairseq


def settings_style(checkpoint: dict[str, Any], style: str) -> None:
    """Write a checkpoint's settings in another of the forms that fairseq has had."""
    args = vars(checkpoint.pop("args"))
    task = {"_name": args.pop("task"), "source_lang": "de", "target_lang": "en"}
    criterion = {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.2}
    cfg: dict[str, Any] = {"_name": None, "task": task, "criterion": criterion}
    if style == "dict":
        checkpoint["args"] = {**args, "label_smoothing": 0.2}
        return
    if style == "nested":
        model: dict[str, Any] = {"_name": args.pop("arch"), "encoder": {}, "decoder": {}}
        for key, value in args.items():
            side, _, inner = key.partition("_")
            if side in ("encoder", "decoder"):
                model[side][inner] = value
            else:
                model[key] = value
        cfg["model"] = model
    else:
        cfg["model"] = Namespace(**args)
    checkpoint.update(args=None, cfg=cfg)


@pytest.mark.parametrize("style", ["dict", "namespace", "nested"])
def test_settings_are_read_in_all_their_forms(
    layers: reference.Layers, checkpoint: dict[str, Any], style: str
) -> None:
    settings_style(checkpoint, style)
    model = vaswani_from_fairseq(checkpoint)
    assert_same_logits(model, layers, reference.OTHER_PIECES)
    assert model.config.label_smoothing == 0.2
    assert model.config.num_heads == 4  # of the architecture: the settings do not say it


@pytest.mark.parametrize(
    ("arch", "num_heads", "dropout", "attention_dropout"),
    [  # fairseq 0.12.2, models/transformer/transformer_legacy.py
        ("transformer", 8, 0.1, 0.0),
        ("transformer_wmt_en_de", 8, 0.1, 0.0),
        ("transformer_iwslt_de_en", 4, 0.1, 0.0),
        ("transformer_vaswani_wmt_en_de_big", 16, 0.3, 0.0),
        ("transformer_vaswani_wmt_en_fr_big", 16, 0.1, 0.0),
        ("transformer_wmt_en_de_big", 16, 0.3, 0.1),
    ],
)
def test_an_architecture_fills_in_what_the_settings_leave_out(
    checkpoint: dict[str, Any],
    arch: str,
    num_heads: int,
    dropout: float,
    attention_dropout: float,
) -> None:
    checkpoint["args"].arch = arch
    config = vaswani_from_fairseq(checkpoint).config
    assert config.num_heads == num_heads
    assert config.dropout == dropout
    assert config.attention_dropout == attention_dropout


def test_rates_and_ids_are_carried_over(checkpoint: dict[str, Any]) -> None:
    rates = {"dropout": 0.25, "attention_dropout": 0.15, "activation_dropout": 0.05}
    vars(checkpoint["args"]).update(rates, activation_fn="gelu", no_scale_embedding=True)
    config = vaswani_from_fairseq(checkpoint).config
    assert {name: getattr(config, name) for name in rates} == rates
    assert config.activation_function == "gelu"
    assert config.scale_embedding is False
    assert config.layer_norm_eps == 1e-5  # PyTorch's
    # fairseq's `Dictionary`: <s>, <pad>, </s>, <unk>; its targets begin with </s>
    assert (config.bos_token_id, config.pad_token_id, config.eos_token_id) == (0, 1, 2)
    assert config.decoder_start_token_id == 2
    assert config.label_smoothing == 0  # the settings name no criterion that smooths


def test_the_older_name_of_activation_dropout_is_read(checkpoint: dict[str, Any]) -> None:
    checkpoint["args"].relu_dropout = 0.05
    assert vaswani_from_fairseq(checkpoint).config.activation_dropout == 0.05


def test_one_limit_stands_for_both_sides_in_older_settings(checkpoint: dict[str, Any]) -> None:
    del checkpoint["args"].max_source_positions, checkpoint["args"].max_target_positions
    checkpoint["args"].max_positions = 23
    assert vaswani_from_fairseq(checkpoint).config.max_position_embeddings == 23


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("encoder_normalize_before", True, r"encoder_normalize_before=True: .*pre-norm"),
        ("decoder_normalize_before", True, r"decoder_normalize_before=True: .*pre-norm"),
        ("layernorm_embedding", True, "layernorm_embedding=True"),
        ("adaptive_input", True, "adaptive_input=True"),
        ("adaptive_softmax_cutoff", "10,20", "adaptive_softmax_cutoff='10,20'"),
        ("no_cross_attention", True, "no_cross_attention=True"),
        ("cross_self_attention", True, "cross_self_attention=True"),
        ("quant_noise_pq", 0.1, r"quant_noise_pq=0\.1"),
        ("quant_noise_scalar", 0.1, r"quant_noise_scalar=0\.1"),
        ("decoder_layers_to_keep", "0", "decoder_layers_to_keep='0'"),
        ("decoder_output_dim", 8, "decoder_output_dim=8 is not decoder_embed_dim=16"),
        ("decoder_attention_heads", 8, "encoder_attention_heads=4 and decoder_attention_heads=8"),
        ("activation_fn", "gelu_accurate", "activation_fn='gelu_accurate' is none of relu, gelu"),
        ("task", "translation_lev", "task='translation_lev' may begin"),
        ("arch", "fconv", "arch='fconv' is none of transformer, transformer_wmt_en_de"),
    ],
)
def test_a_setting_that_has_no_place_is_refused(
    archive: Path, checkpoint: dict[str, Any], setting: str, value: Any, message: str
) -> None:
    setattr(checkpoint["args"], setting, value)
    assert_refused(checkpoint, archive, message)


def test_the_task_of_newer_settings_is_looked_at(archive: Path, checkpoint: dict[str, Any]) -> None:
    settings_style(checkpoint, "namespace")
    checkpoint["cfg"]["task"]["_name"] = "translation_multi_simple_epoch"
    assert_refused(checkpoint, archive, "task='translation_multi_simple_epoch' may begin")


def test_sides_of_different_widths_are_refused(archive: Path, checkpoint: dict[str, Any]) -> None:
    checkpoint["args"].decoder_ffn_embed_dim = 20
    state = checkpoint["model"]
    state["decoder.layers.0.fc1.weight"] = torch.randn(20, 16)
    state["decoder.layers.0.fc1.bias"] = torch.randn(20)
    state["decoder.layers.0.fc2.weight"] = torch.randn(16, 20)
    message = "encoder_ffn_embed_dim=24 and decoder_ffn_embed_dim=20 differ"
    assert_refused(checkpoint, archive, message)


def test_a_checkpoint_without_settings_is_refused(
    archive: Path, checkpoint: dict[str, Any]
) -> None:
    message = r'must have its settings under "args", or under "cfg".*it has model\.'
    assert_refused({"model": checkpoint["model"]}, archive, message, number=0)
