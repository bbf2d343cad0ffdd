from vaswani_hf.text.tables import align


def test_columns_are_as_wide_as_their_longest_cell():
    assert align([["a", "b", "c"], ["long", "", "x"]]) == "a     b  c\nlong     x"
