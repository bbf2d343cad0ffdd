import copy
import random
import threading
from pathlib import Path

import pytest
import torch
from huggingface_hub.constants import HF_HUB_CACHE
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MarianConfig, MarianMTModel

from vaswani_hf import Translator, train_tokenizer
from vaswani_hf.hub.folder import export
from vaswani_hf.translation import LongSourceError
from vaswani_hf.translation.ctranslate2 import CTranslate2Translator


def test_translations_come_in_the_order_of_the_sentences(copier):
    model, tokenizer = copier
    sentences = ["c d e f g h", "a", "b a", "h g f e d c b a", "c"]
    assert Translator(model, tokenizer, max_batch_sentences=2)(sentences) == sentences


@pytest.fixture
def threads():
    """Four threads of torch, and what there was afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield 4
    torch.set_num_threads(before)


def test_threads_that_translate_batches_of_their_own_change_nothing(copier, threads, monkeypatch):
    used = []
    target_ids = Translator.target_ids

    def note(self, sources):
        used.append((threading.current_thread().name, torch.get_num_threads()))
        return target_ids(self, sources)

    monkeypatch.setattr(Translator, "target_ids", note)
    sentences = [" ".join(random.Random(n).choices("abcdefgh", k=n % 9 + 1)) for n in range(50)]
    translator = Translator(*copier, max_batch_sentences=5)
    assert translator(sentences) == sentences
    assert {number for _, number in used} == {1} and len({name for name, _ in used}) > 1
    assert torch.get_num_threads() == threads
    used.clear()
    assert translator(sentences[:5]) == sentences[:5]  # one batch has all threads
    assert used == [(threading.main_thread().name, threads)]


def test_a_thread_beside_others_has_its_share_of_the_threads_and_a_copy(copier, threads):
    translator = Translator(*copier)
    translator.copies = [translator.model, copy.deepcopy(translator.model)]
    take, seen = translator.sharing(), []

    def look(number, num_sharing):
        take(number, num_sharing)
        seen.append((torch.get_num_threads(), translator._own_model, translator.num_workers))

    for number in range(3):
        thread = threading.Thread(target=look, args=(number, number + 1))
        thread.start()
        thread.join()
    first, second = translator.copies
    assert seen == [(4, first, 1), (2, second, 1), (1, first, 1)]
    assert translator.num_workers == 2 and torch.get_num_threads() == threads


def test_an_error_in_one_of_several_threads_comes_out(copier, threads, monkeypatch):
    def fail(self, sources):
        raise RuntimeError("no memory")

    monkeypatch.setattr(Translator, "target_ids", fail)
    with pytest.raises(RuntimeError, match="no memory"):
        Translator(*copier, max_batch_sentences=2)(["a"] * 9)
    assert torch.get_num_threads() == threads


def test_an_empty_line_stays_empty(copier):
    assert Translator(*copier)(["a b", "", "  ", "c"]) == ["a b", "", "", "c"]


def test_one_sentence_may_stand_alone(copier):
    assert Translator(*copier)("b c") == ["b c"]


def test_nothing_in_gives_nothing_out(copier):
    assert Translator(*copier)([]) == []


def test_batch_mates_change_no_translation(copier):
    sentences = ["a b c", "h", "d e f g a b"]
    together = Translator(*copier)(sentences)
    alone = [Translator(*copier)([sentence])[0] for sentence in sentences]
    assert together == alone


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_batches_hold_each_sentence_once_within_the_budget(copier, lengths, most):
    translator = Translator(*copier, batch_tokens=40, max_batch_sentences=most)
    batches = translator.batches(lengths)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or (len(batch) * longest <= 40 and len(batch) <= most)


@pytest.mark.parametrize(
    ("num_sentences", "threads", "sizes"),
    [(99, 2, [50, 49]), (99, 1, [99]), (63, 2, [63]), (130, 4, [33, 33, 33, 31])],
)
def test_threads_share_few_sentences(copier, num_sentences, threads, sizes):
    translator, before = Translator(*copier), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        batches = translator.batches([3] * num_sentences)
    finally:
        torch.set_num_threads(before)
    assert [len(batch) for batch in batches] == sizes


def endless(model, tokenizer, **options):
    """A translator whose translations end at their limits."""
    translator = Translator(model, tokenizer, num_beams=1, **options)
    translator.generation["suppress_tokens"] = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    return translator


def num_generated(translator, sentences):
    targets = translator.target_ids(translator.tokenizer(sentences)["input_ids"])
    return [len(target) for target in targets]


def test_a_translation_has_at_most_so_many_tokens_more_than_its_source(copier):
    translator = endless(*copier, max_extra_tokens=3)
    assert num_generated(translator, ["a b"]) == [len(copier[1]("a b")["input_ids"]) + 3]


def test_the_limit_is_that_of_each_sentence_by_the_models_own_number(copier):
    model, tokenizer = copy.deepcopy(copier[0]), copier[1]
    sentences = ["a b", "c d e f g h", "a"]
    lengths = [len(ids) for ids in tokenizer(sentences)["input_ids"]]
    model.generation_config.max_extra_tokens = 4
    assert num_generated(endless(model, tokenizer), sentences) == [n + 4 for n in lengths]
    given = endless(model, tokenizer, max_extra_tokens=2)
    assert num_generated(given, sentences) == [n + 2 for n in lengths]
    model.generation_config.max_extra_tokens = None
    assert num_generated(endless(model, tokenizer), ["a"]) == [lengths[2] + 50]  # section 6.1
    del model.generation_config.max_extra_tokens  # as in a folder that does not know of it
    given = endless(model, tokenizer, max_extra_tokens=2)
    assert num_generated(given, sentences) == [n + 2 for n in lengths]


def test_ids_have_neither_start_nor_padding_and_end_where_the_translation_does(copier):
    sources = copier[1](["a b c", "h", "d e f g a b"])["input_ids"]
    for num_beams in (1, 3):
        translator = Translator(*copier, num_beams=num_beams)
        assert translator.target_ids(sources) == sources  # which it copies, with `</s>`
        found = translator.hypotheses(sources)
        assert [[(one.ids, one.log_prob) for one in each] for each in found] == [
            [(source, None)] for source in sources
        ]


def test_a_stream_gives_the_same_and_reads_no_more_than_a_chunk_ahead(copier):
    sentences = ["c d", "a", "", "b a h", "e", "f g", " "]
    read = []

    def lines():
        for sentence in sentences:
            read.append(sentence)
            yield sentence

    translator = Translator(*copier)
    expected = translator(sentences)
    num_read = []
    for place, translation in enumerate(translator.stream(lines(), chunk_sentences=3)):
        assert translation == expected[place]
        num_read.append(len(read))
    assert num_read == [3, 3, 3, 6, 6, 6, 7]
    assert list(translator.stream([], chunk_sentences=3)) == []
    with pytest.raises(ValueError, match="chunk_sentences=0"):
        translator.stream(sentences, chunk_sentences=0)


def test_a_stream_names_the_place_of_a_long_sentence_in_all_of_it(copier, marian):
    config = copy.deepcopy(marian.config)
    config.max_position_embeddings = 4
    translator = Translator(MarianMTModel(config), copier[1], num_beams=1)
    stream = translator.stream(["a", "b", "c", "a b", "d e f g h", "a"], chunk_sentences=2)
    for _ in range(4):
        next(stream)
    with pytest.raises(LongSourceError, match="6 tokens") as refused:
        next(stream)
    assert refused.value.place == 4


@pytest.fixture(scope="module")
def marian(copier):
    """A model of the library's own, untrained."""
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=len(copier[1]),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        pad_token_id=copier[1].pad_token_id,
        eos_token_id=copier[1].eos_token_id,
        decoder_start_token_id=copier[1].pad_token_id,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


