"""Models whose translations by CTranslate2 tell right from wrong."""

import random

import torch

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text


V, V_TARGET = 23, 19
PAD, EOS = 1, 2
APART = {"share_embeddings": False, "target_vocab_size": V_TARGET}


def words(language, count):
    """A tokenizer of so many pieces, the special three included."""
    text = [f"{language}{number}" for number in range(count - 3)]
    return tokenizer_of_segmented_text(text, are_files=False)


def disturbed_model(seed=0, noise=0.3, **settings):
    """Every parameter has a part in the result."""
    torch.manual_seed(seed)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            **{
                "vocab_size": V,
                "d_model": 16,
                "d_ff": 24,
                "num_heads": 2,
                "encoder_layers": 2,
                "decoder_layers": 3,
                "max_position_embeddings": 32,
                **settings,
            }
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += noise * torch.randn_like(parameter)
    return model.eval()


def talkative_model():
    """Its translations depend on their sources, and some end in time while others do not."""
    model = disturbed_model(
        seed=1,
        noise=0.1,
        share_embeddings=False,
        tie_word_embeddings=False,
        output_bias=True,
        decoder_layers=2,
    )
    with torch.no_grad():
        for layer in model.model.decoder.layers:
            layer.cross_attention.output_proj.weight *= 2
        model.lm_head.weight *= 1.5
        model.lm_head.bias[EOS] += 2
        model.lm_head.bias[PAD] -= 9
    model.generation_config.length_penalty_type = "power"
    model.generation_config.early_stopping = True
    model.generation_config.max_extra_tokens = 9
    return model


def save(model, folder):
    model.save_pretrained(folder)
    words("s", V).save_pretrained(folder)
    if not model.config.share_embeddings:
        words("t", model.config.num_target_pieces).save_pretrained(folder / "target_tokenizer")
    return folder


def random_sentences(count, longest, seed=0):
    chooser = random.Random(seed)
    return [
        " ".join(f"s{chooser.randrange(V - 3)}" for _ in range(chooser.randint(1, longest)))
        for _ in range(count)
    ]


def ids_of_generate(model, tokenizer, sentences, **options):
    return [
        model.generate(**tokenizer(sentence, return_tensors="pt"), **options)[0].tolist()[1:]
        for sentence in sentences
    ]
