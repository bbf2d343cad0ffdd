"""Several processes do what one does: by DDP through training/run.py, by FSDP2 on the model."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import REPOSITORY
from tests.training.runs import RECIPE, results_of, run, write_pairs
from training.loop.locking import LOCK, FolderLock


# An update is an epoch: any share of the pairs among processes and batches gives the same one.
TOGETHER = """\
dropout: 0.0
optim: adamw_torch
adam_epsilon: 1.0e-4  # else what is 0 but for rounding moves as much as what is not
max_steps: 3
save_steps: 3
average_last: 1
"""
SPREADS = {"two processes": (2, 1), "two, accumulating": (2, 2), "four processes": (4, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    write_pairs(folder / "train.tsv", 23)
    write_pairs(folder / "test.tsv", 7, seed=1)
    changed = {line.split(":")[0] for line in TOGETHER.splitlines()}
    kept = [line for line in RECIPE.splitlines(True) if line.split(":")[0] not in changed]
    (folder / "tiny.yaml").write_text("".join(kept) + TOGETHER)
    return folder


def train(folder, processes, accumulated):
    output = folder / f"{processes}_{accumulated}"
    # For a batch of an update, so many padded tokens that all pairs fit into one update.
    tokens = str(220 * processes * accumulated)
    done = run(
        folder,
        *("--train_file", str(folder / "train.tsv"), "--test_file", str(folder / "test.tsv")),
        *("--source_tokens", tokens, "--target_tokens", tokens, "--output_dir", str(output)),
        *("--gradient_accumulation_steps", str(accumulated), "--eval_batch_tokens", "60"),
        processes=processes,
    )
    return output, done.stdout.split("The model is in")[0]


@pytest.fixture(scope="module")
def one(folder):
    # As many tokens an update as four processes have.
    return train(folder, 1, 4)


@pytest.fixture(scope="module", params=SPREADS.values(), ids=SPREADS.keys())
def several(request, folder):
    output, shown = train(folder, *request.param)
    return output, shown, request.param[0]


def test_updates_are_those_of_one_process(one, several):
    expected = load_file(one[0] / "checkpoint-3" / "model.safetensors")
    found = load_file(several[0] / "checkpoint-3" / "model.safetensors")
    assert expected.keys() == found.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=0, msg=name)


def test_every_pair_comes_once_an_epoch(one, several):
    for results in (results_of(one[0]), results_of(several[0])):
        assert results["training"]["epochs"] == results["training"]["updates"] == 3
    expected = results_of(one[0])["training"]["target_tokens"]
    assert results_of(several[0])["training"]["target_tokens"] == expected


def test_scores_and_translations_do_not_depend_on_the_number_of_processes(one, several):
    assert results_of(several[0])["hardware"]["processes"] == several[2]
    expected, found = (results_of(run[0])["scores"]["test"] for run in (one, several))
    assert expected["sentences"] == found["sentences"] == 7
    # After so few updates it may be 0; the loss and the translations tell the rest.
    assert found["bleu"] == pytest.approx(expected["bleu"], abs=1e-9)
    for name in ("loss_nats_per_token", "perplexity_per_token", "exact_match"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)
    expected, found = (
        [line for line in run[1].splitlines() if line.startswith("translation  ")]
        for run in (one, several)
    )
    assert found == expected
    assert len(expected) == 5


def test_early_stopping_ends_all_processes_at_the_same_update(folder):
    output = folder / "stopped"
    done = run(
        folder,
        *("--train_file", str(folder / "train.tsv"), "--output_dir", str(output)),
        *("--validation_file", str(folder / "test.tsv"), "--learning_rate", "0"),
        *("--eval_strategy", "steps", "--eval_steps", "1", "--early_stopping_patience", "2"),
        *("--gradient_accumulation_steps", "1", "--max_steps", "9", "--save_steps", "1"),
        processes=2,
    )
    # The first evaluation is the best, as nothing is learned; two more are no better.
    training = results_of(output)["training"]
    assert (training["updates"], training["stopped_early"]) == (3, True), done.stderr[-2000:]


def test_all_processes_of_a_second_run_leave_a_folder_in_use(folder, tmp_path):
    output = tmp_path / "out"
    with FolderLock(output):
        done = run(
            folder,
            *("--train_file", str(folder / "train.tsv"), "--output_dir", str(output)),
            *("--resume_from_checkpoint", "auto"),
            processes=2,
            status=None,
        )
        assert [path.name for path in output.iterdir()] == [LOCK]
    assert done.returncode != 0
    assert f"{output} is in use by another run (process {os.getpid()} on " in done.stderr


# training/run.py that notes the seed of every mask of dropout, and the weights before every batch.
NOTED = """\
import hashlib, json, os, sys
from training.run import main
from training.loop.trainer import VaswaniTrainer
from vaswani_hf.layers_vaswani import SeededDropout

rank, seeds, weights = os.environ.get("RANK", "0"), [], []
forward, training_step = SeededDropout.forward, VaswaniTrainer.training_step

def mask(ctx, x, p, seed):
    seeds.append(int(seed))
    return forward(ctx, x, p, seed)

def step(self, *arguments, **named):
    digest = hashlib.sha256()
    for parameter in self.model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    weights.append(digest.hexdigest())
    return training_step(self, *arguments, **named)

