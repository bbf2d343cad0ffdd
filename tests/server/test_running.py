"""The server over the loopback interface: in a thread of this process, and as one of its own."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPConnection

import pytest

from tests.conftest import REPOSITORY
from tests.server.serving import EN_DE
from vaswani_hf.server import Limits, Pairs


ASKED = {"source": "en", "target": "de"}
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
READ_SECONDS = 0.3  # within which a client must send a request


@contextlib.contextmanager
def listening(*translators, **options):
    """A server in a thread; gives its port and its queue."""
    from vaswani_hf.server import TranslationQueue, make_app
    from vaswani_hf.server.metrics import Metrics
    from vaswani_hf.server.running import bind, make_server

    limits, metrics = Limits(read_timeout_seconds=READ_SECONDS, max_queue=4), Metrics()
    queue = TranslationQueue(limits, metrics)
    app = make_app(Pairs(translators), queue, limits, metrics, **options)
    server, bound = make_server(app, queue, limits), bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    queue.start()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield port, queue
    finally:
        server.should_exit = True
        thread.join()
        queue.close()


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)


def send(port, data):
    """A connection that has sent this."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(data)
    return connection


def request_of(q, head=HEAD):
    body = json.dumps({**ASKED, "q": q}).encode()
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def ask(port, q):
    body = json.dumps({**ASKED, "q": q}).encode()
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def read_all(connection):
    """What comes until the server ends the connection."""
    parts = []
    with connection, contextlib.suppress(ConnectionResetError):
        parts.extend(iter(lambda: connection.recv(2**16), b""))
    return b"".join(parts)


@pytest.fixture(scope="module")
def port(translator):
    with listening((EN_DE, translator)) as (port, _):
        yield port


def test_a_request_whose_client_has_gone_leaves_the_queue(gate):
    gate.is_open.clear()
    with listening((EN_DE, gate)) as (port, queue):
        clients = [send(port, request_of("a"))]
        assert gate.entered.acquire(timeout=20)
        clients += [send(port, request_of(letter)) for letter in "bc"]
        wait_for(lambda: len(queue._jobs) == 3)
        for client in clients:
            client.close()
        wait_for(lambda: not queue._jobs)
        gate.is_open.set()
        assert ask(port, "d") == (200, {"translatedText": "d"})
        assert gate.calls == [["a"], ["d"]]


def test_a_full_queue_is_a_429_that_says_when_to_ask_again(gate):
    gate.is_open.clear()
    with listening((EN_DE, gate)) as (port, queue):
        clients = [send(port, request_of(letter)) for letter in "abcd"]
        wait_for(lambda: len(queue._jobs) == 4)
        answer = read_all(send(port, request_of("e", HEAD + b"Connection: close\r\n")))
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert re.search(rb"\r\nretry-after: [1-9]\d*\r\n", answer)
        gate.is_open.set()
        for client in clients:
            assert client.recv(2**16).startswith(b"HTTP/1.1 200 ")
            client.close()


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (HEAD + b"Content-Length: 99\r\n\r\n{", "408"),  # half a body
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", "408"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n{", "413"),
        (HEAD + b"Content-Length: -1\r\n\r\n{", "400"),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{", "400"),
        (b"nonsense\r\n\r\n", "400"),
        (b"GET /" + b"a" * 2**17 + b" HTTP/1.1\r\n", "400 none"),  # what is not read resets it
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400 none"),  # TLS
        (HEAD[:40], "none"),  # half a head: nothing has been asked for
        (b"", "none"),
    ],
)
def test_a_request_that_is_none_is_answered_or_cut_off_in_time(port, sent, statuses):
    answer = read_all(send(port, sent))
    assert (answer.split()[1].decode() if answer else "none") in statuses.split()
    assert ask(port, "a") == (200, {"translatedText": "a"})


def test_a_client_that_sends_byte_by_byte_is_cut_off(port):
    connection = send(port, HEAD)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), connection:
        for _ in range(10_000):
            connection.sendall(b"a")
            time.sleep(READ_SECONDS / 10)
        pytest.fail("the head went on for ever")


def test_one_connection_takes_many_requests(port):
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    for letter in "abc":
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/translate", json.dumps({**ASKED, "q": letter}), headers)
        assert json.loads(connection.getresponse().read()) == {"translatedText": letter}


def test_the_requests_of_a_client_package_pass(port):
    """By libretranslatepy, of LibreTranslate's own authors."""
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(f"http://127.0.0.1:{port}")
    assert client.translate("a b\nc", "en", "de") == "a b\nc"
    assert client.detect("a b") == [{"confidence": 0.0, "language": "en"}]
    assert [entry["code"] for entry in client.languages()] == ["en", "de"]
    with pytest.raises(urllib.error.HTTPError, match="400"):
        client.translate("a", "en", "es")


def test_an_address_that_is_taken_is_one_line(port, copier_folder, capsys):
    from vaswani_hf.cli import main

    command = ["serve", "--model", f"en-de={copier_folder}", "--port", str(port)]
    assert main(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"127.0.0.1 port {port} cannot be served" in line


@pytest.fixture
def process(copier_folder, tmp_path, heeded_signals):
    """The command, as a process that serves, and its address."""
    log = tmp_path / "log"
    command = ["serve", "--port", "0", "--model", f"en-de={copier_folder}"]
    with log.open("wb") as file:
        started = subprocess.Popen(
            [sys.executable, "-m", "vaswani_hf.cli", *command],
            stderr=file,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])},
        )
    try:
        wait_for(lambda: started.poll() is not None or b"Serving on" in log.read_bytes())
        started.log = log
        started.port = int(re.search(rb"Serving on http://127.0.0.1:(\d+)", log.read_bytes())[1])
        yield started
    finally:
        started.kill()
        started.wait()


def is_open(port):
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def test_a_signal_ends_it_when_what_it_has_is_answered(process):
    # Some letters a line keep a small model at work for a while.
    with send(process.port, request_of("a b c d e f g h\n" * 1000)) as client:
        url = f"http://127.0.0.1:{process.port}/metrics"
        wait_for(lambda: b"\nvaswani_waiting_requests 1.0" in urllib.request.urlopen(url).read())
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: not is_open(process.port))  # nobody else gets in
        answer = client.recv(2**16)
        assert answer.startswith(b"HTTP/1.1 200 ")
        answer += read_all(client)
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body == {"translatedText": "a b c d e f g h\n" * 1000}
    assert process.wait(120) == -signal.SIGTERM
    log = process.log.read_text()
    assert "POST /translate 200" in log and "Traceback" not in log and "a b c" not in log
