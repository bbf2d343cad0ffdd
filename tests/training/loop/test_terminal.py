import os
import subprocess
import sys

import pytest

from training.loop.terminal import ignore_lost_output


# Writes more than any pipe holds, to a reader that has gone, and then says in a file that it is
# still there.
WRITER = """
import sys, time
from pathlib import Path
from training.loop.terminal import ignore_lost_output
with ignore_lost_output():
    sys.stdin.readline()
    for _ in range(40):
        print("x" * 65536, flush=True)
        sys.stderr.write("y" * 65536)
    Path(sys.argv[1]).write_text("went on")
"""


def test_output_that_nobody_reads_any_more_ends_nothing(tmp_path):
    done = tmp_path / "done"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(done)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()  # before the first line
    process.stderr.close()
    process.stdin.write(b"go\n")
    process.stdin.close()
    assert process.wait() == 0
    assert done.read_text() == "went on"


def test_what_can_be_written_is(capfd):
    with ignore_lost_output():
        assert sys.stdout.write("one\n") == 4
        sys.stderr.write("two\n")
    assert capfd.readouterr() == ("one\n", "two\n")


def test_the_streams_come_back_after_an_error():
    before = sys.stdout, sys.stderr
    with pytest.raises(KeyError), ignore_lost_output():
        assert sys.stdout is not before[0]
        assert os.fstat(sys.stdout.fileno())  # whatever else is asked of a stream
        raise KeyError
    assert (sys.stdout, sys.stderr) == before
