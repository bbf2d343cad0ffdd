import base64
import copy
import json
import logging
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, MarianMTModel

from tests.conversion.marian_tokenizers import marian_tokenizer_of
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.conversion.marian import (
    from_marian,
    marian_from_vaswani,
    to_marian,
    vaswani_from_marian,
)
from vaswani_hf.conversion.sentencepieces import fast_tokenizers
from vaswani_hf.hub.folder import export
from vaswani_hf.translation.loading import load_tokenizers


B, S, T, V, V_TARGET, D_MODEL = 3, 7, 5, 31, 29, 24
PAD, EOS = 28, 0
LONGEST = 30  # positions


def disturb(model, seed=0):
    """Give every parameter and bias a part in the result, and `</s>` a chance to come soon."""
    chooser = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter += 0.5 * torch.randn(parameter.shape, generator=chooser)
    return model.eval()


def make_marian(**settings):
    torch.manual_seed(0)
    model = MarianMTModel(
        MarianConfig(
            **{
                "vocab_size": V,
                "d_model": D_MODEL,
                "encoder_layers": 2,
                "decoder_layers": 3,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_ffn_dim": 40,
                "decoder_ffn_dim": 40,
                "activation_function": "swish",  # as in OPUS-MT, like the next one
                "scale_embedding": True,
                "max_position_embeddings": LONGEST,
                "pad_token_id": PAD,
                "decoder_start_token_id": PAD,
                "eos_token_id": EOS,
                "forced_eos_token_id": EOS,
                **settings,
            }
        )
    )
    bias = torch.randn(model.final_logits_bias.shape, generator=torch.Generator().manual_seed(1))
    bias[0, EOS] = 5.0
    model.final_logits_bias.copy_(bias)
    return disturb(model)


def make_vaswani(**settings):
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            **{
                "vocab_size": V,
                "d_model": D_MODEL,
                "d_ff": 40,
                "num_heads": 4,
                "encoder_layers": 2,
                "decoder_layers": 3,
                "max_position_embeddings": LONGEST,
                "layer_norm_eps": 1e-5,
                "pad_token_id": PAD,
                "eos_token_id": EOS,
                **settings,
            }
        )
    )
    return disturb(model)


