import pytest

from vaswani_hf.server import Limits


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_limit_is_above_0(value):
    with pytest.raises(ValueError, match=f"timeout_seconds={value}"):
        Limits(timeout_seconds=value)
