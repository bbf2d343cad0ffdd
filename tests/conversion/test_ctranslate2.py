import json
import random
import shutil

import pytest
import torch
from transformers import AutoTokenizer, MarianConfig, MarianTokenizer

from tests.translation.ctranslate2_models import (
    APART,
    EOS,
    PAD,
    V,
    disturbed_model,
    ids_of_generate,
    random_sentences,
    save,
    words,
)
from vaswani_hf import Translator
from vaswani_hf.conversion.ctranslate2 import to_ctranslate2
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator


ctranslate2 = pytest.importorskip("ctranslate2")
from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES  # noqa: E402, it may be missing


@pytest.mark.parametrize(
    "settings",
    [
        {"decoder_layers": 1},
        {"tie_word_embeddings": False},
        APART,
        {**APART, "tie_word_embeddings": False},
        {"attention_bias": True},
        {"output_bias": True},
        {"activation_function": "gelu"},
        {"activation_function": "swish"},
        {"activation_function": "silu"},
        {"position_encoding": "learned", "d_model": 15, "num_heads": 3},
        {"scale_embedding": False},
        {"layer_norm_eps": 0.1},
        {"final_norm": True},
        {"d_k": 3, "d_v": 3},
        {"d_k": 3, "d_v": 7, "attention_bias": True},
        {"d_k": 11, "d_v": 2},
        {"num_heads": 4, "attention_bias": True, "alignment_layer": 1, "alignment_head": 2},
    ],
    ids=str,
)
def test_log_probabilities_are_those_of_the_model(tmp_path, settings):
    model = disturbed_model(**settings)
    to_ctranslate2(save(model, tmp_path / "ours"), tmp_path / "theirs")
    sizes = [V, model.config.num_target_pieces]
    tokenizers = [words("s", V), words("s" if model.config.share_embeddings else "t", sizes[1])]
    chooser = random.Random(0)
    pairs = [
        [chooser.choices(range(3, size), k=chooser.randint(1, 12)) for size in sizes]
        for _ in range(8)
    ]
    pieces = [
        [
            tokenizer.convert_ids_to_tokens(ids)
            for tokenizer, ids in zip(tokenizers, pair, strict=True)
        ]
        for pair in pairs
    ]
    found = ctranslate2.Translator(str(tmp_path / "theirs"), intra_threads=1).score_batch(
        [[*source, "</s>"] for source, _ in pieces], [target for _, target in pieces]
    )
    for (source, labels), result in zip(pairs, found, strict=True):
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([[*source, EOS]]),
                decoder_input_ids=torch.tensor([[PAD, *labels]]),
            ).logits[0]
        log_probs = logits.log_softmax(dim=-1)
        expected = [log_probs[step, token].item() for step, token in enumerate([*labels, EOS])]
        # Other orders of float32 sums; the largest difference seen is 4e-6.
        assert result.log_probs == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("fields", [{"attention_bias": True}, {"d_k": 3, "d_v": 5}], ids=str)
