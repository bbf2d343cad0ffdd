"""Launch lines that start fewer processes than they ask for end at once, with the right line."""

import json
import os
import weakref
from types import SimpleNamespace

import pytest
import torch
from accelerate.commands import launch as accelerate_launch
from accelerate.commands.config.config_args import load_config_from_file

from tests.conftest import REPOSITORY
from tests.training.runs import warm_start
from training.loop.processes import end_processes
from vaswani_hf import VaswaniForConditionalGeneration


LAUNCH = accelerate_launch.__file__
# Stands in for training/run.py, to note the variables of the processes that a launcher starts: all
# but the one by which they find each other through the launcher, which is over then.
NOTE = """\
import json, os, pathlib, sys
os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
rank = os.environ.get("RANK", "0")
pathlib.Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(dict(os.environ)))
"""


@pytest.fixture
def launch(tmp_path):
    """training/run.py in processes such as `accelerate launch` starts by options."""

    def run(options, *argv):
        (tmp_path / "note.py").write_text(NOTE)
        fixed = ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
        done = warm_start().run(
            *(LAUNCH, *options, *fixed, str(tmp_path / "note.py"), str(tmp_path)),
            environments=[{**os.environ, "CUDA_VISIBLE_DEVICES": ""}],
        )
        assert done.returncode == 0, done.stderr
        found = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
        assert found
        return warm_start().run("training/run.py", *argv, environments=found)

    return run


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
def test_a_line_that_starts_too_few_processes_is_refused(options, told, launch, tmp_path):
    done = launch(options, "demo", "--output_dir", str(tmp_path / "out"))
    assert done.returncode != 0
    assert told in done.stderr
    assert "accelerate launch --multi_gpu --num_processes" in done.stderr
    assert "--use_cpu true" in done.stderr
    assert not (tmp_path / "out").exists()


def test_one_process_is_no_mistake(launch, tmp_path):
    # accelerate's own line for one process gets past the check, to the next mistake.
    one = ["--num_processes", "1", "--num_machines", "1"]
    done = launch(one, "base", "--output_dir", str(tmp_path / "out"), "--use_cpu", "true")
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