def test_the_limit_of_other_models_is_that_of_the_batch(copier, marian):
    sentences = ["a b", "c d e f g h", "a"]
    longest = len(copier[1](sentences[1])["input_ids"])
    limited = endless(marian, copier[1], max_extra_tokens=3)
    assert num_generated(limited, sentences) == [longest + 3] * 3
    assert num_generated(endless(marian, copier[1]), ["a"]) == [2 + 50]


def test_other_models_do_not_run_past_their_positions(copier, marian):
    config = copy.deepcopy(marian.config)
    config.max_position_embeddings = 8
    short = MarianMTModel(config)
    assert num_generated(endless(short, copier[1]), ["a b"]) == [8]


def test_the_paper_s_length_penalty_is_refused_for_other_models(copier, marian):
    with pytest.raises(ValueError, match=r'length_penalty_type="wu".*MarianMTModel'):
        Translator(marian, copier[1], length_penalty_type="wu")
    power = Translator(marian, copier[1], length_penalty_type="power", max_extra_tokens=1)
    assert power(["a", "b c"]) == Translator(marian, copier[1], max_extra_tokens=1)(["a", "b c"])


def test_the_length_penalty_is_that_of_the_type(copier):
    model, tokenizer = copier
    sentences = ["a b c", "h", "d e f g a b"]
    found = {}
    for kind in ("wu", "power"):
        options = {"num_beams": 4, "length_penalty": 10.0, "length_penalty_type": kind}
        translator = Translator(model, tokenizer, max_extra_tokens=3, **options)
        found[kind] = translator(sentences)
        batch = tokenizer(sentences, return_tensors="pt", padding=True)
        expected = model.generate(**batch, max_extra_tokens=3, **options)
        assert found[kind] == tokenizer.batch_decode(expected, skip_special_tokens=True)
    assert found["wu"] != found["power"]


