import copy
import json
import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file, save_model
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

from vaswani_hf import VaswaniForConditionalGeneration
from vaswani_hf.conversion.pytorch import from_torch, vaswani_from_torch


PAD, START, END = 1, 2, 3
IDS = {"pad_token_id": PAD, "decoder_start_token_id": START, "eos_token_id": END}
D_MODEL, D_FF, HEADS = 24, 40, 4
SOURCE_PIECES, TARGET_PIECES = 31, 37
# Both sides compute in float32, by different kernels; the largest logits are near 10.
CLOSE = {"rtol": 0, "atol": 2e-5}


# The other implementation: PyTorch's own stacks, and around them what its users write


class Tokens(nn.Module):
    def __init__(self, num_pieces: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_pieces, D_MODEL)


class Positions(nn.Module):
    """A table of the paper's formula, computed in float32 as in PyTorch's tutorial."""

    def __init__(self, persistent: bool = True, num_positions: int = 5000) -> None:
        super().__init__()
        rates = torch.exp(-math.log(10000) * torch.arange(0, D_MODEL, 2) / D_MODEL)
        angles = torch.outer(torch.arange(num_positions).float(), rates)
        table = torch.stack((angles.sin(), angles.cos()), dim=2).reshape(num_positions, 1, D_MODEL)
        self.register_buffer("pos_embedding", table, persistent=persistent)