def test_the_returned_attention_is_the_aligning_heads(tmp_path, fields):
    model = disturbed_model(num_heads=4, alignment_layer=1, alignment_head=2, **fields)
    to_ctranslate2(save(model, tmp_path / "ours"), tmp_path / "theirs")
    ours = Translator.from_pretrained(tmp_path / "ours")
    text = "s0 s5 s1 s9"
    (found,) = ctranslate2.Translator(str(tmp_path / "theirs"), intra_threads=1).translate_batch(
        [[*text.split(), "</s>"]], beam_size=1, max_decoding_length=6, return_attention=True
    )
    pieces = found.hypotheses[0]
    ids = words("s", V).convert_tokens_to_ids(pieces)
    (aligned,) = ours.align([text], [ids])
    assert aligned.head == (1, 2, "predicts") and len(pieces) > 1
    attention = torch.tensor(found.attention[0][: len(pieces)])
    torch.testing.assert_close(attention, aligned.matrix, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("quantization", ACCEPTED_MODEL_TYPES)
def test_every_quantization_copies(copier_folder, tmp_path, quantization):
    to_ctranslate2(copier_folder, tmp_path / "theirs", quantization=quantization)
    sentences = ["a b c d e f g h", "h", "c c a", "g f e d"]
    assert CTranslate2Translator(tmp_path / "theirs")(sentences) == sentences


def test_int8_takes_a_quarter_of_the_room(copier_folder, tmp_path):
    sizes = {}
    for quantization in (None, "int8"):
        to_ctranslate2(copier_folder, tmp_path / f"{quantization}", quantization=quantization)
        sizes[quantization] = (tmp_path / f"{quantization}" / "model.bin").stat().st_size
    table = 1024 * 64 * 4  # positions stay in float32
    assert sizes["int8"] - table < 0.35 * (sizes[None] - table)


def test_what_is_tied_is_stored_once(tmp_path):
    sizes = {}
    for is_tied in (True, False):
        model = disturbed_model(tie_word_embeddings=is_tied)
        folder = tmp_path / f"{is_tied}"
        to_ctranslate2(save(model, tmp_path / f"ours {is_tied}"), folder)
        sizes[is_tied] = (folder / "model.bin").stat().st_size
    # float32 of a matrix; names of tensors take some bytes more or less.
    assert sizes[False] - sizes[True] == pytest.approx(4 * V * 16, abs=64)


def test_the_folder_needs_no_other(talkative, tmp_path):
    theirs = shutil.copytree(talkative[1], tmp_path / "moved")
    ids = words("s", V)("s4 s0")["input_ids"]
    assert AutoTokenizer.from_pretrained(theirs)("s4 s0")["input_ids"] == ids
    settings = json.loads((theirs / "generation_config.json").read_text())
    assert (settings["num_beams"], settings["length_penalty"]) == (4, 0.6)  # section 6.1
    assert settings["max_extra_tokens"] == 9
    translator = CTranslate2Translator(theirs, num_beams=1)
    (target,) = translator.target_ids([ids])
    pieces = words("t", V).convert_ids_to_tokens(target)
    assert pieces[0].startswith("t")
    assert translator(["s4 s0"]) == [" ".join(piece for piece in pieces if piece != "</s>")]


def test_a_row_without_a_piece_is_carried(tmp_path):
    model = disturbed_model(vocab_size=V + 5, output_bias=True)
    with torch.no_grad():
        model.lm_head.bias[[EOS, V + 1]] += 3
    model.save_pretrained(tmp_path / "ours")
    words("s", V).save_pretrained(tmp_path / "ours")
    to_ctranslate2(tmp_path / "ours", tmp_path / "theirs")
    sentences, options = random_sentences(20, longest=5), {"num_beams": 1, "max_extra_tokens": 9}
    found = CTranslate2Translator(tmp_path / "theirs", **options).target_ids(
        words("s", V)(sentences)["input_ids"]
    )
    assert found == ids_of_generate(model, words("s", V), sentences, **options)
    assert any(V + 1 in target for target in found)


def test_an_unknown_quantization_is_refused_with_the_choices(tmp_path):
    with pytest.raises(ValueError, match=r"int8, int8_float32.*got 'int4'"):
        to_ctranslate2(tmp_path / "ours", tmp_path / "theirs", quantization="int4")


def test_all_that_cannot_be_carried_is_listed_and_nothing_is_written(tmp_path):
    model = disturbed_model()
    model.generation_config.no_repeat_ngram_size = 3
    model.generation_config.eos_token_id = [2, 3]
    model.save_pretrained(tmp_path / "ours")
    words("s", V + 2).save_pretrained(tmp_path / "ours")
    with pytest.raises(ValueError, match="3 differences") as error:
        to_ctranslate2(tmp_path / "ours", tmp_path / "theirs")
    for fact in ("no_repeat_ngram_size=3", "[2, 3]", f"ids up to {V + 1}", f"embeds {V} pieces"):
        assert fact in str(error.value)
    assert not (tmp_path / "theirs").exists()


def test_another_kind_of_model_is_refused(tmp_path):
    config = MarianConfig(
        vocab_size=V, d_model=8, encoder_layers=1, decoder_layers=1, pad_token_id=PAD
    )
    config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="of type 'marian', expected 'vaswani'"):
        to_ctranslate2(tmp_path, tmp_path / "theirs")


def test_missing_weights_are_refused_by_name(talkative, tmp_path):
    ours = shutil.copytree(talkative[0], tmp_path / "ours")
    config = json.loads((ours / "config.json").read_text())
    (ours / "config.json").write_text(json.dumps(config | {"attention_bias": True}))
    with pytest.raises(ValueError, match=r"layers\.0\.self_attention\.query_proj\.bias"):
        to_ctranslate2(ours, tmp_path / "theirs")


def test_a_folder_that_holds_something_is_left_alone(talkative, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "mine").write_text("kept")
    with pytest.raises(FileExistsError, match="theirs exists already"):
        to_ctranslate2(talkative[0], tmp_path / "theirs")
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["mine"]


@pytest.fixture(scope="module")
def marian_folder(tmp_path_factory):
    """A model with the tokenizer that OPUS-MT's have."""
    sentencepiece = pytest.importorskip("sentencepiece")
    path = tmp_path_factory.mktemp("marian")
    (path / "text").write_text("\n".join(random_sentences(300, longest=6)) + "\n")
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(path / "text"),
            model_prefix=str(path / side),
            vocab_size=20,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (path / f"{side}.model").rename(path / f"{side}.spm")
    processor = sentencepiece.SentencePieceProcessor(str(path / "source.spm"))
    pieces = [processor.id_to_piece(token) for token in range(3, len(processor))]
    pieces = ["</s>", "<unk>", *pieces, "<pad>"]  # the order of Marian's vocabularies
    (path / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
    tokenizer = MarianTokenizer(
        source_spm=str(path / "source.spm"),
        target_spm=str(path / "target.spm"),
        vocab=str(path / "vocab.json"),
    )
    model = disturbed_model(
        vocab_size=len(pieces),
        pad_token_id=len(pieces) - 1,
        eos_token_id=0,
    )
    model.generation_config.bad_words_ids = [[len(pieces) - 1]]  # as OPUS-MT's have it
    model.generation_config.length_penalty_type = "power"
    folder = tmp_path_factory.mktemp("marian_ours")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_marian_tokenizer_goes_along(marian_folder, tmp_path):
    to_ctranslate2(marian_folder, tmp_path / "theirs")
    sentences = random_sentences(30, longest=6, seed=1)
    options = {"num_beams": 2, "max_extra_tokens": 4}
    ours = Translator.from_pretrained(marian_folder, device="cpu", **options)
    assert isinstance(ours.tokenizer, MarianTokenizer)
    found = CTranslate2Translator(tmp_path / "theirs", **options)(sentences)
    assert found == ours(sentences)
    expected = ids_of_generate(ours.model, ours.tokenizer, sentences, **options)
    assert found == ours.tokenizer.batch_decode(expected, skip_special_tokens=True)
    assert any(found)
