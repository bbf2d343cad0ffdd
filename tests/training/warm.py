"""Processes that begin where the imports of training/run.py, which take seconds, are over.

This file is also the program of the process that has imported them: it forks one for each request,
a line of JSON on its standard input, and answers with their statuses. A forked process runs a
script as `python SCRIPT` does and ends as it does; only what the imports read of the environment is
that of the process which did them.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any


REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 300


class WarmStart:
    """Starts scripts in processes of their own, which are forked from one that is warm."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=REPOSITORY,
            env={**environment, "PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *argv: str, environments: Sequence[Mapping[str, str]]) -> SimpleNamespace:
        """Run a script to its end, in a process for each set of variables.

        As with a launcher, one that fails ends the others, and what all of them write comes
        together.

        Returns:
            Status, standard output and standard error as `subprocess.run` has them. Of several
            processes the status is 0 or 1.

        Raises:
            TimeoutError: after five minutes; nothing can be started any more.
        """
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder) / name) for name in ("out", "err")]
            request = {"argv": argv, "files": files, "environments": list(map(dict, environments))}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], PATIENCE_SECONDS)[0]:
                os.killpg(self.process.pid, signal.SIGKILL)
                told = Path(files[1]).read_text()
                raise TimeoutError(f"{argv} took {PATIENCE_SECONDS} seconds: {told[-3000:]}")
            statuses = json.loads(self.process.stdout.readline())
            out, err = (Path(file).read_text() for file in files)
        status = statuses[0] if len(statuses) == 1 else int(any(statuses))
        return SimpleNamespace(returncode=status, stdout=out, stderr=err)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def together(environment: Mapping[str, str], processes: int) -> list[dict[str, str]]:
    """The variables of processes that train as one, with those that a launcher would add."""
    if processes == 1:
        return [dict(environment)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        **{"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)},
        "ACCELERATE_MIXED_PRECISION": "no",
    }
    return [
        {**environment, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        for rank in range(processes)
    ]


# The process that has imported everything


def wait_for_work() -> tuple[Sequence[str], Sequence[str], Mapping[str, str]]:
    """Script and arguments, files of output, and variables: returns in forked processes alone."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        running: dict[int, int] = {}  # places by process
        for place, environment in enumerate(request["environments"]):
            process = os.fork()
            if not process:
                return request["argv"], request["files"], environment
            running[process] = place
        statuses = [0] * len(running)
        while running:
            process, how = os.wait()
            status = statuses[running.pop(process)] = os.waitstatus_to_exitcode(how)
            if status:
                for other in running:
                    os.kill(other, signal.SIGTERM)
        print(json.dumps(statuses), flush=True)
    sys.exit()


if __name__ == "__main__":
    import gc
    import runpy

    import training.loop.signals
    import training.run

    gc.collect()
    gc.freeze()  # what is never looked at is never copied
    argv, files, environment = wait_for_work()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    # As for a process that a terminal has started; jobs in the background ignore these.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    training.loop.signals.PARENT = os.getppid()  # read by its import
    sys.argv[:] = argv
    sys.path[0] = str(Path(argv[0]).resolve().parent)
    runpy.run_path(argv[0], run_name="__main__")