class Translation(nn.Module):
    """Embeddings, `torch.nn.Transformer` and logits, under the names of PyTorch's tutorial."""

    def __init__(
        self,
        encoder_layers: int = 2,
        decoder_layers: int = 3,
        source_pieces: int = SOURCE_PIECES,
        target_pieces: int = TARGET_PIECES,
        scale: float = D_MODEL**0.5,
        persistent: bool = True,
        output_bias: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scale = scale
        self.transformer = nn.Transformer(
            *(D_MODEL, HEADS, encoder_layers, decoder_layers, D_FF),
            batch_first=True,
            **options,
        )
        self.generator = nn.Linear(D_MODEL, target_pieces, bias=output_bias)
        self.src_tok_emb = Tokens(source_pieces)
        self.tgt_tok_emb = Tokens(target_pieces)
        self.positional_encoding = Positions(persistent)
        for parameter in self.parameters():  # no gain is 1 and no bias 0
            parameter.data += 0.2 * torch.randn_like(parameter)
        self.eval()

    def embed(self, tokens: nn.Module, ids: Tensor) -> Tensor:
        table = self.positional_encoding.pos_embedding.reshape(-1, D_MODEL)
        return tokens.embedding(ids) * self.scale + table[: ids.shape[1]]

    @torch.no_grad()
    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits `(B, T, V)` of ids `(B, S)`, padded on the right, and `(B, T)`."""
        padding = source == PAD
        length = target.shape[1]
        states = self.transformer(
            self.embed(self.src_tok_emb, source),
            self.embed(self.tgt_tok_emb, target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.generator(states)


def without_norms(**options: Any) -> Translation:
    layers = {"batch_first": True, **options}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, **layers), 3, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF, **layers), 1)
    return Translation(custom_encoder=encoder, custom_decoder=decoder)


def shared(**options: Any) -> Translation:
    """One matrix for both embeddings and the logits."""
    model = Translation(target_pieces=SOURCE_PIECES, **options)
    model.tgt_tok_emb.embedding.weight = model.src_tok_emb.embedding.weight
    model.generator.weight = model.src_tok_emb.embedding.weight
    return model


def tied_output() -> Translation:
    model = Translation()
    model.generator.weight = model.tgt_tok_emb.embedding.weight
    return model


def learned(**options: Any) -> Translation:
    model = Translation(**options)
    model.positional_encoding = nn.Module()
    model.positional_encoding.pos_embedding = nn.Parameter(3 * torch.randn(1, 12, D_MODEL))
    return model


def batch() -> tuple[Tensor, Tensor]:
    """Sources of 7, 5 and 2 real tokens, and targets of 6."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, SOURCE_PIECES, (3, 7), generator=generator)
    source[1, 5:] = PAD
    source[2, 2:] = PAD
    target = torch.randint(4, SOURCE_PIECES, (3, 6), generator=generator)
    target[:, 0] = START
    return source, target


@torch.no_grad()
def logits_of(model: VaswaniForConditionalGeneration, source: Tensor, target: Tensor) -> Tensor:
    return model(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target
    ).logits


def convert(model: nn.Module, **options: Any) -> VaswaniForConditionalGeneration:
    return vaswani_from_torch(model.state_dict(), **{"num_heads": HEADS, **IDS, **options})


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


@pytest.mark.parametrize("width", [{"num_heads": 2}, {"num_heads": 6}])
def test_another_number_of_heads_is_another_model(width: dict[str, int]) -> None:
    model, (source, target) = Translation(), batch()
    converted = convert(model, **width)
    assert (logits_of(converted, source, target) - model(source, target)).abs().max() > 0.01


# Generation


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


# What becomes of the names


def test_stacks_are_found_under_any_prefix() -> None:
    model, (source, target) = Translation(), batch()
    tensors = {f"_orig_mod.net.{name}": tensor for name, tensor in model.state_dict().items()}
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_stacks_may_have_prefixes_of_their_own() -> None:
    model, (source, target) = Translation(), batch()
    tensors = {
        name.replace("transformer.encoder.", "encoder.trunk.").replace("transformer.", ""): tensor
        for name, tensor in model.state_dict().items()
    }
    assert "encoder.trunk.layers.0.self_attn.in_proj_weight" in tensors
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def renamed(model: nn.Module, **names: str) -> dict[str, Tensor]:
    """The state dict, each name that starts with a key starting with its value instead."""
    tensors = model.state_dict()
    for old, new in names.items():
        tensors = {re.sub(rf"^{old}\b", new, name): tensor for name, tensor in tensors.items()}
    return tensors


@pytest.mark.parametrize(
    ("source_name", "target_name", "output_name", "positions_name"),
    [
        ("src_embed.0", "trg_embed.0", "fc_out", "pe"),
        ("encoder.embedding", "decoder.embedding", "decoder.output", "pos_encoder"),
        ("enc_emb", "dec_emb", "out", "position_table"),
    ],
)
def test_common_names_are_recognized(
    source_name: str, target_name: str, output_name: str, positions_name: str
) -> None:
    model, (source, target) = learned(), batch()  # whose positions must be found, not supposed
    tensors = renamed(
        model,
        src_tok_emb=source_name,
        tgt_tok_emb=target_name,
        generator=output_name,
        positional_encoding=positions_name,
    )
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_options_name_what_is_not_recognized() -> None:
    model, (source, target) = learned(), batch()
    tensors = renamed(
        model, src_tok_emb="a", tgt_tok_emb="b", generator="c", positional_encoding="d"
    )
    converted = vaswani_from_torch(
        tensors,
        num_heads=HEADS,
        source_embedding="a.embedding.weight",
        target_embedding="b.embedding.weight",
        output="c.weight",
        positions="d.pos_embedding",
        **IDS,
    )
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_logits_may_be_made_by_the_target_embedding_without_a_matrix_of_their_own() -> None:
    model, (source, target) = tied_output(), batch()
    model.generator.bias = None
    tensors = model.state_dict()
    del tensors["generator.weight"]
    converted = vaswani_from_torch(
        tensors, num_heads=HEADS, output="tgt_tok_emb.embedding.weight", **IDS
    )
    assert converted.config.tie_word_embeddings
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


def test_one_embedding_without_a_side_serves_both() -> None:
    model, (source, target) = shared(), batch()
    tensors = renamed(model, src_tok_emb="token_embedding")
    del tensors["tgt_tok_emb.embedding.weight"]
    converted = vaswani_from_torch(tensors, num_heads=HEADS, **IDS)
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


@pytest.mark.parametrize(
    ("build", "is_shared", "is_tied"),
    [(Translation, False, False), (tied_output, False, True), (shared, True, True)],
)
def test_matrices_are_tied_where_they_are_equal(
    build: Callable[[], Translation], is_shared: bool, is_tied: bool
) -> None:
    tensors = {name: tensor.clone() for name, tensor in build().state_dict().items()}
    config = vaswani_from_torch(tensors, num_heads=HEADS, **IDS).config
    assert (config.share_embeddings, config.tie_word_embeddings) == (is_shared, is_tied)


def test_the_tutorials_table_becomes_the_papers_sinusoids() -> None:
    config = convert(Translation()).config
    assert (config.position_encoding, config.max_position_embeddings) == ("sinusoidal", 5000)


def test_a_table_a_hundredth_off_is_carried_as_learned() -> None:
    model, (source, target) = Translation(), batch()
    model.positional_encoding.pos_embedding[3, 0, 5] += 0.01
    converted = convert(model)
    assert converted.config.position_encoding == "learned"
    torch.testing.assert_close(logits_of(converted, source, target), model(source, target), **CLOSE)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("src_pos_emb.weight", "tgt_pos_emb.weight"), {}),
        (("encoder.pe", "decoder.pe"), {}),
        (("one", "two"), {"positions": "one", "target_positions": "two"}),
    ],
)
def test_each_side_keeps_its_own_learned_positions(
    names: tuple[str, str], options: dict[str, str]
) -> None:
    generator = torch.Generator().manual_seed(3)
    tables = {name: torch.randn(9, D_MODEL, generator=generator) for name in names}
    tensors = {**Translation(persistent=False).state_dict(), **tables}
    model = vaswani_from_torch(tensors, num_heads=HEADS, **IDS, **options).model
    for name, stack in zip(names, (model.encoder, model.decoder), strict=True):
        torch.testing.assert_close(stack.embedding.positions.weight.data, tables[name])