def sources():
    ids = torch.randint(1, PAD, (B, S), generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([[S], [4], [6]])
    mask = torch.arange(S) < lengths
    return {"input_ids": ids.masked_fill(~mask, PAD), "attention_mask": mask.long()}


@torch.no_grad()
def logits_of(model):
    targets = torch.randint(1, PAD, (B, T), generator=torch.Generator().manual_seed(3))
    targets[:, 0] = PAD
    return model(**sources(), decoder_input_ids=targets).logits


def assert_alike(found, expected):
    # In float64: permuted sums add up in another order, which float32 rounds to 1e-5.
    found, expected = (logits_of(copy.deepcopy(model).double()) for model in (found, expected))
    assert torch.allclose(found, expected, atol=1e-10, rtol=0)


ALL_BEAMS = {
    "num_beams": 4,
    "num_return_sequences": 4,
    "return_dict_in_generate": True,
    "output_scores": True,
}


def assert_same_beams(found, expected):
    assert torch.equal(found.sequences, expected.sequences)
    # 1e-3: rounding in twelve steps; another length penalty changes far more.
    assert torch.allclose(found.sequences_scores, expected.sequences_scores, atol=1e-3, rtol=0)
    # If all were as long, this would say little about the length penalty.
    lengths = expected.sequences.ne(PAD).sum(dim=1)
    assert len(lengths.unique()) > 2


SHARING = {
    "one matrix": {},
    "target tied": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": V_TARGET},
    "nothing tied": {
        "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": V_TARGET,
        "tie_word_embeddings": False,
    },
    "shared but untied": {"tie_word_embeddings": False},
}


# From Marian


@pytest.mark.parametrize("sharing", SHARING)
def test_a_marian_model_computes_the_same_here_whatever_it_shares(sharing):
    marian = make_marian(**SHARING[sharing])
    ours = vaswani_from_marian(marian)
    assert_alike(ours, marian)


@pytest.mark.parametrize("activation", ["gelu", "relu", "silu", "swish"])
@pytest.mark.parametrize("scaled", [True, False])
def test_a_marian_model_computes_the_same_here_with_each_activation(activation, scaled):
    marian = make_marian(activation_function=activation, scale_embedding=scaled)
    ours = vaswani_from_marian(marian)
    assert_alike(ours, marian)


def test_a_tied_marian_model_is_tied_here():
    ours = vaswani_from_marian(make_marian())
    assert ours.lm_head.weight is ours.model.encoder.embed_tokens.weight
    ours = vaswani_from_marian(make_marian(**SHARING["target tied"]))
    assert ours.lm_head.weight is ours.model.decoder.embed_tokens.weight
    assert ours.config.target_vocab_size == V_TARGET


def test_a_marian_model_is_left_as_it_is():
    marian = make_marian()
    before = logits_of(marian)
    vaswani_from_marian(marian).lm_head.weight.data.zero_()
    assert torch.equal(logits_of(marian), before)
    assert not hasattr(marian.generation_config, "length_penalty_type")


def test_beams_are_those_of_marian():
    marian = make_marian()
    for name, value in {
        "length_penalty": 1.4,
        "early_stopping": True,
        "bad_words_ids": [[PAD]],
        "max_length": 12,
        **ALL_BEAMS,
    }.items():
        setattr(marian.generation_config, name, value)
    ours = vaswani_from_marian(marian)
    expected, found = (model.generate(**sources()) for model in (marian, ours))
    assert_same_beams(found, expected)


def test_dropout_rates_and_ids_come_along():
    rates = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.05}
    ids = {"bos_token_id": 4, "decoder_start_token_id": 5}
    config = vaswani_from_marian(make_marian(**rates, **ids)).config
    assert {name: getattr(config, name) for name in rates} == rates
    assert {name: getattr(config, name) for name in ids} == ids
    assert (config.pad_token_id, config.eos_token_id) == (PAD, EOS)
    assert config.max_position_embeddings == LONGEST


def test_marians_loss_is_ours_in_training():
    # Marian's loss is smoothed by nobody.
    marian = make_marian(dropout=0.0)
    ours = vaswani_from_marian(marian)
    labels = torch.randint(1, PAD, (B, T), generator=torch.Generator().manual_seed(3))
    expected = marian.train()(**sources(), labels=labels).loss
    assert ours.train()(**sources(), labels=labels).loss.item() == pytest.approx(
        expected.item(), abs=1e-5
    )


def test_an_output_bias_of_zeros_is_none():
    marian = make_marian()
    marian.final_logits_bias.zero_()
    ours = vaswani_from_marian(marian)
    assert ours.lm_head.bias is None
    assert_alike(ours, marian)


def test_a_table_that_is_not_the_papers_becomes_learned_positions():
    marian = make_marian()
    with torch.no_grad():  # the wavelengths of Marian's own code are longer by a little
        marian.model.encoder.embed_positions.weight.mul_(0.9)
    ours = vaswani_from_marian(marian)
    assert ours.config.position_encoding == "learned"
    assert_alike(ours, marian)


def test_all_that_a_vaswani_config_cannot_say_is_refused_at_once():
    marian = make_marian(
        decoder_attention_heads=2,
        decoder_ffn_dim=20,
        activation_function="tanh",
        decoder_vocab_size=V_TARGET,
    )
    with pytest.raises(ValueError, match="4 differences") as error:
        vaswani_from_marian(marian)
    for difference in (
        "encoder_attention_heads=4 and decoder_attention_heads=2",
        "encoder_ffn_dim=40 and decoder_ffn_dim=20",
        "activation_function='tanh' is none of relu, gelu, silu, swish",
        "vocab_size=31 and decoder_vocab_size=29",
    ):
        assert difference in str(error.value)


