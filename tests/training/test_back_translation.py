"""The way of back-translation: backward, translate, forward with a tag; stopped and resumed."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from tests.training.runs import RECIPE, results_of, run_here, write_pairs
from vaswani_hf import cli


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """Bitext, German text, and what a model of the other direction has made of it."""
    folder = tmp_path_factory.mktemp("loop")
    (folder / "tiny.yaml").write_text(RECIPE)
    write_pairs(folder / "a.tsv", 60)
    write_pairs(folder / "mono.tsv", 30, seed=1)
    targets = [line.split("\t")[1] for line in (folder / "mono.tsv").read_text().splitlines()]
    (folder / "mono.de").write_text("".join(f"{line}\n" for line in targets))
    run_here(
        *(str(folder / "tiny.yaml"), "--swap_sides", "--train_file", str(folder / "a.tsv")),
        *("--source_language", "en", "--target_language", "de"),
        *("--max_steps", "8", "--output_dir", str(folder / "backward")),
    )
    command = ["translate", "--model", str(folder / "backward"), str(folder / "mono.de")]
    sampled = ["--sampling_topk", "10", "--seed", "1", "--output", str(folder / "mono.en")]
    assert cli.main([*command, *sampled, "--resume"]) == 0
    return folder


def test_the_card_and_the_settings_name_the_other_direction(loop):
    card = (loop / "backward" / "README.md").read_text()
    assert "This model translates German to English." in card
    assert "language:\n- de\n- en\n" in card
    assert results_of(loop / "backward")["chosen"]["swap_sides"] is True


def forward(loop, output, *options, streaming):
    mono = {"train_source": [str(loop / "mono.en")], "train_target": [str(loop / "mono.de")]}
    corpora = [
        {"name": "bitext", "weight": 1, "train_file": [str(loop / "a.tsv")]},
        {"name": "back_translated", "weight": 1, "source_tag": "<bt>", **mono},
    ]
    run_here(
        *(str(loop / "tiny.yaml"), "--corpora", *map(json.dumps, corpora), "--max_length", "60"),
        *("--streaming", streaming, "--output_dir", str(output), *options),
    )


@pytest.mark.parametrize("streaming", ["false", "true"])
def test_a_resumed_run_with_tags_ends_with_the_same_weights(loop, tmp_path, streaming):
    forward(loop, tmp_path / "a", "--max_steps", "12", streaming=streaming)
    forward(loop, tmp_path / "b", "--max_steps", "5", streaming=streaming)
    again = ["--max_steps", "12", "--resume_from_checkpoint", "auto"]
    forward(loop, tmp_path / "b", *again, streaming=streaming)
    expected, resumed = (
        load_file(tmp_path / run / "checkpoint-12" / "model.safetensors") for run in "ab"
    )
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)
    counts = results_of(tmp_path / "b")["data"]["corpora"]
    assert counts["back_translated"]["pairs_kept"] > 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "b")
    # The tag counts among the pieces that the recipe asks for, at most.
    assert tokenizer.convert_tokens_to_ids("<bt>") == len(tokenizer) - 1 < 300
