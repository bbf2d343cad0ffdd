import pytest
import torch

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.conversion.fairseq.dictionary import UNK_ID
from vaswani_hf.conversion.fairseq.model import Parts


FIELDS = {
    **{"vocab_size": 9, "target_vocab_size": 9, "d_model": 8, "d_ff": 8, "num_heads": 2},
    **{"encoder_layers": 1, "decoder_layers": 1, "pad_token_id": 1, "eos_token_id": 2},
    **{"share_embeddings": True, "tie_word_embeddings": True},
}
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"


@pytest.fixture
def parts():
    weights = dict(VaswaniForConditionalGeneration(VaswaniConfig(**FIELDS)).state_dict())
    shared = weights.pop("model.shared.weight")
    weights.pop("lm_head.weight", None)
    return Parts(dict(FIELDS), {**weights, SOURCE: shared, TARGET: shared})


def test_sides_that_share_an_embedding_have_one_matrix(parts):
    model = parts.build()
    assert model.model.encoder.embed_tokens.weight is model.model.decoder.embed_tokens.weight
    assert torch.equal(model.model.shared.weight, parts.weights[SOURCE])


def test_pieces_that_fairseq_does_not_know_have_the_embedding_of_unk(parts):
    model = parts.build(num_unknown=3)
    source = model.model.encoder.embed_tokens.weight
    assert source.shape == (12, 8)
    assert torch.equal(source[:9], parts.weights[SOURCE])
    assert torch.equal(source[9:], parts.weights[SOURCE][UNK_ID].expand(3, -1))
    assert model.model.decoder.embed_tokens.weight.shape == (9, 8)
    assert parts.fields == FIELDS  # which may be built again


def test_a_model_searches_as_fairseq_generate_does_without_options(parts):
    config = parts.build().generation_config
    # --beam 5, --lenpen 1, --max-len-b 200, and a search that ends with its last hypothesis.
    assert (config.num_beams, config.length_penalty, config.length_penalty_type) == (5, 1, "power")
    assert (config.max_extra_tokens, config.early_stopping, config.min_new_tokens) == (200, True, 1)
