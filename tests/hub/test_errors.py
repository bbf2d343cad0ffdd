"""What a user reads when the Hub, the connection or the disk fails."""

import os
import subprocess
import sys

import pytest

from tests.hub.client import put_model


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (None, "No token"),
        ("nobody", "does not know the token"),
        ("reader", "may not write"),
        ("bob", "may not write"),
    ],
)
def test_who_may_not_push_is_told(hub, client, trained, user, said):
    assert said in client.fails("push", trained, "--to", "lab/refused", user=user)
    hub.put("lab/existing", {"notes": b"here"})
    number = len(hub.commits("lab/existing"))
    assert said in client.fails("push", trained, "--to", "lab/existing", user=user)
    assert len(hub.commits("lab/existing")) == number


def test_a_connection_that_ends_in_the_middle_is_told(hub, client, trained):
    hub.drop("POST", "/commit/", after_bytes=100, times=10)
    message = client.fails("push", trained, "--to", "lab/dropped", "--no-verify")
    assert hub.url in message and "Run the same again" in message


def test_a_large_file_that_never_comes_through_is_told(hub, client, trained):
    hub.fail("PUT", ".", status=500, times=100)
    message = client.fails("push", trained, "--to", "lab/never", "--no-verify")
    assert "answered 500" in message and "Run the same again" in message


def test_a_hub_that_is_not_there_is_told(hub, client, trained, tmp_path):
    hub.stop()
    try:
        assert hub.url in client.fails("push", trained, "--to", "lab/away")
        (tmp_path / "text").write_text("a\n")
        message = client.fails("translate", "--model", "lab/away", tmp_path / "text")
        assert "lab/away" in message and hub.url in message
    finally:
        hub.start()


def test_a_full_disk_is_told(hub, trained, tmp_path):
    put_model(hub, trained, "lab/large")
    code = (
        "import resource, signal, sys; from vaswani_hf.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"  # else it kills, where a disk would not
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "sys.exit(main(['translate', '--model', 'lab/large']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="a\n",
        capture_output=True,
        text=True,
        check=False,
        env=hub.environment(tmp_path / "home"),
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "no space is left" in last and "HF_HOME" in last and "Traceback" not in done.stderr


SILENT = """
import socket, sys
with socket.socket() as silent:  # it takes the question and never answers
    silent.bind(("127.0.0.1", 0))
    silent.listen(100)
    import os
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
    from vaswani_hf.hub import fetch
    try:
        fetch("nobody/nothing")
    except OSError as error:
        sys.stdout.write(str(error))
"""


def test_a_hub_that_never_answers_is_given_up(tmp_path):
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_ETAG_TIMEOUT": "1"}
    environment["HF_HUB_OFFLINE"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", SILENT],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=300,  # seconds; it would wait for ever
    )
    assert done.stdout.startswith("Could not fetch nobody/nothing: it is not in the cache")
    assert "could not be reached" in done.stdout
