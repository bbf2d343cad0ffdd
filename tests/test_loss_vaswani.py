"""The loss: its formula, by chunks, compiled, and beside other copies of its code."""

import copy
import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests import references
from tests.small_models import (
    IGNORED,
    LABELS,
    PADDED_SOURCE,
    SHIFTED,
    B,
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
    loss_vaswani,
    train_tokenizer,
)
from vaswani_hf.hub.folder import REMOTE_CODE, export
from vaswani_hf.loss_vaswani import smoothed_cross_entropy


@pytest.fixture(autouse=True)
def chunks_of_few_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `TOKENS_AT_ONCE` alone say how large a chunk is, for small vocabularies as for large."""
    monkeypatch.setattr(loss_vaswani, "LOGITS_AT_ONCE", 0)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6])
def test_smoothed_loss_is_that_of_the_written_out_distribution(epsilon: float) -> None:
    torch.manual_seed(0)
    logits, labels = 3 * torch.randn(6, V), torch.tensor([3, IGNORED, 0, 19, IGNORED, 7])
    expected = references.label_smoothed_cross_entropy(logits.tolist(), labels.tolist(), epsilon)
    close(smoothed_cross_entropy(logits, labels, epsilon), expected)


SOFT_IDS = draw_tokens(B, T, 3, seed=4)
SOFT_SHARES = torch.rand(B, T, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
SOFT_SHARES = 0.7 * SOFT_SHARES / SOFT_SHARES.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_loss_with_soft_targets_is_that_of_the_written_out_distribution(epsilon: float) -> None:
    torch.manual_seed(0)
    logits, labels = 3 * torch.randn(B * T, V), LABELS.flatten()
    soft = SOFT_IDS.flatten(0, 1), SOFT_SHARES.flatten(0, 1)
    expected = references.distilled_cross_entropy(
        logits.tolist(), labels.tolist(), epsilon, *(each.tolist() for each in soft)
    )
    close(smoothed_cross_entropy(logits, labels, epsilon, soft_targets=soft), expected)


def test_a_label_that_a_teacher_repeats_keeps_its_loss() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(4, V), torch.arange(4)
    soft = labels.unsqueeze(1), torch.full((4, 1), 0.3)
    expected = nn.functional.cross_entropy(logits, labels)
    close(smoothed_cross_entropy(logits, labels, 0.0, soft_targets=soft), expected)


def test_smoothed_loss_of_even_logits_is_the_logarithm_of_the_vocabulary() -> None:
    loss = smoothed_cross_entropy(torch.zeros(4, V), torch.arange(4), 0.1)
    close(loss, math.log(20))


def test_the_decoder_sees_the_labels_one_position_later() -> None:
    model = small_model()
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(LABELS), SHIFTED)


@torch.no_grad()
def test_evaluation_loss_is_plain_and_shifted_once() -> None:
    model = small_model()
    source = draw_tokens(B, S)
    outputs = model(source, labels=LABELS)
    logits = model(source, decoder_input_ids=SHIFTED).logits
    expected = references.label_smoothed_cross_entropy(
        logits.flatten(0, 1).tolist(), LABELS.flatten().tolist(), 0.0
    )
    close(outputs.loss, expected)
    close(outputs.logits, logits)


def test_training_loss_is_smoothed_and_ignores_padding() -> None:
    model = small_model(dropout=0.0)
    source = draw_tokens(B, S)
    with torch.no_grad():
        logits = model(source, decoder_input_ids=SHIFTED).logits
    expected = references.label_smoothed_cross_entropy(
        logits.flatten(0, 1).tolist(), LABELS.flatten().tolist(), 0.1
    )
    close(model.train()(source, labels=LABELS).loss, expected)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_the_loss_is_a_sum_divided_by_the_number_of_items(training: bool, as_tensor: bool) -> None:
    model = small_model(dropout=0.0).train(training)
    source = draw_tokens(B, S)
    own = model(source, labels=LABELS).loss
    num_items = torch.tensor(24) if as_tensor else 24
    shared = model(source, labels=LABELS, num_items_in_batch=num_items).loss
    close(shared * 4, own)  # 24 tokens are 4 times the 6 of this batch


def test_accumulated_losses_add_up_to_the_loss_of_the_whole_batch() -> None:
    model = small_model(dropout=0.0).train()
    source = draw_tokens(B, S)
    whole = model(source, labels=LABELS).loss
    parts = [
        model(source[b : b + 1], labels=LABELS[b : b + 1], num_items_in_batch=6).loss
        for b in range(B)
    ]
    close(sum(parts), whole)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("num_items", [None, 0, torch.tensor(0)], ids=str)
def test_no_real_label_makes_a_loss_of_zero_that_goes_backward(
    training: bool, num_items: int | Tensor | None
) -> None:
    model = small_model().train(training)
    labels = torch.full((B, T), IGNORED)
    loss = model(draw_tokens(B, S), labels=labels, num_items_in_batch=num_items).loss
    assert loss.item() == 0.0
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


class Heights(TorchDispatchMode):
    """Collects how many rows of V numbers each operation gives, the transposed weight left out."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple) else (result,):
            is_tall = isinstance(tensor, Tensor) and tensor.ndim > 1 and tensor.shape[-1] == V
            if is_tall and tensor.shape != (32, V):
                self.rows.append(tensor.numel() // V)
        return result


def test_training_computes_logits_of_real_targets_only() -> None:
    model = small_model().train()
    with Heights() as heights:
        outputs = model(draw_tokens(B, S), labels=LABELS)
    assert max(heights.rows) == 6
    assert outputs.logits is None


def test_training_never_holds_the_logits_of_all_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_vaswani, "TOKENS_AT_ONCE", 4)
    model = small_model(output_bias=True).train()
    with Heights() as heights:
        model(draw_tokens(B, S), labels=LABELS).loss.backward()
    assert max(heights.rows) == 4


