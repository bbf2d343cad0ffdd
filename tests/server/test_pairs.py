import pytest

from tests.server.serving import EN_DE
from vaswani_hf import Translator
from vaswani_hf.server import LanguagePair, Pairs
from vaswani_hf.server.errors import RequestError
from vaswani_hf.server.pairs import parse_model


@pytest.mark.parametrize(
    ("text", "pair", "folder"),
    [
        ("runs/mine", None, "runs/mine"),
        ("en-de=runs/mine", ("en", "de"), "runs/mine"),
        ("en-pt-BR=a=b", ("en", "pt-BR"), "a=b"),
        ("zh-Hans-en=x", ("zh-Hans", "en"), "x"),
        ("runs/lr=1", None, "runs/lr=1"),
        ("en_de=x", None, "en_de=x"),
    ],
)
def test_a_pair_stands_in_front_of_a_folder(text, pair, folder):
    assert parse_model(text) == (pair, folder)


def test_languages_are_those_of_the_card(copier_folder, tmp_path):
    (tmp_path / "README.md").write_text("---\nlanguage:\n- fr\n- es\n---\n")
    translator = Translator.from_pretrained(copier_folder)
    translator.folder = tmp_path
    assert Pairs([(None, translator)]).languages == [("fr", "es")]
    assert Pairs([(EN_DE, translator)]).languages == [("en", "de")]


def test_unknown_languages_are_asked_for(translator):
    with pytest.raises(ValueError, match="--model en-de="):
        Pairs([(None, translator)])


def test_two_models_of_one_pair_are_refused(translator):
    with pytest.raises(ValueError, match="Two models translate en-de"):
        Pairs([(EN_DE, translator), (EN_DE, translator)])


def test_sentences_are_cut_as_the_translator_was_told(copier_folder):
    translator = Translator.from_pretrained(copier_folder, max_source_tokens=4)
    splitter = Pairs([(EN_DE, translator)]).find("en", "de").splitter
    (text,) = splitter.split(["a b c d e f"])
    assert max(map(len, translator.encode(text.segments))) <= 4


def test_what_is_not_translated_is_told(translator):
    pairs = Pairs([(EN_DE, translator), (LanguagePair("fr", "es"), translator)])
    assert pairs.find("fr", "es").languages == ("fr", "es")
    assert pairs.find("auto", "es").languages == ("fr", "es")
    with pytest.raises(RequestError, match="es is not available as a target language from en"):
        pairs.find("en", "es")
    with pytest.raises(RequestError, match="fr is not available as a target language from auto"):
        pairs.find("auto", "fr")
