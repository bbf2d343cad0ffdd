"""The whole model learns: a small one, trained as in section 5.3, copies what it never saw."""

import torch
from torch import Tensor

from tests.references import learning_rate
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


EOS, NUM_PIECES = 2, 20
LENGTH, NUM_UPDATES, WARMUP_STEPS = 10, 300, 100


def draw_batch(seed: int) -> Tensor:
    """Random pieces and `</s>`, `(64, LENGTH + 1)`."""
    generator = torch.Generator().manual_seed(seed)
    pieces = torch.randint(3, NUM_PIECES, (64, LENGTH), generator=generator)
    return torch.cat([pieces, torch.full((64, 1), EOS)], dim=1)


def test_a_small_model_learns_to_copy() -> None:
    torch.manual_seed(0)
    config = VaswaniConfig(
        vocab_size=NUM_PIECES,
        d_model=64,
        d_ff=128,
        num_heads=4,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.0,
    )
    model = VaswaniForConditionalGeneration(config).train()
    # Section 5.3: Adam's numbers, and the schedule at half its rate, with a warm-up that suits so
    # small a model and so short a training.
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, NUM_UPDATES + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config.d_model, WARMUP_STEPS) / 2
        source = draw_batch(seed=step)
        model(source, labels=source).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    held_out = draw_batch(seed=0)  # of the 17^10 rows there are, training saw 19,200
    written = model.generate(held_out, max_new_tokens=LENGTH + 1, num_beams=1, do_sample=False)
    assert torch.equal(written[:, 1:], held_out)
