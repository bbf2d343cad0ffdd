"""A tiny random model that translates, with words of several pieces."""

import pytest
import torch


@pytest.fixture(scope="session")
def translator():
    from vaswani_hf import (
        Translator,
        VaswaniConfig,
        VaswaniForConditionalGeneration,
        train_tokenizer,
    )

    text = ["a bad cab fed a bead", "bed a cafe dad a decade"] * 5
    tokenizer = train_tokenizer(text, 280, are_files=False, show_progress=False)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            vocab_size=len(tokenizer),
            d_model=24,
            d_ff=16,
            num_heads=3,
            d_k=8,
            d_v=6,
            encoder_layers=2,
            decoder_layers=2,
            tie_word_embeddings=False,
            output_bias=True,
        )
    )
    torch.manual_seed(2)  # of several, one whose translations change without a head
    for name, parameter in model.named_parameters():
        if "norm" not in name and "bias" not in name:
            torch.nn.init.normal_(parameter, std=0.6 if "shared" in name else 0.3)
    # Bytes are no words.
    for piece, token in tokenizer.get_vocab().items():
        if piece.startswith("<") and piece != "</s>":
            model.lm_head.bias.data[token] = -100.0
    return Translator(model, tokenizer, max_extra_tokens=4)
