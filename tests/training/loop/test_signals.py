"""Signals, a launcher that dies and a reader that goes: a run saves and stops, ends, or goes on."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.conftest import REPOSITORY
from tests.training.runs import RECIPE, results_of, run, run_here, write_pairs
from training.loop import signals
from training.loop.checkpoints import checkpoints, find_damage
from training.loop.resumption import Settings
from training.loop.signals import SAME_SIGNAL_SECONDS, StopSignals, exit_on_signals
from training.loop.trainer import VaswaniTrainer


pytestmark = pytest.mark.usefixtures("heeded_signals")
PATIENCE_SECONDS = 200  # generous: how long anything here may take


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopping")
    write_pairs(folder / "train.tsv", 90)
    (folder / "tiny.yaml").write_text(RECIPE)
    return folder


@pytest.fixture
def clock(monkeypatch):
    """What `stopping` takes for the time; a list of one number."""
    now = [100.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_signal_is_noted_and_a_later_one_does_what_it_did(number, clock):
    arrived = []
    before = signal.signal(number, lambda *about: arrived.append(about[0]))
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), number)
            assert (stop.received, arrived) == (number, [])
            os.kill(os.getpid(), number)  # the same wish, handed on by a launcher
            assert arrived == []
            clock[0] += SAME_SIGNAL_SECONDS
            os.kill(os.getpid(), number)
            assert arrived == [number]
        assert signal.getsignal(number) is not stop._on_signal
    finally:
        signal.signal(number, before)


def test_what_is_ignored_stays_ignored():
    # As `nohup` has it; a run is to outlive its terminal then.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with exit_on_signals(), StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_are_afterwards_what_they_were():
    before = [signal.getsignal(number) for number in signals.STOP_SIGNALS]
    with exit_on_signals(), StopSignals():
        pass
    assert [signal.getsignal(number) for number in signals.STOP_SIGNALS] == before


# Before and after training


# training/run.py that gets a signal at some place, which would then go on for ever.
HIT = """\
import hashlib, os, signal, sys, time
import training.loop.model, training.outcome.final_model, training.run, training.loop.trainer

def hit(*arguments, **named):
    os.kill(os.getpid(), signal.Signals[os.environ["SIGNAL"]])
    if os.environ["PLACE"] == "vocabulary":  # in C, as where a tokenizer merges pieces
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    while True:
        time.sleep(0.01)

if os.environ["PLACE"] == "vocabulary":
    training.loop.model.train_tokenizer = hit
elif os.environ["PLACE"] == "batches":
    training.loop.trainer.side_lengths = hit
else:
    training.outcome.final_model.average_checkpoints = hit
training.run.main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("place", "name", "status", "left"),
    [
        ("vocabulary", "SIGINT", 130, []),
        ("batches", "SIGTERM", 143, []),
        ("averaging", "SIGHUP", 129, ["checkpoint-4", "checkpoint-8"]),
    ],
)
def test_outside_training_a_signal_ends_the_run_at_once(
    folder, tmp_path, place, name, status, left
):
    (folder / "hit.py").write_text(HIT)
    done = run(
        folder,
        *("--train_file", str(folder / "train.tsv"), "--output_dir", str(tmp_path / "out")),
        *("--max_steps", "8"),
        script=folder / "hit.py",
        status=status,
        environment={**os.environ, "SIGNAL": name, "PLACE": place},
    )
    told = done.stderr.strip().splitlines()[-1]
    assert told.startswith(f"training/run.py: stopped by {name}, at once; --resume_from_checkpoint")
    assert "Traceback" not in done.stderr
    assert "saving and stopping" not in done.stderr
    assert [path.name for path in checkpoints(tmp_path / "out")] == left
    if place == "batches":  # stopped before its first checkpoint it can begin again
        assert (tmp_path / "out" / "config.yaml").is_file()
        text = ("--train_file", str(folder / "train.tsv"), "--max_steps", "4")
        run_here(str(folder / "tiny.yaml"), *text, "--output_dir", str(tmp_path / "out"))
        assert results_of(tmp_path / "out")["training"]["updates"] == 4


