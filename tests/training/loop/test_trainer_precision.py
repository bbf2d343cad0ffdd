"""Mixed precision, gradient checkpointing and compilation leave the loss what it is."""

import json
import math
import os
import random

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch._dynamo.utils import counters

from tests.training.runs import warm_start
from training.data.batching import TokenBatchSampler
from training.data.collating import ArrowPairs, PairCollator
from training.loop.trainer import DivergedError, VaswaniTrainer
from training.settings.budget import TokenBudget
from training.settings.fields import VaswaniTrainingArguments
from training.settings.reading import parse_arguments
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, loss_vaswani, train_tokenizer


WIDTHS = {
    "d_model": 32,
    "d_ff": 64,
    "num_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
HALVES = [torch.bfloat16, torch.float16]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a b c d e f g h"], 300, are_files=False, show_progress=False)


@pytest.fixture(scope="module")
def pairs():
    """Pairs of 3 to 40 tokens, the target a copy of the source with up to 3 pieces more."""
    chooser = random.Random(0)
    rows = {"input_ids": [], "labels": []}
    for _ in range(400):
        source = [chooser.randint(10, 17) for _ in range(2 + int(chooser.gammavariate(4, 2.5)))][
            :39
        ]
        rows["input_ids"].append([*source, 1])
        rows["labels"].append([*source, *([11] * chooser.randint(0, 3)), 1])
    return Dataset.from_dict(rows)


def make_model(tokenizer, dropout=0.0):
    torch.manual_seed(0)
    tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = VaswaniConfig(vocab_size=len(tokenizer), dropout=dropout, **WIDTHS, **tokens)
    return VaswaniForConditionalGeneration(config)


def train(folder, tokenizer, pairs, dropout=0.0, max_steps=25, on_gpu=False, rate=3e-3, **options):
    """Losses of all updates, and the trainer."""
    torch.manual_seed(1)
    model = make_model(tokenizer, dropout)
    arguments = VaswaniTrainingArguments(
        output_dir=str(folder),
        source_tokens=300,
        target_tokens=300,
        max_steps=max_steps,
        learning_rate=rate,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        average_last=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=not on_gpu,
        **options,
    )
    trainer = VaswaniTrainer(
        model=model,
        args=arguments,
        train_dataset=pairs,
        data_collator=PairCollator(tokenizer, model),
        processing_class=tokenizer,
    )
    trainer.train()
    history = trainer.state.log_history
    name = "loss_nats_per_token"
    return np.array([entry[name] for entry in history if name in entry]), trainer


@pytest.fixture(scope="module")
def float32(tmp_path_factory, tokenizer, pairs):
    return train(tmp_path_factory.mktemp("float32"), tokenizer, pairs)[0]


@pytest.fixture(scope="module")
def batch():
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(10, 18, (5, 7), generator=generator)
    labels = torch.randint(10, 18, (5, 6), generator=generator)
    mask = torch.ones_like(source)
    mask[1, 4:] = 0
    labels[1, 3:] = -100
    return {"input_ids": source, "attention_mask": mask, "labels": labels}


# Mixed precision


def test_bf16_trains_close_to_float32(tmp_path, tokenizer, pairs, float32):
    losses, _ = train(tmp_path, tokenizer, pairs, bf16=True)
    assert np.isfinite(losses).all()
    assert not np.array_equal(losses, float32)  # else nothing was done in bf16
    # bfloat16 has 8 bits, 0.4 % a rounding, which averages out over the positions.
    assert losses == pytest.approx(float32, rel=0.01)
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_mixed_precision_on_a_gpu_trains_close_to_float32(
    tmp_path, tokenizer, pairs, float32, kind
):
    losses, trainer = train(tmp_path, tokenizer, pairs, on_gpu=True, **{kind: True})
    assert (trainer.accelerator.scaler is not None) == (kind == "fp16")
    assert np.isfinite(losses).all()
    # The scaler of fp16 may skip the first updates until its scale fits.
    assert losses == pytest.approx(float32, rel=0.01 if kind == "bf16" else 0.2)


def test_fp16_with_scaled_losses_trains_close_to_float32(tokenizer, batch):
    # What the library's trainer does on a GPU, by hand: autocast, and gradients scaled up.
    def losses_of(half):
        model = make_model(tokenizer).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, enabled=half)
        losses = []
        for _ in range(25):
            with torch.autocast("cpu", dtype=torch.float16, enabled=half):
                loss = model(**batch).loss
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.append(loss.item())
        return np.array(losses)

    in_half, in_float32 = losses_of(True), losses_of(False)
    assert not np.array_equal(in_half, in_float32)
    # float16 has 11 bits, 0.05 % a rounding, which 25 updates carry on.
    assert in_half == pytest.approx(in_float32, rel=0.01)
    assert in_half[-1] < 0.5 * in_half[0]


