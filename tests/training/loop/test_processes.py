"""Launch lines that start fewer processes than they ask for end at once, with the right line."""

import os
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file

from tests.conftest import REPOSITORY
from training.loop.processes import end_processes
from vaswani_hf import VaswaniForConditionalGeneration


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cpu", "--num_processes", "2"], "Several processes were asked for and one was started"),
        (
            ["--multi_gpu", "--num_processes", "2", "--num_machines", "1"],
            "2 processes were started, and each would train alone",
        ),
    ],
    ids=["num_processes", "multi_gpu without use_cpu"],
)
def test_a_line_that_starts_too_few_processes_is_refused(options, told, tmp_path):
    fixed = ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", *options, *fixed),
            *("training/run.py", "demo", "--output_dir", str(tmp_path / "out")),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert told in done.stderr
    assert "accelerate launch --multi_gpu --num_processes" in done.stderr
    assert "--use_cpu true" in done.stderr
    assert not (tmp_path / "out").exists()


def test_one_process_is_no_mistake(tmp_path):
    # accelerate's own line for one process gets past the check, to the next mistake.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "1"),
            *("--mixed_precision", "no", "--dynamo_backend", "no", "--num_machines", "1"),
            *(
                "training/run.py",
                "base",
                "--output_dir",
                str(tmp_path / "out"),
                "--use_cpu",
                "true",
            ),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "There is no training data" in done.stderr


@pytest.mark.parametrize(
    ("name", "kind", "processes", "machines"),
    [
        ("cpu_2", "MULTI_GPU", 2, 1),
        ("gpus_8", "MULTI_GPU", 8, 1),
        ("fsdp2_8", "FSDP", 8, 1),
        ("nodes_4x8", "MULTI_GPU", 32, 4),
    ],
)
def test_the_configs_are_read_by_accelerate_as_their_names_say(name, kind, processes, machines):
    # cpu_2 also starts the processes of test_distributed_runs.py.
    read = load_config_from_file(str(REPOSITORY / "training" / "configs" / f"{name}.yaml"))
    assert (read.distributed_type.value, read.num_processes) == (kind, processes)
    assert (read.num_machines, read.mixed_precision) == (machines, "no")


def test_fsdp_wraps_the_layers_of_the_model_and_keeps_whole_weights():
    read = load_config_from_file(str(REPOSITORY / "training" / "configs" / "fsdp2_8.yaml"))
    layers = read.fsdp_config["fsdp_transformer_layer_cls_to_wrap"].split(",")
    assert set(layers) == set(VaswaniForConditionalGeneration._no_split_modules)
    assert read.fsdp_config["fsdp_version"] == 2
    assert read.fsdp_config["fsdp_state_dict_type"] == "FULL_STATE_DICT"


def test_gradient_averaging_is_gone_before_the_processes_part():
    # Else PyTorch may wait for ever: see `end_processes`. The real accelerator's `free_memory`
    # drops its models, as this one's does.
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        averaging = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        held, left = weakref.ref(averaging), []
        models = [averaging]
        accelerator = SimpleNamespace(
            free_memory=models.clear, end_training=lambda: left.append(held())
        )
        trainer = SimpleNamespace(
            model=averaging.module, model_wrapped=averaging, accelerator=accelerator
        )
        del averaging
        end_processes(trainer)
        assert left == [None]
    finally:
        torch.distributed.destroy_process_group()
