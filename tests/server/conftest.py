import pytest

from tests.server.serving import EN_DE, Gate, running
from vaswani_hf import Translator


@pytest.fixture(scope="session", autouse=True)
def packages():
    """Those of the extra; the modules of the tests import what needs none of them."""
    for package in ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "sentencex"):
        pytest.importorskip(package)


@pytest.fixture(scope="session")
def translator(copier):
    """Copies up to ten letters, with two beams."""
    return Translator(*copier)


@pytest.fixture
def gate(translator):
    found = Gate(translator)
    yield found
    found.is_open.set()


@pytest.fixture
def client(gate):
    with running((EN_DE, gate)) as client:
        yield client
