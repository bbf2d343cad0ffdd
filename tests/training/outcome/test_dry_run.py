"""What a run would take, against what it takes: batches, arithmetic, memory, and no traces."""

import contextlib
import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode

from training.data.batching import training_batches
from training.data.collating import PairCollator
from training.loop.trainer import VaswaniTrainer
from training.outcome.dry_run import (
    Measurement,
    Shapes,
    activation_bytes,
    make_plan,
    measure_updates,
    training_flops,
)
from training.run import main
from training.settings.fields import VaswaniTrainingArguments
from training.settings.reading import parse_arguments
from vaswani_hf import (
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    layers_vaswani,
    loss_vaswani,
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
SENTENCES, SOURCE, TARGET, PIECES = 3, 7, 5, 53


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


# Accumulation


def on(monkeypatch, num_processes):
    monkeypatch.setattr(VaswaniTrainingArguments, "world_size", num_processes)


# By hand: 25,000 / (processes * 3,125) is 8, 4, 2.67, 1 and 0.5.
@pytest.mark.parametrize(("processes", "batches"), [(1, 8), (2, 4), (3, 3), (8, 1), (16, 1)])
def test_batches_are_accumulated_until_an_update_has_its_tokens(
    monkeypatch, tmp_path, processes, batches
):
    on(monkeypatch, processes)
    options = ["--device_tokens", "3125", "--output_dir", str(tmp_path)]
    training = parse_arguments(["base", *options]).training
    assert training.gradient_accumulation_steps == batches


def test_the_larger_side_decides_how_many_batches_are_accumulated(tmp_path):
    options = ["--source_tokens", "100", "--target_tokens", "301", "--device_tokens", "100"]
    training = parse_arguments(["base", *options, "--output_dir", str(tmp_path)]).training
    assert training.gradient_accumulation_steps == 4  # 301 / 100


def test_no_limit_means_no_accumulation(tmp_path):
    training = parse_arguments(["base", "--output_dir", str(tmp_path)]).training
    assert training.gradient_accumulation_steps == 1


@pytest.mark.parametrize("given", ["1", "4"])
def test_an_accumulation_that_contradicts_the_device_is_refused(tmp_path, given):
    options = ["--device_tokens", "3125", "--gradient_accumulation_steps", given]
    way_out = {"1": 25000, "4": 6250}[given]
    message = f"steps={given} contradicts device_tokens=3125.*make 8.*device_tokens to {way_out}"
    with pytest.raises(ValueError, match=message):
        parse_arguments(["base", *options, "--output_dir", str(tmp_path)])


def test_an_accumulation_that_agrees_with_the_device_is_taken(tmp_path):
    options = ["--device_tokens", "3125", "--gradient_accumulation_steps", "8"]
    training = parse_arguments(["base", *options, "--output_dir", str(tmp_path)]).training
    assert training.gradient_accumulation_steps == 8


@pytest.mark.parametrize("value", ["0", "-5"])
def test_a_device_without_room_is_refused(tmp_path, value):
    with pytest.raises(
        ValueError, match=f"device_tokens must be at least 1.*device_tokens={value}"
    ):
        parse_arguments(["base", "--device_tokens", value, "--output_dir", str(tmp_path)])


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

    def remember(*arguments):
        planned.append(training_batches(*arguments))
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


# Arithmetic and memory, against what PyTorch counts


def batch_and_shape():
    """Three pairs, padded; 5 + 4 + 3 target tokens are real."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(3, PIECES, (SENTENCES, SOURCE), generator=generator)
    labels = torch.randint(3, PIECES, (SENTENCES, TARGET), generator=generator)
    mask = torch.ones_like(source)
    for row in range(1, SENTENCES):
        labels[row, TARGET - row :] = -100
        mask[row, SOURCE - row :] = 0
    sizes = (SENTENCES, SOURCE, TARGET, 12)
    shapes = Shapes(*(np.array([float(size)]) for size in sizes))
    return {"input_ids": source, "attention_mask": mask, "labels": labels}, shapes


@pytest.mark.parametrize("bias", [False, True])
def test_flops_are_those_that_pytorch_counts(bias):
    config = VaswaniConfig(
        **{"vocab_size": PIECES, "d_model": 24, "d_ff": 40, "num_heads": 4, "d_k": 6, "d_v": 10},
        **{"encoder_layers": 2, "decoder_layers": 3, "attention_bias": bias},
    )
    # Written out, so that no product hides in a fused kernel.
    model = VaswaniForConditionalGeneration._from_config(config, attn_implementation="eager")
    batch, shapes = batch_and_shape()
    with FlopCounterMode(display=False) as counter:
        model.train()(**batch).loss.backward()
    assert training_flops(config, shapes).tolist() == [counter.get_total_flops()]


def kept_bytes(model, batch, dtype):
    """Bytes that autograd keeps of a forward pass, weights and their casts left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    shapes = {tuple(weight.shape) for weight in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        is_weight = tuple(tensor.shape) in shapes or tuple(tensor.shape[::-1]) in shapes
        if storage.data_ptr() not in weights and not is_weight:
            kept[storage.data_ptr()] = storage  # held, so that no other takes its place
        return tensor

    autocast = torch.autocast("cpu", dtype) if dtype else contextlib.nullcontext()
    with autocast, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(**batch)
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("by_chunks", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_activations_are_about_what_autograd_keeps(monkeypatch, dtype, by_chunks):
    # As on a GPU: there torch's own normalization keeps its input.
    monkeypatch.setattr(layers_vaswani, "is_invertible", lambda *_: False)
    monkeypatch.setattr(loss_vaswani, "is_chunked", lambda *_: by_chunks)
    config = VaswaniConfig(
        # The masks of dropout have a test of their own.
        **{"vocab_size": PIECES, "d_model": 128, "d_ff": 200, "num_heads": 4, "dropout": 0.0},
        **{"encoder_layers": 2, "decoder_layers": 3},
    )
    model = VaswaniForConditionalGeneration._from_config(config, attn_implementation="sdpa")
    batch, shapes = batch_and_shape()
    is_half = dtype is not None
    estimate = activation_bytes(config, shapes, is_half, by_chunks).item()
    # Of all logits autograd keeps the softmax, of chunks nothing; the rest comes and goes.
    others = {(False, False): 4 + 4, (False, True): 2 + 4, (True, False): 4, (True, True): 4 + 4}
    estimate -= others[by_chunks, is_half] * PIECES * shapes.target_tokens.item()
    if by_chunks:
        estimate -= 4 * PIECES * config.d_model  # a gradient, which has a weight's shape
    # Attention masks, means and variances are not estimated.
    assert estimate == pytest.approx(kept_bytes(model.train(), batch, dtype), rel=0.05)


def test_activations_grow_by_dropouts_masks():
    # By hand: a byte for each of d_model numbers, at the entries of both stacks and once for each
    # sub-layer, of which 2 encoder layers have 4 and 3 decoder layers 9.
    _, shapes = batch_and_shape()
    sizes = {"d_model": 24, "d_ff": 40, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 3}
    with_masks, without = (
        activation_bytes(VaswaniConfig(vocab_size=PIECES, dropout=rate, **sizes), shapes, False)
        for rate in (0.1, 0.0)
    )
    expected = 24 * SENTENCES * (SOURCE * (1 + 4) + TARGET * (1 + 9))
    assert (with_masks - without).tolist() == [expected]


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


def test_the_flops_of_a_run_are_those_of_its_epochs(folder, tokenizer, pairs, tmp_path):
    options = ["--num_train_epochs", "3", "--output_dir", str(tmp_path)]
    given, model = arguments(folder, *options), build(tokenizer)
    plan = make_plan(given, model, pairs)
    model.set_attn_implementation("eager")
    counted = 0
    for batch in trainer_of(given.training, model, tokenizer, pairs).get_train_dataloader():
        with FlopCounterMode(display=False) as counter:
            model.train()(**batch).loss.backward()
        counted += counter.get_total_flops()
    assert plan.flops == pytest.approx(3 * counted)


# Time, and that nothing is left


def test_measuring_leaves_the_model_and_the_folder_as_they_are(folder, tokenizer, pairs, tmp_path):
    model = build(tokenizer)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    training = arguments(
        folder,
        *("--save_strategy", "steps", "--save_steps", "1", "--save_minutes", "0.00001"),
        *("--weight_decay", "0.1", "--output_dir", str(tmp_path)),
    ).training
    measured = measure_updates(training, model, tokenizer, pairs, 3)
    assert (measured.updates, measured.peak_bytes is None) == (3, not torch.cuda.is_available())
    assert 0 < measured.seconds_per_update < 5
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.cpu(), before[name]), name
    assert list(tmp_path.iterdir()) == []
    assert (training.max_steps, training.learning_rate) == (24, 0.01)  # of the run itself


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
