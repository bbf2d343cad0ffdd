"""The whole model learns: a small one, trained as in section 5.3, copies what it never saw."""

import torch
from torch import Tensor

from tests.references import learning_rate
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


EOS, NUM_PIECES = 2, 20
NUM_UPDATES, WARMUP_STEPS = 400, 100


def draw_batch(generator: torch.Generator, num_rows: int, length: int) -> Tensor:
    """Random pieces and `</s>`, `(num_rows, length + 1)`."""
    pieces = torch.randint(3, NUM_PIECES, (num_rows, length), generator=generator)
    return torch.cat([pieces, torch.full((num_rows, 1), EOS)], dim=1)


def test_a_small_model_learns_to_copy() -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    config = VaswaniConfig(
        vocab_size=NUM_PIECES,
        d_model=64,
        d_ff=128,
        num_heads=4,
        encoder_layers=2,
        decoder_layers=2,
        max_position_embeddings=16,
    )
    model = VaswaniForConditionalGeneration(config).train()
    # Section 5.3: Adam's numbers, and the schedule with a warm-up that suits so short a training.
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, NUM_UPDATES + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config.d_model, WARMUP_STEPS) / 4
        length = int(torch.randint(1, 11, (), generator=generator))
        source = draw_batch(generator, 64, length)
        model(source, labels=source).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    # 64 held-out rows of ten pieces: of 17^10 there are, training saw a few thousand.
    held_out = draw_batch(torch.Generator().manual_seed(2), 64, 10)
    written = model.generate(held_out, max_new_tokens=11, num_beams=1, do_sample=False)
    assert torch.equal(written[:, 1:], held_out)