def test_a_marian_model_without_padding_is_refused():
    with pytest.raises(ValueError, match="pad_token_id is None"):
        vaswani_from_marian(make_marian(pad_token_id=None))


# To Marian

CONTENTS = {
    "the paper's": {},
    "biases": {"attention_bias": True, "output_bias": True},
    "target tied": {"share_embeddings": False, "target_vocab_size": V_TARGET},
    "nothing tied": {
        "share_embeddings": False,
        "target_vocab_size": V_TARGET,
        "tie_word_embeddings": False,
        "output_bias": True,
    },
    "shared but untied": {"tie_word_embeddings": False},
    "other settings": {"activation_function": "gelu", "scale_embedding": False, "d_ff": 20},
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_model_of_ours_computes_the_same_as_marian(content):
    ours = make_vaswani(**CONTENTS[content])
    marian = marian_from_vaswani(ours)
    assert_alike(marian, ours)


def test_dropout_rates_and_ids_go_along():
    rates = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.05}
    ids = {"bos_token_id": 4, "decoder_start_token_id": 5}
    config = marian_from_vaswani(make_vaswani(**rates, **ids)).config
    assert {name: getattr(config, name) for name in rates} == rates
    assert {name: getattr(config, name) for name in ids} == ids
    assert (config.pad_token_id, config.eos_token_id) == (PAD, EOS)
    assert config.forced_eos_token_id is None  # Marian's default is an id
    assert config.max_position_embeddings == LONGEST


def test_a_matrix_that_is_shared_but_untied_is_stored_for_each_side_and_no_more():
    marian = marian_from_vaswani(make_vaswani(tie_word_embeddings=False))
    matrices = [
        name for name, tensor in marian.state_dict().items() if tensor.shape == (V, D_MODEL)
    ]
    assert matrices == [
        *("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"),
        "lm_head.weight",
    ]


def test_marians_epsilon_stands_for_the_papers_authors():
    ours = make_vaswani(layer_norm_eps=1e-6)
    # Not rounding: 9e-6 more under the root, where the variance is near 1.
    assert torch.allclose(logits_of(marian_from_vaswani(ours)), logits_of(ours), atol=1e-4, rtol=0)


def test_the_difference_is_logged_free_of_rounding(caplog):
    caplog.set_level(logging.INFO)
    marian_from_vaswani(make_vaswani(layer_norm_eps=1e-5))
    logged = re.search(r"differ by up to (\S+)\.$", caplog.text, re.MULTILINE)
    assert float(logged[1]) < 1e-10  # epsilons are the same


def test_an_epsilon_that_moves_the_logits_is_refused():
    with pytest.raises(ValueError, match=r"differ by up to .*layer_norm_eps=0\.01"):
        marian_from_vaswani(make_vaswani(layer_norm_eps=1e-2))


def test_all_that_marian_lacks_is_refused_at_once():
    ours = make_vaswani(position_encoding="learned", d_k=5, d_v=7, final_norm=True)
    with pytest.raises(ValueError, match="4 differences") as error:
        marian_from_vaswani(ours)
    for difference in (
        'position_encoding="learned"',
        "d_k=5; Marian's is d_model / num_heads = 6",
        "d_v=7; Marian's is d_model / num_heads = 6",
        "final_norm=True",
    ):
        assert difference in str(error.value)


def test_marians_beams_are_ours_in_the_librarys_form():
    ours = make_vaswani(output_bias=True, tie_word_embeddings=False)
    with torch.no_grad():
        ours.lm_head.bias[EOS] = 3.0
    for name, value in {
        "length_penalty": 1.0,
        "length_penalty_type": "power",
        "max_extra_tokens": None,
        "early_stopping": True,
        "max_length": 12,
        **ALL_BEAMS,
    }.items():
        setattr(ours.generation_config, name, value)
    expected, found = (model.generate(**sources()) for model in (ours, marian_from_vaswani(ours)))
    assert_same_beams(found, expected)


