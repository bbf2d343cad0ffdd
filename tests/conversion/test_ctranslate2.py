import json
import logging
import random
import shutil

import pytest
import torch
from transformers import AutoTokenizer, MarianConfig, MarianTokenizer

from vaswani_hf import Translator, VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.conversion.ctranslate2 import to_ctranslate2
from vaswani_hf.hub.folder import export
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator, Hypothesis


ctranslate2 = pytest.importorskip("ctranslate2")
from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES  # noqa: E402, it may be missing


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


@pytest.fixture(scope="module")
def talkative(tmp_path_factory):
    """A folder of ours and one of CTranslate2, of a model with two vocabularies."""
    path = tmp_path_factory.mktemp("talkative")
    to_ctranslate2(save(talkative_model(), path / "ours"), path / "theirs")
    return path / "ours", path / "theirs"


@pytest.fixture(scope="module")
def copier_folder(copier, tmp_path_factory):
    path = tmp_path_factory.mktemp("copier")
    export(*copier, path)
    return path


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


def ids_of_generate(model, tokenizer, sentences, **options):
    return [
        model.generate(**tokenizer(sentence, return_tensors="pt"), **options)[0].tolist()[1:]
        for sentence in sentences
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 1},
        {"num_beams": 3},
        {"num_beams": 4, "length_penalty": 1.5},
        {"num_beams": 3, "length_penalty": 0.0},
    ],
    ids=str,
)
def test_translations_are_those_of_generate(talkative, options):
    ours, theirs = talkative
    model = VaswaniForConditionalGeneration.from_pretrained(ours)
    tokenizer = AutoTokenizer.from_pretrained(ours)
    sentences = random_sentences(60, longest=9)
    found = CTranslate2Translator(theirs, **options).target_ids(tokenizer(sentences)["input_ids"])
    assert found == ids_of_generate(model, tokenizer, sentences, **options)
    # Else the comparison would say little.
    assert len({tuple(target) for target in found}) > 10
    assert 10 < sum(target[-1] == EOS for target in found) < 60


def test_a_search_that_may_not_stop_early_finds_more(talkative, tmp_path):
    theirs = shutil.copytree(talkative[1], tmp_path / "theirs")
    path = theirs / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"early_stopping": "never"}))
    sources = words("s", V)(random_sentences(20, longest=9))["input_ids"]
    num_found = {}
    for folder in (talkative[1], theirs):
        found = CTranslate2Translator(folder, num_beams=3).search(sources, 30)
        num_found[folder] = {len(hypotheses) for hypotheses in found}
    assert num_found[talkative[1]] == {3}
    assert max(num_found[theirs]) == 6


def test_the_copier_copies_as_generate_does(copier, copier_folder, tmp_path):
    to_ctranslate2(copier_folder, tmp_path / "theirs")
    chooser = random.Random(1)
    sentences = [" ".join(chooser.choices("abcdefgh", k=chooser.randint(1, 10))) for _ in range(99)]
    sentences[5] = " "
    translator = CTranslate2Translator(tmp_path / "theirs", batch_tokens=64)
    assert (translator.num_beams, translator.length_penalty_type) == (2, "wu")  # the copier's
    found = translator(sentences)
    assert found == Translator(*copier)(sentences)
    assert found[5] == ""


# log(p) / ((5 + n) / 6)^alpha of Wu et al., and log(p) / n^alpha, by hand.
@pytest.mark.parametrize(
    ("kind", "alpha", "best"),
    [
        ("wu", 1.0, 0),  # -2.0 / (7 / 6) = -1.714; -4.0 / (13 / 6) = -1.846
        ("power", 1.0, 1),  # -2.0 / 2 = -1; -4.0 / 8 = -0.5
        ("power", 0.0, 0),
        ("wu", 2.0, 1),  # -2.0 / 1.361 = -1.469; -4.0 / 4.694 = -0.852
    ],
)
def test_hypotheses_are_ranked_by_the_length_penalty(talkative, kind, alpha, best):
    found = [Hypothesis([7, EOS], -2.0), Hypothesis([5] * 7 + [EOS], -4.0)]
    translator = CTranslate2Translator(
        talkative[1], length_penalty_type=kind, length_penalty=alpha, num_beams=2
    )
    assert translator.best(found) == found[best]
    cut_off = Hypothesis([5, 5], -0.1)  # by a limit; what the library's search thinks of it differs
    assert translator.best([cut_off, *found]) == (found[best] if kind == "wu" else cut_off)


