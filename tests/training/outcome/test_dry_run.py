"""What a run would take, against what it takes: batches, updates, and no traces."""

import dataclasses
import random
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode

from training.data.batching import training_batches
from training.data.collating import PairCollator
from training.loop.trainer import VaswaniTrainer
from training.outcome.dry_run import make_plan
from training.outcome.timing import Measurement
from training.run import main
from training.settings.fields import VaswaniTrainingArguments
from training.settings.reading import parse_arguments
from vaswani_hf import (
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    train_tokenizer,
)


TINY = """\
extends: base
vocab_size: 300
d_model: 32
d_ff: 64
num_heads: 2
encoder_layers: 1
decoder_layers: 1
source_tokens: 120
target_tokens: 120
max_steps: 24
learning_rate: 1.0e-2
eval_strategy: "no"
save_minutes: null
average_last: 1
disable_tqdm: true
use_cpu: true
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny recipe, and 60 pairs of words and their reversed letters."""
    folder = tmp_path_factory.mktemp("plan")
    chooser = random.Random(0)
    words = ["".join(chooser.choices("abcde", k=chooser.randint(1, 4))) for _ in range(20)]
    sources = [" ".join(chooser.choices(words, k=chooser.randint(1, 9))) for _ in range(60)]
    targets = [" ".join(word[::-1] for word in source.split()[1:] or ["a"]) for source in sources]
    (folder / "train.en").write_text("\n".join(sources) + "\n")
    (folder / "train.de").write_text("\n".join(targets) + "\n")
    (folder / "tiny.yaml").write_text(TINY)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    files = [folder / "train.en", folder / "train.de"]
    return train_tokenizer(files, 300, show_progress=False)


@pytest.fixture(scope="module")
def pairs(folder, tokenizer):
    sources, targets = (
        (folder / f"train.{side}").read_text().splitlines() for side in ("en", "de")
    )
    return Dataset.from_dict(
        {
            "source": sources,
            "target": targets,
            "input_ids": tokenizer(sources)["input_ids"],
            "labels": tokenizer(text_target=targets)["input_ids"],
        }
    )


def arguments(folder, *more):
    return parse_arguments([str(folder / "tiny.yaml"), *more])


def build(tokenizer, **more):
    torch.manual_seed(0)
    tiny = {"d_model": 32, "d_ff": 64, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = VaswaniConfig(vocab_size=len(tokenizer), **tiny, **more)
    return VaswaniForConditionalGeneration(config)


def trainer_of(training, model, tokenizer, pairs):
    return VaswaniTrainer(
        model=model,
        args=training,
        train_dataset=pairs,
        data_collator=PairCollator(tokenizer, model),
        processing_class=tokenizer,
    )


def on(monkeypatch, num_processes):
    monkeypatch.setattr(VaswaniTrainingArguments, "world_size", num_processes)


def test_an_accumulated_update_is_the_update_of_one_large_batch(folder, tokenizer, pairs, tmp_path):
    """One step of gradient descent on all pairs: at once, and in batches that the device holds."""
    weights, batches = [], []
    for name, more in [("whole", []), ("parts", ["--device_tokens", "100"])]:
        given = arguments(
            folder,
            *("--source_tokens", "4000", "--target_tokens", "4000", "--max_steps", "1"),
            *("--optim", "sgd", "--learning_rate", "0.5", "--lr_scheduler_type", "constant"),
            *("--warmup_steps", "0", "--output_dir", str(tmp_path / name), *more),
        )
        trainer = trainer_of(given.training, build(tokenizer, dropout=0.0), tokenizer, pairs)
        trainer.train()
        assert trainer.state.epoch == 1.0  # all pairs were in it
        batches.append(len(trainer.get_train_dataloader()))
        weights.append(load_file(tmp_path / name / "checkpoint-1" / "model.safetensors"))
    assert batches[0] == 1 < batches[1]
    before = dict(build(tokenizer).state_dict())
    for key, whole in weights[0].items():
        assert not torch.equal(whole, before[key]), key
        # float32 sums in another order, times a rate of 0.5
        torch.testing.assert_close(weights[1][key], whole, atol=1e-6, rtol=1e-6, msg=key)


# Batches and updates


PADDED = ["--pad_to_multiple_of", "8"]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "more",
    [[], ["--device_tokens", "35"], ["--data_seed", "5"], ["--max_padding", "0"], PADDED],
)
def test_the_planned_batches_are_those_of_the_trainer(
    folder, tokenizer, pairs, tmp_path, monkeypatch, more, processes
):
    on(monkeypatch, processes)
    given = arguments(folder, "--output_dir", str(tmp_path), *more)
    planned = []

    def remember(*lengths_and_budget):
        planned.append(training_batches(*lengths_and_budget))
        return planned[-1]

    monkeypatch.setattr("training.outcome.dry_run.training_batches", remember)
    plan = make_plan(given, build(tokenizer), pairs)
    loader = trainer_of(given.training, build(tokenizer), tokenizer, pairs).get_train_dataloader()
    assert planned[0].batches == loader.batch_sampler.batches
    shapes = [(*batch["input_ids"].shape, batch["labels"].shape[1]) for batch in loader]
    assert sorted(shapes) == sorted(planned[0].shapes)
    assert plan.device_source_tokens == max(size * source for size, source, _ in shapes)
    assert plan.device_target_tokens == max(size * target for size, _, target in shapes)