SeededDropout.forward, VaswaniTrainer.training_step = staticmethod(mask), step
try:
    main(sys.argv[1:])
finally:
    with open(os.environ["NOTES"] + rank, "w") as file:
        json.dump({"seeds": seeds, "weights": weights}, file)
"""


def test_processes_draw_masks_of_their_own_and_keep_equal_weights(folder, tmp_path):
    (folder / "noted.py").write_text(NOTED)
    notes = {}
    for processes in (1, 2):
        place = tmp_path / f"notes_{processes}_"
        run(
            folder,
            *("--train_file", str(folder / "train.tsv"), "--dropout", "0.1"),
            *("--output_dir", str(tmp_path / str(processes))),
            processes=processes,
            script=folder / "noted.py",
            environment={**os.environ, "NOTES": str(place)},
        )
        for rank in range(processes):
            notes[processes, rank] = json.loads(place.with_name(place.name + str(rank)).read_text())
    first, second = notes[2, 0], notes[2, 1]
    assert len(first["seeds"]) == len(second["seeds"]) > 20
    assert not set(first["seeds"]) & set(second["seeds"])
    assert first["weights"] == second["weights"]
    assert len(set(first["weights"])) == 3  # one for each update
    # The first process draws what a process alone does.
    drawn = min(len(first["seeds"]), len(notes[1, 0]["seeds"]))
    assert first["seeds"][:drawn] == notes[1, 0]["seeds"][:drawn]


SHARDED = """\
import json, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from training.loop.sharding import is_sharded, unsharded
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.modeling_vaswani import DecoderLayer, EncoderLayer

dist.init_process_group("gloo")
rank, mesh = dist.get_rank(), init_device_mesh("cpu", (dist.get_world_size(),))
config = VaswaniConfig(
    **{"vocab_size": 41, "d_model": 16, "d_ff": 24, "num_heads": 2, "dropout": 0.0},
    **{"encoder_layers": 2, "decoder_layers": 2, "label_smoothing": 0.1},
)
torch.manual_seed(0)
whole = VaswaniForConditionalGeneration(config)
sharded = VaswaniForConditionalGeneration(config)
sharded.load_state_dict(whole.state_dict())
for layer in list(sharded.modules()):
    if isinstance(layer, EncoderLayer | DecoderLayer):
        fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)
register_fsdp_forward_method(sharded, "generate")

source = torch.randint(5, 41, (6, 7))
labels = torch.randint(5, 41, (6, 5))
labels[:3, 3:] = -100  # the processes' halves differ in target tokens
mine = slice(3 * rank, 3 * rank + 3)
tokens = int((labels >= 0).sum())
losses = {"whole": [], "sharded": []}
models = {"whole": (whole, slice(0, 6), 1), "sharded": (sharded, mine, dist.get_world_size())}
for name, (model, rows, processes) in models.items():
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-4)
    for _ in range(5):
        share = int((labels[rows] >= 0).sum()) / tokens
        loss = share * model(input_ids=source[rows], labels=labels[rows]).loss
        (processes * loss).backward()  # FSDP takes the mean over processes
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if processes > 1:
            dist.all_reduce(total)
        losses[name].append(float(total))
parameters = list(sharded.parameters())
gathered = unsharded(sharded)
differences = {
    name: float((tensor - whole.state_dict()[name]).abs().max())
    for name, tensor in gathered.state_dict().items()
}
options = {"max_new_tokens": 4 + 5 * rank, "num_beams": 2}  # one process is done before the other
alone = whole.eval().generate(source[mine], **options)
together = sharded.eval().generate(source[mine], **options)
same = [None] * dist.get_world_size()
dist.all_gather_object(same, torch.equal(alone, together))
if rank == 0:
    report = {
        "losses": losses,
        "differences": differences,
        "is_split": all(p.to_local().numel() < p.numel() for p in parameters),
        "num_parameters": sum(p.numel() for p in parameters) / whole.num_parameters(),
        "is_sharded": [is_sharded(sharded), is_sharded(gathered)],
        "is_tied": gathered.lm_head.weight is gathered.get_input_embeddings().weight,
        "same_translations": same,
    }
    with open(sys.argv[1], "w") as file:
        json.dump(report, file)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def sharding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    (folder / "sharded.py").write_text(SHARDED)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [sys.executable, *command, str(folder / "sharded.py"), str(folder / "report.json")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads((folder / "report.json").read_text())


def test_a_sharded_model_learns_as_a_whole_one(sharding):
    assert sharding["is_split"]
    assert sharding["num_parameters"] == 1  # the tied embeddings once
    assert sharding["losses"]["sharded"] == pytest.approx(sharding["losses"]["whole"], abs=1e-6)
    assert sharding["losses"]["whole"][-1] < sharding["losses"]["whole"][0]


def test_the_gathered_weights_of_a_sharded_model_are_those_of_a_whole_one(sharding):
    assert sharding["is_sharded"] == [True, False]
    assert sharding["is_tied"]
    assert max(sharding["differences"].values()) < 1e-6


def test_a_sharded_model_translates_where_one_process_is_done_before_the_other(sharding):
    assert sharding["same_translations"] == [True, True]
