import pytest
import torch

from vaswani_hf.translation.options import (
    check_at_least,
    check_search_options,
    first_given,
    usable_device,
)


@pytest.mark.parametrize("name", ["nonsense", "cuda:x", "meta"])
def test_a_device_that_cannot_compute_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"device='{name}'"):
        usable_device(name)


def test_a_device_is_the_one_that_is_named():
    assert usable_device("cpu") == torch.device("cpu")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert usable_device(None).type == expected


def test_an_option_below_its_minimum_is_refused_by_name_and_none_is_not():
    check_at_least(1, threads=1, num_beams=None)
    with pytest.raises(ValueError, match="threads must be at least 1, got threads=0"):
        check_at_least(1, threads=0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((0, None, None, None), "num_beams=0"),
        ((None, float("nan"), None, None), "length_penalty=nan"),
        ((None, None, "gnmt", None), '"wu" or "power", got length_penalty_type=\'gnmt\''),
        ((None, None, None, -1), "max_extra_tokens=-1"),
        ((907, None, None, None, 37_000), "at most 906 .* of 37,000 pieces, got num_beams=907"),
    ],
)
def test_options_of_the_search_are_refused_by_name(options, told):
    check_search_options(906, 0.6, "wu", 0, 37_000)
    with pytest.raises(ValueError, match=told):
        check_search_options(*options)


def test_what_is_given_first_holds_even_if_it_is_zero():
    assert first_given(None, 0, 5) == 0
