import pytest

from tests.conversion.marian_npz.models import options
from vaswani_hf.conversion.differences import Differences
from vaswani_hf.conversion.marian_npz.settings import config_fields


def fields(**changes):
    return config_fields(options(**changes), Differences("model.npz"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"type": "s2s"}, "type: 's2s' is another architecture; decode it with Marian"),
        (
            {"transformer_decoder_autoreg": "rnn"},
            "transformer-decoder-autoreg: 'rnn' is a decoder without self-attention, such as SSRU",
        ),
        ({"transformer_preprocess": "n"}, "(pre-norm); ct2-marian-converter of CTranslate2"),
        ({"transformer_postprocess": "da"}, "transformer-postprocess: 'da'"),
        ({"transformer_postprocess_emb": "nd"}, "layer normalization of the embeddings; ct2"),
        ({"transformer_postprocess_top": "an"}, "a connection past the whole stack"),
        ({"transformer_ffn_depth": 3}, "transformer-ffn-depth: 3 is feed-forward networks of"),
        ({"transformer_decoder_dim_ffn": 80}, "transformer-decoder-dim-ffn: 80 differ"),
        ({"transformer_tied_layers": [1, 1, 1]}, "decoder layers that share weights"),
        ({"transformer_attention_mask": "alibi"}, "ALiBi"),
        ({"transformer_train_position_embeddings": True}, "learned positions"),
        ({"lemma_dim_emb": 4}, "lemma-dim-emb: 4 is a factored vocabulary"),
        ({"input_types": ["sequence", "class"]}, "is not one source and one target"),
        ({"right_left": True}, "targets from right to left"),
        ({"dim_emb": "24"}, "dim-emb: '24' is no positive number"),
        ({"dim_emb": 25}, "dim-emb: 25 is odd"),
    ],
    ids=str,
)
def test_what_this_model_lacks_is_refused_by_its_option(change, told):
    with pytest.raises(ValueError, match="1 difference") as error:
        fields(**change)
    assert told in str(error.value)


def test_early_versions_leave_options_out():
    early = options()
    for name in ("transformer-postprocess-top", "transformer-pool", "transformer-tied-layers"):
        early.pop(name, None)
    assert config_fields(early, Differences("")) == fields()


def test_sizes_are_carried():
    found = fields(dim_emb=32, transformer_heads=2, enc_depth=5, dec_depth=1)
    assert found["d_model"] == 32
    assert (found["num_heads"], found["encoder_layers"], found["decoder_layers"]) == (2, 5, 1)
    assert found["layer_norm_eps"] == 1e-6  # of Marian's layers/generic.h


def test_a_layer_that_marian_was_told_to_align_by_has_the_aligning_head():
    """Marian counts layers from 1, and aligns by the first head (its transformer.h)."""
    found = fields(transformer_guided_alignment_layer="2")
    assert (found["alignment_layer"], found["alignment_head"]) == (1, 0)
    assert fields()["alignment_layer"] is None  # `last` is the default, and tells nothing
    with pytest.raises(ValueError, match="guided-alignment-layer: '4' is none of the 3 layers"):
        fields(transformer_guided_alignment_layer="4")
