import random

import pytest
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

from tests.conftest import LETTERS
from tests.small_models import small_model
from tests.translation.ctranslate2_models import words
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.translation import alignment
from vaswani_hf.translation.alignment import (
    Aligner,
    Head,
    align_pairs,
    eager_attention,
    word_pairs,
)
from vaswani_hf.translation.pairs import PairError, PairReader
from vaswani_hf.translation.words import Segmentation, segment


V, PAD, EOS = 20, 1, 2


def aligner_of(model, tokenizer=None):
    tokenizer = tokenizer or words("w", V)
    return Aligner(model, tokenizer, tokenizer, batch_tokens=64)


def align(aligner, sources, targets, *head, **options):
    options = {"batch_tokens": 64, "max_batch_sentences": 64} | options
    reader = PairReader(
        aligner.tokenizer, aligner.tokenizer, aligner.end_ids, max_positions=None, **options
    )
    return list(align_pairs(reader, sources, targets, aligner, *head))


@torch.no_grad()
def looking_model():
    """Decoder layer 1 looks by positions alone, at any text.

    At position p its head 0 looks at source position p, head 1 at position p - 1. Position 0 reads
    the start, and p the p-th target piece. So head 0 is right where target piece p is predicted,
    head 1 where it is read.
    """
    width = 16
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            vocab_size=V,
            d_model=width,
            d_ff=8,
            num_heads=2,
            d_k=width,
            encoder_layers=1,
            decoder_layers=2,
            position_encoding="learned",
            max_position_embeddings=width,
        )
    ).eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            nn.init.zeros_(parameter)
    # All that is left of a state is its position: one dimension for each.
    for stack in (model.model.encoder, model.model.decoder):
        nn.init.eye_(stack.embedding.positions.weight)
    attention = model.model.decoder.layers[1].cross_attention
    same = torch.eye(width)
    attention.key_proj.weight.copy_(torch.cat((same, same)))
    attention.query_proj.weight.copy_(9 * torch.cat((same, same.roll(-1, dims=0))))
    return model


SOURCES = ["w0 w1 w2 w3", "w4 w4", "w5 w6 w7"]
TARGETS = ["w7 w7 w7", "w3 w2", "w1 w1 w1"]
SAME_PLACES = ["0-0 1-1 2-2", "0-0 1-1", "0-0 1-1 2-2"]


@pytest.mark.parametrize("head", [Head(1, 0, "predicts"), Head(1, 1, "reads")])
def test_a_head_that_looks_at_the_same_place_aligns_the_same_places(head):
    found = align(aligner_of(looking_model()), SOURCES, TARGETS, *head)
    assert [one.pharaoh for one in found] == SAME_PLACES
    assert all(one.head == head for one in found)
    for one, source, target in zip(found, SOURCES, TARGETS, strict=True):
        assert one.source.pieces == [*source.split(), "</s>"]
        assert one.target.pieces == target.split()
        torch.testing.assert_close(one.matrix.sum(dim=-1), torch.ones(len(one.target.pieces)))
        assert one.matrix.diag().min() > 0.9
        assert one.matrix.shape == (len(one.target.pieces), len(one.source.pieces))


def test_the_other_step_looks_one_place_further():
    (found,) = align(aligner_of(looking_model()), SOURCES[:1], TARGETS[:1], 1, 0, "reads")
    assert found.pharaoh == "1-0 2-1 3-2"


def test_the_head_that_was_trained_to_align_is_taken_unless_another_is_named():
    model = looking_model()
    model.config.alignment_layer, model.config.alignment_head = 1, 0
    aligner = aligner_of(model)

    def head_of(*named):
        (found,) = align(aligner, SOURCES[:1], TARGETS[:1], *named)
        return found.head

    assert head_of() == head_of(1) == head_of(None, 0) == Head(1, 0, "predicts")
    assert head_of(None, None, "reads") == Head(1, 0, "reads")
    assert head_of(0).layer == 0 and head_of(None, 1).head == 1
    assert head_of(1, 1, "reads") == Head(1, 1, "reads")


@pytest.mark.parametrize("targets", [TARGETS, [[9, 8], [7, 6, 5, EOS], [4]]])
def test_a_batch_aligns_as_its_pairs_do(targets):
    aligner = aligner_of(small_model(7))
    together = align(aligner, SOURCES, targets, 2, 3, "reads")
    alone = align(aligner, SOURCES, targets, 2, 3, "reads", batch_tokens=1)
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.matrix, other.matrix)
        assert one.pairs == other.pairs


def test_blank_sides_have_no_pairs():
    found = align(aligner_of(small_model()), ["", "w1", " "], ["w1", "", " "], 0, 0, "reads")
    assert [one.pharaoh for one in found] == ["", "", ""]
    assert [tuple(one.matrix.shape) for one in found] == [(1, 1), (0, 2), (0, 1)]


@pytest.mark.parametrize("step", ["reads", "predicts"])
def test_the_matrix_is_what_the_librarys_model_gives(step):
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=V,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        attn_implementation="eager",
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        expected = model(
            input_ids=torch.tensor([[5, 6, 7, EOS]]),
            decoder_input_ids=torch.tensor([[PAD, 8, 9]]),
            output_attentions=True,
        ).cross_attentions[1][0, 1]
    (found,) = align(aligner_of(model), [[5, 6, 7, EOS]], [[8, 9, EOS]], 1, 1, step)
    rows = expected[1:] if step == "reads" else expected[:-1]
    torch.testing.assert_close(found.matrix, rows)


