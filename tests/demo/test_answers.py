"""What the page shows, without the page."""

import re
from html import unescape

import answers
import pytest
from answers import MOST_CHARACTERS, MOST_PIECES, Models, beam_tree, views

from vaswani_hf import Translator
from vaswani_hf.beam_search_vaswani import CUT_OFF, DROPPED, ENDED, GOES_ON, BeamCandidate, BeamStep
from vaswani_hf.pictures import BeamTree, attention_of, attention_page


SENTENCE = "a cab & a <b>bad</b> bag"
NUM_BEAMS = 3


@pytest.fixture(scope="module")
def found(folder):
    return list(views(Models(), str(folder), SENTENCE, NUM_BEAMS))


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.from_pretrained(folder, num_beams=NUM_BEAMS)


def message(folder, sentence, num_beams=NUM_BEAMS):
    """What is told of a sentence that is not translated."""
    (view,) = views(Models(), str(folder), sentence, num_beams)
    assert not view.attention and not view.beams
    return unescape(re.fullmatch(r'<p class="problem" role="alert">(.*)</p>', view.answer)[1])


def cells(html):
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [[unescape(cell) for cell in re.findall("<td>(.*?)</td>", row)] for row in rows[1:]]


def test_the_best_translations_stand_with_their_scores(found, translator):
    expected = translator.n_best(SENTENCE, num_return_sequences=NUM_BEAMS)
    rows = cells(found[0].answer)
    assert [row[1] for row in rows] == [one.text for one in expected]
    for row, one in zip(rows, expected, strict=True):
        figures = [float(cell.replace("−", "-")) for cell in row[2:4]]
        assert figures == pytest.approx([one.score, one.log_prob], abs=6e-4)
        assert int(row[4]) == len(one.ids)
    best = re.search(r'<p class="translation">(.*?)</p>', found[0].answer, re.DOTALL)[1]
    assert unescape(best) == expected[0].text == translator(SENTENCE)[0]


def test_what_it_took_stands_below(found, translator):
    num_pieces = len(translator.encode([SENTENCE])[0])
    num_target = cells(found[0].answer)[0][4]
    assert re.search(
        rf">\d+\.\d\d s · {num_pieces} pieces in, {num_target} out · \d+ pieces a second<",
        found[0].answer,
    )


def test_attention_is_that_of_the_translation_that_stands_there(found, translator):
    best = translator.n_best(SENTENCE, num_return_sequences=NUM_BEAMS)[0]
    page = re.search(r'srcdoc="([^"]*)"', found[-1].attention)[1]
    assert unescape(page) == attention_page(attention_of(translator, SENTENCE, best.ids))


def test_a_view_has_more_than_the_one_before(found):
    filled = [[bool(part) for part in view] for view in found]
    assert filled == [[True, False, False], [True, True, False], [True, True, True]]


def test_words_are_no_markup(found, folder):
    assert "<b>" not in "".join(found[-1])
    (view,) = views(Models(), "<b>/no model", SENTENCE, NUM_BEAMS)
    assert "<b>" not in view.answer


def test_the_beam_tree_is_the_record():
    # Two steps of two beams, by hand: "b" continues the second of the first step and wins.
    steps = (
        BeamStep(
            0,
            1,
            (
                BeamCandidate(0, (5,), -0.5, GOES_ON, 0, None),
                BeamCandidate(0, (6,), -0.75, GOES_ON, 1, None),
                BeamCandidate(0, (7,), -4.0, DROPPED, None, None),
            ),
            False,
        ),
        BeamStep(
            0,
            2,
            (
                BeamCandidate(1, (6, 2), -1.006, ENDED, None, -0.906),
                BeamCandidate(0, (5, 8), -1.25, CUT_OFF, None, -1.1),
            ),
            True,
        ),
    )
    endings = ((steps[1].candidates[0], "b"), (steps[1].candidates[1], "a<"))
    html = beam_tree(BeamTree("s", steps, (("a", "b", "c"), ("</s>", "<")), endings))
    nodes = re.findall(
        r'<g class="([\w ]+)"><title>(.*?)</title>.*?<text x="(\d+)" y="(\d+)">.*?'
        r'<text class="figures"[^>]*>(.*?)</text></g>',
        html,
    )
    left, right = (str(answers.COLUMN * place + answers.COLUMN // 2) for place in (0, 1))
    rows = [str(answers.TOP + answers.ROW * place + answers.ROW // 2 - 2) for place in range(3)]
    assert [(kind, unescape(piece), x, y, figures) for kind, piece, x, y, figures in nodes] == [
        ("goes_on", "a", left, rows[0], "−0.50"),
        ("goes_on wins", "b", left, rows[1], "−0.75"),
        ("dropped", "c", left, rows[2], "−4.00"),
        ("ended wins", "</s>", right, rows[0], "−1.01 → −0.91"),
        ("cut_off", "<", right, rows[1], "−1.25 → −1.10"),
    ]
    first, second = (answers.TOP + answers.ROW * place + answers.ROW // 2 for place in (0, 1))
    lines = re.findall(r'<path class="([\w ]+)" d="M\d+ (\d+)C[^"]* (\d+)"/>', html)
    assert lines == [
        ("ended wins", str(second), str(first)),
        ("cut_off", str(first), str(second)),
    ]


def test_one_beam_has_no_tree_but_all_else(folder):
    view = list(views(Models(), str(folder), SENTENCE, 1))[-1]
    assert len(cells(view.answer)) == 1
    assert "srcdoc" in view.attention
    assert "two beams or more" in view.beams


def test_two_models_are_kept_those_used_last(folder, tmp_path):
    models, names = Models(), [str(tmp_path / name) for name in "abc"]
    for name in names:
        (tmp_path / name).symlink_to(folder)
    first, second = (models.load(name) for name in names[:2])
    assert models.load(names[0]) is first
    models.load(names[2])
    assert [name for name, _ in models.loaded] == [names[0], names[2]]
    assert models.load(names[0]) is first
    assert models.load(names[1]) is not second


def test_a_folder_that_was_written_anew_is_loaded_anew(folder):
    models = Models()
    before = models.load(str(folder))
    weights = folder / "model.safetensors"
    weights.touch()
    assert models.load(str(folder)) is not before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "Name a model: .* type make demo"),
        ("no/such folder", "There is no folder no/such folder"),
        (__file__, "is a file; name a model's folder"),
        ("org/name@v2", "org/name"),  # the Hub cannot be reached
    ],
)
def test_a_model_that_cannot_be_loaded_is_told(name, expected):
    told = message(name, SENTENCE)
    assert re.search(expected, told) and "mistake of the program" not in told


def test_a_folder_without_weights_is_told(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "vaswani"}')
    assert str(tmp_path) in message(tmp_path, SENTENCE)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (" \n ", "Type a sentence"),
        ("a" * (MOST_CHARACTERS + 1), f"{MOST_CHARACTERS + 1} characters"),
        ("☃" * MOST_CHARACTERS, f"pieces, and this page takes at most {MOST_PIECES}"),
    ],
)
def test_a_sentence_that_is_not_translated_is_told(folder, sentence, expected):
    assert expected in message(folder, sentence)


def test_what_was_not_foreseen_is_a_line_and_in_the_log(folder, monkeypatch, caplog):
    def fail(*arguments, **options):
        raise TypeError("first line\nsecond line")

    monkeypatch.setattr(answers.Translator, "n_best", fail)
    told = message(folder, SENTENCE)
    assert told == "This failed by a mistake of the program: TypeError: first line"
    assert "Traceback" in caplog.text
