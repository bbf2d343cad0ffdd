import pytest
import torch
from datasets import Dataset
from torch import nn
from transformers import AutoConfig

from tests.small_models import EOS, IGNORED, H, draw_tokens, small_config, small_model
from tests.training.loop.test_trainer import make_trainer
from tests.training.runs import RECIPE, run_here, write_pairs
from training.loop.guided_alignment import GuidedAlignment, choose_head
from training.loop.trainer import VaswaniTrainer
from training.outcome.timing import measure_updates
from training.settings.fields import VaswaniTrainingArguments
from training.settings.reading import parse_arguments
from vaswani_hf import train_tokenizer


LAYER, HEAD, WEIGHT = 1, 2, 0.3
# A target piece with two source pieces, one with one, one in the padded pair; others have none.
LINKS = torch.tensor([[0, 3, 1], [0, 5, 1], [0, 0, 2], [1, 1, 0]])
MASK = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
LABELS = torch.tensor([[5, 9, 3, EOS, IGNORED], [8, EOS, IGNORED, IGNORED, IGNORED]])


def trained_model(**fields):
    head = {"alignment_layer": LAYER, "alignment_head": HEAD, "dropout": 0.0}
    return small_model(**(head | fields)).double().train()


def batch():
    return {"input_ids": draw_tokens(2, 7), "attention_mask": MASK, "labels": LABELS}


def gradients_of(model, loss):
    model.zero_grad()
    loss.backward()
    named = model.named_parameters()
    return {name: each.grad for name, each in named if each.grad is not None}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("fields", [{}, {"attention_bias": True}])
def test_the_loss_is_the_papers(fields, checkpointing):
    """By a loop over the weights that eager attention returns, as fairseq's criterion has it."""
    model = trained_model(**fields)
    eager = trained_model(**fields, attn_implementation="eager")
    weights = eager(**batch(), output_attentions=True).cross_attentions[LAYER][:, HEAD]
    even = {(0, 1): [3, 5], (0, 2): [0], (1, 0): [1]}
    total = sum(
        -weights[pair, target, source].log() / len(sources)
        for (pair, target), sources in even.items()
        for source in sources
    )
    expected = WEIGHT * total / 6  # labels that count
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    aligning = GuidedAlignment(model, WEIGHT)
    with aligning.watching():
        model(**batch())
    loss = aligning.loss(LINKS, MASK, LABELS)
    torch.testing.assert_close(loss, expected)
    expected_gradients = gradients_of(eager, expected)
    assert any(each.any() for each in expected_gradients.values())
    for name, gradient in gradients_of(model, loss).items():
        torch.testing.assert_close(gradient, expected_gradients[name], msg=name)


def test_hooks_are_gone_after_the_pass():
    model = trained_model()
    with GuidedAlignment(model, WEIGHT).watching():
        pass
    assert not any(module._forward_hooks for module in model.modules())


def test_the_head_is_the_first_of_the_last_layer_but_one_unless_said_otherwise(tmp_path):
    def chosen(config, **fields):
        choose_head(config, VaswaniTrainingArguments(output_dir=str(tmp_path), **fields))
        return config.alignment_layer, config.alignment_head

    assert chosen(small_config(decoder_layers=3)) == (1, 0)
    assert chosen(small_config(decoder_layers=1)) == (0, 0)
    trained = {"alignment_layer": 2, "alignment_head": 3}
    assert chosen(small_config(**trained)) == (2, 3)
    assert chosen(small_config(**trained), guided_alignment_layer=0) == (0, 3)
    assert chosen(small_config(), guided_alignment_head=1) == (1, 1)
    with pytest.raises(ValueError, match=f"guided_alignment_head must be from 0 to {H - 1} for"):
        chosen(small_config(), guided_alignment_head=H)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a b c d e f g h"], 300, are_files=False, show_progress=False)


ROWS = [[*range(10, 10 + length), 1] for length in (2, 3, 4, 5, 6, 7)]
PAIRS = Dataset.from_dict(
    {
        "input_ids": ROWS,
        "labels": ROWS,
        "piece_links": [[place for one in range(len(row)) for place in (one, one)] for row in ROWS],
    }
)


class Aligning(VaswaniTrainer):
    def __init__(self, **arguments):
        model = arguments["model"]
        model.config.alignment_layer = model.config.alignment_head = 0
        for module in model.modules():  # a compiled one draws other masks
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        super().__init__(guided_alignment=GuidedAlignment(model, 1.0), **arguments)