@pytest.fixture(scope="module")
def loud_folder(copier, tmp_path_factory):
    """The copier with a tokenizer of the target's own, of capitals."""
    path = tmp_path_factory.mktemp("loud")
    export(*copier, path)
    capitals = train_tokenizer(["A B C D E F G H"], 300, are_files=False, show_progress=False)
    capitals.save_pretrained(path / "target_tokenizer")
    return path


def test_a_target_tokenizer_of_the_folder_makes_the_text(loud_folder):
    assert Translator.from_pretrained(loud_folder, device="cpu")(["a b", "h"]) == ["A B", "H"]


def test_a_target_tokenizer_is_found_on_the_hub(loud_folder):
    # What the Hub's client keeps of a repository that it has downloaded; tests are offline.
    repository = Path(HF_HUB_CACHE) / "models--somebody--loud"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / ("0" * 40)).symlink_to(loud_folder, target_is_directory=True)
    assert Translator.from_pretrained("somebody/loud", device="cpu")(["c d"]) == ["C D"]


def test_a_folder_of_the_other_engine_is_told_apart(loud_folder, tmp_path):
    (tmp_path / "model.bin").touch()
    with pytest.raises(ValueError, match=r"CTranslate2Translator.*--engine ctranslate2"):
        Translator.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"is not a folder of CTranslate2.*--engine transformers"):
        CTranslate2Translator.from_pretrained(loud_folder)


def test_an_unknown_length_penalty_is_refused_by_name(copier):
    with pytest.raises(ValueError, match='"wu" or "power", got length_penalty_type=\'gnmt\''):
        Translator(*copier, length_penalty_type="gnmt")


def test_a_negative_number_of_extra_tokens_is_refused(copier):
    with pytest.raises(ValueError, match="max_extra_tokens=-1"):
        Translator(*copier, max_extra_tokens=-1)


@pytest.mark.parametrize("option", ["num_beams", "batch_tokens", "max_batch_sentences"])
def test_options_below_one_are_refused_by_name(copier, option):
    with pytest.raises(ValueError, match=f"{option}=0"):
        Translator(*copier, **{option: 0})


def test_more_beams_than_a_step_has_memory_for_are_refused_before_any_search(copier):
    with pytest.raises(ValueError, match=r"num_beams must be at most [\d,]+ for .* pieces"):
        Translator(*copier, num_beams=100_000_000)


def test_texts_are_split_and_keep_what_is_between_sentences(copier):
    pytest.importorskip("sentencex")
    translator, text = Translator(*copier), "a b\r\n\n c d\te f "
    options = {"split": "sentences", "language": "en"}
    assert translator(text, **options) == [text]
    assert translator([text, "", "g"], **options) == [text, "", "g"]


def test_texts_of_an_iterator_are_read_as_they_are_needed(copier):
    pytest.importorskip("sentencex")
    texts = iter([f"{letter} a\n" for letter in "abcdefgh"])
    translations = Translator(*copier).translate_texts(texts, language="en", chunk_sentences=3)
    assert next(translations) == "a a\n"
    assert next(texts) == "d a\n"
    assert "".join(translations) == "b a\nc a\ne a\nf a\ng a\nh a\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "en"}, 'are for split="sentences", which is missing'),
        ({"max_source_tokens": 9}, 'are for split="sentences", which is missing'),
        ({"split": "words"}, "split must be \"sentences\", got split='words'"),
        ({"split": "sentences"}, "The language of the text is needed"),
    ],
)
def test_options_of_split_that_do_not_fit_are_refused(copier, options, message):
    with pytest.raises(ValueError, match=message):
        Translator(*copier)("a b", **options)