def test_a_chunk_has_more_tokens_of_a_small_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_vaswani, "TOKENS_AT_ONCE", 2)
    monkeypatch.setattr(loss_vaswani, "LOGITS_AT_ONCE", 5 * V)
    with Heights() as heights:
        small_model().train()(draw_tokens(B, S), labels=LABELS)
    assert max(heights.rows) == 5


def plain_gradients(
    model: VaswaniForConditionalGeneration, num_items: int = 6
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients by torch's own cross-entropy over the logits of every position."""
    model.zero_grad()
    logits = model(draw_tokens(B, S), PADDED_SOURCE, SHIFTED).logits.float()
    loss = nn.functional.cross_entropy(
        logits.flatten(0, 1), LABELS.flatten(), label_smoothing=0.1, reduction="sum"
    )
    loss = loss / num_items
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_alike(actual: Tensor, expected: Tensor, share: float) -> None:
    """No number differs by more than a share of the largest."""
    assert actual.dtype == expected.dtype
    close(actual, expected, atol=share * float(expected.abs().max()) + 1e-9, rtol=0.0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("num_items", [None, 24])
@pytest.mark.parametrize("at_once", [1, 4, 6])
def test_the_loss_by_chunks_has_the_gradients_of_the_plain_one(
    monkeypatch: pytest.MonkeyPatch,
    share: bool,
    tie: bool,
    output_bias: bool,
    num_items: int | None,
    at_once: int,
) -> None:
    monkeypatch.setattr(loss_vaswani, "TOKENS_AT_ONCE", at_once)
    fields = {"share_embeddings": share, "tie_word_embeddings": tie, "output_bias": output_bias}
    model = small_model(dropout=0.0, **fields).train()
    expected_loss, expected = plain_gradients(model, num_items or 6)
    model.zero_grad()
    loss = model(draw_tokens(B, S), PADDED_SOURCE, labels=LABELS, num_items_in_batch=num_items).loss
    loss.backward()
    close(loss, expected_loss)
    for name, parameter in model.named_parameters():
        assert_alike(parameter.grad, expected[name], 1e-5)


SOFT = {"soft_target_ids": SOFT_IDS, "soft_target_shares": SOFT_SHARES}


def distilled_model(**fields: Any) -> VaswaniForConditionalGeneration:
    return small_model(dropout=0.0, **fields).double().train()


def gradients(
    model: VaswaniForConditionalGeneration, loss: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def distilled(output_bias: bool) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients by torch's own cross-entropy against the written-out distribution."""
    model = distilled_model(output_bias=output_bias)
    logits = model(draw_tokens(B, S), PADDED_SOURCE, SHIFTED).logits
    rest = 1 - SOFT_SHARES.sum(dim=-1, keepdim=True)
    label = nn.functional.one_hot(LABELS.clamp(min=0), V).double()
    target = (rest * (0.9 * label + 0.1 / V)).scatter_add(2, SOFT_IDS, SOFT_SHARES)
    is_real = LABELS != IGNORED
    loss = nn.functional.cross_entropy(logits[is_real], target[is_real])
    return gradients(model, loss)


@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("at_once", [1, 4, 6])
def test_the_loss_by_chunks_with_soft_targets_has_the_gradients_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, output_bias: bool, at_once: int
) -> None:
    monkeypatch.setattr(loss_vaswani, "TOKENS_AT_ONCE", at_once)
    expected_loss, expected = distilled(output_bias)
    model = distilled_model(output_bias=output_bias)
    loss, found = gradients(
        model, model(draw_tokens(B, S), PADDED_SOURCE, labels=LABELS, **SOFT).loss
    )
    close(loss, expected_loss, atol=1e-12, rtol=1e-12)
    for name, gradient in found.items():
        close(gradient, expected[name], atol=1e-12, rtol=1e-10)


def test_a_head_of_another_kind_has_the_loss_with_soft_targets() -> None:
    class Head(nn.Linear):
        """Not chunked, as an adapter's."""

    expected_loss, expected = distilled(False)
    model = distilled_model()
    model.lm_head.__class__ = Head
    loss, found = gradients(
        model, model(draw_tokens(B, S), PADDED_SOURCE, labels=LABELS, **SOFT).loss
    )
    close(loss, expected_loss, atol=1e-12, rtol=1e-12)
    for name, gradient in found.items():
        close(gradient, expected[name], atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("devices_of_operator", [("cpu",), ()])
def test_compiled_the_loss_with_soft_targets_is_the_same(
    monkeypatch: pytest.MonkeyPatch, devices_of_operator: tuple[str, ...]
) -> None:
    monkeypatch.setattr(loss_vaswani, "DEVICES_OF_OPERATOR", devices_of_operator)
    monkeypatch.setattr(loss_vaswani, "CHUNKS_OF_GRAPH", 4)  # of 10 positions: 2 are made up
    torch._dynamo.reset()
    torch.manual_seed(0)
    states, head = torch.randn(B, T, 8), nn.Linear(8, V)
    soft = SOFT_IDS, SOFT_SHARES.float()

    def loss(states: Tensor) -> Tensor:
        return loss_vaswani.training_loss(head, states, LABELS, 0.1, soft_targets=soft)

    results = []
    for each in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        states = states.detach().requires_grad_()
        head.zero_grad()
        value = each(states)
        value.backward()
        results.append((value.detach(), states.grad, head.weight.grad, head.bias.grad))
    for actual, expected in zip(results[1], results[0], strict=True):
        close(actual, expected)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"labels": LABELS, "soft_target_ids": SOFT_IDS}, "and soft_target_shares together"),
        (SOFT, "are for training: give labels"),
    ],
)
def test_soft_targets_that_would_do_nothing_are_refused(inputs: dict[str, Any], told: str) -> None:
    model = distilled_model()
    with pytest.raises(ValueError, match=told):
        model(draw_tokens(B, S), decoder_input_ids=SHIFTED, **inputs)
    with pytest.raises(ValueError, match="call train"):
        model.eval()(draw_tokens(B, S), labels=LABELS, **SOFT)


