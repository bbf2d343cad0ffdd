"""The model against the paper's formulas, `torch.nn`, and the laws that any Transformer keeps."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

from tests import references
from tests.small_models import (
    EOS,
    LABELS,
    PAD,
    PADDED_SOURCE,
    SHIFTED,
    B,
    H,
    S,
    T,
    V,
    close,
    draw_tokens,
    small_config,
    small_model,
)
from vaswani_hf import (
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniModel,
)
from vaswani_hf.modeling_vaswani import (
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    SinusoidalPositions,
    position_ids_from_mask,
    scaled_dot_product_attention,
    sinusoidal_positions,
)


FEW = settings(max_examples=8, deadline=None, derandomize=True)


# 3.1 Encoder and Decoder Stacks


def with_sublayers(layer: nn.Module, **outputs: Tensor) -> nn.Module:
    """A layer whose sub-layers of the given names say the same whatever comes."""
    for name, output in outputs.items():
        result = output if name == "feed_forward" else (output, None)
        getattr(layer, name).forward = lambda *_, result=result, **__: result
    return layer


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_add_and_norm_normalizes_the_sum(side: str) -> None:
    # LayerNorm(x + Sublayer(x)), section 3.1, as often as the layer has sub-layers.
    layer = getattr(small_model().model, side).layers[0]
    names = ["self_attention", "cross_attention", "feed_forward"]
    names = [name for name in names if hasattr(layer, name)]
    assert len(names) == {"encoder": 2, "decoder": 3}[side]
    x = torch.randn(1, 2, 32)
    outputs = {name: torch.randn(1, 2, 32) for name in names}
    expected = x
    for name, output in outputs.items():
        norm = getattr(layer, f"{name}_norm")
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        rows = [
            references.layer_norm(row, norm.weight.tolist(), norm.bias.tolist(), 1e-6)
            for row in (expected + output)[0].tolist()
        ]
        expected = torch.tensor([rows])
    memory = () if side == "encoder" else (torch.randn(1, 3, 32),)
    close(with_sublayers(layer, **outputs)(x, *memory), expected)


def quiet_layer(**fields: Any) -> nn.Module:
    """An encoder layer whose sub-layers say nothing, so that it normalizes its input twice."""
    layer = EncoderLayer(small_config(**fields), layer_idx=0)
    nothing = torch.zeros(1, 1, 32)
    return with_sublayers(layer, self_attention=nothing, feed_forward=nothing)


def once_normalized(layer: nn.Module, x: Tensor) -> Tensor:
    """The input of the feed-forward network."""
    seen: list[Tensor] = []
    layer.feed_forward.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    layer(x)
    return seen[0]


def test_epsilon_is_inside_the_root() -> None:
    # With a variance of 1e-6, which the epsilon equals, the result shrinks by sqrt(2).
    x = 1e-3 * torch.tensor([[[1.0, -1.0] * 16]])
    close(once_normalized(quiet_layer().eval(), x), x * 1000 / math.sqrt(2), atol=1e-4)


def test_residual_dropout_spares_the_input() -> None:
    # Section 5.4: dropout acts on the output of a sub-layer before it is added.
    torch.manual_seed(0)
    x = torch.randn(3, 1, 32)
    expected = nn.functional.layer_norm(x, (32,), eps=1e-6)
    close(once_normalized(quiet_layer(dropout=0.5).train(), x), expected)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    parts = (ours.query_proj, ours.key_proj, ours.value_proj)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output_proj.state_dict())


def torch_layer(ours: nn.Module, kind: type[nn.Module]) -> nn.Module:
    """`torch.nn`'s own layer, post-norm, with the numbers of one of ours."""
    theirs = kind(
        32,
        H,
        48,
        dropout=0.0,
        activation="relu",
        layer_norm_eps=1e-6,
        batch_first=True,
        norm_first=False,
    ).eval()
    norms = [ours.self_attention_norm]
    with torch.no_grad():
        copy_attention(ours.self_attention, theirs.self_attn)
        if kind is nn.TransformerDecoderLayer:
            copy_attention(ours.cross_attention, theirs.multihead_attn)
            norms.append(ours.cross_attention_norm)
        norms.append(ours.feed_forward_norm)
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
        for number, norm in enumerate(norms, start=1):
            getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    return theirs


def first_inputs(model: VaswaniForConditionalGeneration, tokens: Tensor) -> Tensor:
    """sqrt(d_model) times the embeddings (section 3.4), plus the sinusoids by scalar loops."""
    table = torch.tensor(references.sinusoid_table(tokens.shape[1], 32))
    return model.model.shared.weight[tokens] * math.sqrt(32) + table


@torch.no_grad()
def test_encoder_equals_torch_nn() -> None:
    model = small_model(attention_bias=True, d_k=8, d_v=8)
    source = draw_tokens(B, S)
    expected = first_inputs(model, source)
    for layer in model.model.encoder.layers:
        theirs = torch_layer(layer, nn.TransformerEncoderLayer)
        expected = theirs(expected, src_key_padding_mask=PADDED_SOURCE == 0)
    memory = model.model.encoder(source, PADDED_SOURCE).last_hidden_state
    real = PADDED_SOURCE.bool()
    close(memory[real], expected[real])


@torch.no_grad()
@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
def test_decoder_equals_torch_nn(attn_implementation: str) -> None:
    model = small_model(attention_bias=True, d_k=8, d_v=8, attn_implementation=attn_implementation)
    target, memory = draw_tokens(B, T), torch.randn(B, S, 32)
    target_mask = torch.tensor([[1] * T, [1] * (T - 2) + [0] * 2])
    expected = first_inputs(model, target)
    for layer in model.model.decoder.layers:
        expected = torch_layer(layer, nn.TransformerDecoderLayer)(
            expected,
            memory,
            tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
            tgt_key_padding_mask=target_mask == 0,
            memory_key_padding_mask=PADDED_SOURCE == 0,
        )
    states = model.model.decoder(
        target,
        target_mask,
        encoder_hidden_states=memory,
        encoder_attention_mask=PADDED_SOURCE,
    ).last_hidden_state
    real = target_mask.bool()
    close(states[real], expected[real])


# 3.2 Attention


@torch.no_grad()
@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
def test_attention_equals_scalar_loops(attn_implementation: str) -> None:
    torch.manual_seed(0)
    config = small_config()
    config._attn_implementation = attn_implementation
    attention = MultiHeadAttention(config, 0, is_cross_attention=True).eval()
    x, memory = torch.randn(B, T, 32), torch.randn(B, S, 32)
    allowed = torch.rand(B, T, S) > 0.4
    allowed[..., 0] = True
    mask = torch.zeros(B, 1, T, S).masked_fill(~allowed[:, None], torch.finfo(torch.float32).min)
    heads = [
        (
            attention.query_proj.weight[6 * h : 6 * (h + 1)].tolist(),
            attention.key_proj.weight[6 * h : 6 * (h + 1)].tolist(),
            attention.value_proj.weight[10 * h : 10 * (h + 1)].tolist(),
        )
        for h in range(H)
    ]
    expected = [
        references.multi_head_attention(
            x[b].tolist(),
            memory[b].tolist(),
            heads,
            attention.output_proj.weight.tolist(),
            allowed[b].tolist(),
        )
        for b in range(B)
    ]
    close(attention(x, memory, mask)[0], expected)


