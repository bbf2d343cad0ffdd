"""R-Drop: two passes that differ in their dropout, and how far apart they are."""

import types

import pytest
import torch
from datasets import Dataset
from torch import nn
from torch.nn import functional as F

from tests.training.loop.test_guided_alignment import PAIRS
from tests.training.loop.test_trainer import make_trainer
from training.loop.guided_alignment import GuidedAlignment
from training.loop.r_drop import RDropLoss, twice
from training.loop.trainer import VaswaniTrainer
from training.settings.reading import parse_arguments
from vaswani_hf import train_tokenizer


IGNORED = -100
PLAIN = Dataset.from_dict({name: PAIRS[name] for name in ("input_ids", "labels")})


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a b c d e f g h"], 300, are_files=False, show_progress=False)


@pytest.mark.parametrize("at_once", [1, 4, 1000])
def test_the_loss_is_the_papers(monkeypatch, at_once):
    """Equation 4 of Liang et al. 2021, a position at a time by torch's divergence, halved."""
    monkeypatch.setattr("training.loop.r_drop.tokens_at_once", lambda *of: at_once)
    torch.manual_seed(0)
    labels = torch.tensor([[3, 1, IGNORED], [2, IGNORED, IGNORED]])
    logits = torch.randn(4, 3, 7, dtype=torch.double, requires_grad=True)
    expected = torch.zeros((), dtype=torch.double)
    for pair, place in [(0, 0), (0, 1), (1, 0)]:
        passes = logits[pair, place], logits[pair + 2, place]
        for one in passes:
            expected += F.cross_entropy(one, labels[pair, place], label_smoothing=0.1)
        first, second = (one.log_softmax(dim=-1) for one in passes)
        for one, other in [(first, second), (second, first)]:
            expected += 5 * F.kl_div(one, other, reduction="sum", log_target=True) / 2
    expected = expected / 2 / 10  # an update of 10 target tokens
    outputs = types.SimpleNamespace(logits=logits)
    loss = RDropLoss(5.0, 0.1)(outputs, torch.cat((labels, labels)), torch.tensor(20))
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, logits)[0])


def test_a_batch_passes_twice_with_other_masks(tmp_path, tokenizer):
    seen = []

    def note(model, arguments, named):
        seen.append(named)

    trainer = make_trainer(VaswaniTrainer, tmp_path, tokenizer, PLAIN, r_drop=5.0)
    trainer.model.register_forward_pre_hook(note, with_kwargs=True)
    trainer.model.train()
    batch = trainer.data_collator([PLAIN[0], PLAIN[3]])
    _, outputs = trainer.compute_loss(trainer.model, batch, return_outputs=True)
    assert seen[0]["input_ids"].tolist() == twice(batch)["input_ids"].tolist()
    assert len(outputs.logits) == 4
    assert not torch.equal(*outputs.logits.chunk(2))


def test_it_begins_after_so_many_updates(tmp_path, tokenizer):
    """Until then the run is one without it, and then one that resumes with it."""
    options = {"seed": 3, "max_steps": 4, "logging_steps": 1, "save_strategy": "steps"}
    plain = make_trainer(VaswaniTrainer, tmp_path / "a", tokenizer, PLAIN, save_steps=2, **options)
    plain.train()
    with_both = {**options, "save_steps": 4, "r_drop": 5.0, "r_drop_after": 2}
    begun = make_trainer(VaswaniTrainer, tmp_path / "b", tokenizer, PLAIN, **with_both)
    begun.train()
    resumed = make_trainer(VaswaniTrainer, tmp_path / "a", tokenizer, PLAIN, **with_both)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-2"))
    losses = [
        [row["loss_nats_per_token"] for row in trainer.state.log_history if "grad_norm" in row]
        for trainer in (plain, begun, resumed)
    ]
    assert losses[1][:2] == losses[0][:2]
    assert losses[1][2] > losses[0][2]
    assert losses[1] == losses[2]


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


@pytest.mark.parametrize("num_items", [None, torch.tensor(40)])
@pytest.mark.parametrize("aligned", [False, True])
def test_without_dropout_both_passes_agree(tmp_path, tokenizer, aligned, num_items):
    """Then the loss is the plain one, that of a head which learns alignments with it."""
    losses = []
    for r_drop in (None, 5.0):
        pairs = PAIRS if aligned else PLAIN
        folder = tmp_path / str(r_drop)
        trainer = make_trainer(VaswaniTrainer, folder, tokenizer, pairs, seed=3, r_drop=r_drop)
        without_dropout(trainer.model)
        if aligned:
            trainer.model.config.alignment_layer = trainer.model.config.alignment_head = 0
            trainer.guided_alignment = GuidedAlignment(trainer.model, 1.0)
        torch.manual_seed(0)
        for parameter in trainer.model.parameters():
            nn.init.normal_(parameter, std=0.3)
        batch = trainer.data_collator([pairs[row] for row in range(6)])
        trainer.model.train()
        losses.append(trainer.compute_loss(trainer.model, batch, num_items_in_batch=num_items))
    torch.testing.assert_close(losses[1], losses[0])


def test_it_trains(tmp_path, tokenizer):
    options = {"r_drop": 5.0, "max_steps": 12, "learning_rate": 1e-2, "logging_steps": 1}
    trainer = make_trainer(VaswaniTrainer, tmp_path, tokenizer, PLAIN, **options)
    trainer.train()
    losses = [row["loss_nats_per_token"] for row in trainer.state.log_history if "grad_norm" in row]
    assert losses[-1] < losses[0] - 0.5


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--r_drop", "0"), "r_drop must be above 0"),
        (("--r_drop", "5", "--r_drop_after", "-1"), "r_drop_after must be at least 0"),
        (("--r_drop_after", "9"), "r_drop_after=9 needs R-Drop, which is off"),
        (("--r_drop", "5", "--distillation_teacher", "a"), "does not go with r_drop=5"),
    ],
)
def test_what_it_does_not_go_with_is_refused(options, told):
    with pytest.raises(ValueError, match=told):
        parse_arguments(["base", "--output_dir", "out", *options])
