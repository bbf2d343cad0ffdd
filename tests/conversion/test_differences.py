import pytest

from vaswani_hf.conversion.differences import Differences, listed


def test_one_error_lists_all_differences():
    differences = Differences("a as b")
    differences.check()
    differences.refuse_if(False, "never")
    differences.refuse_if(True, "first")
    with pytest.raises(ValueError, match=r"^Cannot convert a as b: 1 difference\.\n  - first$"):
        differences.check()
    differences.add("second")
    message = r"^Cannot convert a as b: 2 differences\.\n  - first\n  - second$"
    with pytest.raises(ValueError, match=message):
        differences.check()


def test_values_are_listed_with_commas():
    assert listed(["a", None, 3]) == "a, None, 3"
