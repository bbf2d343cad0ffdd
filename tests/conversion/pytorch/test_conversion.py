import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM

from tests.conversion.pytorch.models import (
    CLOSE,
    D_MODEL,
    HEADS,
    IDS,
    PAD,
    SOURCE_PIECES,
    START,
    TARGET_PIECES,
    Translation,
    batch,
    convert,
    drop,
    edited,
    learned,
    learned_of_lengths,
    logits_of,
    of_other_width,
    one_norm,
    shared,
    tied_output,
    tokenizer_of,
    without_norms,
)
from vaswani_hf.conversion.pytorch import from_torch, vaswani_from_torch


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (Translation, {}),
        (lambda: Translation(activation="gelu"), {"activation_function": "gelu"}),
        (lambda: Translation(layer_norm_eps=0.1), {"layer_norm_eps": 0.1}),
        (lambda: Translation(scale=1.0), {"scale_embedding": False}),
        (lambda: Translation(bias=False), {}),
        (lambda: Translation(output_bias=False), {}),
        (lambda: Translation(encoder_layers=1, decoder_layers=4), {}),
        (lambda: Translation(persistent=False), {}),
        (without_norms, {}),
        (lambda: without_norms(bias=False), {}),
        (shared, {}),
        (tied_output, {}),
        (learned, {}),
    ],
    ids=[
        *("tutorial", "gelu", "epsilon", "unscaled", "no biases", "no output bias", "depths"),
        *("positions not saved", "no final norms", "no norms or biases", "shared", "tied output"),
        "learned positions",
    ],
)
def test_logits_are_those_of_torch_nn_transformer(
    build: Callable[[], Translation], options: dict[str, Any]
) -> None:
    model, (source, target) = build(), batch()
    torch.testing.assert_close(
        logits_of(convert(model, **options), source, target), model(source, target), **CLOSE
    )


def greedy(model: Translation, source: Tensor, end: int, max_new_tokens: int) -> list[int]:
    """The likeliest next piece of one source `(S,)`, again and again."""
    ids = [START]
    while ids[-1] != end and len(ids) <= max_new_tokens:
        ids.append(int(model(source.unsqueeze(0), torch.tensor([ids]))[0, -1].argmax()))
    return ids


def best_of_beam(model: Translation, source: Tensor, end: int, max_new_tokens: int) -> list[int]:
    """The best target of one source `(S,)`, by lists, over all of PyTorch's model at every step.

    Section 6.1 (beam 4, alpha 0.6) with the penalty of Wu et al. (2016), equation 14, to the length
    limit: nothing is given up early.
    """
    num_beams, alpha = 4, 0.6
    running: list[tuple[float, list[int]]] = [(0.0, [START])]
    ended: list[tuple[float, list[int]]] = []
    for num_tokens in range(1, max_new_tokens + 1):
        continued = []
        for log_prob, ids in running:
            logits = model(source.unsqueeze(0), torch.tensor([ids]))[0, -1]
            for token, gain in enumerate(logits.log_softmax(dim=0).tolist()):
                continued.append((log_prob + gain, [*ids, token]))
        continued.sort(key=lambda hypothesis: -hypothesis[0])
        candidates = continued[: 2 * num_beams]
        penalty = ((5 + num_tokens) / 6) ** alpha
        ended += [(log_prob / penalty, ids) for log_prob, ids in candidates if ids[-1] == end]
        running = [hypothesis for hypothesis in candidates if hypothesis[1][-1] != end][:num_beams]
    return max(ended or running)[1]


@pytest.mark.parametrize("end", [5, 28, 35])
def test_search_finds_what_a_search_over_torch_nn_transformer_finds(end: int) -> None:
    model = learned(source_pieces=TARGET_PIECES, scale=1.0)
    # With these targets differ, and some end at once, some later and some not at all.
    model.generator.weight.data *= 4
    source = torch.randint(4, SOURCE_PIECES, (6, 7), generator=torch.Generator().manual_seed(2))
    source[3:, 4:] = PAD
    expected = {
        1: [greedy(model, ids[ids != PAD], end, 8) for ids in source],
        4: [best_of_beam(model, ids[ids != PAD], end, 8) for ids in source],
    }
    assert expected[1] != expected[4]
    assert len({len(ids) for targets in expected.values() for ids in targets}) > 2
    converted = convert(model, eos_token_id=end, scale_embedding=False)
    for num_beams, targets in expected.items():
        found = converted.generate(
            source, attention_mask=(source != PAD).long(), num_beams=num_beams, max_new_tokens=8
        ).tolist()
        assert [ids[: ids.index(end) + 1] if end in ids else ids for ids in found] == targets


