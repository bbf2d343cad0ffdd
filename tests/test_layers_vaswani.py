"""The faster ways through torch's layers, against torch's own and against float64."""

import ast
import copy
import gc
import importlib
import pickle
import re
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BitsAndBytesConfig
from transformers.integrations import bitsandbytes

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, layers_vaswani
from vaswani_hf.hub.folder import REMOTE_CODE
from vaswani_hf.layers_vaswani import FasterForward, use_faster_layers, use_torch_layers


close = torch.testing.assert_close
ONEDNN_BESIDE_MKL = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


@pytest.fixture(autouse=True)
def on_no_intel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the ways of a processor that is not Intel's, whichever this one is."""
    if ONEDNN_BESIDE_MKL:
        monkeypatch.setattr(layers_vaswani, "PRODUCTS", "onednn")


@pytest.fixture
def small_tensors_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let backward passes of small tensors compute again what they do for large ones."""
    monkeypatch.setattr(layers_vaswani, "LEAST_TO_RECOMPUTE", 0)


def faster(layer: nn.Module) -> nn.Module:
    """The same layer, or model, with the faster ways."""
    use_faster_layers(layer)
    return layer


def num_products(profile: torch.profiler.profile) -> int:
    """How many of oneDNN's were made."""
    return sum(event.name == "mkldnn::_linear_pointwise" for event in profile.events())