def test_dropout_goes_wherever_torch_nn_transformer_drops() -> None:
    model = Translation(dropout=0.37)
    layer = model.transformer.encoder.layers[0]
    config = convert(model, dropout=0.37).config
    assert config.dropout == layer.dropout1.p == layer.dropout2.p
    assert config.attention_dropout == layer.self_attn.dropout
    assert config.activation_dropout == layer.dropout.p


def test_what_no_state_dict_says_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="vaswani_hf.conversion.pytorch"):
        convert(Translation())
    assert "norm_first=False" in caplog.text
    assert "relu" in caplog.text
    assert "sinusoidal" in caplog.text


# Files and folders


def tokenizer_of(num_pieces: int, **changes: str | None) -> PreTrainedTokenizerFast:
    specials = {
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        **changes,
    }
    pieces = ["<unk>", "<pad>", "<bos>", "<eos>", *(f"w{i}" for i in range(num_pieces - 4))]
    tokenizer = Tokenizer(models.WordLevel({p: i for i, p in enumerate(pieces)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)


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


def test_tokenizers_of_both_sides_come_along_and_give_the_ids(tmp_path: Path) -> None:
    torch.save(Translation().state_dict(), tmp_path / "m.pt")
    tokenizer_of(SOURCE_PIECES).save_pretrained(tmp_path / "source")
    from_torch(
        tmp_path / "m.pt",
        tmp_path / "folder",
        num_heads=HEADS,
        tokenizer=tmp_path / "source",
        target_tokenizer=tokenizer_of(TARGET_PIECES),
    )
    config = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "folder").generation_config
    assert (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id) == (1, 2, 3)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "folder")) == SOURCE_PIECES
    assert len(AutoTokenizer.from_pretrained(tmp_path / "folder/target_tokenizer")) == TARGET_PIECES


def test_given_ids_go_before_the_tokenizers() -> None:
    tokenizer = tokenizer_of(SOURCE_PIECES)
    model = Translation(target_pieces=SOURCE_PIECES)
    config = convert(model, tokenizer=tokenizer, decoder_start_token_id=PAD).config
    assert config.decoder_start_token_id == PAD


def test_a_vocabulary_smaller_than_its_matrix_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    convert(Translation(target_pieces=SOURCE_PIECES), tokenizer=tokenizer_of(SOURCE_PIECES - 2))
    assert f"source embedding has {SOURCE_PIECES} rows and its tokenizer 29" in caplog.text


