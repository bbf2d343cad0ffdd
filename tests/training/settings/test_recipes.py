"""The recipes: what the paper and fairseq say, and a plan of each from stand-in text."""

import random

import pytest
import torch

from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
from training.data.mixing import clean_and_mix
from training.loop.model import build_model, build_tokenizer
from training.outcome.dry_run import make_plan
from training.settings.reading import parse_arguments
from training.settings.recipes import read_recipe, recipe_names


BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "max_steps": 300_000, "average_last": 20}
EN_DE = {
    **{"dataset": "wmt/wmt14", "dataset_config": "de-en", "device_tokens": 3125},
    **{"source_column": "en", "target_column": "de"},
    **{"source_language": "en", "target_language": "de", "compound_split_bleu": "moses-de"},
}
EN_FR = {
    **{"dataset": "wmt/wmt14", "dataset_config": "fr-en", "device_tokens": 3125},
    **{"source_column": "en", "target_column": "fr", "vocab_size": 32_000},
    **{"source_language": "en", "target_language": "fr"},
}
EVERY_WMT14 = ["wmt14_en_de", "wmt14_en_de_big", "wmt14_en_fr", "wmt14_en_fr_big"]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        # Sections 5.1, 5.2, 6.1 and Table 3; the rest is the base recipe.
        ("wmt14_en_de", EN_DE | {"save_total_limit": 5}),
        ("wmt14_en_de_big", EN_DE | BIG | {"dropout": 0.3, "save_total_limit": 20}),
        ("wmt14_en_fr", EN_FR | {"save_total_limit": 5}),
        ("wmt14_en_fr_big", EN_FR | BIG | {"dropout": 0.1, "save_total_limit": 20}),
    ],
)
def test_a_recipe_of_wmt14_is_the_papers(name, cells):
    assert read_recipe(name) == read_recipe("base") | cells


def test_the_papers_big_model_is_that_of_the_big_recipe():
    ours, big = read_recipe("wmt14_en_de_big"), read_recipe("big")
    assert big.items() <= ours.items()


@pytest.mark.parametrize("name", EVERY_WMT14)
def test_eight_devices_share_the_papers_batch_and_one_accumulates_it(name, tmp_path):
    # Section 5.2: 8 GPUs; 5.1: about 25,000 tokens a side.
    training = parse_arguments([name, "--output_dir", str(tmp_path)]).training
    assert (training.source_tokens, training.target_tokens) == (25_000, 25_000)
    assert training.device_tokens * 8 == 25_000
    assert training.gradient_accumulation_steps == 8  # of this one process


def test_iwslt14_is_what_fairseq_documents(tmp_path):
    # examples/translation/README.md and transformer_iwslt_de_en, as a command line would have them.
    arguments = parse_arguments(["iwslt14_de_en", "--output_dir", str(tmp_path)])
    model, training = arguments.model, arguments.training
    sizes = {"d_ff": 1024, "num_heads": 4, "dropout": 0.3, "layer_norm_eps": 1e-5}
    assert sizes.items() <= model.items()
    assert (model["share_embeddings"], model["attention_bias"]) == (False, True)
    assert (training.source_tokens, training.target_tokens) == (4096, 4096)  # --max-tokens
    assert (training.learning_rate, training.warmup_steps) == (5e-4, 4000)
    assert (training.adam_beta1, training.adam_beta2, training.adam_epsilon) == (0.9, 0.98, 1e-8)
    assert (training.weight_decay, training.max_grad_norm) == (1e-4, 0.0)  # --clip-norm 0.0
    assert (training.max_steps, training.average_last) == (50_000, 10)
    assert (training.num_beams, training.length_penalty) == (5, 1.0)
    assert training.length_penalty_type == "power"
    assert arguments.data.train_source == ["iwslt14.tokenized.de-en/train.de"]
    assert arguments.data.segmented


@pytest.mark.parametrize("name", EVERY_WMT14)
def test_a_set_in_the_hubs_form_is_read_in_the_recipes_direction(name, tmp_path):
    # wmt/wmt14 has a column `translation` of {"de": ..., "en": ...}, whichever the direction.
    other = read_recipe(name)["target_language"]
    line = f'{{"translation": {{"{other}": "target text", "en": "source text"}}}}\n'
    (tmp_path / "rows.jsonl").write_text(line)
    options = ["--dataset", "none", "--train_file", str(tmp_path / "rows.jsonl")]
    data = parse_arguments([name, *options, "--output_dir", str(tmp_path)]).data
    row = load_corpus(data).splits["train"][0]
    assert row == {"source": "source text", "target": "target text"}


def test_files_alone_need_no_dataset(tmp_path):
    assert parse_arguments(["wmt14_en_de", "--dataset", "none"]).data.dataset is None
    assert parse_arguments(["wmt14_en_de"]).data.dataset == "wmt/wmt14"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """Options that put 200 made-up pairs in the place of a recipe's text."""
    folder = tmp_path_factory.mktemp("stand_in")
    chooser = random.Random(0)
    words = ["".join(chooser.choices("abcdefgh", k=chooser.randint(1, 6))) for _ in range(80)]
    options = ["--dataset", "none"]
    for split, count in [("train", 200), ("validation", 5), ("test", 5)]:
        for side, shortest in [("source", 1), ("target", 2)]:
            lines = (
                " ".join(chooser.choices(words, k=chooser.randint(shortest, 30)))
                for _ in range(count)
            )
            path = folder / f"{split}.{side}"
            path.write_text("\n".join(lines) + "\n")
            options += [f"--{split}_{side}", str(path)]
    return options


@pytest.mark.parametrize("name", sorted(recipe_names()))
def test_every_recipe_can_be_planned(name, stand_in, tmp_path):
    arguments = parse_arguments([name, *stand_in, "--output_dir", str(tmp_path)])
    corpus = load_corpus(arguments.data)
    tokenizer = build_tokenizer(arguments, corpus, None)
    encoded = encode_pairs(corpus.splits["train"], tokenizer, arguments.data.segmented)
    pairs = clean_and_mix(corpus, encoded, arguments.training.seed)
    with torch.device("meta"):
        model = build_model(arguments, tokenizer)
    plan = make_plan(arguments, model, pairs)
    recipe, training = read_recipe(name), arguments.training
    assert plan.pairs == 200
    assert plan.updates == recipe["max_steps"]
    assert plan.epochs * plan.updates_per_epoch == pytest.approx(plan.updates)
    assert plan.source_tokens_per_update <= recipe["source_tokens"]
    assert plan.device_source_tokens <= (training.device_tokens or training.source_tokens)
    assert plan.device_target_tokens <= (training.device_tokens or training.target_tokens)
    # By hand: every position meets every weight of its stack, at least, but for the embeddings.
    weights = plan.parameters - model.get_input_embeddings().weight.numel()
    assert plan.flops > 6 * 0.3 * weights * plan.updates * plan.target_tokens_per_update
    assert plan.text().startswith(f"Plan of {name}: nothing was trained")
