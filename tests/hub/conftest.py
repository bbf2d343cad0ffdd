"""One Hub and one command line for all files here; each test has repositories of its own."""

import pytest

from tests.hub.client import Client, digests, write_trained_folder
from tests.hub.hub_server import HubServer
from vaswani_hf.hub.folder import export


@pytest.fixture(scope="session")
def running_hub(tmp_path_factory):
    with HubServer(tmp_path_factory.mktemp("hub")) as server:
        server.add_user("alice", "hf_alice_secret", organizations=["lab"])
        server.add_user("bob", "hf_bob_secret")
        server.add_user("reader", "hf_reader_secret", role="read", organizations=["lab"])
        yield server


@pytest.fixture
def hub(running_hub):
    running_hub.faults.clear()
    running_hub.requests.clear()
    return running_hub


@pytest.fixture(scope="session")
def client(running_hub, tmp_path_factory):
    started = Client(running_hub.environment(tmp_path_factory.mktemp("home")))
    yield started
    started.close()


@pytest.fixture(scope="session")
def exported(copier, tmp_path_factory):
    """The folder of a model, without a training."""
    path = tmp_path_factory.mktemp("exported")
    export(*copier, path)
    return path


@pytest.fixture(scope="session")
def trained(copier, tmp_path_factory):
    """What a training leaves behind, with files beside it that stay where they are."""
    path = write_trained_folder(tmp_path_factory.mktemp("runs") / "mine", copier)
    (path / "checkpoint-50").mkdir()
    (path / "checkpoint-50" / "optimizer.pt").write_bytes(b"pickled")
    (path / "training_args.bin").write_bytes(b"pickled")
    (path / "notes.txt").write_text("mine alone\n")
    before = digests(path)
    yield path
    assert digests(path) == before  # whatever went wrong


@pytest.fixture
def text(tmp_path):
    """A file to translate."""
    path = tmp_path / "text"
    path.write_text("a b\n")
    return path
