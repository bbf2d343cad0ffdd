import copy

import numpy as np
import pytest
import torch

from tests.conversion.marian_npz.models import UNTIED, arrays, options
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.conversion.marian_npz import marian_npz_from_vaswani, vaswani_from_marian_npz


SOURCES = [[12, 26, 27, 5, 26, 10, 2], [23, 21, 12], [13, 27, 11, 12, 23, 25, 8, 2, 22], [26]]
SOURCES[2] += [14, 9, 16]
TARGETS = [[28, 19, 28, 24, 4], [4, 3, 21, 28, 7, 10, 16, 3, 12], [26], [9, 26, 13, 3]]
ONE_SIZE = {"dim_vocabs": [31, 31]}
# What the scorer of Marian 1.12.42 (the package `pymarian`) says of these models: the sum of the
# log-probabilities of each target and its `</s>`.
SCORES = {
    "untied": ({}, [-26.761904, -39.433670, -9.441643, -15.765592]),
    "target tied": (
        {"tied_embeddings": True, "transformer_ffn_activation": "relu"},
        [-23.915619, -41.871403, -10.269051, -22.975027],
    ),
    "all tied": (
        {"tied_embeddings_all": True, "transformer_ffn_activation": "gelu", **ONE_SIZE},
        [-31.144905, -43.107876, -8.920134, -18.447403],
    ),
    "source and target": (
        {"tied_embeddings_src": True, "output_omit_bias": True, **ONE_SIZE},
        [-32.854771, -51.620388, -10.796258, -23.689930],
    ),
    "norm at the top": (
        {"transformer_postprocess_top": "n"},
        [-31.028225, -51.802006, -8.173122, -19.308088],
    ),
}


def tensors_of(settings):
    return {name: torch.from_numpy(array) for name, array in arrays(settings).items()}


@torch.no_grad()
def score(model, source, target):
    start, end = model.config.decoder_start_token_id, model.config.eos_token_id
    ids = torch.tensor([[start, *target]])
    logits = model(input_ids=torch.tensor([[*source, end]]), decoder_input_ids=ids).logits[0]
    return logits.log_softmax(dim=-1)[range(len(target) + 1), [*target, end]].sum().item()


@pytest.mark.parametrize("kind", SCORES)
def test_scores_are_those_of_marian(kind):
    changes, expected = SCORES[kind]
    settings = options(**changes)
    model = vaswani_from_marian_npz(tensors_of(settings), settings)
    found = [score(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    # Marian prints six decimals of a sum in float32.
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", SCORES)
def test_a_model_of_marian_comes_back_as_it_was(kind):
    settings = options(**SCORES[kind][0])
    before = tensors_of(settings)
    after, options_after = marian_npz_from_vaswani(
        vaswani_from_marian_npz(before, settings), num_rows=tuple(settings["dim-vocabs"])
    )
    if settings["output-omit-bias"]:
        assert not after.pop("decoder_ff_logit_out_b").any()
        settings["output-omit-bias"] = False
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert {name: options_after[name] for name in settings} == settings


def test_what_ties_the_matrices_is_tied_here():
    for changes, shares, ties in (
        ({}, False, False),
        ({"tied_embeddings": True}, False, True),
        ({"tied_embeddings_src": True, **ONE_SIZE}, True, False),
        ({"tied_embeddings_src": True, "tied_embeddings": True, **ONE_SIZE}, True, True),
        ({"tied_embeddings_all": True, **ONE_SIZE}, True, True),
    ):
        settings = options(**changes)
        model = vaswani_from_marian_npz(tensors_of(settings), settings)
        source, target = model.model.encoder.embed_tokens.weight, model.model.decoder.embed_tokens
        assert (source is target.weight, model.lm_head.weight is target.weight) == (shares, ties)


def test_the_output_of_early_versions_is_transposed():
    settings = options()
    tensors = tensors_of(settings)
    expected = vaswani_from_marian_npz(dict(tensors), settings)
    output = tensors.pop("decoder_ff_logit_out_Wt")
    tensors["decoder_ff_logit_out_W"] = output.T.contiguous()
    found = vaswani_from_marian_npz(tensors, settings)
    assert torch.equal(found.lm_head.weight, expected.lm_head.weight)


def test_padding_has_no_probability_and_zeros_in_its_row():
    settings = options()
    model = vaswani_from_marian_npz(tensors_of(settings), settings)
    assert (model.config.vocab_size, model.config.target_vocab_size) == (32, 32)
    assert model.config.pad_token_id == model.config.decoder_start_token_id == 31
    assert not model.model.decoder.embed_tokens.weight[31].any()
    logits = model(
        input_ids=torch.tensor([[3, 4, 0]]), decoder_input_ids=torch.tensor([[31, 5]])
    ).logits
    assert (logits.softmax(dim=-1)[..., 31] == 0).all()
    # A source of 29 pieces has rows that no text comes to.
    assert not model.model.encoder.embed_tokens.weight[29:].any()


def test_half_precision_is_read():
    settings = options()
    tensors = {name: tensor.half() for name, tensor in tensors_of(settings).items()}
    model = vaswani_from_marian_npz(tensors, settings)
    assert model.lm_head.weight.dtype == torch.float32


def test_tensors_that_do_not_fit_are_all_listed():
    settings = options()
    tensors = tensors_of(settings)
    del tensors["encoder_l1_self_Wq"]
    tensors["decoder_l2_ffn_W1"] = tensors["decoder_l2_ffn_W1"].T
    tensors["decoder_l3_ffn_b2"] = tensors["decoder_l3_ffn_b2"].to(torch.int8)  # as intgemm's
    tensors["decoder_l1_rnn_W"] = torch.zeros(2, 2)
    with pytest.raises(ValueError, match="4 differences") as error:
        vaswani_from_marian_npz(tensors, settings, name="model.npz")
    for difference in (
        "encoder_l1_self_Wq is missing",
        "decoder_l2_ffn_W1 has shape (40, 24), expected (24, 40)",
        "decoder_l3_ffn_b2 is of type torch.int8",
        "decoder_l1_rnn_W (2, 2) has no place in this model",
    ):
        assert difference in str(error.value)


# To Marian


def make_vaswani(**settings):
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            **{
                "vocab_size": 31,
                "d_model": 24,
                "d_ff": 40,
                "num_heads": 4,
                "encoder_layers": 2,
                "decoder_layers": 3,
                "max_position_embeddings": 40,
                **settings,
            }
        )
    )
    chooser = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=chooser)
        for side in (model.model.encoder, model.model.decoder):
            side.embed_tokens.weight[model.config.pad_token_id] = 0
    return model.eval()