def test_a_signal_after_the_last_update_ends_the_run_too(folder, tmp_path, monkeypatch):
    save = Settings.save

    def save_and_hit(self, checkpoint):
        save(self, checkpoint)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Settings, "save", save_and_hit)
    done = run_here(
        *(str(folder / "tiny.yaml"), "--train_file", str(folder / "train.tsv")),
        *("--output_dir", str(tmp_path / "out"), "--max_steps", "4"),
        status=143,
    )
    assert "Stopped by SIGTERM. checkpoint-4 in" in done.stderr
    assert not (tmp_path / "out" / "results.json").exists()


def test_a_stopped_run_does_not_evaluate_the_epoch_that_it_breaks_off(
    folder, tmp_path, monkeypatch
):
    step = VaswaniTrainer.training_step

    def hit_and_step(self, *given, **named):
        if not self.clock.signals.received:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *given, **named)

    monkeypatch.setattr(VaswaniTrainer, "training_step", hit_and_step)
    text = str(folder / "train.tsv")
    done = run_here(
        *(str(folder / "tiny.yaml"), "--train_file", text, "--validation_file", text),
        *("--eval_strategy", "epoch", "--output_dir", str(tmp_path / "out")),
        status=143,
    )
    assert "Stopped by SIGTERM. checkpoint-1 in" in done.stderr
    assert "eval_loss" not in done.stdout + done.stderr


# In training


class Live:
    """A run without end that has begun to train, as a group of processes of its own."""

    def __init__(self, folder, output, launch, options=(), log=None):
        self.output, self.log = output, output.with_suffix(".log")
        command = [
            *(sys.executable, *launch, "training/run.py", str(folder / "tiny.yaml")),
            *("--train_file", str(folder / "train.tsv"), "--output_dir", str(output)),
            *("--max_steps", "1000000", "--save_steps", "1000000", "--logging_steps", "1"),
            *("--use_cpu", "true", *options),
        ]
        environment = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env={**os.environ, **environment, "CUDA_VISIBLE_DEVICES": ""},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_until(lambda: "loss_nats_per_token" in self.log.read_text())
        self.all = [psutil.Process(self.process.pid)]
        self.all += self.all[0].children(recursive=True)

    def wait_until(self, is_so):
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def wait_for_the_end(self):
        def is_over(process):
            try:  # a container may leave zombies
                return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
            except psutil.NoSuchProcess:
                return True

        self.wait_until(lambda: self.process.poll() is not None and all(map(is_over, self.all)))

    def end(self):
        for process in self.all:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


LAUNCHERS = {
    "python": [],
    "one process": [
        *("-m", "accelerate.commands.launch", "--num_processes", "1", "--num_machines", "1"),
        *("--mixed_precision", "no", "--dynamo_backend", "no"),
    ],
    "two processes": [
        *("-m", "accelerate.commands.launch", "--config_file", "training/configs/cpu_2.yaml"),
        *("--main_process_port", "0"),
    ],
}


@pytest.mark.parametrize(
    ("launcher", "name", "to_all"),
    [
        ("python", "SIGHUP", False),
        ("one process", "SIGTERM", False),
        ("one process", "SIGINT", True),  # Ctrl-C, which a terminal sends to all of them
        ("two processes", "SIGTERM", False),
    ],
)
def test_a_signal_to_the_launcher_saves_and_leaves_no_process(
    folder, tmp_path, launcher, name, to_all
):
    live = Live(folder, tmp_path / "out", LAUNCHERS[launcher])
    try:
        (os.killpg if to_all else os.kill)(live.process.pid, signal.Signals[name])
        live.wait_for_the_end()
        told = live.log.read_text()
        (saved,) = checkpoints(live.output)
        assert find_damage(saved) is None
        # Where the launcher dies of it, this stands for it.
        handed_on = "SIGTERM" if launcher != "python" and not to_all else name
        assert f"Stopped by {handed_on}. {saved.name} in" in told
        if launcher == "python":
            assert live.process.returncode == 128 + signal.Signals[name]
            assert "Traceback" not in told
    finally:
        live.end()


def test_a_reader_that_goes_away_does_not_end_a_run(folder, tmp_path):
    environment = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [
            *(sys.executable, "training/run.py", str(folder / "tiny.yaml"), "--max_steps", "8"),
            *("--train_file", str(folder / "train.tsv"), "--output_dir", str(tmp_path / "out")),
            *("--logging_steps", "1", "--disable_tqdm", "false"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    process.stdout.readline()
    process.stdout.close()  # as `| head -n 1` does
    assert process.wait(PATIENCE_SECONDS) == 0
    assert results_of(tmp_path / "out")["training"]["updates"] == 8