@pytest.mark.parametrize("whole_model", [False, True])
def test_the_loss_by_chunks_in_bfloat16_is_the_plain_one_but_for_rounding(
    monkeypatch: pytest.MonkeyPatch, whole_model: bool
) -> None:
    monkeypatch.setattr(loss_vaswani, "TOKENS_AT_ONCE", 4)
    model = small_model(dropout=0.0, output_bias=True).train()
    if whole_model:
        model = model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=not whole_model):
        expected_loss, expected = plain_gradients(model)
        model.zero_grad()
        loss = model(draw_tokens(B, S), PADDED_SOURCE, labels=LABELS).loss
    loss.backward()
    assert loss.dtype == torch.float32
    # bfloat16 has 8 bits of mantissa, and the two paths round at other places.
    close(loss, expected_loss, rtol=1e-2)
    for name, parameter in model.named_parameters():
        if "key_proj.bias" not in name:
            assert_alike(parameter.grad, expected[name], 0.05)


ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}  # takes less time to compile


# On a CPU one operator makes the loss; elsewhere the graph itself does, which () shows on a CPU.
# Compiling takes seconds: every two of the choices meet, not every three.
@pytest.mark.parametrize(
    ("devices_of_operator", "output_bias", "dtype"),
    [
        (("cpu",), False, None),
        (("cpu",), True, torch.bfloat16),
        ((), True, None),
        ((), False, torch.bfloat16),
    ],
)
def test_a_compiled_model_has_the_loss_and_gradients_of_an_eager_one(
    monkeypatch: pytest.MonkeyPatch,
    devices_of_operator: tuple[str, ...],
    output_bias: bool,
    dtype: torch.dtype | None,
) -> None:
    monkeypatch.setattr(loss_vaswani, "TOKENS_AT_ONCE", 4)
    monkeypatch.setattr(loss_vaswani, "DEVICES_OF_OPERATOR", devices_of_operator)
    monkeypatch.setattr(loss_vaswani, "CHUNKS_OF_GRAPH", 4)  # of 10 positions: 2 are made up
    torch._dynamo.reset()
    model = small_model(dropout=0.0, output_bias=output_bias, **ONE_LAYER).train()
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend="aot_eager")
    inputs = {"attention_mask": PADDED_SOURCE, "labels": LABELS, "num_items_in_batch": 5}
    for each in (model, compiled):
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            outputs = each(draw_tokens(B, S), **inputs)
        outputs.loss.backward()
        if each is model:
            expected = outputs.loss
    close(outputs.loss, expected, rtol=1e-2 if dtype else 1e-5)
    found = dict(compiled._orig_mod.named_parameters())
    for name, parameter in model.named_parameters():
        if "key_proj.bias" not in name:
            assert_alike(found[name].grad, parameter.grad, 0.05 if dtype else 1e-5)