@torch.no_grad()
@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("use_cache", [True, False])
@torch.no_grad()
def test_targets_that_share_a_memory_see_it_as_if_each_had_its_own(
    use_cache: bool, attn_implementation: str
) -> None:
    model = small_model(attn_implementation=attn_implementation)
    source = {"input_ids": draw_tokens(B, S), "attention_mask": PADDED_SOURCE}
    memory = model.get_encoder()(**source).last_hidden_state
    targets = draw_tokens(3 * B, T, seed=1)
    found, expected = (
        model(
            encoder_outputs=(memory.repeat_interleave(copies, dim=0),),
            attention_mask=PADDED_SOURCE.repeat_interleave(copies, dim=0),
            decoder_input_ids=targets,
            use_cache=use_cache,
            output_attentions=attn_implementation == "eager",
        )
        for copies in (1, 3)
    )
    close(found.logits, expected.logits)
    for ours, theirs in zip(
        found.cross_attentions or [], expected.cross_attentions or [], strict=True
    ):
        close(ours, theirs)


def test_attention_weights_equal_scalar_loops() -> None:
    torch.manual_seed(0)
    config = small_config(num_heads=1)
    config._attn_implementation = "eager"
    attention = MultiHeadAttention(config, 0, is_cross_attention=True).eval()
    x, memory = torch.randn(1, T, 32), torch.randn(1, S, 32)
    _, expected = references.attention_of_one_head(
        references.linear(x[0].tolist(), attention.query_proj.weight.tolist()),
        references.linear(memory[0].tolist(), attention.key_proj.weight.tolist()),
        references.linear(memory[0].tolist(), attention.value_proj.weight.tolist()),
    )
    close(attention(x, memory)[1][0, 0], expected)


def test_heads_keep_their_own_widths() -> None:
    attention = MultiHeadAttention(small_config(), 0)
    # h * d_k = 24 and h * d_v = 40 rows; W^O maps h * d_v back (section 3.2.2)
    shapes = [tuple(p.weight.shape) for p in attention.children()]
    assert shapes == [(24, 32), (24, 32), (40, 32), (32, 40)]


def test_attention_has_no_biases_by_default() -> None:
    names = [name for name, _ in MultiHeadAttention(small_config(), 0).named_parameters()]
    assert not [name for name in names if "bias" in name]


FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_low_scores_of_a_fully_padded_row_stay_finite(dtype: torch.dtype) -> None:
    # The lowest number plus a score of -1470 is -inf in float16, and such a row has no softmax.
    attention = MultiHeadAttention(small_config(), 0)
    query, key = torch.full((B, H, T, 6), 10.0), torch.full((B, H, S, 6), -10.0)
    value = torch.arange(7.0).view(1, 1, S, 1).expand(B, H, S, 10)
    mask = torch.full((B, 1, T, S), torch.finfo(dtype).min, dtype=dtype)
    mixed, weights = scaled_dot_product_attention(
        attention, query.to(dtype), key.to(dtype), value.to(dtype), mask, scaling=6**0.5
    )
    # No position is better than another: each weighs 1/7, and the mean of 0 to 6 is 3.
    close(weights, torch.full((B, H, T, S), 1 / 7), atol=1e-3)
    close(mixed, torch.full((B, T, H, 10), 3.0), atol=0.02)


@torch.no_grad()
def test_attention_in_float64_has_the_precision_of_float64() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(small_config(), 0)
    query, key, value = (torch.randn(1, 1, 7, width).double() for width in (6, 6, 10))
    mixed, weights = scaled_dot_product_attention(attention, query, key, value, None, 6**-0.5)
    loops, loop_weights = references.attention_of_one_head(
        query[0, 0].tolist(), key[0, 0].tolist(), value[0, 0].tolist()
    )
    # 1e-14 is a few units in the last digit of sums of seven numbers around 1.
    close(weights[0, 0], loop_weights, atol=1e-14, rtol=0)
    close(mixed[0, :, 0], loops, atol=1e-14, rtol=0)


@torch.no_grad()
def test_flex_attention_equals_eager() -> None:
    model = small_model(d_k=16, d_v=16)
    inputs = {
        "input_ids": draw_tokens(B, S),
        "attention_mask": PADDED_SOURCE,
        "decoder_input_ids": draw_tokens(B, T, seed=1),
    }
    model.set_attn_implementation("eager")
    expected = model(**inputs).logits
    model.set_attn_implementation("flex_attention")
    try:
        actual = model(**inputs).logits
    except Exception as error:
        # It is compiled to C++ or to a GPU's code; a fault of ours would not come from there.
        if not type(error).__module__.startswith(("torch._inductor", "torch._dynamo")):
            raise
        pytest.skip(f"flex attention does not compile here: {error!s:.200}")
    close(actual, expected)


@pytest.mark.gpu
@torch.no_grad()
def test_flash_attention_equals_eager() -> None:
    pytest.importorskip("flash_attn", reason="flash attention is not installed")
    model = small_model(d_model=64, d_k=16, d_v=16).to("cuda", torch.bfloat16)
    inputs = {
        "input_ids": draw_tokens(B, S).cuda(),
        "attention_mask": PADDED_SOURCE.cuda(),
        "decoder_input_ids": draw_tokens(B, T, seed=1).cuda(),
    }
    model.set_attn_implementation("eager")
    expected = model(**inputs).logits
    model.set_attn_implementation("flash_attention_2")
    # bfloat16 has 8 bits of mantissa: numbers around 2 come in steps of 1/64.
    close(model(**inputs).logits, expected, atol=0.1)


# 3.3 Position-wise Feed-Forward Networks


@torch.no_grad()
def test_feed_forward_equals_scalar_loops() -> None:
    torch.manual_seed(0)
    network = FeedForward(small_config()).eval()
    x = torch.randn(T, 32)
    expected = references.feed_forward(
        x.tolist(),
        network.inner.weight.tolist(),
        network.inner.bias.tolist(),
        network.outer.weight.tolist(),
        network.outer.bias.tolist(),
    )
    close(network(x), expected)


# 3.4 Embeddings and Softmax


