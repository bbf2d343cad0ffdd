"""LoRA: an adapter is trained, resumed, averaged, kept at its best, told of and loaded."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file

from tests.small_models import small_model
from tests.training.runs import RECIPE, results_of, run_here, write_pairs
from training.loop.adapters import add_adapter
from vaswani_hf import Translator, VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.hub.folder import export


pytest.importorskip("peft")
LORA = ("--lora_rank", "3", "--lora_targets", "query_proj", "outer")
SIZES = {"d_model": 32, "d_ff": 64, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Text, and a base of random weights."""
    folder = tmp_path_factory.mktemp("lora")
    (folder / "tiny.yaml").write_text(RECIPE + "max_steps: 8\nmax_extra_tokens: 3\n")
    for number, (name, count) in enumerate({"train": 60, "valid": 6, "test": 6}.items()):
        write_pairs(folder / f"{name}.tsv", count, seed=number)
    tokenizer = train_tokenizer([folder / "train.tsv"], vocab_size=300)
    torch.manual_seed(0)
    config = VaswaniConfig(**SIZES, vocab_size=len(tokenizer), dropout=0.1)
    export(VaswaniForConditionalGeneration(config), tokenizer, folder / "base")
    return folder


def test_the_base_is_called_what_it_was_named(tmp_path):
    model = small_model()
    model.name_or_path = str(tmp_path / "cache")  # where a model of the Hub is loaded from
    settings = {"lora_rank": 2, "lora_alpha": 4.0, "lora_dropout": 0.0, "lora_targets": ["outer"]}
    add_adapter(model, SimpleNamespace(**settings), "org/base")
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "adapter_config.json").read_text())
    assert saved["base_model_name_or_path"] == "org/base"


def train(place, output, *options, status=0):
    text = ("--train_file", str(place / "train.tsv"), "--test_file", str(place / "test.tsv"))
    base = ("--model_name_or_path", str(place / "base"))
    where = ("--output_dir", str(place / output))
    return run_here(str(place / "tiny.yaml"), *text, *base, *where, *options, status=status)


@pytest.fixture(scope="module")
def trained(place):
    done = train(place, "adapter", *LORA, "--source_language", "en", "--target_language", "de")
    return SimpleNamespace(
        folder=place / "adapter", done=done, results=results_of(place / "adapter")
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter_model.safetensors")


def test_an_adapter_is_saved_alone(place, trained):
    names = {path.name for path in trained.folder.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "generation_config.json"} <= names
    assert {"tokenizer.json", "results.json", "README.md"} <= names
    assert not names & {"model.safetensors", "config.json", "modeling_vaswani.py"}
    for checkpoint in trained.folder.glob("checkpoint-*"):
        assert not (checkpoint / "model.safetensors").exists()
        assert weights(checkpoint).keys() == weights(trained.folder).keys()


def test_the_last_adapters_are_averaged(place, trained):
    first, last = (weights(trained.folder / f"checkpoint-{step}") for step in (4, 8))
    assert any(not torch.equal(first[name], last[name]) for name in first)
    for name, mean in weights(trained.folder).items():
        torch.testing.assert_close(mean, (first[name] + last[name]) / 2)
    assert trained.results["averaged_checkpoints"] == ["checkpoint-4", "checkpoint-8"]


def test_results_and_card_name_base_and_size(place, trained):
    # By hand: rank 3 beside 3 query projections of 32 x 32, and 2 matrices of 64 x 32.
    numbers = 3 * (3 * (32 + 32) + 2 * (64 + 32))
    adapter = trained.results["adapter"]
    assert adapter == {
        "base": str((place / "base").resolve()),
        "rank": 3,
        "alpha": 6.0,
        "targets": ["outer", "query_proj"],
        "trainable_parameters": numbers,
    }
    assert f"of which {numbers:,} are trained" in trained.done.stderr
    card = ModelCard.load(trained.folder / "README.md")
    assert card.data.library_name == "peft" and "lora" in card.data.tags
    assert f"LoRA of rank 3 (alpha 6) on outer, query_proj, {numbers:,} parameters" in card.text
    assert "pipeline(" not in card.text


def test_the_adapter_translates_as_it_was_scored(place, trained):
    sources = [line.split("\t")[0] for line in (place / "test.tsv").read_text().splitlines()]
    translator = Translator.from_pretrained(trained.folder)
    assert translator.num_beams == 2
    said = translator(sources[:3])
    assert said == [sample["translation"] for sample in trained.results["samples"]][:3]


def test_a_resumed_run_is_the_uninterrupted_one(place, trained):
    train(place, "resumed", *LORA, "--max_steps", "4")
    done = train(place, "resumed", *LORA, "--resume_from_checkpoint", "auto")
    assert "checkpoint-4" in done.stderr
    for name, expected in weights(trained.folder / "checkpoint-8").items():
        assert torch.equal(weights(place / "resumed" / "checkpoint-8")[name], expected), name
    again = ("--resume_from_checkpoint", "auto")
    done = train(place, "resumed", "--lora_rank", "4", *again, status=1)
    assert "lora_rank=3 then and 4 now" in done.stderr
    done = train(place, "resumed", *again, status=1)
    assert "lora_rank=3 then and None now" in done.stderr


def test_the_best_adapter_is_kept(place):
    options = ("--eval_strategy", "steps", "--eval_steps", "2", "--save_steps", "2")
    best = ("--load_best_model_at_end", "true", "--metric_for_best_model", "loss")
    best = (*best, "--average_last", "1")
    text = ("--validation_file", str(place / "valid.tsv"))
    first = ("--greater_is_better", "true", "--max_steps", "6")  # the loss falls
    train(place, "best", *LORA, *options, *best, *text, *first)
    kept = results_of(place / "best")["training"]["best_checkpoint"]["folder"]
    assert kept == "checkpoint-2"
    for name, expected in weights(place / "best" / kept).items():
        assert torch.equal(weights(place / "best")[name], expected)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--lora_alpha", "4"], "lora_alpha=4.0 is for adapters; set lora_rank"),
        (["--lora_rank", "0"], "lora_rank must be at least 1, got lora_rank=0"),
        (["--lora_rank", "2", "--lora_targets", "shared"], "lora_targets must be among query_proj"),
        (
            ["--lora_rank", "2", "--lora_dropout", "1"],
            "lora_dropout must be at least 0 and below 1",
        ),
        (["--load_in_8bit", "true"], "load_in_8bit=True is for adapters; set lora_rank"),
    ],
)
def test_settings_that_cannot_work_are_refused(place, options, error):
    assert error in train(place, "refused", *options, status=1).stderr
    assert not (place / "refused").exists()


def test_a_missing_package_is_told_with_its_extra_before_anything_is_read(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    done = train(place, "refused", *LORA, status=1)
    assert 'pip install "vaswani-hf[adapters]"' in done.stderr
    assert not (place / "refused").exists()


def test_an_adapter_needs_a_trained_model(place):
    output = ("--output_dir", str(place / "refused"))
    done = run_here(str(place / "tiny.yaml"), "--lora_rank", "2", *output, status=1)
    assert "lora_rank=2 adapts a trained model: set model_name_or_path" in done.stderr