def test_fp16_on_a_cpu_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"fp16=True needs a GPU.*set bf16"):
        parse_arguments(["demo", "--fp16", "--use_cpu", "--output_dir", str(tmp_path)])


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_a_precision_of_evaluation_alone_is_refused(tmp_path, name):
    options = [f"--{name}_full_eval", "--use_cpu", "--output_dir", str(tmp_path)]
    with pytest.raises(ValueError, match=rf"{name}_full_eval=True would have.*set {name}\."):
        parse_arguments(["demo", *options])


@pytest.mark.parametrize("half", HALVES)
def test_the_loss_of_half_precision_logits_is_taken_in_float32(tokenizer, batch, half):
    # Autocast would take any loss in float32; a model that is half itself leaves that to us.
    model = make_model(tokenizer).eval().to(half)
    with torch.no_grad():
        outputs = model(**batch)
    assert outputs.logits.dtype == half
    real = batch["labels"] != -100
    rows = outputs.logits.double()[real].log_softmax(-1)
    expected = -rows.gather(1, batch["labels"][real][:, None]).mean().item()
    assert outputs.loss.dtype == torch.float32
    # A sum of float32 numbers; one of half precision would be wrong in the third digit.
    assert outputs.loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_a_row_of_padding_alone_is_finite_and_changes_nothing(tokenizer, batch, attention, dtype):
    padding = {"input_ids": tokenizer.pad_token_id, "attention_mask": 0, "labels": -100}
    longer = {
        name: torch.cat((tensor, torch.full_like(tensor[:1], padding[name])))
        for name, tensor in batch.items()
    }
    gradients, losses = [], []
    for inputs in (batch, longer):
        model = make_model(tokenizer).train()
        model.set_attn_implementation(attention)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            loss = model(**inputs).loss
        loss.backward()
        losses.append(loss.item())
        gradients.append([parameter.grad for parameter in model.parameters()])
        decoder = model.prepare_decoder_input_ids_from_labels(inputs["labels"])
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            logits = model.eval()(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                decoder_input_ids=decoder,
            ).logits
        assert logits.isfinite().all()
    tolerance = 1e-6 if dtype == torch.float32 else 2e-2
    assert losses[1] == pytest.approx(losses[0], rel=tolerance)
    for short, long in zip(*gradients, strict=True):
        torch.testing.assert_close(long, short, rtol=tolerance, atol=tolerance)


# Gradient checkpointing


def step(model, batch):
    """Loss, gradients, and how many numbers the forward pass keeps for the backward pass."""
    kept = 0

    def count(tensor):
        nonlocal kept
        kept += tensor.numel()
        return tensor

    torch.manual_seed(3)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        loss = model(**batch).loss
    loss.backward()
    return loss.detach(), [parameter.grad for parameter in model.parameters()], kept


def checkpointed(model):
    # Newer versions of the library warn of the old name, which ends with version 6.
    new = getattr(model, "activation_checkpointing_enable", None)
    (new or model.gradient_checkpointing_enable)()
    return model


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("use_cache", [None, True])
def test_checkpointing_changes_neither_loss_nor_gradients_and_keeps_less(
    tokenizer, batch, dropout, use_cache
):
    inputs = {**batch, "use_cache": use_cache}
    loss, gradients, kept = step(make_model(tokenizer, dropout).train(), inputs)
    again, same, kept_less = step(checkpointed(make_model(tokenizer, dropout).train()), inputs)
    assert torch.equal(again, loss)
    assert all(torch.equal(one, other) for one, other in zip(same, gradients, strict=True))
    # Of a layer, its input alone is kept.
    assert kept_less < kept / 3


def test_the_trainer_checkpoints_with_the_same_losses(tmp_path, tokenizer, pairs):
    plain, _ = train(tmp_path, tokenizer, pairs, dropout=0.2, max_steps=4)
    losses, trainer = train(
        tmp_path, tokenizer, pairs, dropout=0.2, max_steps=4, gradient_checkpointing=True
    )
    assert all(layer.gradient_checkpointing for layer in trainer.model.model.decoder.layers)
    assert losses.tolist() == plain.tolist()


# Few shapes, few compilations


def shapes_of(tokenizer, pairs, multiple):
    """Shapes of all batches of 300 tokens a side, and the batches."""
    lengths = [[len(ids) for ids in pairs[side]] for side in ("input_ids", "labels")]
    budget = TokenBudget(300, 300, pad_to_multiple_of=multiple)
    sampler = TokenBatchSampler(*lengths, budget)
    collator = PairCollator(tokenizer, make_model(tokenizer))
    if multiple is not None:
        collator = collator.in_few_shapes(budget)
    batches = [collator([pairs[place] for place in batch]) for batch in sampler]
    return {(*batch["input_ids"].shape, batch["labels"].shape[1]) for batch in batches}, batches


