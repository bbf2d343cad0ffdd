"""A run that was killed, stopped or out of disk space goes on as if nothing had happened."""

import json
import resource
import signal

import pytest
import torch
import transformers
from packaging.version import Version
from safetensors.torch import load_file
from transformers.trainer_pt_utils import safe_globals

import training.run
from tests.training.runs import RECIPE, results_of, run, run_here, write_pairs
from training.loop.checkpoints import find_damage


LAST = 16  # updates; an epoch has about six

# training/run.py with an accident: at what the library writes, or before a batch is trained on.
ACCIDENT = """\
import os, resource, signal, sys
import torch
from training.run import main
from training.loop.trainer import VaswaniTrainer

what, rank = os.environ["ACCIDENT"], os.environ.get("RANK", "0")
torch_save, training_step = torch.save, VaswaniTrainer.training_step
batches = 0

def save(thing, path, *rest, **named):
    if not str(path).endswith("unfinished-checkpoint-8/optimizer.pt"):
        return torch_save(thing, path, *rest, **named)
    if what == "full disk":  # no file may grow beyond 20 kB
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
        return torch_save(thing, path, *rest, **named)
    torch_save(thing, path, *rest, **named)
    if what == "killed":
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)

def step(self, *arguments, **named):
    global batches
    batches += 1
    # The first of the two batches of the third update from here on; of one process only.
    if what == "stopped" and batches == 5 and self.args.process_index == self.args.world_size - 1:
        os.kill(os.getpid(), signal.SIGTERM)
    return training_step(self, *arguments, **named)

torch.save, VaswaniTrainer.training_step = save, step
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resumption")
    write_pairs(folder / "train.tsv", 90)
    write_pairs(folder / "test.tsv", 3, seed=1)
    (folder / "tiny.yaml").write_text(RECIPE)
    (folder / "accident.py").write_text(ACCIDENT)
    return folder


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def lives(request, folder):
    """An undisturbed run, and one that ends by every accident in turn and is resumed each time."""
    processes = request.param
    if processes > 1 and Version(transformers.__version__) < Version("5.23"):
        pytest.skip("transformers before 5.23 cannot resume several processes on a CPU")

    def live(name, accident="none", status=0):
        if processes == 1 and accident == "none":
            return run_here(
                *(str(folder / "tiny.yaml"), "--train_file", str(folder / "train.tsv")),
                *("--test_file", str(folder / "test.tsv"), "--max_steps", str(LAST)),
                *("--output_dir", str(folder / f"{name}_1"), "--resume_from_checkpoint", "auto"),
            )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ACCIDENT", accident)
            return run(
                folder,
                *("--train_file", str(folder / "train.tsv")),
                *("--test_file", str(folder / "test.tsv")),
                *("--output_dir", str(folder / f"{name}_{processes}")),
                *("--max_steps", str(LAST), "--resume_from_checkpoint", "auto"),
                processes=processes,
                script=folder / "accident.py",
                status=status,
            )

    live("undisturbed")
    output = folder / f"disturbed_{processes}"
    told, left = {}, {}
    for accident in ("full disk", "killed", "stopped"):
        if processes > 1 and accident == "full disk":
            continue  # one process shows it; a launch costs time
        told[accident] = live("disturbed", accident, status=None)
        left[accident] = {path.name for path in output.glob("*checkpoint-*")}
    told["finished"] = live("disturbed")
    before = (output / "model.safetensors").read_bytes()
    if processes == 1:
        told["again"] = live("disturbed")
    return folder / f"undisturbed_{processes}", output, told, left, before, processes


def test_it_ends_with_the_weights_of_an_undisturbed_run_bit_for_bit(lives):
    undisturbed, output, *_ = lives
    assert results_of(output)["training"]["updates"] == LAST
    for name in ("model.safetensors", f"checkpoint-{LAST}/model.safetensors"):
        expected, resumed = load_file(undisturbed / name), load_file(output / name)
        assert expected.keys() == resumed.keys()
        assert all(torch.equal(expected[key], resumed[key]) for key in expected), name


def test_its_optimizer_and_schedule_are_those_of_an_undisturbed_run(lives):
    undisturbed, output, *_ = lives
    both = [
        torch.load(path / f"checkpoint-{LAST}" / "optimizer.pt", weights_only=True)
        for path in (undisturbed, output)
    ]
    assert both[0]["param_groups"] == both[1]["param_groups"]
    for place, expected in both[0]["state"].items():
        for name, tensor in expected.items():
            assert torch.equal(tensor, both[1]["state"][place][name]), (place, name)


def test_each_process_goes_on_with_random_numbers_of_its_own(lives):
    undisturbed, output, _, _, _, processes = lives
    names = ["rng_state.pth"] if processes == 1 else ["rng_state_0.pth", "rng_state_1.pth"]
    with safe_globals():  # NumPy's part of a random state
        both = [
            [
                torch.load(path / f"checkpoint-{LAST}" / name, weights_only=True)["cpu"]
                for name in names
            ]
            for path in (undisturbed, output)
        ]
    assert all(map(torch.equal, *both))
    assert processes == 1 or not torch.equal(*both[0])


def test_a_kill_while_a_checkpoint_is_written_leaves_it_unfinished_and_the_last_one(lives):
    _, _, told, left, _, _ = lives
    assert told["killed"].returncode not in (0, 143)
    assert left["killed"] == {"checkpoint-4", "unfinished-checkpoint-8"}


def test_the_resumed_run_says_where_it_goes_on_and_what_it_removes(lives):
    _, _, told, _, _, _ = lives
    assert "Removing unfinished-checkpoint-8: its run ended" in told["stopped"].stderr
    assert "Resuming from checkpoint-4." in told["stopped"].stderr


def test_sigterm_saves_in_mid_epoch_and_stops_with_the_way_to_go_on(lives):
    _, output, told, left, _, processes = lives
    # Resumed at 4, asked to stop in the third update from there.
    assert "Stopped by SIGTERM. checkpoint-7 in" in told["stopped"].stderr
    assert "--resume_from_checkpoint auto." in told["stopped"].stderr
    assert left["stopped"] == {"checkpoint-4", "checkpoint-7"}
    assert find_damage(output / "checkpoint-7") is None
    assert "Resuming from checkpoint-7." in told["finished"].stderr
    if processes == 1:  # else it is the launcher's status
        assert told["stopped"].returncode == 128 + signal.SIGTERM
        assert "Traceback" not in told["stopped"].stderr


def test_a_full_disk_stops_the_run_and_leaves_the_last_checkpoint(lives):
    _, output, told, left, _, processes = lives
    if processes > 1:
        pytest.skip("shown by one process")
    full = told["full disk"]
    assert full.returncode == 1
    last = full.stderr.strip().splitlines()[-1]
    assert f"{output}/checkpoint-8 could not be written (" in last
    assert "Free some space, then resume from checkpoint-4 with --resume_from" in last
    assert "Traceback" not in full.stderr
    assert left["full disk"] == {"checkpoint-4"}
    assert "Resuming from checkpoint-4." in told["killed"].stderr


@pytest.fixture
def fill_at(monkeypatch):
    """A function that has the disk full from a function's call on: no file may grow any more."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(owner, name):
        function = getattr(owner, name)

        def filled(*arguments, **named):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            return function(*arguments, **named)

        monkeypatch.setattr(owner, name, filled)

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield fill
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize(
    ("place", "way_out"),
    [
        (
            "tokenizer",
            "There is no checkpoint yet: free some space, or choose another --output_dir.",
        ),
        (
            "config.yaml",
            "There is no checkpoint yet: free some space, or choose another --output_dir.",
        ),
        ("", "Free some space, then resume from checkpoint-4 with --resume_from_checkpoint"),
    ],
    ids=["tokenizer", "config", "export"],
)
def test_a_disk_that_is_full_outside_training_is_told_in_one_line(
    folder, tmp_path, place, way_out, fill_at
):
    at = {
        "tokenizer": (transformers.PreTrainedTokenizerFast, "save_pretrained"),
        "config.yaml": (training.run, "write_config"),
        "": (training.run, "export"),
    }
    fill_at(*at[place])
    done = run_here(
        *(str(folder / "tiny.yaml"), "--train_file", str(folder / "train.tsv")),
        *("--output_dir", str(tmp_path / "out"), "--max_steps", "4"),
        status=1,
    )
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith(f"training/run.py: {tmp_path / 'out' / place} could not be written (")
    assert "File too large" in message and way_out in message
    assert "Traceback" not in done.stderr


def test_a_finished_run_that_is_resumed_makes_no_update_more(lives):
    _, output, told, _, before, processes = lives
    if processes > 1:
        pytest.skip("shown by one process")
    assert f"Resuming from checkpoint-{LAST}." in told["again"].stderr
    assert results_of(output)["training"]["updates"] == LAST
    assert (output / "model.safetensors").read_bytes() == before


def test_the_clock_counts_the_time_before_a_resumption(lives):
    _, output, *_ = lives
    history = json.loads((output / f"checkpoint-{LAST}" / "trainer_state.json").read_text())
    seconds = [entry["elapsed_seconds"] for entry in history["log_history"]]
    assert len(seconds) > 2
    assert seconds == sorted(seconds)