def test_marian_stops_where_its_table_ends():
    ours = make_vaswani(output_bias=True)
    with torch.no_grad():
        ours.lm_head.bias[EOS] = -1000.0
    ids = marian_from_vaswani(ours).generate(**sources(), num_beams=2)
    assert ids.shape == (B, LONGEST)
    assert not ids.eq(EOS).any()  # a Marian config forces one unless it is told not to


def test_a_longer_limit_is_cut_to_marians_table():
    ours = make_vaswani()
    ours.generation_config.max_new_tokens = 500
    config = marian_from_vaswani(ours).generation_config
    assert (config.max_new_tokens, config.max_length) == (LONGEST, None)


def test_the_papers_search_is_left_behind_with_a_warning(caplog):
    ours = make_vaswani()
    config = marian_from_vaswani(ours).generation_config
    assert not {"length_penalty_type", "max_extra_tokens"} & vars(config).keys()
    assert (config.num_beams, config.length_penalty) == (4, 0.6)  # section 6.1
    assert "no length_penalty_type='wu' and no max_extra_tokens=50" in caplog.text
    assert ours.generation_config.length_penalty_type == "wu"


@pytest.mark.parametrize("content", CONTENTS)
def test_there_and_back_gives_the_same_logits(content):
    ours = make_vaswani(**CONTENTS[content])
    back = vaswani_from_marian(marian_from_vaswani(ours))
    assert_alike(back, ours)


# Folders

SENTENCES = ["ab ba cad", "dab", "bad cab abba d"]
TRANSLATIONS = ["ef fe", "hef gef e", "feg"]


def made_up_text(letters, seed):
    chooser = random.Random(seed)
    return [
        " ".join("".join(chooser.choices(letters, k=chooser.randint(1, 4))) for _ in range(6))
        for _ in range(200)
    ]


def make_marian_tokenizer(folder, separate_vocabs=False, **settings):
    sources, targets = made_up_text("abcd", 0), made_up_text("efgh", 1)
    return marian_tokenizer_of(folder, sources, targets, separate_vocabs, **settings)


def make_plain_tokenizer():
    text = made_up_text("abcd", 0) + made_up_text("efgh", 1)
    return train_tokenizer(text, 300, are_files=False, show_progress=False)


def encoded(tokenizer, target_tokenizer=None):
    labels = (target_tokenizer or tokenizer)(text_target=TRANSLATIONS)["input_ids"]
    return tokenizer(SENTENCES)["input_ids"], labels


