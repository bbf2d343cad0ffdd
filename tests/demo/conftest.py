import sys

from tests.conftest import REPOSITORY


# As for `python demo/app.py`.
sys.path.insert(0, str(REPOSITORY / "demo"))
