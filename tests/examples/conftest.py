import sys

from tests.conftest import REPOSITORY


# As for `python examples/steps.py`.
sys.path.insert(0, str(REPOSITORY / "examples"))