@torch.no_grad()
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_both_stacks_scale_embeddings_and_add_positions(side: str) -> None:
    model = small_model()
    tokens = draw_tokens(B, T)
    stack = getattr(model.model, side)
    seen: list[Tensor] = []
    stack.layers[0].register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    stack(tokens, **({"encoder_hidden_states": torch.randn(B, S, 32)} if side == "decoder" else {}))
    embeddings = model.model.shared.weight[tokens]
    expected = embeddings * 5.656854249492381 + torch.tensor(  # sqrt(32)
        references.sinusoid_table(T, 32)
    )
    close(seen[0], expected)


@torch.no_grad()
def test_dropout_acts_on_the_sums_of_embeddings_and_positions() -> None:
    # Section 5.4: at a rate of 0.5 what is left is doubled, so every entry is 0 or twice its value.
    model = small_model(dropout=0.5)
    tokens, embedding = draw_tokens(B, T), model.model.encoder.embedding
    positions = torch.arange(T)[None]
    plain = embedding(model.model.shared(tokens), positions, T)
    dropped = embedding.train()(model.model.shared(tokens), positions, T)
    is_kept = dropped != 0
    close(dropped[is_kept], 2 * plain[is_kept])
    assert 0.3 < is_kept.float().mean() < 0.7


@torch.no_grad()
def test_logits_are_products_with_the_embedding() -> None:
    model = small_model()
    outputs = model(
        draw_tokens(B, S), decoder_input_ids=draw_tokens(B, T), output_hidden_states=True
    )
    states = outputs.decoder_hidden_states[-1]
    expected = references.linear(states[0].tolist(), model.model.shared.weight.tolist())
    close(outputs.logits[0], expected)


def shared_names(model: nn.Module) -> list[set[str]]:
    """The groups of names that stand for one and the same parameter."""
    groups: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), set()).add(name)
    return sorted((group for group in groups.values() if len(group) > 1), key=sorted)


ENCODER, DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
HEAD, SHARED = "lm_head.weight", "model.shared.weight"
TYINGS: list[tuple[bool, bool, list[set[str]]]] = [  # share_embeddings, tie_word_embeddings
    (True, True, [{SHARED, ENCODER, DECODER, HEAD}]),
    (True, False, [{SHARED, ENCODER, DECODER}]),
    (False, True, [{DECODER, HEAD}]),
    (False, False, []),
]
tyings = pytest.mark.parametrize(("share", "tie", "groups"), TYINGS)


@tyings
def test_tied_parameters_are_one_object(share: bool, tie: bool, groups: list[set[str]]) -> None:
    model = small_model(share_embeddings=share, tie_word_embeddings=tie)
    assert shared_names(model) == groups


@tyings
def test_a_file_holds_each_tied_parameter_once(
    tmp_path: Path, share: bool, tie: bool, groups: list[set[str]]
) -> None:
    small_model(share_embeddings=share, tie_word_embeddings=tie).save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        stored = set(file.keys())
    for group in groups:
        assert len(group & stored) == 1
    assert (
        len({SHARED, ENCODER, DECODER, HEAD} & stored)
        == {  # one matrix a role that is its own
            (True, True): 1,
            (True, False): 2,
            (False, True): 2,
            (False, False): 3,
        }[share, tie]
    )


@torch.no_grad()
@tyings
@pytest.mark.parametrize("output_bias", [False, True])
def test_a_loaded_model_is_the_saved_one(
    tmp_path: Path, share: bool, tie: bool, groups: list[set[str]], output_bias: bool
) -> None:
    model = small_model(share_embeddings=share, tie_word_embeddings=tie, output_bias=output_bias)
    model.save_pretrained(tmp_path)
    loaded, report = VaswaniForConditionalGeneration.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert shared_names(loaded) == groups
    inputs = {"input_ids": draw_tokens(B, S), "decoder_input_ids": draw_tokens(B, T)}
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


@tyings
def test_a_file_has_all_that_load_state_dict_asks_for(
    tmp_path: Path, share: bool, tie: bool, groups: list[set[str]]
) -> None:
    # The library's trainer loads a checkpoint so, and warns of keys that are missing.
    model = small_model(share_embeddings=share, tie_word_embeddings=tie)
    model.save_pretrained(tmp_path)
    other = small_model(seed=1, share_embeddings=share, tie_word_embeddings=tie)
    weights = load_file(tmp_path / "model.safetensors")
    assert other.load_state_dict(weights).missing_keys == []
    assert shared_names(other) == groups
    for name, parameter in model.named_parameters():
        assert torch.equal(other.get_parameter(name), parameter), name
    del weights["model.decoder.layers.0.feed_forward.inner.weight"]
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*layers.0.feed_forward.inner.weight"):
        other.load_state_dict(weights)


