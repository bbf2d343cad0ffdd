"""How many threads pay, by the processor, the environment and the model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vaswani_hf import processor
from vaswani_hf.processor import (
    FOR_TORCH,
    available_cores,
    paying_threads,
    prepare_for_torch,
    threads_of_environment,
)


REPOSITORY = Path(__file__).parents[2]
# Runs a program until it imports torch, and says what torch's libraries would be told then.
UNTIL_TORCH = """
import os, runpy, sys

class BeforeTorch:
    def find_spec(self, name, *_):
        if name == "torch":
            names = ["GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"]
            print("told:", *(os.environ.get(name) for name in names), flush=True)
            os._exit(0)

sys.meta_path.insert(0, BeforeTorch())
program, sys.argv = sys.argv[1], sys.argv[1:]
runpy.run_module(program, run_name="__main__", alter_sys=True)
"""
# Products of many shapes, and the memory in KiB that was new with them after the first ones.
MANY_SHAPES = """
import resource, torch
from torch import nn
torch.set_num_threads(1)
spent = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
weight = torch.randn(2048, 512)
for rows in range(1, 1200):
    if rows == 40:
        before = spent()
    torch.ops.mkldnn._linear_pointwise(
        torch.randn(rows % 600 + 100 * (rows > 600), 512), weight, None, "none", [], ""
    )
print(spent() - before)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that makes a machine of what Linux says of it."""

    def make(cpus, siblings=None, group="0::/\n", quotas=None):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus), raising=False)
        monkeypatch.setattr(processor, "_CPUS", tmp_path / "cpus")
        monkeypatch.setattr(processor, "_CGROUPS", tmp_path / "cgroups")
        monkeypatch.setattr(processor, "_OWN_CGROUP", tmp_path / "own")
        (tmp_path / "own").write_text(group)
        for cpu, text in (siblings or {}).items():
            folder = tmp_path / "cpus" / f"cpu{cpu}" / "topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(text)
        for name, text in (quotas or {}).items():
            (tmp_path / "cgroups" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "cgroups" / name / "cpu.max").write_text(text)

    return make


def test_the_cores_are_those_that_the_process_may_use(machine):
    machine({2, 3, 5})
    assert available_cores() == 3


def test_two_hardware_threads_of_a_core_count_once(machine):
    machine({0, 1, 2, 3}, siblings={0: "0,2\n", 1: "1,3\n", 2: "0,2\n", 3: "1,3\n"})
    assert available_cores() == 2


@pytest.mark.parametrize(
    ("quotas", "cores"),
    [
        ({"": "max 100000\n"}, 8),
        ({"": "300000 100000\n"}, 3),
        ({"": "50000 100000\n"}, 1),  # half a core
        ({"jobs": "200000 100000\n", "jobs/mine": "max 100000\n"}, 2),  # of the group above
        ({"jobs": "600000 100000\n", "jobs/mine": "400000 100000\n"}, 4),
    ],
)
def test_the_quota_of_the_control_group_is_a_limit(machine, quotas, cores):
    machine(range(8), group="0::/jobs/mine\n", quotas=quotas)
    assert available_cores() == cores


def test_where_nothing_is_said_of_control_groups_there_is_no_limit(machine):
    machine(range(8), group="")
    assert available_cores() == 8


def test_threads_grow_with_the_product_up_to_the_cores():
    least = processor.LEAST_FOR_A_THREAD
    width = 256
    rows = 3 * least // width**2
    assert paying_threads(rows, width, cores=64) == 3
    assert paying_threads(rows, width, cores=2) == 2
    assert paying_threads(1, 8, cores=64) == 1


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({}, None),
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "4,2"}, 4),  # a number for each level of nesting
        ({"OMP_NUM_THREADS": "many"}, None),
        ({"OMP_NUM_THREADS": "0"}, None),
        # What torchrun and accelerate set where nothing is set.
        ({"OMP_NUM_THREADS": "1", "LOCAL_RANK": "0"}, None),
        ({"OMP_NUM_THREADS": "1", "ACCELERATE_MIXED_PRECISION": "no"}, None),
        ({"OMP_NUM_THREADS": "2", "LOCAL_RANK": "0"}, 2),
    ],
)
def test_what_the_user_has_set_is_told_from_what_a_launcher_sets(environment, threads):
    assert threads_of_environment(environment) == threads


# Page faults of a tensor of 40 MB that is made and freed ten times, after ten times.
FAULTS = """\
import resource, sys
from vaswani_hf.processor import keep_freed_memory
import torch
if not keep_freed_memory({}):
    sys.exit(77)
torch.set_num_threads(1)
for number in range(20):
    if number == 10:
        begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    numbers = torch.ones(10_000_000)
    del numbers
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun)
"""


def test_freed_memory_is_used_again():
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("no glibc")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20_000  # of 98,000, at 4 KB a page


def test_what_the_user_says_of_malloc_holds():
    assert not processor.keep_freed_memory({"MALLOC_ARENA_MAX": "2"})


@pytest.mark.parametrize(
    "arguments",
    [("training.run", "demo"), ("vaswani_hf.cli", "translate", "--model", ".")],
    ids=("training", "translate"),
)
@pytest.mark.parametrize(
    ("given", "told"),
    [({}, "3000 64 64"), ({"OMP_WAIT_POLICY": "active", "LRU_CACHE_CAPACITY": "9"}, "None 64 9")],
    ids=("", "given"),
)
def test_programs_tell_torchs_libraries_before_they_ask(arguments, given, told):
    kept = {name: value for name, value in os.environ.items() if name not in FOR_TORCH}
    run = subprocess.run(
        [sys.executable, "-c", UNTIL_TORCH, *arguments],
        cwd=REPOSITORY,
        env=kept | given,
        input="A line.\n",
        capture_output=True,
        text=True,
    )
    assert f"told: {told}\n" in run.stdout, run.stderr


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"])
def test_how_threads_wait_is_the_users_choice(name):
    environment = {name: "1"}
    assert "GOMP_SPINCOUNT" not in prepare_for_torch(environment)
    assert environment[name] == "1"


@pytest.mark.slow
def test_shapes_of_all_kinds_take_no_more_memory():
    """Products of 1,200 shapes take about twice as much where the settings are missing."""
    spent = {}
    for name, settings in (("told", FOR_TORCH), ("not told", {})):
        kept = {name: value for name, value in os.environ.items() if name not in FOR_TORCH}
        run = subprocess.run(
            [sys.executable, "-c", MANY_SHAPES],
            env=kept | settings,
            capture_output=True,
            text=True,
            check=True,
        )
        spent[name] = int(run.stdout)
    assert spent["told"] < 0.75 * spent["not told"]