def test_a_compiled_graph_holds_no_logits_on_a_cpu() -> None:
    torch._dynamo.reset()
    shapes: list[tuple[int, ...]] = []

    def note(graph: torch.fx.GraphModule, inputs: Any) -> torch.fx.GraphModule:
        values = [node.meta.get("example_value") for node in graph.graph.nodes]
        shapes.extend(tuple(value.shape) for value in values if isinstance(value, Tensor))
        return graph

    model = small_model().train()
    torch.compile(model, fullgraph=True, backend=note)(draw_tokens(B, S), labels=LABELS)
    assert (B * T, 32) in shapes
    assert not [shape for shape in shapes if shape[-1:] == (V,)]


@pytest.mark.parametrize("devices_of_operator", [("cpu",), ()])
def test_a_compiled_step_keeps_no_logits(
    monkeypatch: pytest.MonkeyPatch, devices_of_operator: tuple[str, ...]
) -> None:
    monkeypatch.setattr(loss_vaswani, "DEVICES_OF_OPERATOR", devices_of_operator)
    torch._dynamo.reset()
    kept: list[tuple[int, ...]] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tuple(tensor.shape))
        return tensor

    vocab_size, tokens = 200, (8, 16)  # logits would be the largest by far
    model = small_model(vocab_size=vocab_size, **ONE_LAYER).train()
    labels = torch.randint(3, vocab_size, tokens)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = compiled(draw_tokens(8, S), labels=labels).loss
    loss.backward()
    assert (vocab_size, 32) in kept  # the gradient of the matrix
    assert not [shape for shape in kept if shape[-1:] == (vocab_size,)]


def test_gradients_in_float16_are_not_made_before_the_loss_is_scaled() -> None:
    # Without the scale of the loss, 0.1 / V is below the smallest number of float16 that is exact:
    # every logit is held at once, so that their gradients come in the backward pass.
    model = small_model().train().half()
    with Heights() as heights:
        loss = model(draw_tokens(B, S), labels=LABELS).loss
        forward = len(heights.rows)
        (loss * 1024).backward()
    assert len(heights.rows) > forward


def test_a_head_of_another_kind_is_asked_for_the_logits() -> None:
    # As adapters and quantization put it in the place of the layer: here one that doubles.
    class Doubled(nn.Module):
        def __init__(self, inner: nn.Linear) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, states: Tensor) -> Tensor:
            return 2 * self.inner(states)

    model = small_model(dropout=0.0)
    source = draw_tokens(B, S)
    logits = 2 * model(source, decoder_input_ids=SHIFTED).logits
    model.lm_head = Doubled(model.lm_head)
    expected = references.label_smoothed_cross_entropy(
        logits.flatten(0, 1).tolist(), LABELS.flatten().tolist(), 0.1
    )
    close(model.train()(source, labels=LABELS).loss, expected)