def losses(folder, tokenizer, pairs=PAIRS, kind=Aligning, **options):
    options = {"max_steps": 2, "learning_rate": 1e-2, "logging_steps": 1} | options
    trainer = make_trainer(kind, folder, tokenizer, pairs, **options)
    trainer.train()
    return [row["loss_nats_per_token"] for row in trainer.state.log_history if "grad_norm" in row]


def test_batches_of_an_update_add_up(tmp_path, tokenizer):
    """Both losses are per target token of the whole update, 33 here."""
    trainer = make_trainer(Aligning, tmp_path, tokenizer, PAIRS)
    trainer.model.train()

    def loss(rows):
        batch = trainer.data_collator([PAIRS[row] for row in rows])
        return trainer.compute_loss(trainer.model, batch, num_items_in_batch=torch.tensor(33))

    whole = loss(range(6))
    torch.testing.assert_close(loss([0, 3, 5]) + loss([4, 1, 2]), whole)
    plain = trainer.data_collator([PAIRS[row] for row in range(6)])
    plain.pop("piece_links")
    assert whole > trainer.compute_loss(trainer.model, plain, num_items_in_batch=torch.tensor(33))


def test_a_dry_run_measures_it_too(tmp_path, tokenizer, monkeypatch):
    counted = []
    loss = GuidedAlignment.loss
    monkeypatch.setattr(GuidedAlignment, "loss", lambda *args: counted.append(1) or loss(*args))
    trainer = make_trainer(Aligning, tmp_path, tokenizer, PAIRS)
    model, aligning = trainer.model, trainer.guided_alignment
    measure_updates(trainer.args, model, tokenizer, PAIRS, 1, aligning)
    assert counted


def test_compiled_it_is_the_same(tmp_path, tokenizer):
    pairs = PAIRS.select([1] * 6)  # one shape, so one graph
    plain = losses(tmp_path / "plain", tokenizer, pairs)
    torch._dynamo.reset()
    compiled = {"torch_compile": True, "torch_compile_backend": "eager"}
    found = losses(tmp_path / "compiled", tokenizer, pairs, **compiled)
    assert found == pytest.approx(plain, rel=1e-4)


def test_a_run_leaves_a_model_that_names_its_head(tmp_path):
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    write_pairs(tmp_path / "pairs.tsv", 60)
    pairs = [line.split("\t") for line in (tmp_path / "pairs.tsv").read_text().splitlines()]
    for side, name in enumerate(("source", "target")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    places = [range(len(source.split())) for source, _ in pairs]
    lines = (" ".join(f"{place}-{place}" for place in words) for words in places)
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in lines))
    options = [
        *(str(tmp_path / "tiny.yaml"), "--max_steps", "8", "--decoder_layers", "2"),
        *("--train_source", str(tmp_path / "source"), "--train_target", str(tmp_path / "target")),
        *("--guided_alignment", str(tmp_path / "links"), "--guided_alignment_head", "1"),
        *("--output_dir", str(tmp_path / "out")),
    ]
    run_here(*options)
    config = AutoConfig.from_pretrained(tmp_path / "out")
    assert (config.alignment_layer, config.alignment_head) == (0, 1)
    (tmp_path / "links").write_text("\n" * 60)
    done = run_here(*options, "--resume_from_checkpoint", "auto", status=1)
    assert "was made with other training text: its files have changed" in done.stderr
    more = [*options, "--model_name_or_path", str(tmp_path / "out"), "--dry_run", "true"]
    more[more.index("--guided_alignment_head") + 1] = "7"
    told = run_here(*more, status=1).stderr
    assert "guided_alignment_head must be from 0 to 1 for this model, got 7" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--guided_alignment_weight 0.1", "guided_alignment_weight=0.1 needs alignments"),
        ("--guided_alignment_head 0", "guided_alignment_head=0 needs alignments"),
        ("--guided_alignment a --guided_alignment_weight 0", "weight must be above 0"),
        (
            '--guided_alignment a --gradient_checkpointing_kwargs {"use_reentrant":true}',
            "use_reentrant=true would keep gradients from the head",
        ),
        ("--guided_alignment a --streaming true", "guided_alignment does not go with streaming"),
        ("--guided_alignment a --bpe_dropout 0.1", "does not go with bpe_dropout: links are of"),
        ("--guided_alignment a --swap_sides", "guided_alignment does not go with swap_sides"),
        ("--guided_alignment a --segmented", "does not go with segmented: links are of words"),
        (
            '--corpora {"name":"a","guided_alignment":"b"} {"name":"c","typo_noise":0.1}',
            "guided_alignment does not go with typo_noise",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused(options, told):
    files = ["--train_source", "a", "--train_target", "b", "--use_cpu", "true"]
    with pytest.raises(ValueError, match=told):
        parse_arguments(["base", *files, *options.split()])