CONTENTS = {
    "the paper's": {},
    "biases": {"attention_bias": True, "output_bias": True, "activation_function": "gelu"},
    "target tied": {"share_embeddings": False, "target_vocab_size": 37},
    "nothing tied": {
        "share_embeddings": False,
        "target_vocab_size": 37,
        "tie_word_embeddings": False,
        "final_norm": True,
    },
    "an aligning head": {"alignment_layer": 1, "alignment_head": 2},
    "shared but untied": {"tie_word_embeddings": False, "activation_function": "silu"},
}


def papers_positions(positions, d_model):
    """The table of Marian, but for the paper's wavelengths, by scalar loops."""
    halves = np.zeros((positions, d_model))
    for position in range(positions):
        for place in range(d_model // 2):
            angle = position / 10000 ** (2 * place / d_model)
            halves[position, place] = np.sin(angle)
            halves[position, place + d_model // 2] = np.cos(angle)
    return torch.tensor(halves).float()


@pytest.mark.parametrize("content", CONTENTS)
def test_a_model_of_ours_computes_the_same_in_marian_but_for_wavelengths(content):
    ours = make_vaswani(**CONTENTS[content])
    tensors, settings = marian_npz_from_vaswani(ours)
    theirs = vaswani_from_marian_npz(tensors, settings, eos_token_id=2, pad_token_id=1)
    assert theirs.config.alignment_layer == ours.config.alignment_layer
    with torch.no_grad():
        for side in (theirs.model.encoder, theirs.model.decoder):
            side.embedding.positions.weight.copy_(papers_positions(1024, 24))
    ids = torch.randint(2, 31, (3, 7), generator=torch.Generator().manual_seed(2))
    targets = torch.randint(2, 31, (3, 5), generator=torch.Generator().manual_seed(3))
    targets[:, 0] = 1
    kept = torch.arange(ours.config.num_target_pieces) != 1  # padding has no part in Marian
    found, expected = (
        copy.deepcopy(model).double()(input_ids=ids, decoder_input_ids=targets).logits[..., kept]
        for model in (theirs, ours)
    )
    # The table of positions is in float32.
    assert torch.allclose(found, expected, atol=1e-5, rtol=0)


def test_how_far_marian_is_away_is_logged(caplog):
    with caplog.at_level("INFO", logger="vaswani_hf"):
        settings = options()
        marian_npz_from_vaswani(vaswani_from_marian_npz(tensors_of(settings), settings))
        assert "differ by up to" in caplog.text
        assert "some translations will differ" not in caplog.text
        marian_npz_from_vaswani(make_vaswani())
    assert "Marian starts from zeros instead of the row of decoder_start_token_id=1" in caplog.text


def test_what_marian_lacks_is_listed():
    with pytest.raises(ValueError, match="5 differences") as error:
        marian_npz_from_vaswani(
            make_vaswani(d_k=5, d_v=7, scale_embedding=False, position_encoding="learned")
        )
    for difference in (
        "d_k=5; Marian's is d_model / num_heads = 6",
        "d_v=7",
        "scale_embedding=False",
        "the encoder's learned positions are up to",
    ):
        assert difference in str(error.value)


def test_positions_that_training_moved_a_little_are_taken(caplog):
    settings = options(**UNTIED)
    model = vaswani_from_marian_npz(tensors_of(settings), settings)
    with torch.no_grad():
        model.model.encoder.embedding.positions.weight += 0.1
    marian_npz_from_vaswani(model)
    assert "some translations will differ" in caplog.text
