"""Documents by the translators; the model copies letters, so a document is its own translation."""

import itertools
import re

import pytest

from tests.conftest import LETTERS
from vaswani_hf import CTranslate2Translator, Translator
from vaswani_hf.conversion import to_ctranslate2
from vaswani_hf.markup.units import align_by_place
from vaswani_hf.translation import LongTextError, VaswaniEnsemble, markup


HTML = '<h1>a b</h1>\n<p>c <b>d e</b> f <img src="x">g a {name} <i>b</i></p>  <pre>h</pre> &amp;'
LINES = [f"{a} {{n}} <b>{b} {c}</b> %s {a}" for a, b, c in itertools.permutations(LETTERS[:4], 3)]


@pytest.fixture(scope="module")
def translator(copier):
    return Translator(*copier)


@pytest.fixture(scope="module")
def ctranslate2_translator(copier_folder, tmp_path_factory):
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("ctranslate2") / "copier"
    to_ctranslate2(copier_folder, folder)
    return CTranslate2Translator(folder, threads=1)


@pytest.fixture(params=["translator", "ctranslate2_translator", "ensemble"])
def engine(request, copier):
    if request.param == "ensemble":
        return Translator(VaswaniEnsemble([copier[0]]), copier[1])
    return request.getfixturevalue(request.param)


def test_markup_stays_with_its_words(engine):
    pytest.importorskip("sentencex")
    assert engine.translate_markup(HTML, language="en") == HTML
    assert engine.translate_markup(LINES, "placeholders") == LINES


def test_the_text_without_markup_is_the_plain_translation(translator):
    pytest.importorskip("sentencex")
    text = "g h b. c a"  # two sentences, and the model has not learned to end them
    marked = translator.translate_markup("<p>g <b>h b. c</b> a</p>", language="en")
    plain = translator([text], split="sentences", language="en")
    assert [re.sub("<.*?>", "", marked)] == plain


def test_an_iterator_is_read_no_further_than_it_must(translator):
    read = []

    def lines():
        for line in LINES:
            read.append(line)
            yield line

    found = translator.translate_markup(lines(), "placeholders", chunk_sentences=3)
    assert next(found) == LINES[0]
    assert len(read) == 3
    assert list(found) == LINES[1:]


def test_the_first_sentence_does_not_choose_the_head_for_good(copier):
    translator = Translator(*copier)
    translator.translate_markup("a <b>b</b>", "placeholders")
    assert translator.translate_markup(LINES, "placeholders") == LINES
    (size, _) = markup_sample(translator)
    assert size >= len(LINES)


def markup_sample(translator):
    from vaswani_hf.translation import alignment

    return alignment._agreement[translator._own_aligner.model]


def test_where_pieces_do_not_tell_their_characters_places_decide(translator, monkeypatch):
    def segment(*arguments, **options):
        raise ValueError("it is not known")

    monkeypatch.setattr(markup, "segment", segment)
    assert translator.translate_markup(LINES, "placeholders") == LINES


def test_places_from_the_first_to_the_last():
    rows = align_by_place("a b c d", "x y").rows
    assert [list(row) for row in rows] == [[1], [3]]


def test_a_line_that_is_too_long_is_named(copier):
    translator = Translator(*copier, max_source_tokens=4)
    lines = ["a", "{n}", "b", "a b c d e f", "c"]
    with pytest.raises(LongTextError) as caught:
        list(translator.translate_markup(iter(lines), "placeholders", chunk_sentences=2))
    assert caught.value.place == 3


def test_another_markup_is_refused(translator):
    with pytest.raises(ValueError, match="markup must be one of html, xliff, placeholders"):
        translator.translate_markup("a", "markdown")
    with pytest.raises(ValueError, match="language and max_source_tokens are for split"):
        translator.translate_markup("a", "placeholders", language="en")