def test_what_no_state_dict_says_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="vaswani_hf.conversion.pytorch"):
        convert(Translation())
    assert "norm_first=False" in caplog.text
    assert "relu" in caplog.text
    assert "sinusoidal" in caplog.text


def write_safetensors(model: nn.Module, path: Path) -> None:
    save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("m.safetensors", write_safetensors),
        ("m.safetensors", lambda model, path: save_model(model, str(path))),
        ("m.pt", lambda model, path: torch.save(model.state_dict(), path)),
        ("m.pth", lambda model, path: torch.save({"epoch": 3, "model": model.state_dict()}, path)),
        ("m.bin", lambda model, path: torch.save({"state_dict": model.state_dict()}, path)),
        ("m.pt", lambda model, path: torch.save({"model_state_dict": model.state_dict()}, path)),
    ],
)
@pytest.mark.parametrize("build", [Translation, shared])
def test_a_folder_made_of_a_file_computes_the_same(
    build: Callable[[], Translation],
    name: str,
    write: Callable[[nn.Module, Path], Any],
    tmp_path: Path,
) -> None:
    model, (source, target) = build(), batch()
    target[0, 0] = PAD  # its row, which is not zero, must survive loading
    write(model, tmp_path / name)
    from_torch(tmp_path / name, tmp_path / "folder", num_heads=HEADS, **IDS)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "folder").eval()
    torch.testing.assert_close(logits_of(loaded, source, target), model(source, target), **CLOSE)


