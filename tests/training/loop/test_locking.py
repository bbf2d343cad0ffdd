"""One run at a time in a folder, and nothing left of one that has done nothing."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from training.loop.locking import LOCK, FolderLock


HOLDER = """\
import os, sys, time
from training.loop.locking import FolderLock
with FolderLock(sys.argv[1]):
    if os.fork() == 0:
        time.sleep(60)  # a worker, which outlives its run for a while
        os._exit(0)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock of `tmp_path/run`, and a forked worker."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_a_second_run_is_refused_and_told_whose_the_folder_is(tmp_path, holder):
    with (
        pytest.raises(
            ValueError, match=rf"/run is in use by another run \(process {holder.pid} on .+, since"
        ),
        FolderLock(tmp_path / "run"),
    ):
        pass
    assert json.loads((tmp_path / "run" / LOCK).read_text())["process"] == holder.pid


def test_the_lock_of_a_killed_run_is_nobodys_though_its_worker_lives(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with FolderLock(tmp_path / "run") as lock:
        assert lock.was_there
        assert json.loads((tmp_path / "run" / LOCK).read_text())["process"] == os.getpid()


def test_where_nothing_else_is_written_the_disk_is_left_as_it_was(tmp_path):
    with FolderLock(tmp_path / "runs" / "a"):
        assert (tmp_path / "runs" / "a" / LOCK).is_file()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").write_text("")
    with FolderLock(tmp_path) as lock:
        assert not lock.was_there
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_a_run_has_written_into_keeps_the_sign_of_it(tmp_path):
    with FolderLock(tmp_path / "run"):
        (tmp_path / "run" / "config.yaml").write_text("")
    with FolderLock(tmp_path / "run") as lock:
        assert lock.was_there


@pytest.mark.parametrize(
    ("place", "why"), [("file", "it is a file"), ("file/below", "Not a directory")]
)
def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path, place, why):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(
            ValueError, match=rf"output_dir=\S+{place} cannot be written: {why}\. Choose"
        ),
        FolderLock(tmp_path / place),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine"