class TwiceTheRows(nn.Module):
    """An embedding with something more, as an adapter puts in its place."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor) -> Tensor:
        return 2 * self.inner(ids)


@torch.no_grad()
def test_what_replaces_the_shared_embedding_is_called_for_source_and_target() -> None:
    model, source, target = small_model(), draw_tokens(B, S), draw_tokens(B, T)
    shared = model.get_input_embeddings()
    rows = {"inputs_embeds": shared(source), "decoder_inputs_embeds": shared(target)}
    before = model(**rows).logits
    expected = model(**{name: 2 * embeddings for name, embeddings in rows.items()}).logits
    model.model.shared = TwiceTheRows(shared)
    close(model(source, decoder_input_ids=target).logits, expected)
    encoded = model.get_encoder()(source)  # as generate() does
    close(model(decoder_input_ids=target, encoder_outputs=encoded).logits, expected)
    model.model.shared = shared
    close(model(source, decoder_input_ids=target).logits, before)


@pytest.mark.parametrize("way", ["target_modules", "modules_to_save"])
def test_an_adapter_of_the_shared_embedding_is_trained_and_used(tmp_path: Path, way: str) -> None:
    peft = pytest.importorskip("peft")
    fields: dict[str, Any] = {"target_modules": ["value_proj"]}
    source, target = draw_tokens(B, S), draw_tokens(B, T)
    model = peft.get_peft_model(small_model(), peft.LoraConfig(**fields | {way: ["shared"]}))
    before = model(source, decoder_input_ids=target).logits
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert any("shared" in name for name in trained)
    optimizer = torch.optim.SGD(trained.values(), lr=1.0)
    for _ in range(2):  # one of LoRA's two matrices starts as zero, and the other has no gradient
        model.train()(source, labels=LABELS).loss.backward()
        optimizer.step()
    for name, parameter in trained.items():
        assert parameter.grad.any(), name
    model.save_pretrained(tmp_path)
    after = model.eval()(source, decoder_input_ids=target).logits
    assert (after - before).abs().max() > 1e-3
    again = peft.PeftModel.from_pretrained(small_model(), tmp_path)
    close(again(source, decoder_input_ids=target).logits, after)


@torch.no_grad()
@tyings
@pytest.mark.parametrize("new_size", [V + 6, V - 6])
def test_resizing_keeps_ties_and_the_rows_that_stay(
    tmp_path: Path, share: bool, tie: bool, groups: list[set[str]], new_size: int
) -> None:
    model = small_model(share_embeddings=share, tie_word_embeddings=tie, output_bias=True)
    inputs = {
        "input_ids": draw_tokens(B, S).clamp(max=V - 7),
        "decoder_input_ids": draw_tokens(B, T, seed=1).clamp(max=V - 7),
    }
    before = model(**inputs).logits
    model.resize_token_embeddings(new_size)
    assert shared_names(model) == groups
    assert (model.config.vocab_size, model.config.target_vocab_size) == (new_size, new_size)
    kept = min(V, new_size)
    after = model(**inputs).logits
    assert after.shape[-1] == new_size
    close(after[..., :kept], before[..., :kept])
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    assert shared_names(loaded) == groups
    assert torch.equal(loaded(**inputs).logits, after)


def test_resizing_two_vocabularies_is_refused() -> None:
    model = small_model(share_embeddings=False, target_vocab_size=30)
    with pytest.raises(ValueError, match=r"vocab_size=20, target_vocab_size=30"):
        model.resize_token_embeddings(25)


@torch.no_grad()
def test_two_vocabularies_may_differ_in_size(tmp_path: Path) -> None:
    model = small_model(share_embeddings=False, target_vocab_size=30)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    inputs = {"input_ids": draw_tokens(B, S), "decoder_input_ids": draw_tokens(B, T) + 10}
    assert loaded(**inputs).logits.shape == (B, T, 30)
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


@torch.no_grad()
def test_auto_classes_find_the_classes(tmp_path: Path) -> None:
    model = small_model()
    model.save_pretrained(tmp_path)
    assert type(AutoConfig.from_pretrained(tmp_path)) is VaswaniConfig
    whole = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(whole) is VaswaniForConditionalGeneration
    body, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert type(body) is VaswaniModel
    assert not report["missing_keys"]
    inputs = {"input_ids": draw_tokens(B, S), "decoder_input_ids": draw_tokens(B, T)}
    assert torch.equal(whole(**inputs).logits, model(**inputs).logits)
    assert torch.equal(body(**inputs).last_hidden_state, model.model(**inputs).last_hidden_state)


# 3.5 Positional Encoding


def loop_table(num_positions: int, d_model: int) -> Tensor:
    return torch.tensor(references.sinusoid_table(num_positions, d_model), dtype=torch.float64)


def test_sinusoids_equal_scalar_loops() -> None:
    # The formula in float64; 6e-8 is the rounding of numbers up to 1 to float32. Angles computed in
    # float32 would be 6e-5 off at position 1023.
    close(sinusoidal_positions(1024, 512), loop_table(1024, 512), atol=6.1e-8, rtol=0.0)


def test_sinusoids_at_positions_worked_out_by_hand() -> None:
    table = sinusoidal_positions(3, 4)
    # sin 2, cos 2, sin 0.02, cos 0.02: wavelengths of 2 pi and of 2 pi * 10000^(2/4)
    close(table[2], [0.9092974268, -0.4161468365, 0.0199986667, 0.9998000067], atol=1e-7)


def test_the_table_grows_past_its_size() -> None:
    positions = SinusoidalPositions(small_config(max_position_embeddings=4))
    wanted = torch.tensor([[0, 3, 4, 70]])
    expected = loop_table(71, 32)[wanted]
    close(positions(wanted, 71), expected, atol=6.1e-8, rtol=0.0)


@torch.no_grad()
def test_a_sequence_longer_than_the_table_is_as_with_a_long_table() -> None:
    short = small_model(max_position_embeddings=4)
    long = small_model(max_position_embeddings=64)
    inputs = {"input_ids": draw_tokens(B, 23), "decoder_input_ids": draw_tokens(B, 11)}
    close(short(**inputs).logits, long(**inputs).logits)


@torch.no_grad()
def test_cached_decoding_goes_past_the_table() -> None:
    model = small_model(seed=3, max_position_embeddings=4)
    source, target = draw_tokens(B, S), draw_tokens(B, 11)
    expected = small_model(seed=3, max_position_embeddings=64)(source, decoder_input_ids=target)
    cache, pieces = None, []
    for place in range(11):
        outputs = model(
            source,
            decoder_input_ids=target[:, place : place + 1],
            past_key_values=cache,
            use_cache=True,
        )
        cache = outputs.past_key_values
        pieces.append(outputs.logits)
    close(torch.cat(pieces, dim=1), expected.logits)


def tables(model: nn.Module) -> list[Tensor]:
    found = [part.table for part in model.modules() if isinstance(part, SinusoidalPositions)]
    assert len(found) == 2  # one a stack
    return found


def test_sinusoids_are_exact_after_loading(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    for table in tables(VaswaniForConditionalGeneration.from_pretrained(tmp_path)):
        close(table, loop_table(32, 32), atol=6.1e-8, rtol=0.0)


def test_sinusoids_are_not_saved(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert not [name for name in file.keys() if "position" in name or "table" in name]  # noqa: SIM118


def test_sinusoids_are_exact_after_loading_in_bfloat16(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    model = VaswaniForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert model.lm_head.weight.dtype == torch.bfloat16
    for table in tables(model):
        close(table, loop_table(32, 32), atol=6.1e-8, rtol=0.0)


@pytest.mark.parametrize(
    "casts",
    [
        [lambda model: model.half()],
        [lambda model: model.bfloat16()],
        [lambda model: model.double()],
        [lambda model: model.half(), lambda model: model.float()],
        [lambda model: model.bfloat16(), lambda model: model.double()],
        [lambda model: model.bfloat16(), lambda model: model.to("cpu", torch.float32)],
        [lambda model: model.to(torch.bfloat16), copy.deepcopy, lambda model: model.float()],
        [lambda model: model.type(torch.float16), lambda model: model.type(torch.float32)],
        [lambda model: model.to("meta"), lambda model: model.to_empty(device="cpu")],
        [lambda model: model.half().to("meta"), lambda model: model.to_empty(device="cpu").float()],
        [lambda model: model.to_empty(device="cpu")],
        [lambda model: model.share_memory(), lambda model: model.bfloat16().float()],
    ],
)
def test_sinusoids_are_exact_after_casts(casts: list[Any]) -> None:
    model = small_model()
    for cast in casts:
        model = cast(model)
    for table in tables(model):
        assert table.dtype == torch.float32
        close(table, loop_table(32, 32), atol=6.1e-8, rtol=0.0)


@torch.no_grad()
def test_a_model_cast_down_and_up_computes_with_exact_sinusoids() -> None:
    model, source, target = small_model(), draw_tokens(B, S), draw_tokens(B, T)
    for parameter in model.parameters():
        parameter.copy_(parameter.bfloat16())  # so that the casts below lose nothing of these
    expected = model(source, decoder_input_ids=target).logits
    close(model.bfloat16().float()(source, decoder_input_ids=target).logits, expected)


def test_sinusoids_of_a_model_made_without_memory_are_exact_once_it_has_some() -> None:
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(small_config())
    assert model.lm_head.weight.is_meta
    for table in tables(model.to_empty(device="cpu")):
        close(table, loop_table(32, 32), atol=6.1e-8, rtol=0.0)


def test_more_positions_may_be_asked_for_at_loading(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    model = VaswaniForConditionalGeneration.from_pretrained(tmp_path, max_position_embeddings=99)
    for table in tables(model):
        close(table, loop_table(99, 32), atol=6.1e-8, rtol=0.0)


def test_positions_count_real_tokens() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    positions = position_ids_from_mask(mask, 5, 0, torch.device("cpu"))
    # By hand: the first real token of every row stands at position 0 (FIDELITY row 9).
    assert positions[0, 2:].tolist() == [0, 1, 2]
    assert positions[1, :3].tolist() == [0, 1, 2]
    assert positions[2].tolist() == [0, 1, 2, 3, 4]
    assert positions.min() >= 0


def test_positions_go_on_where_the_cache_ends() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    assert position_ids_from_mask(mask, 2, 3, torch.device("cpu")).tolist() == [[1, 2], [3, 4]]
    assert position_ids_from_mask(None, 2, 3, torch.device("cpu")).tolist() == [[3, 4]]


@pytest.mark.parametrize("too_long", [{"input_ids": 9}, {"decoder_input_ids": 9}], ids=str)
def test_learned_positions_refuse_what_is_longer(too_long: dict[str, int]) -> None:
    model = small_model(position_encoding="learned", max_position_embeddings=8)
    lengths = {"input_ids": 8, "decoder_input_ids": 8}
    model(**{name: draw_tokens(1, length) for name, length in lengths.items()})
    with pytest.raises(ValueError, match=r"9 tokens .*max_position_embeddings=8"):
        model(**{name: draw_tokens(1, length) for name, length in (lengths | too_long).items()})


def test_learned_positions_refuse_a_cached_sequence_that_grows_too_long() -> None:
    model = small_model(position_encoding="learned", max_position_embeddings=8)
    source = draw_tokens(1, S)
    cache = model(source, decoder_input_ids=draw_tokens(1, 8), use_cache=True).past_key_values
    with pytest.raises(ValueError, match=r"9 tokens .*max_position_embeddings=8"):
        model(source, decoder_input_ids=draw_tokens(1, 1), past_key_values=cache, use_cache=True)


@torch.no_grad()
def test_learned_positions_are_saved(tmp_path: Path) -> None:
    model = small_model(position_encoding="learned")
    model.save_pretrained(tmp_path)
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    inputs = {"input_ids": draw_tokens(B, S), "decoder_input_ids": draw_tokens(B, T)}
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


# Initial values (FIDELITY row 13)


@pytest.fixture(scope="module")
def fresh() -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    config = small_config(vocab_size=2000, d_model=128, d_ff=300, d_k=24, d_v=40)
    return VaswaniForConditionalGeneration(config)


def test_embeddings_start_with_a_deviation_of_one_over_the_root(
    fresh: VaswaniForConditionalGeneration,
) -> None:
    # 2000 * 128 numbers estimate the deviation to within 1/sqrt(2 * 256000) = 0.14 %; six of those.
    weight = fresh.model.shared.weight
    assert weight[torch.arange(2000) != PAD].std().item() == pytest.approx(128**-0.5, rel=0.0085)


def test_the_padding_row_starts_at_zero(fresh: VaswaniForConditionalGeneration) -> None:
    assert not fresh.model.shared.weight[PAD].any()


@pytest.mark.parametrize("tie", [True, False])
def test_every_embedding_of_unshared_models_starts_the_same(tie: bool) -> None:
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(
        small_config(vocab_size=2000, share_embeddings=False, tie_word_embeddings=tie)
    )
    parts = [model.model.encoder.embed_tokens, model.model.decoder.embed_tokens, model.lm_head]
    for part in parts:
        assert part.weight.std().item() == pytest.approx(32**-0.5, rel=0.02)
    assert not parts[0].weight[PAD].any()
    assert not parts[1].weight[PAD].any()


def assert_fills(weight: Tensor, bound: float) -> None:
    """Uniform between plus and minus `bound`: none beyond it, and the largest close to it."""
    largest = weight.abs().max().item()
    # Of 3072 numbers or more the largest misses the bound by 1 % in 0.99^3072 = 4e-14 of cases.
    assert 0.99 * bound < largest <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_query_key_and_value_start_as_one_glorot_matrix(
    fresh: VaswaniForConditionalGeneration,
) -> None:
    # Glorot and Bengio 2010: sqrt(6 / (fan_in + fan_out)), here of one matrix of 128 by
    # 4 * (24 + 24 + 40) columns.
    bound = math.sqrt(6 / (128 + 4 * 88))
    for stack in (fresh.model.encoder, fresh.model.decoder):
        for layer in stack.layers:
            attention = layer.self_attention
            for part in (attention.query_proj, attention.key_proj, attention.value_proj):
                assert_fills(part.weight, bound)


def test_cross_attention_starts_as_the_authors_two_matrices(
    fresh: VaswaniForConditionalGeneration,
) -> None:
    # tensor2tensor: queries by one matrix, keys and values by another.
    for layer in fresh.model.decoder.layers:
        attention = layer.cross_attention
        assert_fills(attention.query_proj.weight, math.sqrt(6 / (128 + 4 * 24)))
        for part in (attention.key_proj, attention.value_proj):
            assert_fills(part.weight, math.sqrt(6 / (128 + 4 * 64)))


def test_other_matrices_start_as_glorot_matrices(fresh: VaswaniForConditionalGeneration) -> None:
    for layer in [*fresh.model.encoder.layers, *fresh.model.decoder.layers]:
        assert_fills(layer.self_attention.output_proj.weight, math.sqrt(6 / (128 + 160)))
        for part in (layer.feed_forward.inner, layer.feed_forward.outer):
            assert_fills(part.weight, math.sqrt(6 / (128 + 300)))


def test_biases_start_at_zero_and_gains_at_one() -> None:
    model = VaswaniForConditionalGeneration(small_config(attention_bias=True, output_bias=True))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name


def test_what_a_file_lacks_starts_as_in_a_new_model(tmp_path: Path) -> None:
    # Loading builds on the meta device: what the file lacks must be drawn, not left as it was.
    VaswaniModel(small_config()).encoder.save_pretrained(tmp_path)
    model = VaswaniForConditionalGeneration.from_pretrained(tmp_path, key_mapping={"^": "none."})
    for parameter in model.parameters():
        assert parameter.isfinite().all()
    assert not model.model.shared.weight[PAD].any()
    bound = math.sqrt(6 / (32 + 4 * 22))
    largest = model.model.encoder.layers[0].self_attention.query_proj.weight.abs().max()
    assert 0.9 * bound < largest <= bound


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("length", [T - 1, T + 1])
def test_labels_of_another_length_than_the_target_are_refused(training: bool, length: int) -> None:
    model, target = small_model().train(training), draw_tokens(B, T)
    message = rf"labels .*\(2, 5\), got labels of shape \(2, {length}\)"
    with pytest.raises(ValueError, match=message):
        model(draw_tokens(B, S), decoder_input_ids=target, labels=draw_tokens(B, length))


@pytest.mark.parametrize("training", [False, True])
def test_labels_may_be_of_32_bits(training: bool) -> None:
    model = small_model(dropout=0.0).train(training)
    expected = model(draw_tokens(B, S), labels=LABELS).loss
    assert model(draw_tokens(B, S), labels=LABELS.int()).loss == expected


def test_a_cache_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="must be an EncoderDecoderCache, got a DynamicCache"):
        small_model()(
            draw_tokens(B, S), decoder_input_ids=draw_tokens(B, T), past_key_values=DynamicCache()
        )


def test_logits_to_keep_beside_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="logits_to_keep=1"):
        small_model()(draw_tokens(B, S), labels=LABELS, logits_to_keep=1)


@torch.no_grad()
@pytest.mark.parametrize(
    ("kept", "rows"), [(0, [0, 1, 2, 3, 4]), (2, [3, 4]), (torch.tensor([0, 3]), [0, 3])], ids=str
)
def test_logits_to_keep_picks_rows(kept: int | Tensor, rows: list[int]) -> None:
    model = small_model()
    inputs = {"input_ids": draw_tokens(B, S), "decoder_input_ids": draw_tokens(B, T)}
    close(model(**inputs, logits_to_keep=kept).logits, model(**inputs).logits[:, rows])


# Laws


lengths = st.integers(min_value=1, max_value=9)
seeds = st.integers(min_value=0, max_value=2**31 - 1)
LAW_MODEL = small_model()


@FEW
@given(seed=seeds, source_length=lengths, target_length=st.integers(2, 9), data=st.data())
@torch.no_grad()
def test_a_later_target_token_changes_no_earlier_logit(
    seed: int, source_length: int, target_length: int, data: st.DataObject
) -> None:
    source, target = draw_tokens(B, source_length, seed=seed), draw_tokens(B, target_length)
    place = data.draw(st.integers(1, target_length - 1))
    changed = target.clone()
    changed[:, place:] = (target[:, place:] - 2) % (V - 3) + 3
    assert (changed[:, place:] != target[:, place:]).all()
    before = LAW_MODEL(source, decoder_input_ids=target).logits
    after = LAW_MODEL(source, decoder_input_ids=changed).logits
    close(after[:, :place], before[:, :place])
    assert not torch.allclose(after[:, place], before[:, place], atol=1e-3)


@torch.no_grad()
def test_a_later_source_token_changes_every_memory() -> None:
    source = draw_tokens(1, S)
    changed = source.clone()
    changed[0, -1] = (source[0, -1] - 2) % (V - 3) + 3
    before = LAW_MODEL.model.encoder(source).last_hidden_state
    after = LAW_MODEL.model.encoder(changed).last_hidden_state
    assert ((after - before).abs().amax(-1) > 1e-4).all()


def pad(rows: list[Tensor], left: bool) -> tuple[Tensor, Tensor]:
    """A batch of rows of unequal length, with random pieces as padding, and its mask."""
    width = max(map(len, rows))
    tokens, mask = draw_tokens(len(rows), width, seed=99), torch.zeros(len(rows), width).long()
    for b, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        tokens[b, place], mask[b, place] = row, 1
    return tokens, mask


@FEW
@given(
    seed=seeds,
    sizes=st.lists(st.tuples(lengths, lengths), min_size=2, max_size=4),
    left=st.booleans(),
    attention=st.sampled_from(["eager", "sdpa"]),
    kind=st.sampled_from(["sinusoidal", "learned"]),
)
@torch.no_grad()
def test_padding_and_batch_mates_change_nothing(
    seed: int, sizes: list[tuple[int, int]], left: bool, attention: str, kind: str
) -> None:
    model = small_model(attn_implementation=attention, position_encoding=kind)
    sources = [draw_tokens(source, seed=seed + i) for i, (source, _) in enumerate(sizes)]
    targets = [draw_tokens(target, seed=seed + 50 + i) for i, (_, target) in enumerate(sizes)]
    source, source_mask = pad(sources, left)
    target, target_mask = pad(targets, left)
    batch = model(source, source_mask, target, target_mask)
    for b in range(len(sizes)):
        alone = model(sources[b][None], decoder_input_ids=targets[b][None])
        close(batch.logits[b][target_mask[b].bool()], alone.logits[0])
        close(
            batch.encoder_last_hidden_state[b][source_mask[b].bool()],
            alone.encoder_last_hidden_state[0],
        )


def new_cache(model: VaswaniForConditionalGeneration, kind: str) -> EncoderDecoderCache | None:
    if kind == "dynamic":
        return None  # the model makes its own
    decoder = model.config.get_text_config(decoder=True)
    return EncoderDecoderCache(
        StaticCache(config=decoder, max_cache_len=16), StaticCache(config=decoder, max_cache_len=S)
    )


@FEW
@given(
    seed=seeds,
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    kind=st.sampled_from(["dynamic", "static"]),
    left=st.booleans(),
)
@torch.no_grad()
def test_cached_decoding_equals_uncached(
    seed: int, steps: list[int], kind: str, left: bool
) -> None:
    length = sum(steps)
    target, source = draw_tokens(B, length, seed=seed), draw_tokens(B, S, seed=seed)
    source_mask = PADDED_SOURCE
    target_mask = torch.ones(B, length).long()
    if left and length > 1:
        target_mask[1, 0] = 0
    expected = LAW_MODEL(source, source_mask, target, target_mask).logits
    cache, done, pieces = new_cache(LAW_MODEL, kind), 0, []
    memory = LAW_MODEL.model.encoder(source, source_mask)
    for step in steps:
        outputs = LAW_MODEL(
            attention_mask=source_mask,
            encoder_outputs=memory,
            decoder_input_ids=target[:, done : done + step],
            decoder_attention_mask=target_mask[:, : done + step],
            past_key_values=cache,
            use_cache=True,
        )
        cache, done = outputs.past_key_values, done + step
        pieces.append(outputs.logits)
    real = target_mask.bool()
    close(torch.cat(pieces, dim=1)[real], expected[real])


@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_query_that_sees_nothing_gives_finite_numbers(
    attn_implementation: str, dtype: torch.dtype, training: bool, side: str
) -> None:
    model = small_model(attn_implementation=attn_implementation).to(dtype).train(training)
    masks = {
        # Nothing but padding.
        "source": {"attention_mask": torch.tensor([[1] * S, [0] * S])},
        # Padding on the left, where the first positions may see only each other.
        "target": {"decoder_attention_mask": torch.tensor([[1] * T, [0, 0] + [1] * (T - 2)])},
    }
    outputs = model(draw_tokens(B, S), **masks[side], labels=LABELS)
    assert outputs.encoder_last_hidden_state.isfinite().all()
    assert training or outputs.logits.isfinite().all()
    assert outputs.loss.isfinite()
    outputs.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name


@torch.no_grad()
@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
def test_a_fully_padded_row_leaves_its_batch_mate_alone(attn_implementation: str) -> None:
    model = small_model(attn_implementation=attn_implementation)
    source, target = draw_tokens(B, S), draw_tokens(B, T)
    both = model(source, torch.tensor([[1] * S, [0] * S]), target)
    close(both.logits[:1], model(source[:1], decoder_input_ids=target[:1]).logits)


# The library's interface


@torch.no_grad()
def test_attention_rows_sum_to_one_and_skip_padding() -> None:
    model = small_model(attn_implementation="eager")
    outputs = model(draw_tokens(B, S), PADDED_SOURCE, draw_tokens(B, T), output_attentions=True)
    kinds = {
        "encoder_attentions": (2, (B, H, S, S)),
        "decoder_attentions": (3, (B, H, T, T)),
        "cross_attentions": (3, (B, H, T, S)),
    }
    for name, (layers, shape) in kinds.items():
        weights = torch.stack(outputs[name])
        assert weights.shape == (layers, *shape)
        close(weights.sum(-1), torch.ones(layers, *shape[:-1]))
    for name in ("encoder_attentions", "cross_attentions"):
        assert not torch.stack(outputs[name])[:, 1, :, :, S - 3 :].any()  # row 1 ends in 3 paddings
    decoder = torch.stack(outputs.decoder_attentions)
    assert torch.equal(decoder, decoder.tril())


@torch.no_grad()
def test_hidden_states_go_from_the_first_input_to_the_last_output() -> None:
    model = small_model()
    outputs = model(
        draw_tokens(B, S), decoder_input_ids=draw_tokens(B, T), output_hidden_states=True
    )
    assert [tuple(states.shape) for states in outputs.encoder_hidden_states] == [(B, S, 32)] * 3
    assert [tuple(states.shape) for states in outputs.decoder_hidden_states] == [(B, T, 32)] * 4
    close(outputs.encoder_hidden_states[0], first_inputs(model, draw_tokens(B, S)))
    close(outputs.decoder_hidden_states[0], first_inputs(model, draw_tokens(B, T)))
    assert torch.equal(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)


@torch.no_grad()
def test_embeddings_may_come_in_place_of_ids() -> None:
    model = small_model()
    source, target = draw_tokens(B, S), draw_tokens(B, T)
    embed = model.get_input_embeddings()
    outputs = model(inputs_embeds=embed(source), decoder_inputs_embeds=embed(target))
    assert torch.equal(outputs.logits, model(source, decoder_input_ids=target).logits)


@pytest.mark.parametrize(
    ("given_inputs", "message"),
    [
        (("decoder_input_ids",), "exactly one of input_ids and inputs_embeds, got neither"),
        (
            ("input_ids", "inputs_embeds", "decoder_input_ids"),
            "exactly one of input_ids and inputs_embeds, got both",
        ),
        (
            ("input_ids",),
            "exactly one of decoder_input_ids and decoder_inputs_embeds, got neither",
        ),
        (
            ("input_ids", "decoder_input_ids", "decoder_inputs_embeds"),
            "exactly one of decoder_input_ids and decoder_inputs_embeds, got both",
        ),
    ],
)
def test_ids_and_embeddings_together_or_neither_is_refused(
    given_inputs: tuple[str, ...], message: str
) -> None:
    values = {
        "input_ids": draw_tokens(B, S),
        "inputs_embeds": torch.randn(B, S, 32),
        "decoder_input_ids": draw_tokens(B, T),
        "decoder_inputs_embeds": torch.randn(B, T, 32),
    }
    with pytest.raises(ValueError, match=message):
        small_model()(**{name: values[name] for name in given_inputs})


def test_a_decoder_without_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="encoder_hidden_states"):
        small_model().model.decoder(draw_tokens(B, T))


@torch.no_grad()
@pytest.mark.parametrize("as_tuple", [False, True])
def test_an_encoded_source_is_not_encoded_again(as_tuple: bool) -> None:
    model = small_model()
    source, target = draw_tokens(B, S), draw_tokens(B, T)
    expected = model(source, PADDED_SOURCE, target).logits
    memory = model.get_encoder()(source, PADDED_SOURCE)
    calls: list[int] = []
    model.model.encoder.register_forward_hook(lambda *_: calls.append(1))
    outputs = model(
        attention_mask=PADDED_SOURCE,
        decoder_input_ids=target,
        encoder_outputs=tuple(memory.values()) if as_tuple else memory,
    )
    assert not calls
    assert torch.equal(outputs.logits, expected)


def test_outputs_may_come_as_a_tuple() -> None:
    model = small_model()
    inputs = {"input_ids": draw_tokens(B, S), "labels": LABELS}
    named = model(**inputs)
    loss, logits = model(**inputs, return_dict=False)[:2]
    assert torch.equal(loss, named.loss)
    assert torch.equal(logits, named.logits)


def gradients(model: VaswaniForConditionalGeneration) -> dict[str, Tensor]:
    model.zero_grad()
    torch.manual_seed(1)  # the same dropout
    model(draw_tokens(B, S), PADDED_SOURCE, labels=LABELS).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(use_reentrant: bool) -> None:
    model = small_model().train()
    expected = gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    if use_reentrant:
        model.enable_input_require_grads()
    for name, gradient in gradients(model).items():
        close(gradient, expected[name])


def test_every_parameter_gets_a_gradient() -> None:
    for name, gradient in gradients(small_model(attention_bias=True, output_bias=True)).items():
        # A bias of the keys adds the same number to every score of a row, which softmax ignores.
        assert gradient.abs().sum() > 1e-7 or "key_proj.bias" in name, name


@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("mode", ["logits", "evaluation", "training"])
def test_one_graph_computes_the_model(attn_implementation: str, mode: str) -> None:
    torch._dynamo.reset()
    model = small_model(attn_implementation=attn_implementation, dropout=0.0)
    model.train(mode == "training")
    inputs: dict[str, Any] = {"input_ids": draw_tokens(B, S), "attention_mask": PADDED_SOURCE}
    # A new cache copies the config, into which no graph of torch 2.11 looks.
    logits = {"decoder_input_ids": SHIFTED, "use_cache": False}
    inputs |= logits if mode == "logits" else {"labels": LABELS}
    expected = model(**inputs)
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend="eager")
    outputs = compiled(**inputs)
    if mode != "training":
        close(outputs.logits, expected.logits)
    if mode != "logits":
        close(outputs.loss, expected.loss)
        outputs.loss.backward()


@pytest.mark.parametrize("num_beams", [1, 4])
def test_static_and_dynamic_caches_generate_the_same(num_beams: int) -> None:
    model = small_model(seed=3)
    plan = {"max_new_tokens": 8, "min_new_tokens": 4, "num_beams": num_beams, "do_sample": False}
    inputs = {"input_ids": draw_tokens(B, S), "attention_mask": PADDED_SOURCE}
    dynamic = model.generate(**inputs, **plan)
    assert dynamic.shape[1] >= 5
    assert torch.equal(model.generate(**inputs, **plan, cache_implementation="static"), dynamic)
    assert torch.equal(model.generate(**inputs, **plan, use_cache=False), dynamic)


@torch.no_grad()
def test_greedy_search_takes_the_likeliest_piece_each_time() -> None:
    model = small_model(seed=3)
    source = draw_tokens(1, S)
    written = model.generate(source, max_new_tokens=6, num_beams=1, do_sample=False)[0].tolist()
    expected = [PAD]
    while len(expected) < 7 and expected[-1] != EOS:
        logits = model(source, decoder_input_ids=torch.tensor([expected])).logits[0, -1]
        expected.append(int(logits.argmax()))
    assert written == expected


def test_generation_with_a_cache_uses_one_for_each_side() -> None:
    model = small_model()
    outputs = model.generate(
        draw_tokens(B, S), max_new_tokens=3, num_beams=1, return_dict_in_generate=True
    )
    cache = outputs.past_key_values
    assert isinstance(cache, EncoderDecoderCache)
    assert cache.cross_attention_cache.layers[0].keys.shape == (B, H, S, 6)
    assert cache.self_attention_cache.layers[0].values.shape[-1] == 10
    assert len(cache.self_attention_cache.layers) == 3  # decoder layers, not encoder layers


# Dropout sites and other settings (docs/fidelity.md, rows 2, 3, 5 and 10)


@torch.no_grad()
def test_residual_dropout_acts_on_the_output_of_the_sublayer() -> None:
    # Section 5.4. Of 32 ones, k are kept and doubled: the mean is k / 16, the variance
    # k / 8 - (k / 16)^2, and what is kept and what is dropped lie on either side of the mean.
    torch.manual_seed(0)
    layer = EncoderLayer(small_config(dropout=0.5), layer_idx=0).train()
    with_sublayers(layer, self_attention=torch.ones(1, 1, 32), feed_forward=torch.zeros(1, 1, 32))
    output = once_normalized(layer, torch.zeros(1, 1, 32)).flatten()
    is_kept = output > 0
    k = int(is_kept.sum())
    assert 4 < k < 28
    mean, deviation = k / 16, math.sqrt(k / 8 - (k / 16) ** 2)
    close(output[is_kept], [(2 - mean) / deviation] * k)
    close(output[~is_kept], [-mean / deviation] * (32 - k))


@torch.no_grad()
@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
def test_attention_dropout_acts_on_the_weights(attn_implementation: str) -> None:
    # With the identity as values, the mixed values are the weights: at a rate of 0.5 each is 0 or
    # twice what it is without dropout.
    torch.manual_seed(0)
    config = small_config(attention_dropout=0.5, num_heads=1, d_k=6, d_v=32)
    config._attn_implementation = attn_implementation
    attention = MultiHeadAttention(config, 0, is_cross_attention=True).eval()
    for projection in (attention.value_proj, attention.output_proj):
        nn.init.eye_(projection.weight)
    x, memory = torch.randn(1, 20, 32), torch.eye(32)[None]
    plain = attention(x, memory)[0]
    dropped = attention.train()(x, memory)[0]
    is_kept = dropped != 0
    close(dropped[is_kept], 2 * plain[is_kept])
    assert 0.4 < is_kept.float().mean() < 0.6  # of 640, a deviation of 0.02


@torch.no_grad()
def test_activation_dropout_acts_behind_the_activation() -> None:
    torch.manual_seed(0)
    network = FeedForward(small_config(d_ff=400, activation_dropout=0.5)).train()
    seen: list[Tensor] = []
    network.outer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    x = torch.randn(T, 32)
    network(x)
    inner = x @ network.inner.weight.T + network.inner.bias
    is_kept = seen[0] != 0
    close(seen[0][is_kept], 2 * inner[is_kept])
    assert not (seen[0] < 0).any()
    assert 0.4 < is_kept.float().mean() / (inner > 0).float().mean() < 0.6


@torch.no_grad()
def test_nothing_is_dropped_but_what_section_5_4_names() -> None:
    # Without residual dropout, whose rate is also that of the sums of embeddings and positions, a
    # model in training computes what it computes in evaluation.
    model = small_model(dropout=0.0)
    inputs = {"input_ids": draw_tokens(B, S), "decoder_input_ids": draw_tokens(B, T)}
    expected = model(**inputs).logits
    close(model.train()(**inputs).logits, expected)


def test_the_epsilon_of_layer_normalization_is_a_field() -> None:
    # The variance is 1e-6; with an epsilon of 3e-6 beside it the result shrinks by sqrt(4).
    x = 1e-3 * torch.tensor([[[1.0, -1.0] * 16]])
    close(once_normalized(quiet_layer(layer_norm_eps=3e-6).eval(), x), x * 1000 / 2, atol=1e-4)


@torch.no_grad()
def test_an_output_bias_is_added_to_the_logits() -> None:
    model = small_model(output_bias=True)
    outputs = model(
        draw_tokens(B, S), decoder_input_ids=draw_tokens(B, T), output_hidden_states=True
    )
    states = outputs.decoder_hidden_states[-1]
    bias = model.lm_head.bias.tolist()
    assert max(map(abs, bias)) > 0.1
    expected = references.linear(states[0].tolist(), model.model.shared.weight.tolist(), bias)
    close(outputs.logits[0], expected)


@torch.no_grad()
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_learned_positions_stand_in_for_the_sinusoids(side: str) -> None:
    # Table 3, row E: what is added is a trained row for each position, of this stack alone.
    model = small_model(position_encoding="learned")
    tokens = draw_tokens(B, T)
    stack = getattr(model.model, side)
    seen: list[Tensor] = []
    stack.layers[0].register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    stack(tokens, **({"encoder_hidden_states": torch.randn(B, S, 32)} if side == "decoder" else {}))
    rows = dict(stack.named_parameters())["embedding.positions.weight"]
    close(seen[0], model.model.shared.weight[tokens] * math.sqrt(32) + rows[:T])