def test_a_folder_without_a_tokenizer_has_the_model_alone(tmp_path: Path) -> None:
    torch.save(Translation().state_dict(), tmp_path / "m.pt")
    from_torch(tmp_path / "m.pt", tmp_path / "folder", num_heads=HEADS, **IDS)
    names = {path.name for path in (tmp_path / "folder").iterdir()}
    assert "auto_map" in json.loads((tmp_path / "folder/config.json").read_text())
    assert not any("token" in name for name in names)


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (Translation, {"norm_first": True}, r"norm_first=True: .* \(pre-norm\)"),
        (Translation, {"num_heads": 5}, "num_heads=5 does not divide d_model=24"),
        (Translation, {"num_heads": 0}, "num_heads=0 does not divide"),
        (Translation, {"activation_function": "tanh"}, "'tanh' is none of relu, gelu"),
        (Translation, {"pad_token_id": None}, "pad_token_id is missing: no state dict says it"),
        (Translation, {"eos_token_id": None}, "eos_token_id is missing"),
        (Translation, {"decoder_start_token_id": None}, "decoder_start_token_id is missing"),
        (
            Translation,
            {
                "decoder_start_token_id": None,
                "tokenizer": tokenizer_of(SOURCE_PIECES, bos_token=None),
            },
            "decoder_start_token_id is missing.* the tokenizer has no bos_token_id",
        ),
        (
            Translation,
            {"tokenizer": tokenizer_of(SOURCE_PIECES + 1)},
            "source embedding has 31 rows and its tokenizer 32 pieces",
        ),
        (
            Translation,
            {
                "tokenizer": tokenizer_of(SOURCE_PIECES),
                "target_tokenizer": tokenizer_of(TARGET_PIECES + 1),
            },
            "target embedding has 37 rows and its tokenizer 38 pieces",
        ),
        (
            Translation,
            {
                "pad_token_id": None,
                "tokenizer": tokenizer_of(SOURCE_PIECES, pad_token="w5"),
                "target_tokenizer": tokenizer_of(TARGET_PIECES),
            },
            "tokenizer pads with 9 and target_tokenizer with 1; give pad_token_id",
        ),
        (
            Translation,
            {"target_tokenizer": tokenizer_of(TARGET_PIECES)},
            "target_tokenizer is given and tokenizer, the source's, is not",
        ),
        (one_norm, {}, "decoder.norm ends one stack and transformer.encoder.norm is missing"),
        (of_other_width, {}, r"layers.2.multihead_attn has q_proj_weight, .* \(kdim, vdim\)"),
        (
            lambda: Translation().transformer.state_dict(),
            {},
            r"holds only the stacks: no matrix \(V, 24\) embeds .* source_embedding, target_",
        ),
        (
            lambda: edited(drop("src_tok_emb.embedding.weight", "generator.weight")),
            {},
            "source_embedding: no name is recognized; name one of tgt_tok_emb",
        ),
        (
            lambda: edited(lambda tensors: tensors.update({"src_emb": torch.ones(9, D_MODEL)})),
            {},
            r"source_embedding: more than one could be it; name one of src_emb \(9, 24\), src_tok",
        ),
        (
            Translation,
            {"output": "generator.bias"},
            "output='generator.bias' is no floating point matrix of width 24",
        ),
        (Translation, {"source_embedding": "lost"}, "source_embedding='lost' is no floating"),
        (Translation, {"output": "src_tok_emb.embedding.weight"}, r"shape \(31, 24\), expected"),
        (Translation, {"ignore": ["lost"]}, "ignore names lost, which is no tensor beside"),
        (lambda: learned_of_lengths(9, 8), {}, "the sides have 9, 8 positions"),
        (lambda: learned_of_lengths(9, 0), {}, "one side has learned positions and no table"),
        (
            lambda: edited(lambda tensors: tensors.update({"tgt_mask": torch.ones(5, 5)})),
            {},
            r"tgt_mask \(5, 5\) has no place",
        ),
        (
            lambda: edited(drop("transformer.decoder.layers.1.linear1.bias")),
            {},
            "transformer.decoder.layers.1.linear1.bias is missing",
        ),
        (
            lambda: edited(drop("transformer.encoder.layers.1.self_attn.in_proj_bias")),
            {},
            "transformer.encoder.layers.1.self_attn.in_proj_bias is missing",
        ),
        (
            lambda: Translation().transformer.encoder.state_dict(),
            {},
            "no decoder of torch.nn.Transformer is in it",
        ),
        (lambda: nn.Linear(2, 2).state_dict(), {}, "no encoder of torch.nn.Transformer is in it"),
        (
            lambda: {
                f"{name}.{key}": tensor
                for name in ("student", "teacher")
                for key, tensor in Translation().state_dict().items()
            },
            {},
            "several encoders are in it: student.transformer.encoder., teacher",
        ),
        (
            lambda: edited(lambda tensors: tensors.update({"step": 3})),
            {},
            "step is of type int, no tensor",
        ),
    ],
)
def test_what_cannot_be_carried_is_refused(
    build: Callable[[], Any], options: dict[str, Any], message: str
) -> None:
    tensors = build()
    tensors = tensors.state_dict() if isinstance(tensors, nn.Module) else tensors
    with pytest.raises(ValueError, match=message):
        vaswani_from_torch(tensors, **{**IDS, "num_heads": HEADS, **options})


def test_what_carries_nothing_may_be_ignored() -> None:
    tensors = {**Translation().state_dict(), "tgt_mask": torch.ones(5, 5)}
    vaswani_from_torch(tensors, num_heads=HEADS, ignore=["tgt_mask"], **IDS)


def test_all_differences_are_listed_at_once() -> None:
    with pytest.raises(
        ValueError, match=r"mine: 3 differences(?s:.*)norm_first(?s:.*)lin(?s:.*)eos"
    ):
        vaswani_from_torch(
            edited(drop("transformer.decoder.layers.1.linear1.bias")),
            num_heads=HEADS,
            norm_first=True,
            name="mine",
            **{**IDS, "eos_token_id": None},
        )


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="lost is not a folder"):
        from_torch(
            tmp_path / "m.pt", tmp_path / "folder", num_heads=HEADS, tokenizer=tmp_path / "lost"
        )


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    torch.save(Translation().state_dict(), tmp_path / "m.pt")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("kept")
    with pytest.raises(FileExistsError, match="folder exists already"):
        from_torch(tmp_path / "m.pt", tmp_path / "folder", num_heads=HEADS, **IDS)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["mine"]
