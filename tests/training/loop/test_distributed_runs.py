"""Several processes train as one, by DDP through training/run.py."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file

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


# training/run.py that notes a hash function of every mask, and the weights before every batch.
NOTED = """\
import hashlib, json, os, sys
from training.run import main
from training.loop.trainer import VaswaniTrainer
from vaswani_hf.layers_vaswani import HashedDropout

rank, seeds, weights = os.environ.get("RANK", "0"), [], []
forward, training_step = HashedDropout.forward, VaswaniTrainer.training_step

def mask(ctx, x, p, factors):
    seeds.append(int(factors[0]))
    return forward(ctx, x, p, factors)

def step(self, *arguments, **named):
    digest = hashlib.sha256()
    for parameter in self.model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    weights.append(digest.hexdigest())
    return training_step(self, *arguments, **named)

HashedDropout.forward, VaswaniTrainer.training_step = staticmethod(mask), step
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
