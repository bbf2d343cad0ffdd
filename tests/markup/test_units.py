import pytest

from vaswani_hf.markup.units import UnitAlignment, align_units, join_alignments, units_of


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("don't stop.", ["don't", "stop", "."]),
        ("a well-known 1,000.5 (5:21)", ["a", "well-known", "1,000.5", "(", "5:21", ")"]),
        ("日本語 ok ไทย", ["日", "本", "語", "ok", "ไ", "ท", "ย"]),
        ("हिन्दी", ["हिन्दी"]),
        ("", []),
    ],
)
def test_units_are_words_or_graphemes_or_marks(text, units):
    assert [text[start:end] for start, end in units_of(text)] == units


def test_a_unit_has_the_weights_of_its_pieces():
    # Pieces `do g s`, `Hu nde`: by hand, of each target piece the weights of three source pieces.
    found = align_units(
        "dog so",
        "Hunde",
        [(0, 2), (2, 3), (3, 6), None],
        [(0, 2), (2, 5)],
        [[0.5, 0.25, 0.125, 0.125], [0.0, 0.5, 0.5, 0.0]],
    )
    assert found == UnitAlignment([(0, 3), (4, 6)], [(0, 5)], [{0: 1.25, 1: 0.625}])


def test_what_is_the_same_once_on_both_sides_belongs_together():
    nothing = [[0.0] * 4] * 4
    spans = [(0, 2), (3, 4), (4, 5), (6, 7)]
    found = align_units("Jo 7, a", "a: 7 Jo", spans, [(0, 1), (1, 2), (3, 4), (5, 7)], nothing)
    assert [list(row) for row in found.rows] == [[], [], [1], [0]]


def test_sentences_follow_each_other():
    part = UnitAlignment([(0, 1)], [(0, 2)], [{0: 1.0}])
    joined = join_alignments([(0, 0, part), (5, 7, part)])
    assert joined == UnitAlignment([(0, 1), (5, 6)], [(0, 2), (7, 9)], [{0: 1.0}, {1: 1.0}])