# Which head


def copies(count, seed=1):
    chooser = random.Random(seed)
    return [" ".join(chooser.choices(LETTERS, k=chooser.randint(3, 8))) for _ in range(count)]


def test_the_chosen_head_aligns_copies_with_what_they_copy(copier):
    aligner, texts = aligner_of(*copier), copies(20)
    found = align(aligner, texts, texts)
    right = [
        one.pairs.count((place, place)) for one in found for place in range(len(one.source.words))
    ]
    assert sum(right) / len(right) > 0.9
    assert len({one.head for one in found}) == 1


def test_the_choice_is_kept_with_the_model_and_does_not_depend_on_what_comes_later(
    copier, monkeypatch
):
    aligner, texts = aligner_of(*copier), copies(6)
    first = align(aligner, texts, texts)[0].head
    assert align(aligner_of(*copier), texts, texts)[0].head == first
    monkeypatch.setattr(Aligner, "agreement", lambda *_: pytest.fail("it was known"))
    assert align(aligner_of(*copier), copies(3, seed=2), copies(3, seed=3))[0].head == first


def test_what_is_named_is_kept_to(copier):
    aligner, texts = aligner_of(*copier), copies(4)
    for layer, head, step in [
        (0, None, None),
        (None, 3, None),
        (None, None, "predicts"),
        (1, 2, None),
    ]:
        chosen = align(aligner, texts, texts, layer, head, step)[0].head
        assert layer in (None, chosen.layer)
        assert head in (None, chosen.head)
        assert step in (None, chosen.step)


def test_prediction_difference_is_that_of_forward_passes_by_hand():
    model = small_model(3)
    aligner = aligner_of(model)
    (chunk,) = PairReader(
        aligner.tokenizer, aligner.tokenizer, [EOS], None, batch_tokens=8, max_batch_sentences=8
    ).chunks([[5, 6, EOS]], [[7, 8, EOS]])
    found = aligner.prediction_difference(chunk[0])

    @torch.no_grad()
    def log_probs(source):
        start = torch.tensor([[PAD, 7]])
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=start).logits[0]
        return logits.double().log_softmax(-1)[[0, 1], [7, 8]]

    whole = log_probs([5, 6, EOS])
    expected = torch.stack([whole - log_probs([0, 6, EOS]), whole - log_probs([5, 0, EOS])], dim=1)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((3, None, None), "layer must be from 0 to 2 for this model, got layer=3"),
        ((-1, 0, "reads"), "layer must be from 0 to 2 for this model, got layer=-1"),
        ((None, 4, None), "head must be from 0 to 3 for this model, got head=4"),
        ((0, 4, "reads"), "head must be from 0 to 3 for this model, got head=4"),
        ((0, 0, "writes"), 'step must be "reads" or "predicts", got step=\'writes\''),
    ],
)
def test_a_head_that_is_not_there_is_refused(place, message):
    with pytest.raises(ValueError, match=message):
        align(aligner_of(small_model()), SOURCES, TARGETS, *place)


def test_the_models_attention_is_as_before_also_after_an_error():
    model = small_model(attn_implementation="sdpa")
    align(aligner_of(model), SOURCES, TARGETS, 0, 0, "reads")
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(KeyError), eager_attention(model):
        assert model.config._attn_implementation == "eager"
        raise KeyError
    assert model.config._attn_implementation == "sdpa"
    assert model.model.decoder.config._attn_implementation == "sdpa"


def test_a_model_that_does_not_tell_where_it_looks_is_refused(monkeypatch):
    model = small_model()
    monkeypatch.setattr(model, "set_attn_implementation", lambda name: None)
    with pytest.raises(ValueError, match="does not tell where it looks"):
        align(aligner_of(model), SOURCES, TARGETS, 0, 0, "reads")


# Words


def segmentation(text, pieces):
    """Pieces given as the characters that they spell, `None` for a special one."""
    return Segmentation(text, ["?"] * len(pieces), pieces)


def test_words_belong_together_where_one_of_their_pieces_looks():
    source = segmentation("ab c", [(0, 1), (1, 2), (2, 4), None])
    target = segmentation("x yz", [(0, 1), (1, 3), (3, 4)])
    matrix = torch.tensor(
        [
            [0.1, 0.2, 0.0, 0.7],  # x: at </s>, which takes no part, and else at b
            [0.3, 0.1, 0.3, 0.3],  # y: at a as much as at c; the first
            [0.1, 0.0, 0.8, 0.1],  # z: at c
        ]
    )
    assert word_pairs(source, target, matrix) == [(0, 0), (0, 1), (1, 1)]


def test_a_text_whose_words_are_not_known_is_named(monkeypatch):
    aligner = aligner_of(small_model())
    monkeypatch.setattr(alignment, "segment", refuse_a_blank_one)
    with pytest.raises(PairError, match=r"target 1 \(counted from 0\): no") as error:
        align(aligner, ["w1", "w2"], ["w3", ""], 0, 0, "reads")
    assert (error.value.place, error.value.side) == (1, "target")


def refuse_a_blank_one(tokenizer, ids, text=None, **options):
    if not text:
        raise ValueError("no")
    return segment(tokenizer, ids, text, **options)