@pytest.fixture(scope="module")
def marian_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("opus")
    tokenizer = make_marian_tokenizer(tmp_path_factory.mktemp("spm"))
    marian = make_marian(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    for name, value in {
        "num_beams": 4,
        "max_length": 20,
        "length_penalty": 1.2,
        "bad_words_ids": [[tokenizer.pad_token_id]],
        "renormalize_logits": True,
    }.items():
        setattr(marian.generation_config, name, value)
    marian.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def vaswani_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours")
    tokenizer = make_plain_tokenizer()
    ours = make_vaswani(vocab_size=len(tokenizer), pad_token_id=1, eos_token_id=2, output_bias=True)
    with torch.no_grad():
        ours.lm_head.bias[2] = 5.0
    ours.generation_config.length_penalty_type = "power"
    ours.generation_config.max_extra_tokens = None
    export(ours, tokenizer, folder)
    return folder


def translate(folder, **settings):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    return model.generate(**batch, num_return_sequences=4, **settings).tolist()


def test_a_folder_from_marian_translates_the_same(marian_folder, tmp_path):
    from_marian(marian_folder, tmp_path / "ours")
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert config["model_type"] == "vaswani"
    assert translate(tmp_path / "ours") == translate(marian_folder)


def test_a_folder_from_marian_has_fast_tokenizers_of_the_same_pieces(marian_folder, tmp_path):
    from_marian(marian_folder, tmp_path / "ours")
    found = load_tokenizers(tmp_path / "ours")
    assert all(tokenizer.is_fast for tokenizer in found)
    assert encoded(*found) == encoded(AutoTokenizer.from_pretrained(marian_folder))


def test_a_tokenizer_that_no_fast_one_equals_is_kept_and_that_is_said(tmp_path, caplog):
    (tmp_path / "spm").mkdir()
    tokenizer = make_marian_tokenizer(tmp_path / "spm", byte_fallback=True, vocab_size=300)
    ids = {"pad_token_id": tokenizer.pad_token_id, "decoder_start_token_id": tokenizer.pad_token_id}
    make_marian(vocab_size=len(tokenizer), **ids).save_pretrained(tmp_path / "marian")
    tokenizer.save_pretrained(tmp_path / "marian")
    from_marian(tmp_path / "marian", tmp_path / "ours")
    found, own = load_tokenizers(tmp_path / "ours")
    assert (type(found).__name__, own) == ("MarianTokenizer", None)
    assert encoded(found) == encoded(tokenizer)
    assert "The MarianTokenizer is kept, which is slow and needs sentencepiece" in caplog.text


def test_text_of_ones_own_decides_whether_the_tokenizer_is_kept(marian_folder, tmp_path):
    (tmp_path / "sources").write_text("\n".join(SENTENCES))
    (tmp_path / "targets").write_text("\n".join(TRANSLATIONS))
    sample = {f"sample_{side}": tmp_path / f"{side}s" for side in ("source", "target")}
    from_marian(marian_folder, tmp_path / "ours", **sample)
    assert load_tokenizers(tmp_path / "ours")[1] is not None
    (tmp_path / "targets").write_text("ef\n")
    with pytest.raises(ValueError, match=r"sample_source=.*sources has 3 lines and sample_target="):
        from_marian(marian_folder, tmp_path / "other", **sample)
    with pytest.raises(ValueError, match="sample_source and sample_target go together"):
        from_marian(marian_folder, tmp_path / "other", sample_source=tmp_path / "sources")


def test_two_vocabularies_come_along(tmp_path):
    (tmp_path / "spm").mkdir()
    tokenizer = make_marian_tokenizer(tmp_path / "spm", separate_vocabs=True)
    marian = make_marian(
        vocab_size=len(tokenizer.encoder),
        decoder_vocab_size=len(tokenizer.target_encoder),
        share_encoder_decoder_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    marian.save_pretrained(tmp_path / "marian")
    tokenizer.save_pretrained(tmp_path / "marian")
    expected = encoded(tokenizer)
    from_marian(tmp_path / "marian", tmp_path / "ours")
    for path in (tmp_path / "spm").iterdir():  # nothing may point at where it came from
        path.unlink()
    assert encoded(*load_tokenizers(tmp_path / "ours")) == expected
    settings = {"num_beams": 4, "max_new_tokens": 9}
    assert translate(tmp_path / "ours", **settings) == translate(tmp_path / "marian", **settings)


def test_two_vocabularies_return_as_they_were(tmp_path):
    (tmp_path / "spm").mkdir()
    tokenizer = make_marian_tokenizer(tmp_path / "spm", separate_vocabs=True)
    sizes = [len(tokenizer.encoder), len(tokenizer.target_encoder)]
    ids = {"pad_token_id": tokenizer.pad_token_id, "decoder_start_token_id": tokenizer.pad_token_id}
    ours = make_vaswani(
        vocab_size=sizes[0], target_vocab_size=sizes[1], share_embeddings=False, **ids
    )
    source, target = fast_tokenizers(tokenizer)
    export(ours, source, tmp_path / "ours", target_tokenizer=target)
    to_marian(tmp_path / "ours", tmp_path / "back")
    found = AutoTokenizer.from_pretrained(tmp_path / "back")
    assert (type(found).__name__, found.separate_vocabs) == ("MarianTokenizer", True)
    assert encoded(found) == encoded(tokenizer)
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "spm" / name).read_bytes()

    # As folders had them before: the models in the configurations.
    model = tmp_path / "ours" / "tokenizer.model"
    for side, folder in (("source", model.parent), ("target", model.parent / "target_tokenizer")):
        path = folder / "tokenizer_config.json"
        content = base64.b64encode((tmp_path / "spm" / f"{side}.spm").read_bytes()).decode()
        entries = json.loads(path.read_text()) | {"sentencepiece_model": content}
        path.write_text(json.dumps(entries))
        (folder / "tokenizer.model").unlink()
    to_marian(tmp_path / "ours", tmp_path / "old")
    for path in (tmp_path / "back").iterdir():
        assert (tmp_path / "old" / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_lost_sentencepiece_model_is_named(marian_folder, tmp_path):
    from_marian(marian_folder, tmp_path / "ours")
    (tmp_path / "ours" / "target_tokenizer" / "tokenizer.model").unlink()
    with pytest.raises(ValueError, match="target_tokenizer has lost its SentencePiece model, tok"):
        to_marian(tmp_path / "ours", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_plain_tokenizer_in_a_marian_folder_comes_along(tmp_path):
    tokenizer = make_plain_tokenizer()
    make_marian(vocab_size=len(tokenizer)).save_pretrained(tmp_path / "marian")
    tokenizer.save_pretrained(tmp_path / "marian")
    from_marian(tmp_path / "marian", tmp_path / "ours")
    found = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert encoded(found) == encoded(tokenizer)


def test_settings_of_search_in_an_old_config_come_along(marian_folder, tmp_path):
    # Early folders of OPUS-MT have no generation_config.json: config.json says how to search.
    old = copy_of(marian_folder, tmp_path / "old")
    search = json.loads((old / "generation_config.json").read_text())
    (old / "generation_config.json").unlink()
    config = json.loads((old / "config.json").read_text())
    names = ("num_beams", "max_length", "length_penalty", "bad_words_ids")
    config.update({name: search[name] for name in names})
    (old / "config.json").write_text(json.dumps(config))
    from_marian(old, tmp_path / "ours")
    assert translate(tmp_path / "ours") == translate(old)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours")
    assert model.generation_config.num_beams == 4


def test_a_stored_table_of_positions_is_carried(marian_folder, tmp_path):
    # Old checkpoints have their tables in the file; transformers takes what it finds there.
    folder = copy_of(marian_folder, tmp_path / "marian")
    tensors = load_file(folder / "model.safetensors")
    for side in ("encoder", "decoder"):
        tensors[f"model.{side}.embed_positions.weight"] = torch.randn(LONGEST, D_MODEL)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    from_marian(folder, tmp_path / "ours")
    ours = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours")
    assert ours.config.position_encoding == "learned"
    marian = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert_alike(ours, marian)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_what_it_is(dtype, marian_folder, vaswani_folder, tmp_path):
    for convert, folder in ((from_marian, marian_folder), (to_marian, vaswani_folder)):
        half = copy_of(folder, tmp_path / f"half-{convert.__name__}")
        AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).save_pretrained(half)
        convert(half, tmp_path / convert.__name__)
        result = tmp_path / convert.__name__
        found = AutoModelForSeq2SeqLM.from_pretrained(result)
        assert found.dtype == dtype
        assert getattr(found.config, "position_encoding", "sinusoidal") == "sinusoidal"
        # In float32, where the two differ by nothing but what was rounded twice.
        found, expected = (
            AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.float32)
            for path in (result, half)
        )
        assert_alike(found, expected)


def test_a_folder_to_marian_and_back_translates_the_same(vaswani_folder, tmp_path):
    to_marian(vaswani_folder, tmp_path / "marian")
    from_marian(tmp_path / "marian", tmp_path / "back")
    expected = translate(vaswani_folder, max_new_tokens=12)
    assert translate(tmp_path / "back", max_new_tokens=12) == expected
    found = AutoTokenizer.from_pretrained(tmp_path / "back")
    assert encoded(found) == encoded(AutoTokenizer.from_pretrained(vaswani_folder))


# A process that cannot import the package, and may run no code out of a folder.
STRANGER = """
import importlib.abc, json, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("vaswani_hf", "training"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer
sentences, translations, folders = (json.loads(argument) for argument in sys.argv[1:])
for folder in folders:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    both = tokenizer(sentences, text_target=translations)
    batch = tokenizer(sentences, return_tensors="pt", padding=True)
    print(json.dumps({
        "types": [type(AutoConfig.from_pretrained(folder)).__name__, type(model).__name__],
        "tokenizer": type(tokenizer).__name__,
        "longest": tokenizer.model_max_length,
        "ids": [both["input_ids"], both["labels"]],
        "beams": model.generate(
            **batch, num_beams=4, num_return_sequences=4, max_new_tokens=12
        ).tolist(),
    }))
"""


def test_marian_folders_work_in_a_process_without_the_package(
    vaswani_folder, marian_folder, tmp_path
):
    to_marian(vaswani_folder, tmp_path / "plain")
    from_marian(marian_folder, tmp_path / "imported")
    to_marian(tmp_path / "imported", tmp_path / "returned")
    folders = [str(tmp_path / name) for name in ("plain", "returned")]
    arguments = [json.dumps(value) for value in (SENTENCES, TRANSLATIONS, folders)]
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plain, returned = (json.loads(line) for line in done.stdout.splitlines())
    for found, source in ((plain, vaswani_folder), (returned, marian_folder)):
        assert found["types"] == ["MarianConfig", "MarianMTModel"]
        assert found["ids"] == list(encoded(AutoTokenizer.from_pretrained(source)))
        assert found["beams"] == translate(source, num_beams=4, max_new_tokens=12)
        assert found["longest"] == LONGEST
    assert plain["tokenizer"] == type(AutoTokenizer.from_pretrained(vaswani_folder)).__name__
    assert returned["tokenizer"] == "MarianTokenizer"


# Refusals of folders


def copy_of(folder, target):
    target.mkdir()
    for path in Path(folder).iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def change_config(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def refuse(convert, source, folder, match):
    with pytest.raises(ValueError, match=match):
        convert(source, folder / "new" / "target")
    assert not (folder / "new").exists()


def test_other_models_are_refused(vaswani_folder, marian_folder, tmp_path):
    refuse(from_marian, vaswani_folder, tmp_path, "of type 'vaswani', expected 'marian'")
    refuse(to_marian, marian_folder, tmp_path, "of type 'marian', expected 'vaswani'")


def test_a_marian_folder_with_other_settings_is_refused(marian_folder, tmp_path):
    folder = copy_of(marian_folder, tmp_path / "marian")
    change_config(folder, activation_function="nonsense", decoder_ffn_dim=41)
    refuse(from_marian, folder, tmp_path, r"2 differences[^$]*decoder_ffn_dim=41[^$]*'nonsense'")


@pytest.mark.parametrize("convert", [from_marian, to_marian])
def test_a_folder_without_a_weight_is_refused(convert, marian_folder, vaswani_folder, tmp_path):
    source, name = {
        from_marian: (marian_folder, "model.decoder.layers.1.encoder_attn.k_proj.weight"),
        to_marian: (vaswani_folder, "model.decoder.layers.1.cross_attention.key_proj.weight"),
    }[convert]
    folder = copy_of(source, tmp_path / "bare")
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    refuse(convert, folder, tmp_path, rf"{re.escape(name)} (\(.*\) )?is missing")


def test_weights_that_do_not_fit_the_config_are_told(marian_folder, tmp_path, capfd):
    folder = copy_of(marian_folder, tmp_path / "marian")
    wide = json.loads((folder / "config.json").read_text())["encoder_ffn_dim"] + 1
    change_config(folder, encoder_ffn_dim=wide, decoder_ffn_dim=wide, decoder_layers=1)
    match = r"fc1.bias has shape [^$]*decoder.layers.1.fc1.bias has no place in the model"
    refuse(from_marian, folder, tmp_path, match)
    assert "MISMATCH" not in "".join(capfd.readouterr())  # the library's own report of it


def test_a_bias_that_is_no_number_is_refused(marian_folder, tmp_path):
    folder = copy_of(marian_folder, tmp_path / "marian")
    tensors = load_file(folder / "model.safetensors")
    tensors["final_logits_bias"][0, 3] = float("nan")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    refuse(from_marian, folder, tmp_path, r"1 of the \d+ values of lm_head.bias of .* are NaN")


@pytest.mark.parametrize("damage", ["another model's", "too long", "truncated", "empty"])
def test_a_vocabulary_that_does_not_fit_is_told(damage, marian_folder, tmp_path):
    folder = copy_of(marian_folder, tmp_path / "marian")
    pieces = json.loads((folder / "vocab.json").read_text())
    if damage == "another model's":
        pieces = {"</s>": 0, "<unk>": 1, "<pad>": 2, "Haus": 3}
        match = "has none of the pieces of .*source.spm: they are of two models"
    elif damage == "too long":
        pieces["Haus"] = len(pieces)
        match = f"ids up to {len(pieces) - 1}, the model embeds {len(pieces) - 1} pieces"
    else:
        content = (folder / "target.spm").read_bytes()
        (folder / "target.spm").write_bytes(content[:100] if damage == "truncated" else b"")
        match = "target.spm is no model of SentencePiece, or damaged"
    (folder / "vocab.json").write_text(json.dumps(pieces))
    refuse(from_marian, folder, tmp_path, match)


@pytest.mark.parametrize("convert", [from_marian, to_marian])
def test_a_folder_without_a_tokenizer_is_refused(convert, marian_folder, vaswani_folder, tmp_path):
    source = marian_folder if convert is from_marian else vaswani_folder
    folder = copy_of(source, tmp_path / "bare")
    for path in folder.iterdir():
        if path.name.startswith(("tokenizer", "vocab", "source", "target")):
            path.unlink()
    refuse(convert, folder, tmp_path, "bare holds no tokenizer")


def test_a_folder_that_marian_cannot_hold_is_refused(tmp_path):
    ours = make_vaswani(final_norm=True, vocab_size=300)
    export(ours, make_plain_tokenizer(), tmp_path / "ours")
    refuse(to_marian, tmp_path / "ours", tmp_path, "ours as a Marian model.*1 difference")


def test_a_target_tokenizer_is_refused_beside_all_else(vaswani_folder, tmp_path):
    folder = copy_of(vaswani_folder, tmp_path / "ours")
    make_plain_tokenizer().save_pretrained(folder / "target_tokenizer")
    change_config(folder, d_k=9)
    refuse(to_marian, folder, tmp_path, r"2 differences[^$]*d_k=9[^$]*target_tokenizer/ holds")


@pytest.mark.parametrize("convert", [from_marian, to_marian])
def test_a_full_target_is_left_alone(convert, marian_folder, vaswani_folder, tmp_path):
    (tmp_path / "precious").write_text("mine")
    source = marian_folder if convert is from_marian else vaswani_folder
    with pytest.raises(FileExistsError, match="exists already"):
        convert(source, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