@pytest.mark.parametrize("is_known", [True, False], ids=["graph known", "graph unknown"])
def test_further_backward_passes_through_the_loss_give_the_same_gradients(
    is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_known:  # what stands in where torch does not say
        monkeypatch.setattr(loss_vaswani, "is_graph_kept", lambda: True)
    model = small_model(output_bias=True).train()
    loss = model(draw_tokens(B, S), labels=LABELS, num_items_in_batch=3).loss
    passes = []
    for retain_graph in (True, True, False):
        model.zero_grad()
        loss.backward(retain_graph=retain_graph)
        passes.append({name: p.grad.clone() for name, p in model.named_parameters()})
    for name, first in passes[0].items():
        assert first.any(), name
        assert torch.equal(passes[1][name], first), name
        assert torch.equal(passes[2][name], first), name


class Copies(TorchDispatchMode):
    """Collects the shapes of results that share no memory with an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        result = function(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, Tensor)}
        if isinstance(result, Tensor) and result.untyped_storage().data_ptr() not in given:
            self.shapes.append(tuple(result.shape))
        return result


@pytest.mark.parametrize("output_bias", [False, True])
def test_a_head_that_is_not_trained_gets_no_gradient_and_takes_none_from_the_rest(
    output_bias: bool,
) -> None:
    gradients = []
    for is_trained in (True, False):
        model = small_model(tie_word_embeddings=False, output_bias=output_bias).train()
        model.lm_head.weight.requires_grad_(is_trained)
        torch.manual_seed(0)
        model(draw_tokens(B, S), labels=LABELS).loss.backward()
        assert (model.lm_head.weight.grad is not None) == is_trained
        gradients.append(model.model.decoder.layers[0].feed_forward.inner.weight.grad)
        if output_bias:
            assert model.lm_head.bias.grad is not None
    assert torch.equal(*gradients)


@pytest.mark.parametrize("retain_graph", [False, True])
def test_only_a_graph_that_is_kept_costs_a_copy_of_the_gradients(retain_graph: bool) -> None:
    states, weight = torch.randn(6, 32, requires_grad=True), torch.randn(V, 32, requires_grad=True)
    total = loss_vaswani.chunked_cross_entropy(
        states, weight, None, torch.arange(3, 9), label_smoothing=0.1
    )
    with Copies() as copies:
        torch.autograd.grad(total / 6, (states, weight), retain_graph=retain_graph)
    assert [(6, 32) in copies.shapes, (V, 32) in copies.shapes] == [retain_graph] * 2


@pytest.mark.parametrize("with_bias", [False, True])
def test_the_loss_by_chunks_has_the_gradients_of_finite_differences(
    monkeypatch: pytest.MonkeyPatch, with_bias: bool
) -> None:
    monkeypatch.setattr(loss_vaswani, "TOKENS_AT_ONCE", 2)
    torch.manual_seed(0)
    shapes = [(5, 6), (V, 6), (V,)][: 2 + with_bias]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    labels = torch.tensor([3, IGNORED, 7, 3, 19])

    def loss(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return loss_vaswani.chunked_cross_entropy(states, weight, bias, labels, 0.1)

    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_float64_model_has_the_loss_and_gradients_of_float64(
    training: bool, compiled: bool
) -> None:
    # Parameters and gradients are compared with torch's own loss of the same logits.
    model = small_model(dropout=0.0, output_bias=True, **ONE_LAYER).double().train(training)
    logits = model(draw_tokens(B, S), PADDED_SOURCE, SHIFTED).logits
    epsilon = 0.1 if training else 0.0
    expected = nn.functional.cross_entropy(
        logits.flatten(0, 1), LABELS.flatten(), label_smoothing=epsilon
    )
    gradients = torch.autograd.grad(expected, list(model.parameters()))
    torch._dynamo.reset()
    run = torch.compile(model, backend="aot_eager") if compiled else model
    loss = run(draw_tokens(B, S), PADDED_SOURCE, labels=LABELS).loss
    loss.backward()
    assert loss.dtype == torch.float64
    close(loss, expected, atol=1e-14, rtol=0.0)  # a few units in the last digit of 4
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert_alike(parameter.grad, gradient, 1e-12)


def test_autocast_leaves_the_loss_of_a_float64_model_alone() -> None:
    model = small_model(dropout=0.0).double().train()
    expected = model(draw_tokens(B, S), labels=LABELS).loss
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(draw_tokens(B, S), labels=LABELS).loss
    close(loss, expected, atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [False, True])
def test_the_loss_of_a_half_precision_model_is_in_float32(
    dtype: torch.dtype, training: bool
) -> None:
    model = small_model().to(dtype).train(training)
    assert model(draw_tokens(B, S), labels=LABELS).loss.dtype == torch.float32


# Copies of the code in one process


def test_two_copies_of_the_code_train_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As remote code of two models; the second one's loss is doubled, so that a mix-up shows.
    monkeypatch.syspath_prepend(tmp_path)
    models = []
    for name in ("first_copy", "second_copy"):
        (tmp_path / name).mkdir()
        for file in REMOTE_CODE:
            text = (Path(loss_vaswani.__file__).parent / file).read_text()
            if (name, file) == ("second_copy", "loss_vaswani.py"):
                text = text.replace("return sums.total, ", "return 2 * sums.total, ")
            (tmp_path / name / file).write_text(text)
        code = importlib.import_module(f"{name}.modeling_vaswani")
        torch.manual_seed(0)
        sizes = small_config(dropout=0.0, encoder_layers=1, decoder_layers=1).to_diff_dict()
        config = code.VaswaniConfig(**sizes)
        models.append(code.VaswaniForConditionalGeneration(config).train())
    losses = []
    torch._dynamo.reset()
    for model in [*models, models[0]]:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        loss = torch.compile(model, backend="aot_eager")(draw_tokens(B, S), labels=LABELS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    close(losses[1], 2 * losses[0])
    assert losses[2] < losses[0]  # of the second step, not twice as much


# A process that cannot import the package: each model comes with the code in its own folder.
COPIES = """
import importlib.abc, json, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("vaswani_hf", "training"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import torch
from transformers import AutoModelForSeq2SeqLM

is_compiled, *folders = json.loads(sys.argv[1])
source = torch.arange(3, 17).view(2, 7)
models = [AutoModelForSeq2SeqLM.from_pretrained(x, trust_remote_code=True) for x in folders]
losses, translations = [], []
for model in [*models, models[0]]:  # the first again, when all others have been used
    step = torch.compile(model.train(), backend="aot_eager") if is_compiled else model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = step(source, labels=source).loss
    loss.backward()
    losses.append(loss.item())
    translations.append(model.eval().generate(source, max_new_tokens=9).tolist())
    optimizer.step()
print(json.dumps([[type(model).__module__ for model in models], losses, translations]))
"""


@pytest.mark.parametrize(
    "is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["eager", "compiled"]
)
def test_copies_of_the_code_train_and_translate_side_by_side(
    tmp_path: Path, is_compiled: bool
) -> None:
    tokenizer = train_tokenizer(["a b c"] * 10, 300, are_files=False, show_progress=False)
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = VaswaniConfig(vocab_size=len(tokenizer), dropout=0.0, **sizes)
    model = VaswaniForConditionalGeneration(config).eval()
    folders = [tmp_path / name for name in ("first", "second", "other_version")]
    for folder in folders:
        export(model, tokenizer, folder)
    # Another version, whose loss is twice as large, so that a mix-up shows.
    path = folders[2] / "loss_vaswani.py"
    text = path.read_text()
    assert "return sums.total, " in text
    path.write_text(text.replace("return sums.total, ", "return 2 * sums.total, "))
    done = subprocess.run(
        [sys.executable, "-c", COPIES, json.dumps([is_compiled, *map(str, folders)])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules, losses, translations = json.loads(done.stdout.splitlines()[-1])
    assert len(set(modules)) == 3
    assert losses[:3] == pytest.approx([losses[0], losses[0], 2 * losses[0]])
    assert losses[3] < losses[0]  # after a step, and not twice as large
    expected = model.generate(torch.arange(3, 17).view(2, 7), max_new_tokens=9).tolist()
    assert translations[:3] == [expected] * 3
