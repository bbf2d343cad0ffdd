"""Small models and batches that tests of the model's files share."""

from typing import Any

import torch
from torch import Tensor, nn

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


# Sizes that cannot be confused.
B, S, T, H, V = 2, 7, 5, 4, 20
PAD, EOS, IGNORED = 1, 2, -100
# Sums of float32 products in another order differ by a few units in the seventh digit.
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
PADDED_SOURCE = torch.tensor([[1] * S, [1] * (S - 3) + [0] * 3])
LABELS = torch.tensor([[5, 9, 3, 2, IGNORED], [8, 2, IGNORED, IGNORED, IGNORED]])  # 6 are real
SHIFTED = torch.tensor([[PAD, 5, 9, 3, 2], [PAD, 8, 2, PAD, PAD]])  # by hand: one position later


def small_config(**fields: Any) -> VaswaniConfig:
    sizes: dict[str, Any] = {
        "vocab_size": V,
        "d_model": 32,
        "d_ff": 48,
        "num_heads": H,
        "d_k": 6,
        "d_v": 10,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "max_position_embeddings": 32,
    }
    return VaswaniConfig(**(sizes | fields))


def small_model(seed: int = 0, **fields: Any) -> VaswaniForConditionalGeneration:
    """A model in evaluation mode whose every number is drawn, so that no term is zero by chance."""
    torch.manual_seed(seed)
    attention = fields.pop("attn_implementation", "sdpa")
    config = small_config(**fields)
    config._attn_implementation = attention
    model = VaswaniForConditionalGeneration(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            nn.init.normal_(parameter, mean=float("norm.weight" in name), std=0.2)
    return model.eval()


def draw_tokens(*shape: int, seed: int = 0) -> Tensor:
    """Ids of ordinary pieces."""
    return torch.randint(3, V, shape, generator=torch.Generator().manual_seed(seed))


def close(actual: Tensor, expected: Any, **tolerance: float) -> None:
    if not isinstance(expected, Tensor):
        expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(
        actual.double(), expected.double(), **(CLOSE | tolerance), check_device=False
    )