# Refusals


def edited(edit: Callable[[dict[str, Tensor]], Any], model: nn.Module | None = None) -> Any:
    tensors = copy.copy((model or Translation()).state_dict())
    edit(tensors)
    return tensors


def drop(*names: str) -> Callable[[dict[str, Tensor]], Any]:
    return lambda tensors: [tensors.pop(name) for name in names]


def one_norm() -> dict[str, Tensor]:
    return edited(drop("transformer.encoder.norm.weight", "transformer.encoder.norm.bias"))


def of_other_width() -> dict[str, Tensor]:
    model = Translation()
    for layer in model.transformer.decoder.layers:
        layer.multihead_attn = nn.MultiheadAttention(D_MODEL, HEADS, kdim=16, vdim=16)
    return model.state_dict()


def learned_of_lengths(source: int, target: int) -> dict[str, Tensor]:
    tables = {"src_pos.weight": torch.ones(source, D_MODEL)}
    tables |= {"tgt_pos.weight": torch.ones(target, D_MODEL)} if target else {}
    return {**Translation(persistent=False).state_dict(), **tables}


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


def annotated_transformer() -> dict[str, Tensor]:
    """Tensors of the names in Harvard NLP's Annotated Transformer; one layer a side."""
    names = ["src_embed.0.lut.weight", "src_embed.1.pe", "tgt_embed.0.lut.weight"]
    names += ["generator.proj.weight", "encoder.norm.a_2", "decoder.norm.a_2"]
    for side, sublayers in (("encoder", 2), ("decoder", 3)):
        names += [
            f"{side}.layers.0.sublayer.{i}.norm.{x}_2" for i in range(sublayers) for x in "ab"
        ]
        names += [f"{side}.layers.0.self_attn.linears.{i}.weight" for i in range(4)]
        names += [f"{side}.layers.0.feed_forward.w_{i}.weight" for i in (1, 2)]
    return {name: torch.zeros(8, 8) for name in names}


def test_the_annotated_transformer_is_refused_with_both_reasons() -> None:
    with pytest.raises(ValueError, match="Annotated Transformer") as refusal:
        vaswani_from_torch(annotated_transformer(), num_heads=HEADS, **IDS)
    reasons = str(refusal.value)
    assert "normalizes before each sub-layer (pre-norm)" in reasons
    assert "unbiased standard deviation plus epsilon" in reasons
    assert "no exact conversion exists" in reasons


class Trained:
    """What a script might keep beside the weights."""


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("m.pt", lambda path: torch.save(Translation(), path), "Save model.state_dict()"),
        (
            "m.pt",
            lambda path: torch.save({"model": Translation().state_dict(), "x": Trained()}, path),
            "is damaged or holds Python objects",
        ),
        ("m.pt", lambda path: path.write_bytes(b"nothing"), "is damaged or holds Python objects"),
        ("m.pt", lambda path: torch.save({"epoch": 3}, path), "at its top or under .*only epoch"),
        ("m.pt", lambda path: torch.save([torch.ones(2)], path), "must hold a state dict"),
        ("m.npz", lambda path: path.write_bytes(b""), "must end in .safetensors, .pt"),
        ("m.safetensors", lambda path: path.write_bytes(b"x"), "is not a safetensors file"),
        (
            "m.safetensors",
            lambda path: save_file(annotated_transformer(), path),
            r"Cannot convert .*m.safetensors: 2 differences",
        ),
        (
            "m.pt",
            lambda path: torch.save(edited(drop("generator.weight")), path),
            "output: no name is recognized",
        ),
    ],
)
def test_a_refused_file_leaves_nothing_behind(
    name: str, write: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    write(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        from_torch(tmp_path / name, tmp_path / "new" / "folder", num_heads=HEADS, **IDS)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"lost\.pt is not a file"):
        from_torch(tmp_path / "lost.pt", tmp_path / "folder", num_heads=HEADS, **IDS)


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