def test_log_probabilities_of_hypotheses_are_sums_over_their_tokens(talkative):
    ours, theirs = talkative
    model = VaswaniForConditionalGeneration.from_pretrained(ours)
    source = [5, 9, 3, EOS]
    for alpha in (0.0, 0.6, 2.0):
        translator = CTranslate2Translator(theirs, num_beams=2, length_penalty=alpha)
        (found,) = translator.search([source], 12)
        assert len(found) == 2
        for hypothesis in found:
            with torch.no_grad():
                logits = model(
                    input_ids=torch.tensor([source]),
                    decoder_input_ids=torch.tensor([[PAD, *hypothesis.ids[:-1]]]),
                ).logits[0]
            log_probs = logits.log_softmax(dim=-1)
            expected = sum(log_probs[n, token].item() for n, token in enumerate(hypothesis.ids))
            assert hypothesis.log_prob == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("num_beams", [1, 2])
def test_each_translation_is_limited_by_its_own_source(tmp_path, num_beams):
    model = talkative_model()
    model.generation_config.suppress_tokens = [EOS]  # which is carried over: none ever ends
    model.generation_config.length_penalty_type = "power"
    model.generation_config.max_extra_tokens = 3
    to_ctranslate2(save(model, tmp_path / "ours"), tmp_path / "theirs")
    tokenizer = words("s", V)
    translator = CTranslate2Translator(tmp_path / "theirs", num_beams=num_beams)
    sources = tokenizer(random_sentences(12, longest=9))["input_ids"]
    found = translator.target_ids(sources)
    assert [len(target) for target in found] == [len(source) + 3 for source in sources]
    assert len(translator.target_ids([[4] * 31 + [EOS]])[0]) == 32  # as many as positions


def test_a_limit_takes_a_translation_that_ends_in_time(talkative):
    ours, theirs = talkative
    model = VaswaniForConditionalGeneration.from_pretrained(ours)
    tokenizer = AutoTokenizer.from_pretrained(ours)
    sentences = random_sentences(60, longest=9)
    options = {"num_beams": 3, "max_extra_tokens": 1}
    found = CTranslate2Translator(theirs, **options).target_ids(tokenizer(sentences)["input_ids"])
    assert found == ids_of_generate(model, tokenizer, sentences, **options)


def test_a_source_of_more_tokens_than_positions_is_refused(talkative):
    translator = CTranslate2Translator(talkative[1])
    with pytest.raises(ValueError, match=r"33 tokens .* has 32.*max_position_embeddings"):
        translator(["s0", " ".join(["s1"] * 32)])


def test_long_sources_are_not_cut(tmp_path):
    model = disturbed_model(max_position_embeddings=1200)
    to_ctranslate2(save(model, tmp_path / "ours"), tmp_path / "theirs")
    long = " ".join(random_sentences(1200, longest=1))
    translator = CTranslate2Translator(tmp_path / "theirs", num_beams=1, max_extra_tokens=0)
    ids = words("s", V)(long)["input_ids"][-1100:]  # CTranslate2 cuts at 1024 unless told
    first = next(number for number in range(3, V) if number != ids[-2])
    changed = [*ids[:-2], first, EOS]
    scores = [translator.search([source], 1)[0][0].log_prob for source in (ids, changed)]
    assert scores[0] != scores[1]


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


def test_ranking_by_wu_is_told_once(talkative, caplog):
    logging.Logger.warning_once.cache_clear()  # an earlier test may have been told
    for options in ({}, {"num_beams": 1, "length_penalty_type": "wu"}):
        CTranslate2Translator(talkative[1], **options)
    assert not caplog.records
    for _ in range(2):
        CTranslate2Translator(talkative[1], length_penalty_type="wu")
    (record,) = caplog.records
    assert "Wu et al." in record.getMessage()


@pytest.mark.parametrize(
    ("option", "value"),
    [("num_beams", 0), ("threads", 0), ("max_extra_tokens", -1), ("length_penalty_type", "gnmt")],
)
def test_options_out_of_range_are_refused_by_name(talkative, option, value):
    with pytest.raises(ValueError, match=f"{option}={value!r}"):
        CTranslate2Translator(talkative[1], **{option: value})


def test_threads_share_sentences_within_their_budgets(talkative, monkeypatch):
    sentences = random_sentences(41, longest=9)
    plan = {"batch_tokens": 20, "max_batch_sentences": 5}
    alone = CTranslate2Translator(talkative[1], threads=1, **plan)
    together = CTranslate2Translator(talkative[1], threads=2, **plan)
    assert together.model.num_translators == 2
    batches = []

    class Noting:
        def translate_batch(self, sources, *, max_batch_size, **named):
            batches.append((sources, max_batch_size))
            return alone.model.translate_batch(sources, max_batch_size=max_batch_size, **named)

    expected = alone(sentences)
    assert together(sentences) == expected
    monkeypatch.setattr(together, "model", Noting())
    assert together(sentences) == expected
    for sources, share in batches:
        longest = max(map(len, sources))
        assert share <= 5 and (share * longest <= 20 or share == 1)
    assert any(len(sources) > share for sources, share in batches)  # both have work


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