def gradients(
    layer: nn.Module, x: Tensor, grad: Tensor, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Result, and gradients of input and parameters, in float32."""
    layer, x = copy.deepcopy(layer).to(dtype), x.detach().to(dtype).requires_grad_()
    y = layer(x)
    y.backward(grad.to(dtype))
    return [part.float() for part in (y.detach(), x.grad, *(p.grad for p in layer.parameters()))]


def saved_numbers(layer: nn.Module, x: Tensor) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and types of what a forward pass keeps for the backward pass, parameters left out."""
    kept: list[tuple[tuple[int, ...], torch.dtype]] = []
    parameters = {parameter.data_ptr() for parameter in layer.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in parameters:
            kept.append((tuple(tensor.shape), tensor.dtype))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    return kept


# Linear


@pytest.mark.parametrize("shape", [(160, 64), (8, 20, 64), (1, 64)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_are_the_same_with_and_without_gradients(
    bias: bool, shape: tuple[int, ...]
) -> None:
    # Without gradients 160 rows go to oneDNN (160 * 64 * 512 is above 2^22), and one row does not.
    torch.manual_seed(0)
    layer, x = faster(nn.Linear(64, 512, bias=bias)), torch.randn(shape)
    expected = layer(x).detach()
    exact = x.double() @ layer.weight.detach().double().T
    exact = exact + layer.bias.detach().double() if bias else exact
    close(expected, exact.float())
    with torch.profiler.profile() as profile, torch.no_grad():
        found = layer(x)
    close(found, expected)
    assert num_products(profile) == (1 if ONEDNN_BESIDE_MKL and shape != (1, 64) else 0)


@torch.no_grad()
def test_products_that_the_other_library_does_not_take_go_the_usual_way() -> None:
    torch.manual_seed(0)
    layer, x = faster(nn.Linear(64, 512)), torch.randn(160, 64)
    expected = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    with torch.backends.mkldnn.flags(enabled=False):
        close(layer(x), expected)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    close(compiled(x), expected)
    half = copy.deepcopy(layer).to(torch.bfloat16)
    assert half(x.to(torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(520, 64), (13, 40, 64), (3, 64)])
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_products_are_those_of_float64(bias: bool, shape: tuple[int, ...]) -> None:
    # 520 rows go to oneDNN with gradients (520 * 64 * 512 is above 2^24), and 3 rows do not; nor
    # does the gradient of the matrix (below 2^28).
    torch.manual_seed(0)
    layer = faster(nn.Linear(64, 512, bias=bias))
    x, grad = torch.randn(shape), torch.randn(*shape[:-1], 512)
    with torch.profiler.profile() as profile:
        found = gradients(layer, x, grad)
    for actual, expected in zip(found, gradients(layer, x, grad, torch.float64), strict=True):
        close(actual, expected, atol=1e-4, rtol=1e-5)
    assert num_products(profile) == (2 if ONEDNN_BESIDE_MKL and shape != (3, 64) else 0)


@pytest.mark.parametrize("shape", [(64, 512), (512, 64), (200, 200)])
def test_gradients_of_large_matrices_are_those_of_float64(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    monkeypatch.setattr(layers_vaswani, "LEAST_FOR_ONEDNN_TRANSPOSED", 2**24)
    torch.manual_seed(0)
    layer = faster(nn.Linear(*shape))
    x, grad = torch.randn(520, shape[0]), torch.randn(520, shape[1])
    with torch.profiler.profile() as profile:
        found = gradients(layer, x, grad)
    for actual, expected in zip(found, gradients(layer, x, grad, torch.float64), strict=True):
        close(actual, expected, atol=1e-4, rtol=1e-5)
    is_long = shape[0] != shape[1]
    assert num_products(profile) == ((3 if is_long else 2) if ONEDNN_BESIDE_MKL else 0)


def test_a_processor_of_intel_multiplies_as_torch_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(
        layers_vaswani, "Path", lambda path: cpuinfo if path == "/proc/cpuinfo" else Path(path)
    )
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\n")
    assert layers_vaswani.library_of_products() == ("onednn" if ONEDNN_BESIDE_MKL else "torch")
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: GenuineIntel\n")
    assert layers_vaswani.library_of_products() == "torch"
    monkeypatch.setattr(layers_vaswani, "PRODUCTS", "torch")
    torch.manual_seed(0)
    layer, x, grad = nn.Linear(64, 512), torch.randn(520, 64), torch.randn(520, 512)
    expected = gradients(layer, x, grad)
    with torch.profiler.profile() as profile:
        found = gradients(faster(layer), x, grad)
    assert all(map(torch.equal, found, expected))
    assert num_products(profile) == 0


def test_products_of_tensors_that_do_not_lie_in_order_have_their_gradients() -> None:
    torch.manual_seed(0)
    layer = faster(nn.Linear(64, 512))
    x, grad = torch.randn(64, 520).T, torch.randn(512, 520).T
    for actual, expected in zip(
        gradients(layer, x, grad), gradients(layer, x, grad, torch.float64), strict=True
    ):
        close(actual, expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("frozen", ["x", "weight"])
def test_what_is_frozen_gets_no_gradient(monkeypatch: pytest.MonkeyPatch, frozen: str) -> None:
    monkeypatch.setattr(layers_vaswani, "LEAST_FOR_ONEDNN_TRANSPOSED", 2**24)
    torch.manual_seed(0)
    layer, x = faster(nn.Linear(64, 512)), torch.randn(520, 64, requires_grad=frozen != "x")
    layer.weight.requires_grad_(frozen != "weight")
    kept: list[tuple[int, ...]] = []
    with torch.profiler.profile() as profile:
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: kept.append(tuple(tensor.shape)) or tensor, lambda tensor: tensor
        ):
            y = layer(x)
        y.sum().backward()
    assert (x.grad is None) == (frozen == "x")
    assert (layer.weight.grad is None) == (frozen == "weight")
    if ONEDNN_BESIDE_MKL:  # neither its product nor what that would need
        assert num_products(profile) == 2
        assert ((520, 64) in kept) == (frozen != "weight")


def test_a_gradient_of_a_product_has_a_gradient() -> None:
    torch.manual_seed(0)
    x, grad = torch.randn(520, 64, requires_grad=True), torch.randn(520, 512)
    layer = faster(nn.Linear(64, 512))

    def penalty(product: nn.Module) -> Tensor:
        y = product(x)
        (grad_x,) = torch.autograd.grad(y.square(), x, grad, create_graph=True)
        return torch.autograd.grad(grad_x.square().mean(), layer.weight)[0]

    def plain(x: Tensor) -> Tensor:
        return nn.functional.linear(x, layer.weight, layer.bias)

    close(penalty(layer), penalty(plain), atol=1e-3, rtol=1e-4)


# Dropout


def test_dropout_zeroes_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    x = torch.full((400, 500), 3.0)
    y = faster(nn.Dropout(0.3))(x)
    # Standard deviation of the share: sqrt(0.21 / 200,000) = 0.001.
    assert (y == 0).float().mean().item() == pytest.approx(0.3, abs=0.005)
    close(y[y != 0], torch.full_like(y[y != 0], 3 / 0.7))


def test_numbers_are_dropped_two_by_two_as_if_by_themselves() -> None:
    # Each word of a hash function is uniform, and two are about as good as independent. Over 2,000
    # masks the correlation of two numbers has a standard deviation of 1 / sqrt(2,000) = 0.022; how
    # many of 500 are dropped has a variance of 500 * 0.09 = 45, known to 3 %.
    torch.manual_seed(0)
    dropout = faster(nn.Dropout(0.1))
    masks = torch.stack([dropout(torch.ones(500)) == 0 for _ in range(2000)]).float()
    correlations = torch.corrcoef(masks.T).fill_diagonal_(0)
    assert correlations.square().mean().sqrt().item() == pytest.approx(0.022, abs=0.002)
    assert masks.sum(dim=1).var().item() == pytest.approx(45, rel=0.15)
    # Likewise a number and its neighbour of the next row, which has the same word.
    num_words = len(layers_vaswani.WORDS)
    pairs = [dropout(torch.ones(num_words + 50)) == 0 for _ in range(500)]
    first, second = (torch.stack([mask[start:][:50] for mask in pairs]) for start in (0, num_words))
    together = (first & second).float().mean().item()
    assert together == pytest.approx(0.01, abs=0.003)  # 25,000 pairs: standard deviation 0.0006


def test_a_long_tensor_is_dropped_block_by_block() -> None:
    torch.manual_seed(0)
    block = layers_vaswani.ROWS_AT_ONCE * len(layers_vaswani.WORDS)
    x = torch.randn(2 * block + 17)
    y = faster(nn.Dropout(0.3))(x)
    for part in range(3):
        place = slice(part * block, (part + 1) * block)
        is_kept = y[place] != 0
        close(y[place][is_kept], x[place][is_kept] / 0.7)
        if part < 2:  # standard deviation: 0.0009
            assert is_kept.float().mean().item() == pytest.approx(0.7, abs=0.005)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_backward_pass_of_dropout_has_the_same_mask(dtype: torch.dtype) -> None:
    x = torch.ones(40, 50, dtype=dtype, requires_grad=True)
    y = faster(nn.Dropout(0.4))(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    assert torch.equal(x.grad, y)


@pytest.mark.usefixtures("small_tensors_are_recomputed")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_mask_that_is_made_again_is_the_same(dtype: torch.dtype) -> None:
    test_the_backward_pass_of_dropout_has_the_same_mask(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_large_and_small_tensors_have_the_same_masks(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    dropped, x = [], torch.randn(300, 400).to(dtype)
    for least in (0, 2**30):
        monkeypatch.setattr(layers_vaswani, "LEAST_TO_RECOMPUTE", least)
        torch.manual_seed(0)
        dropped.append(faster(nn.Dropout(0.4))(x))
    assert torch.equal(*dropped)


@pytest.mark.usefixtures("small_tensors_are_recomputed")
def test_a_gradient_through_dropout_has_a_gradient() -> None:
    x = torch.randn(40, 50, requires_grad=True)
    y = faster(nn.Dropout(0.4))(x.square())
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(grad.sum(), x)
    close(found, torch.where(y == 0, 0, 2 / 0.6))


@pytest.mark.usefixtures("small_tensors_are_recomputed")
def test_dropout_keeps_no_mask() -> None:
    assert saved_numbers(faster(nn.Dropout(0.4)), torch.ones(40, 50, requires_grad=True)) == []


def test_masks_follow_torchs_seed_and_differ_from_call_to_call() -> None:
    dropout, x = faster(nn.Dropout(0.5)), torch.ones(20, 30)
    torch.manual_seed(1)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_dropout_of_nothing_and_of_everything(share: float, expected: float) -> None:
    assert torch.equal(faster(nn.Dropout(share))(torch.ones(4, 5)), torch.full((4, 5), expected))
    assert torch.equal(faster(nn.Dropout(share)).eval()(torch.ones(4, 5)), torch.ones(4, 5))


def test_dropout_draws_on_the_cpu_and_in_float32_whatever_the_default_is() -> None:
    x = torch.ones(1000, 1000)
    with torch.device("meta"):
        assert faster(nn.Dropout(0.5))(x).device == x.device
    torch.set_default_dtype(torch.bfloat16)
    try:
        dropped = (faster(nn.Dropout(0.001))(x) == 0).float().mean().item()
    finally:
        torch.set_default_dtype(torch.float32)
    assert dropped == pytest.approx(0.001, abs=2e-4)  # standard deviation: 3e-5


# Layer normalization


def norm_of(weight: Tensor, bias: Tensor) -> tuple[nn.Module, nn.LayerNorm]:
    """Ours and torch's, alike."""
    ours, torchs = (nn.LayerNorm(len(weight), eps=1e-6) for _ in range(2))
    use_faster_layers(ours)
    for norm in (ours, torchs):
        norm.load_state_dict({"weight": weight, "bias": bias})
    return ours, torchs


@pytest.mark.usefixtures("small_tensors_are_recomputed")
@pytest.mark.parametrize("largest_bias", [0.0, 1.0, 7.9])
def test_gradients_from_the_result_are_those_from_the_input(largest_bias: float) -> None:
    torch.manual_seed(0)
    weight = torch.randn(64)
    weight = weight.sign() * weight.abs().clamp(min=0.01)
    bias = weight * torch.linspace(-largest_bias, largest_bias, 64)
    ours, torchs = norm_of(weight, bias)
    x, grad = 5 * torch.randn(6, 7, 64) + 2, torch.randn(6, 7, 64)
    exact = gradients(torchs, x, grad, torch.float64)
    for actual, expected in zip(gradients(ours, x, grad), exact, strict=True):
        close(actual, expected, atol=1e-5 * float(expected.abs().max()), rtol=1e-5)
    # The result, which the next layer keeps anyway, and a number for each row.
    assert saved_numbers(ours, x.requires_grad_()) == [
        ((6, 7, 64), torch.float32),
        ((6, 7, 1), torch.float32),
    ]


def test_a_small_input_is_kept() -> None:
    ours, _ = norm_of(torch.ones(64), torch.zeros(64))
    for rows, is_inverted in ((2**19 // 64 - 1, False), (2**19 // 64, True)):
        x = torch.randn(rows, 64, requires_grad=True)
        kept = saved_numbers(ours, x)
        assert ((rows, 64), torch.float32) in kept
        assert (len(kept) == 2) == is_inverted  # torch keeps the mean as well


@pytest.mark.usefixtures("small_tensors_are_recomputed")
@pytest.mark.parametrize(("weight", "bias"), [(0.0, 0.0), (0.0, 1.0), (1e-9, 0.0), (0.1, 1.0)])
def test_an_input_that_the_result_does_not_tell_is_kept(weight: float, bias: float) -> None:
    torch.manual_seed(0)
    weights, biases = torch.ones(64), torch.zeros(64)
    weights[5], biases[5] = weight, bias
    ours, torchs = norm_of(weights, biases)
    x, grad = torch.randn(3, 64), torch.randn(3, 64)
    for actual, expected in zip(gradients(ours, x, grad), gradients(torchs, x, grad), strict=True):
        assert torch.equal(actual, expected)


@pytest.mark.usefixtures("small_tensors_are_recomputed")
def test_normalization_in_other_precisions_is_torchs() -> None:
    torch.manual_seed(0)
    ours, torchs = norm_of(torch.rand(64) + 0.5, torch.randn(64))
    x, grad = torch.randn(3, 64), torch.randn(3, 64)
    for dtype in (torch.bfloat16, torch.float64):
        found, expected = (gradients(norm, x, grad, dtype) for norm in (ours, torchs))
        assert all(map(torch.equal, found, expected))
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = (gradients(norm, x, grad) for norm in (ours, torchs))
    assert all(map(torch.equal, found, expected))


@pytest.mark.usefixtures("small_tensors_are_recomputed")
@pytest.mark.parametrize("without", [{"bias": False}, {"elementwise_affine": False}], ids=str)
def test_normalization_without_parameters_is_torchs(without: dict[str, bool]) -> None:
    x = torch.randn(3, 64)
    ours, torchs = faster(nn.LayerNorm(64, **without)), nn.LayerNorm(64, **without)
    assert torch.equal(ours(x.requires_grad_()), torchs(x))


# What looks on


def test_gradients_of_gradients_and_transforms_see_torchs_layers() -> None:
    """As interpretation and second-order methods take them, of a model in evaluation mode."""
    torch.manual_seed(0)
    torchs = nn.Sequential(
        nn.Linear(64, 512), nn.LayerNorm(512), nn.Dropout(0.3), nn.Linear(512, 4)
    ).eval()
    layers = faster(copy.deepcopy(torchs))
    x = torch.randn(520, 64)

    def curvature(model: nn.Module) -> Tensor:
        given = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(model(given).square().mean(), given, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), given)[0]

    close(curvature(layers), curvature(torchs))
    found, expected = (
        torch.func.grad(lambda given, model=model: model(given).square().mean())(x)
        for model in (layers, torchs)
    )
    close(found, expected)
    torch.func.vmap(layers.train(), randomness="different")(x.view(2, 260, 64))


# What else is done to layers


def three_layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 512), nn.LayerNorm(512), nn.Dropout(0.3))


def uses_faster_ways(layer: nn.Module) -> bool:
    forward = vars(layer).get("forward")
    return isinstance(forward, FasterForward) and forward.layer() is layer


def test_layers_keep_their_types_and_a_subclass_its_own_forward() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    layers = faster(nn.Sequential(*three_layers(), Doubled(512, 4), nn.ReLU()))
    assert [type(layer) for layer in layers[:3]] == [nn.Linear, nn.LayerNorm, nn.Dropout]
    assert [uses_faster_ways(layer) for layer in layers] == [True] * 3 + [False] * 2
    use_torch_layers(layers)
    assert not any("forward" in vars(layer) for layer in layers)


@pytest.mark.parametrize(
    "make_copy", [copy.deepcopy, lambda layers: pickle.loads(pickle.dumps(layers))]
)
def test_a_copy_computes_with_its_own_weights(make_copy: Callable[[Any], Any]) -> None:
    layers, x = faster(three_layers()).eval(), torch.randn(40, 64)
    expected = layers(x)
    copied = make_copy(layers)
    assert all(uses_faster_ways(layer) for layer in copied)
    with torch.no_grad():
        copied[1].weight.mul_(2)
    close(layers(x), expected)
    close(copied(x), 2 * expected)


def test_a_model_is_freed_as_soon_as_nobody_uses_it() -> None:
    layers = faster(three_layers())
    weight = weakref.ref(layers[0].weight)
    gc.disable()
    try:
        del layers
        assert weight() is None
    finally:
        gc.enable()


def test_a_parametrized_weight_is_the_one_that_multiplies() -> None:
    class Doubled(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    torch.manual_seed(0)
    layer, x = faster(nn.Linear(64, 512, bias=False)), torch.randn(40, 64)
    expected = 2 * layer(x)
    nn.utils.parametrize.register_parametrization(layer, "weight", Doubled())
    close(layer(x), expected)
    with torch.no_grad():
        close(layer(x), expected)


# In a model


SIZES = {"vocab_size": 50, "d_model": 16, "d_ff": 24, "num_heads": 2, "dropout": 0.0}
SIZES |= {"encoder_layers": 1, "decoder_layers": 2}


def draw_model(code: Any = None, **fields: Any) -> VaswaniForConditionalGeneration:
    """A small model, of the package or of a copy of its code."""
    torch.manual_seed(0)
    config_class = code.VaswaniConfig if code else VaswaniConfig
    model_class = code.VaswaniForConditionalGeneration if code else VaswaniForConditionalGeneration
    return model_class(config_class(**SIZES | fields))


def draw_ids(*shape: int) -> Tensor:
    return torch.randint(3, 50, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("is_loaded", [False, True], ids=["built", "loaded"])
def test_every_layer_of_a_model_has_torchs_type(tmp_path: Path, is_loaded: bool) -> None:
    # Tools that replace layers ask for it: `type(module) is nn.Linear`.
    model = draw_model(final_norm=True)
    if is_loaded:
        model.save_pretrained(tmp_path)
        model = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    for kind in (nn.Linear, nn.LayerNorm, nn.Dropout):
        found = [layer for layer in model.modules() if isinstance(layer, kind)]
        assert {type(layer) for layer in found} == {kind}
        assert all(uses_faster_ways(layer) for layer in found)
    assert sum(type(layer) is nn.Linear for layer in model.modules()) == 6 + 2 * 10 + 1


def test_the_librarys_quantizer_replaces_every_product(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quantized(nn.Linear):
        def __init__(self, width: int, out_width: int, bias: bool, **_: Any) -> None:
            super().__init__(width, out_width, bias)

    package = SimpleNamespace(nn=SimpleNamespace(Linear8bitLt=Quantized))
    monkeypatch.setattr(bitsandbytes, "bnb", package, raising=False)
    model = draw_model()
    bitsandbytes.replace_with_bnb_linear(model, ["lm_head"], BitsAndBytesConfig(load_in_8bit=True))
    products = {name: x for name, x in model.named_modules() if isinstance(x, nn.Linear)}
    assert [name for name, x in products.items() if type(x) is not Quantized] == ["lm_head"]
    assert not any("forward" in vars(x) for name, x in products.items() if name != "lm_head")


def test_a_replica_computes_with_its_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    # As nn.DataParallel makes them for GPUs; here one for a CPU, with larger weights.
    model = draw_model().eval()
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.1
    replicating = sys.modules["torch.nn.parallel.replicate"]
    monkeypatch.setattr(replicating, "_get_device_index", lambda device, _: device)
    monkeypatch.setattr(
        replicating,
        "_broadcast_coalesced_reshape",
        lambda tensors, devices, detach=False: [[x + 0.1 * x.requires_grad for x in tensors]],
    )
    ids = {"input_ids": draw_ids(2, 7), "decoder_input_ids": draw_ids(2, 5)}
    before = model(**ids).logits
    (replica,) = nn.parallel.replicate(model, ["cpu"])
    close(replica(**ids).logits, other(**ids).logits)
    assert torch.equal(model(**ids).logits, before)


# Names that torch does not promise


PRIVATE_NAMES = re.findall(r'find_in_torch\("([^"]+)"', Path(layers_vaswani.__file__).read_text())


def test_private_names_of_torch_are_looked_up_in_one_place() -> None:
    assert len(PRIVATE_NAMES) == 6
    for file in REMOTE_CODE:
        tree = ast.parse((Path(layers_vaswani.__file__).parent / file).read_text())
        names = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        assert not [name for name in names if re.match(r"torch\.(_|ops\b|.*\._(?!_))", name)], file
        modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in modules if re.match(r"torch\b.*\._", name or "")], file


@pytest.mark.parametrize("mask", [None, torch.bool, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("whole_model", [False, True])
def test_attention_in_bfloat16_trains_in_float32(
    mask: torch.dtype | None, whole_model: bool
) -> None:
    torch.manual_seed(0)
    attention = draw_model().model.decoder.layers[0].cross_attention.train()
    found: dict[str, Tensor] = {}
    for part in ("query", "key", "value"):
        getattr(attention, f"{part}_proj").register_forward_hook(
            lambda _, __, output, part=part: found.__setitem__(part, output.detach())
        )
    attention.output_proj.register_forward_pre_hook(
        lambda _, arguments: found.__setitem__("heads", arguments[0].detach())
    )
    width = attention.query_proj.in_features
    x, memory = torch.randn(2, 5, width), torch.randn(2, 7, width)
    if whole_model:
        attention, x, memory = attention.bfloat16(), x.bfloat16(), memory.bfloat16()
    allowed = None
    if mask is not None:
        allowed = torch.arange(7).expand(2, 1, 5, 7) < 6
        if mask != torch.bool:
            allowed = torch.zeros(allowed.shape).masked_fill(~allowed, -1e9).to(mask)
    with torch.autocast("cpu", torch.bfloat16, enabled=not whole_model):
        attention(x, memory, allowed)
    # Equation 1 in float64, of the same queries, keys and values, rounded once.
    heads = attention.config.num_heads
    query, key, value = (
        found[part].double().unflatten(-1, (heads, -1)).transpose(1, 2)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    if mask is not None:
        scores[..., 6] = -torch.inf
    expected = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
    assert found["heads"].dtype == found["query"].dtype == torch.bfloat16
    assert (found["heads"] == expected.bfloat16()).float().mean() > 0.98  # 0.73 in bfloat16


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_a_model_does_without_a_private_name_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    package = "without_" + name.rpartition(".")[2]
    (tmp_path / package).mkdir()
    for file in REMOTE_CODE:
        text = (Path(layers_vaswani.__file__).parent / file).read_text()
        # Large enough for every faster way.
        text = re.sub(r"^(LEAST_FOR_ONEDNN\w*) = .*", r"\1 = 0", text, flags=re.M)
        text = text.replace(f'find_in_torch("{name}"', f'find_in_torch("{name}_is_gone"')
        (tmp_path / package / file).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    code = importlib.import_module(f"{package}.modeling_vaswani")
    for part in ("LEAST_FOR_ONEDNN", "LEAST_FOR_ONEDNN_WITH_GRADIENTS"):
        monkeypatch.setattr(layers_vaswani, part, 0)
    found, expected = [], []
    for results, model in ((found, draw_model(code)), (expected, draw_model())):
        with torch.profiler.profile() as profile:
            loss = model.train()(draw_ids(3, 7), labels=draw_ids(3, 5)).loss
            loss.backward()
        results += [loss.detach(), *(parameter.grad for parameter in model.parameters())]
        results += [num_products(profile)]
        results += [model.eval().generate(draw_ids(3, 7), num_beams=4, max_new_tokens=9)]
    assert torch.equal(found.pop(), expected.pop())
    # So that what is missing is missed: without transforms known, or the product, none is made.
    used, usual = found.pop(), expected.pop()
    is_missed = name.endswith(("_linear_pointwise", "_are_functorch_transforms_active"))
    assert (usual > 0) == ONEDNN_BESIDE_MKL
    assert used == (0 if is_missed else usual)
    for one, other in zip(found, expected, strict=True):
        close(one, other, atol=1e-5, rtol=1e-4)
