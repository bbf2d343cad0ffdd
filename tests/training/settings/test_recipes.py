"""Recipes: how they are read, what the paper and fairseq say, a plan of each from stand-in text."""

import json
import random

import pytest
import torch

from training.data.corpus import load_corpus
from training.data.encoding import encode_splits
from training.data.mixing import clean_and_mix
from training.loop.model import build_model, build_tokenizers
from training.outcome.dry_run import make_plan
from training.settings.reading import parse_arguments
from training.settings.recipes import read_recipe, recipe_names
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


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


# Reading and overriding


def recipe(tmp_path, text, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_an_unknown_key_is_refused_with_the_nearest_name(tmp_path):
    mine = recipe(tmp_path, "warmup_step: 3\n", "multi30k.yaml")
    message = "multi30k.yaml: unknown key 'warmup_step'; did you mean 'warmup_steps'?"
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        parse_arguments([mine])


def test_an_unknown_recipe_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match="no recipe 'multi30'; did you mean 'multi30k'"):
        parse_arguments(["multi30"])


def test_a_recipe_that_extends_itself_is_refused(tmp_path):
    mine = recipe(tmp_path, "extends: mine\n")
    with pytest.raises(ValueError, match=r"mine\.yaml extends itself"):
        read_recipe(mine)


def test_epochs_on_the_command_line_win_over_the_recipes_updates(tmp_path):
    command = ["demo", "--num_train_epochs", "2", "--output_dir", str(tmp_path)]
    training = parse_arguments(command).training
    assert (training.num_train_epochs, training.max_steps) == (2, -1)
    training = parse_arguments([*command, "--max_steps", "9"]).training
    assert training.max_steps == 9


def test_files_take_the_place_of_the_recipes_dataset(folder):
    arguments = parse_arguments(["demo", "--train_source", "a", "--train_target", "b"])
    assert arguments.data.dataset is None
    assert "dataset=demo of the recipe gives way to the training files." in arguments.notes
    both = ["demo", "--train_source", "a", "--train_target", "b", "--dataset", "demo"]
    assert parse_arguments(both).data.dataset == "demo"


def test_a_dataset_takes_the_place_of_the_recipes_files():
    arguments = parse_arguments(["iwslt14_de_en", "--dataset", "demo"])
    assert arguments.data.dataset == "demo"
    assert arguments.data.train_source == arguments.data.test_target == []
    assert any(note.startswith("test_source=iwslt14") for note in arguments.notes)


@pytest.mark.parametrize(
    ("recipe", "option", "strategy"),
    [
        ("base", "save_steps", "save_strategy=no"),
        ("multi30k", "save_steps", "save_strategy=epoch"),
        ("multi30k", "eval_steps", "eval_strategy=epoch"),
    ],
)
def test_updates_between_checkpoints_take_the_place_of_the_recipes_strategy(
    tmp_path, recipe, option, strategy
):
    command = [recipe, f"--{option}", "50", "--output_dir", str(tmp_path)]
    arguments = parse_arguments(command)
    name = strategy.partition("=")[0]
    assert getattr(arguments.training, name) == "steps"
    assert f"{strategy} of the recipe gives way to {option}." in arguments.notes
    both = parse_arguments([*command, f"--{name}", "epoch"])
    assert getattr(both.training, name) == "epoch"


# What is in them


def test_base_is_the_papers_optimizer(tmp_path):
    training = parse_arguments(["base", "--output_dir", str(tmp_path)]).training
    # Section 5.3, and no clipping or decay, which the paper does not have.
    adam = (training.adam_beta1, training.adam_beta2, training.adam_epsilon)
    assert adam == (0.9, 0.98, 1e-9)
    assert (training.weight_decay, training.max_grad_norm) == (0.0, 0.0)
    assert (training.warmup_steps, training.max_steps) == (4000, 100000)
    assert (training.source_tokens, training.target_tokens) == (25000, 25000)  # section 5.1