def test_batches_in_few_shapes_have_few(tokenizer, pairs):
    shapes, batches = shapes_of(tokenizer, pairs, 8)
    for size, source, target in shapes:
        assert source % 8 == target % 8 == 0
        assert size == math.floor(300 / max(source, target))
    # Sides are 3 to 43 tokens long, 6 multiples of 8; a target has up to 3 tokens more than its
    # source, one multiple more at most, and a batch mixes a length with the next.
    assert len(shapes) <= 3 * 6
    unpadded, _ = shapes_of(tokenizer, pairs, None)
    assert len(unpadded) > 2 * len(shapes)
    tokens = sum(int((batch["labels"] >= 0).sum()) for batch in batches)
    assert tokens == sum(len(ids) for ids in pairs["labels"])


def test_padding_to_few_shapes_changes_neither_loss_nor_gradients(tokenizer, pairs):
    model = make_model(tokenizer).train()
    chosen = [pairs[place] for place in range(5)]
    plain = PairCollator(tokenizer, model)
    results = []
    for collator in (plain, plain.in_few_shapes(TokenBudget(400, 300, pad_to_multiple_of=16))):
        model.zero_grad()
        inputs = collator(chosen)
        loss = model(**inputs).loss
        loss.backward()
        results.append((inputs, loss, [parameter.grad for parameter in model.parameters()]))
    (short, loss, gradients), (long, same_loss, same_gradients) = results
    table = ArrowPairs(pairs).__getitems__(list(range(5)))
    for name, tensor in collator(table).items():  # as the trainer's loader hands them over
        assert torch.equal(tensor, long[name]), name
    assert long["input_ids"].shape > short["input_ids"].shape
    assert same_loss.item() == pytest.approx(loss.item(), rel=1e-6)
    for one, other in zip(same_gradients, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_evaluation_batches_are_not_filled(tmp_path, tokenizer, pairs):
    _, trainer = train(tmp_path, tokenizer, pairs, max_steps=1, pad_to_multiple_of=16)
    batches = list(trainer.get_eval_dataloader(pairs))
    assert sum(len(batch["input_ids"]) for batch in batches) == len(pairs)


@pytest.mark.parametrize(
    ("multiple", "checkpointing", "devices_of_operator"),
    [(None, False, ("cpu",)), (8, True, ("cpu",)), (None, False, ())],
)
def test_a_compiled_run_has_few_graphs_and_the_same_losses(
    tmp_path, tokenizer, pairs, float32, multiple, checkpointing, devices_of_operator, monkeypatch
):
    monkeypatch.setattr(loss_vaswani, "DEVICES_OF_OPERATOR", devices_of_operator)
    options = {"pad_to_multiple_of": multiple, "gradient_checkpointing": checkpointing}
    plain, _ = train(tmp_path, tokenizer, pairs, pad_to_multiple_of=multiple)
    assert (multiple is None) == (plain.tolist() == float32.tolist())
    torch._dynamo.reset()
    counters.clear()
    losses, trainer = train(
        tmp_path, tokenizer, pairs, torch_compile=True, torch_compile_backend="eager", **options
    )
    assert trainer.accelerator.state.dynamo_plugin.backend.value == "EAGER"
    # One for the first shape, then ones whose sizes may vary; never one a shape.
    assert 1 <= counters["stats"]["unique_graphs"] <= 4
    assert not counters["graph_break"]
    # Compiled, the loss runs over all positions, padding with weight 0: another order of sums.
    assert losses == pytest.approx(plain, rel=1e-4)


def test_all_of_it_goes_through_the_command_line(tmp_path):
    lines = "".join(f"{word} b c d e\n" for word in "abcdefgh" * 10)
    files = []
    for split in ("train", "validation", "test"):
        for side in ("source", "target"):
            (tmp_path / f"{split}.{side}").write_text(lines)
            files += [f"--{split}_{side}", str(tmp_path / f"{split}.{side}")]
    recipe = {"extends": "base", "vocab_size": 300, **WIDTHS, "source_tokens": 200}
    recipe |= {"target_tokens": 200, "max_steps": 4, "warmup_steps": 4, "average_last": 1}
    recipe |= {"eval_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    (tmp_path / "small.yaml").write_text(json.dumps(recipe))
    options = "--torch_compile true --torch_compile_backend eager --bf16 --pad_to_multiple_of 8"
    options += " --gradient_checkpointing --predict_with_generate false"
    options += f" --output_dir {tmp_path / 'out'}"
    done = warm_start().run(
        *("training/run.py", str(tmp_path / "small.yaml"), *files, *options.split()),
        environments=[os.environ],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["training"]["updates"] == 4
    assert results["scores"]["test"]["perplexity_per_token"] < 1000


def test_a_loss_that_is_no_number_ends_training_when_it_is_logged(tmp_path, tokenizer, pairs):
    with pytest.raises(DivergedError, match=r"at update 2 the loss .* learning_rate below 1e.30 "):
        train(tmp_path, tokenizer, pairs, rate=1e30)