def test_a_plan_for_more_processes_than_pairs_is_refused(
    folder, tokenizer, pairs, tmp_path, monkeypatch
):
    on(monkeypatch, 3)
    given = arguments(folder, "--output_dir", str(tmp_path))
    with pytest.raises(ValueError, match=r"2 pairs cannot be shared by 3 processes.*start fewer"):
        make_plan(given, build(tokenizer), pairs.select(range(2)))


@pytest.mark.parametrize("more", [[], ["--device_tokens", "35"], PADDED])
def test_an_epoch_has_as_many_updates_as_planned(folder, tokenizer, pairs, tmp_path, more):
    options = ["--num_train_epochs", "2", "--output_dir", str(tmp_path), *more]
    given, model = arguments(folder, *options), build(tokenizer)
    plan = make_plan(given, model, pairs)
    trainer = trainer_of(given.training, model, tokenizer, pairs)
    trainer.train()
    assert plan.updates == 2 * plan.updates_per_epoch == trainer.state.global_step
    assert plan.epochs == trainer.state.epoch == 2


@pytest.mark.parametrize("more", [[], PADDED])
def test_tokens_of_an_update_are_counted_without_padding(folder, tokenizer, pairs, tmp_path, more):
    options = ["--device_tokens", "35", "--output_dir", str(tmp_path), *more]
    given = arguments(folder, *options)
    plan = make_plan(given, build(tokenizer), pairs)
    padded = 0
    loader = trainer_of(given.training, build(tokenizer), tokenizer, pairs).get_train_dataloader()
    for batch in loader:
        padded += batch["input_ids"].numel() + batch["labels"].numel()
        assert batch["input_ids"].numel() <= plan.device_source_tokens <= 35
        assert batch["labels"].numel() <= plan.device_target_tokens <= 35
    sources, targets = (sum(map(len, pairs[side])) for side in ("input_ids", "labels"))
    assert plan.source_tokens_per_update * plan.updates_per_epoch == pytest.approx(sources)
    assert plan.target_tokens_per_update * plan.updates_per_epoch == pytest.approx(targets)
    assert plan.padding_share == pytest.approx(1 - (sources + targets) / padded)


@pytest.mark.parametrize(("more", "each"), [([], (4, 4, 8)), (["--optim", "sgd"], (4, 4, 0))])
def test_weights_gradients_and_adams_two_moments_have_four_bytes_each(
    folder, tokenizer, pairs, tmp_path, more, each
):
    plan = make_plan(
        arguments(folder, "--output_dir", str(tmp_path), *more), build(tokenizer), pairs
    )
    kept = (plan.parameter_bytes, plan.gradient_bytes, plan.optimizer_bytes)
    assert kept == tuple(size * plan.parameters for size in each)
    assert plan.device_bytes == sum(kept) + plan.activation_bytes


@pytest.mark.parametrize("more", [[], ["--r_drop", "5"]])
def test_the_flops_of_a_run_are_those_of_its_epochs(folder, tokenizer, pairs, tmp_path, more):
    options = ["--num_train_epochs", "3", "--output_dir", str(tmp_path), *more]
    given, model = arguments(folder, *options), build(tokenizer)
    plan = make_plan(given, model, pairs)
    model.set_attn_implementation("eager")
    counted = 0
    trainer = trainer_of(given.training, model, tokenizer, pairs)
    for batch in trainer.get_train_dataloader():
        with FlopCounterMode(display=False) as counter:
            trainer.compute_loss(model.train(), batch).backward()
        counted += counter.get_total_flops()
    assert plan.flops == pytest.approx(3 * counted)


def test_the_estimated_hours_are_the_measured_seconds_of_all_updates(
    folder, tokenizer, pairs, tmp_path
):
    given = arguments(folder, "--max_steps", "3000", "--output_dir", str(tmp_path))
    plan = make_plan(given, build(tokenizer), pairs, Measurement(20, 1.8, None))
    assert plan.hours == pytest.approx(1.5)  # 3000 * 1.8 / 3600
    assert "1.50, without evaluation" in plan.text()
    unmeasured = dataclasses.replace(plan, measurement=None)
    assert unmeasured.hours is None
    assert "not measured" in unmeasured.text()


def test_a_dry_run_shows_its_plan_and_writes_nothing(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = ["--train_source", str(folder / "train.en"), "--train_target", str(folder / "train.de")]
    options = [*files, "--dataset", "none", "--device_tokens", "40", "--dry_run_updates", "2"]
    main([str(folder / "tiny.yaml"), *options, "--dry_run", "true"])
    shown = capsys.readouterr().out
    rows = dict(line.strip().split("  ", 1) for line in shown.splitlines()[-24:] if "  " in line)
    rows = {name: value.strip() for name, value in rows.items()}
    assert rows["training pairs"] == "60"
    assert rows["updates"] == "24"
    assert rows["batches a process accumulates"] == "3"  # 120 tokens, 40 at once
    assert rows["the paper's base model"].startswith("3.3e+18, an estimate")  # Table 2
    assert rows["the paper's big model"].startswith("2.3e+19, an estimate")
    assert float(rows["seconds per update"].split(",")[0]) >= 0
    assert "mean of 2 on this machine" in rows["seconds per update"]
    assert list(Path.cwd().iterdir()) == []