def test_big_is_table_3s_big(tmp_path):
    model = parse_arguments(["big", "--output_dir", str(tmp_path)]).model
    wide = {name: model[name] for name in ("d_model", "d_ff", "num_heads", "dropout")}
    assert wide == {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}


def test_base_and_big_filter_and_average_as_the_paper(tmp_path):
    # tensor2tensor's filter; section 6.1: the last 5 or 20 checkpoints, 10 minutes apart.
    for name, averaged in [("base", 5), ("big", 20)]:
        arguments = parse_arguments([name, "--output_dir", str(tmp_path)])
        assert arguments.data.max_length == 256
        assert arguments.training.average_last == averaged
        assert arguments.training.save_minutes == 10


# Those two need a model, see test_finetuning.py and test_adapters.py.
NEW_MODELS = sorted(recipe_names() - {"finetune", "lora"})


@pytest.mark.parametrize("name", NEW_MODELS)
def test_every_recipe_parses_and_builds_its_model(name, tmp_path):
    import torch

    arguments = parse_arguments([name, "--output_dir", str(tmp_path)])
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(VaswaniConfig(**arguments.model))
    assert model.num_parameters() > 0


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


def test_parsing_is_the_papers(tmp_path):
    # Section 6.3, and Table 4's test set, section 23 of the treebank.
    arguments = parse_arguments(["parsing_wsj", "--output_dir", str(tmp_path)])
    model, data, training = arguments.model, arguments.data, arguments.training
    shape = {"encoder_layers": 4, "decoder_layers": 4, "d_model": 1024, "vocab_size": 16_000}
    assert shape.items() <= model.items()
    assert (data.train_trees, data.validation_trees, data.test_trees) == (["02-21"], ["22"], ["23"])
    search = (training.num_beams, training.length_penalty, training.max_extra_tokens)
    assert search == (21, 0.3, 300)
    semi = parse_arguments(["parsing_semi", "--output_dir", str(tmp_path)])
    assert semi.model["vocab_size"] == 32_000 and semi.data.streaming
    assert semi.model["d_model"] == 1024 and semi.model["encoder_layers"] == 4


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


@pytest.fixture(scope="module")
def stand_in_trees(tmp_path_factory):
    """Files of 200 made-up trees and of five."""
    folder = tmp_path_factory.mktemp("stand_in_trees")
    chooser = random.Random(0)
    for name, count in [("many", 200), ("few", 5)]:
        lines = (
            " ".join(f"(NP (NN {word}))" for word in chooser.choices("abcdefgh", k=number))
            for number in chooser.choices(range(1, 19), k=count)  # none is too long
        )
        (folder / name).write_text("".join(f"(S {line})\n" for line in lines))
    return folder


def options_of(name, stand_in, trees):
    """What puts made-up text in the place of a recipe's."""
    if name == "tagged_bt":
        files = dict(zip(stand_in[::2], stand_in[1::2], strict=True))
        of_train = {side: files.pop(f"--{side}") for side in ("train_source", "train_target")}
        corpus = {"name": "all", "source_tag": "<bt>", **of_train}
        options = [item for pair in files.items() for item in pair]
        return [*options, "--corpora", json.dumps(corpus)]
    if not name.startswith("parsing"):
        return stand_in
    many, few = str(trees / "many"), str(trees / "few")
    options = ["--validation_trees", few, "--test_trees", few]
    if name != "parsing_semi":
        return [*options, "--train_trees", many]
    corpus = json.dumps({"name": "all", "train_trees": many})
    return [*options, "--corpora", corpus, "--streaming", "false"]


@pytest.mark.parametrize("name", NEW_MODELS)
def test_every_recipe_can_be_planned(name, stand_in, stand_in_trees, tmp_path):
    options = options_of(name, stand_in, stand_in_trees)
    arguments = parse_arguments([name, *options, "--output_dir", str(tmp_path)])
    corpus = load_corpus(arguments.data)
    tokenizer, _ = build_tokenizers(arguments, corpus, None)
    encoded = encode_splits(corpus, tokenizer, arguments.data.segmented)["train"]
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
