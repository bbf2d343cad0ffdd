import json
import os
import random
import signal
import tempfile
import threading
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_hf.text import output
from vaswani_hf.text.output import Output, OutputFile


RUN = {"num_beams": 4, "input": "text.en"}
LINES = [f"{number} " + "ä" * (number % 7) + "\n" for number in range(200)]


def progress(path):
    return path.with_name(path.name + ".progress")


def write(path, lines, *, resume=False, run=RUN):
    """Write what is missing of the lines, ten at a time."""
    with OutputFile(path, run, resume=resume) as file:
        for first in range(file.num_lines, len(lines), 10):
            file.write("".join(lines[first : first + 10]))


def killed(path, lines, num_bytes):
    """Write in a process that is killed when it has written so many bytes; whether it was."""
    process = os.fork()
    if not process:
        left, system_write = num_bytes, os.write

        def write_some(descriptor, data):
            nonlocal left
            left -= system_write(descriptor, data[:left])
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return len(data)

        output.os.write = write_some
        write(path, lines, resume=True)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


def test_twenty_kills_at_any_byte_lose_and_repeat_no_line(tmp_path):
    path, chooser = tmp_path / "out", random.Random(0)
    num_kills = 0
    while num_kills < 20:
        # Fewer bytes than ten lines have, or a few times as many: torn within and between lines.
        num_kills += killed(path, LINES, chooser.choice([3, 60, 250]))
        assert progress(path).exists()
    write(path, LINES, resume=True)
    assert path.read_text() == "".join(LINES)
    assert not progress(path).exists()


def test_a_finished_file_is_told_apart_and_left_as_it_is(tmp_path):
    path = tmp_path / "out"
    write(path, LINES[:30])
    with OutputFile(path, RUN, resume=True) as file:
        assert (file.is_finished, file.num_lines) == (True, 30)
    assert path.read_text() == "".join(LINES[:30])


def test_what_is_there_is_not_written_over(tmp_path):
    path = tmp_path / "out"
    path.write_text("mine\n")
    with pytest.raises(ValueError, match=r"out is there already.*--resume"):
        write(path, LINES)
    assert path.read_text() == "mine\n"


def test_an_empty_file_is_written(tmp_path):
    path = tmp_path / "out"
    path.touch()
    write(path, LINES)
    assert path.read_text() == "".join(LINES)


def test_the_output_of_another_run_is_refused_by_what_differs(tmp_path):
    path = tmp_path / "out"
    assert killed(path, LINES, 100)
    torn = path.read_bytes()
    with pytest.raises(ValueError, match=r"num_beams=4 there and num_beams=5 here;"):
        write(path, LINES, resume=True, run=RUN | {"num_beams": 5})
    with pytest.raises(ValueError, match=r"split=None there and split=sentences here"):
        write(path, LINES, resume=True, run=RUN | {"split": "sentences"})
    assert path.read_bytes() == torn
    assert json.loads(progress(path).read_text()) == RUN


def test_an_error_leaves_a_file_that_can_be_resumed(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), OutputFile(path, RUN, resume=False) as file:
        file.write("a\nb\n")
        raise KeyboardInterrupt
    with OutputFile(path, RUN, resume=True) as file:
        assert (file.is_finished, file.num_lines) == (False, 2)


def test_the_rest_of_a_torn_line_does_not_stay(tmp_path):
    path = tmp_path / "out"
    assert killed(path, ["a\n", "b" * 99 + "\n"], 50)
    write(path, ["a\n", "b\n"], resume=True)
    assert path.read_text() == "a\nb\n"


def test_an_error_before_the_first_line_leaves_nothing(tmp_path):
    with (
        pytest.raises(ValueError, match="no model"),
        OutputFile(tmp_path / "out", RUN, resume=True),
    ):
        raise ValueError("no model")
    assert not list(tmp_path.iterdir())


def test_two_runs_do_not_write_one_file(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "out"
    with OutputFile(path, RUN, resume=True) as file:
        file.write("a\n")
        process = os.fork()
        if not process:
            try:
                write(path, LINES, resume=True)
            except ValueError as error:
                os._exit("is being written by another run" in str(error))
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 1
    assert path.read_text() == "a\n"


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="null is no file"):
        write(output.Path("/dev/null"), LINES)


def test_ctrl_c_leaves_whole_lines_only(heeded_signals):
    # A pipe that is full in the middle of a line when Ctrl-C comes; the reader reads on.
    reader, writer = os.pipe()
    pipe = os.fdopen(writer, "wb")
    text = ("x" * 99_999 + "\n") * 3
    received = []

    def read():
        received.append(os.read(reader, 10_000))
        os.kill(os.getpid(), signal.SIGINT)
        while block := os.read(reader, 1 << 16):
            received.append(block)

    thread = threading.Thread(target=read)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        Output(pipe).write(text)
    pipe.close()
    thread.join()
    os.close(reader)
    assert b"".join(received).decode() == text
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@given(st.lists(st.sampled_from([b"", b"a", b"\n", b"bb\n"]), max_size=30), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_whole_groups_of_lines_are_counted_and_kept(parts, num_each):
    content = b"".join(parts)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(output, "_BLOCK_BYTES", 5):
        path = Path(folder) / "out"
        path.write_bytes(content)
        path.with_name("out.progress").write_text("{}")
        lines = content.splitlines(keepends=True)
        num_whole = sum(line.endswith(b"\n") for line in lines) // num_each
        if not content:
            return
        with OutputFile(path, {}, resume=True, num_each=num_each) as file:
            assert file.num_lines == num_whole
            file.write("last\n")
        assert path.read_bytes() == b"".join(lines[: num_whole * num_each]) + b"last\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's full device")
def test_a_full_disk_is_named(tmp_path):
    with open("/dev/full", "w") as full, pytest.raises(OSError, match=r"No space.*standard output"):
        Output(full).write("a\n")
    with pytest.raises(OSError, match=f"No space.*{tmp_path}/out"):  # noqa: SIM117
        with OutputFile(tmp_path / "out", RUN, resume=False) as file:
            os.dup2(os.open("/dev/full", os.O_WRONLY), file.file.fileno())
            file.write("a\n")
