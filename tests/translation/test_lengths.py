from types import SimpleNamespace

import pytest

from vaswani_hf.translation.lengths import length_limit, trained_length


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (50, 50),
        (int(1e30), None),  # what the library writes for "unknown"
        (None, None),
    ],
)
def test_the_tokenizer_tells_the_trained_length(told, expected):
    assert trained_length(SimpleNamespace(model_max_length=told)) == expected


@pytest.mark.parametrize(
    ("given", "max_positions", "expected"),
    [(None, None, 50), (None, 20, 20), (None, 80, 50), (70, None, 70), (20, 20, 20)],
)
def test_the_limit_is_the_default_unless_given(given, max_positions, expected):
    assert length_limit(given, 50, max_positions) == expected


@pytest.mark.parametrize(
    ("given", "message"), [(1, "at least 2, got max_source_tokens=1"), (30, "at most 20, the pos")]
)
def test_limits_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        length_limit(given, 50, 20)
