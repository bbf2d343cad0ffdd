import dataclasses

import pytest
from transformers import Seq2SeqTrainingArguments

from training.settings.fields import FIELDS
from training.settings.reading import parse_arguments
from training.settings.recipes import read_recipe, recipe_names
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


def recipe(tmp_path, text, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_the_command_line_wins_over_the_recipe_and_the_recipe_over_what_it_extends(tmp_path):
    mine = recipe(tmp_path, "extends: multi30k_small\nd_model: 96\nwarmup_steps: 7\n")
    arguments = parse_arguments([mine, "--warmup_steps", "9", "--output_dir", str(tmp_path)])
    assert arguments.training.warmup_steps == 9
    assert arguments.model["d_model"] == 96
    assert arguments.model["encoder_layers"] == 3  # multi30k_small.yaml
    assert arguments.training.adam_beta2 == 0.98  # base.yaml, section 5.3


def test_base_is_the_papers_optimizer(tmp_path):
    training = parse_arguments(["base", "--output_dir", str(tmp_path)]).training
    # Section 5.3, and no clipping or decay, which the paper does not have.
    adam = (training.adam_beta1, training.adam_beta2, training.adam_epsilon)
    assert adam == (0.9, 0.98, 1e-9)
    assert (training.weight_decay, training.max_grad_norm) == (0.0, 0.0)
    assert (training.warmup_steps, training.max_steps) == (4000, 100000)
    assert (training.source_tokens, training.target_tokens) == (25000, 25000)  # section 5.1


def test_yaml_text_that_means_a_number_or_no_is_cast_by_its_field(tmp_path):
    # YAML reads 1e-9 as text and a bare no as false.
    text = 'adam_epsilon: 1e-9\nreport_to: none\nsave_strategy: "no"\nfp16: no\n'
    mine = recipe(tmp_path, text)
    training = parse_arguments([mine, "--output_dir", str(tmp_path)]).training
    assert training.adam_epsilon == 1e-9
    assert training.save_strategy == "no"
    assert training.fp16 is False


def test_an_unknown_key_is_refused_with_the_nearest_name(tmp_path):
    mine = recipe(tmp_path, "warmup_step: 3\n", "multi30k.yaml")
    message = "multi30k.yaml: unknown key 'warmup_step'; did you mean 'warmup_steps'?"
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        parse_arguments([mine])


def test_an_unknown_option_is_refused_with_the_nearest_name():
    with pytest.raises(
        ValueError, match="command line: unknown key 'd_modle'; did you mean 'd_model'"
    ):
        parse_arguments(["base", "--d_modle", "3"])


def test_an_unknown_recipe_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match="no recipe 'multi30'; did you mean 'multi30k'"):
        parse_arguments(["multi30"])


def test_a_value_of_the_wrong_type_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="d_model must be a whole number, got d_model='wide'"):
        parse_arguments(["base", "--d_model", "wide"])


def test_the_recipe_comes_first():
    with pytest.raises(ValueError, match=r"A recipe must come first \(base, big.*; --help"):
        parse_arguments(["--d_model", "3"])


def test_a_recipe_that_extends_itself_is_refused(tmp_path):
    mine = recipe(tmp_path, "extends: mine\n")
    with pytest.raises(ValueError, match=r"mine\.yaml extends itself"):
        read_recipe(mine)


def test_null_goes_back_to_the_default(tmp_path):
    mine = recipe(tmp_path, "extends: base\nsave_minutes: null\n")
    assert parse_arguments([mine, "--output_dir", str(tmp_path)]).training.save_minutes is None


def test_several_values_make_a_list_and_a_bare_option_is_true(tmp_path):
    command = [
        "base",
        "--train_file",
        "a.tsv",
        "b.tsv",
        "--segmented",
        "--output_dir",
        str(tmp_path),
    ]
    data = parse_arguments(command).data
    assert data.train_file == ["a.tsv", "b.tsv"]
    assert data.segmented is True


def test_a_secret_is_used_and_not_written_down(tmp_path):
    arguments = parse_arguments(["base", "--hub_token", "hf_s3", "--output_dir", str(tmp_path)])
    assert arguments.training.hub_token == "hf_s3"
    assert "hf_s3" not in str(arguments.chosen)


def test_a_mapping_reaches_its_field(tmp_path):
    mine = recipe(
        tmp_path, "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr: 1.0e-5}\n"
    )
    arguments = parse_arguments([mine, "--output_dir", str(tmp_path)])
    assert arguments.training.lr_scheduler_kwargs == {"min_lr": 1e-5}
    mine = recipe(tmp_path, "train_file: []\n")
    assert parse_arguments([mine, "--output_dir", str(tmp_path)]).data.train_file == []


def test_a_batch_size_in_sentences_is_refused_and_not_dropped(tmp_path):
    message = "per_device_train_batch_size=4 would have no effect.*set source_tokens and target"
    with pytest.raises(ValueError, match=message):
        parse_arguments(["base", "--per_device_train_batch_size", "4"])


def test_epochs_on_the_command_line_win_over_the_recipes_updates(tmp_path):
    command = ["demo", "--num_train_epochs", "2", "--output_dir", str(tmp_path)]
    training = parse_arguments(command).training
    assert (training.num_train_epochs, training.max_steps) == (2, -1)
    training = parse_arguments([*command, "--max_steps", "9"]).training
    assert training.max_steps == 9


def test_the_best_checkpoint_is_not_lost_to_an_average(tmp_path):
    best = ["--load_best_model_at_end", "--save_strategy", "steps", "--save_steps", "1000"]
    command = ["base", *best, "--output_dir", str(tmp_path)]
    with pytest.raises(ValueError, match=r"load_best_model_at_end=True.*average_last=5"):
        parse_arguments(command)
    assert parse_arguments([*command, "--average_last", "1"]).training.load_best_model_at_end


def test_a_share_of_padding_lies_between_0_and_1():
    with pytest.raises(ValueError, match=r"max_padding=3\.0"):
        parse_arguments(["demo", "--max_padding", "3"])


def test_fewer_kept_checkpoints_than_are_averaged_are_refused(tmp_path):
    with pytest.raises(ValueError, match="save_total_limit=2 keeps fewer checkpoints than average"):
        parse_arguments(["base", "--save_total_limit", "2", "--output_dir", str(tmp_path)])


def test_every_field_of_the_librarys_training_arguments_is_reachable():
    library = {spec.name for spec in dataclasses.fields(Seq2SeqTrainingArguments) if spec.init}
    assert library <= FIELDS.keys()


@pytest.mark.parametrize("name", sorted(recipe_names()))
def test_every_recipe_parses_and_builds_its_model(name, tmp_path):
    import torch

    arguments = parse_arguments([name, "--output_dir", str(tmp_path)])
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(VaswaniConfig(**arguments.model))
    assert model.num_parameters() > 0


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


def test_a_recipe_in_a_folder_keeps_the_folders_name():
    # Else `table3/base` would go on with the run of `base`.
    names = {
        recipe: parse_arguments([recipe]).training.output_dir
        for recipe in ("base", "table3/base", "table3/a_1_head")
    }
    assert names == {recipe: f"runs/{recipe}" for recipe in names}
    assert parse_arguments(["table3/base"]).recipe == "table3/base"


def test_a_recipe_by_its_path_has_an_output_folder_of_its_file_name(tmp_path):
    assert parse_arguments([recipe(tmp_path, "d_ff: 9\n")]).training.output_dir == "runs/mine"


def test_recipes_in_a_folder_are_listed_behind_its_name():
    with pytest.raises(
        ValueError, match=r"multi30k_small, .*, table3/\{a_16_heads, .*positions\}\)"
    ):
        parse_arguments([])
    with pytest.raises(ValueError, match="'a_1_head'; did you mean 'table3/a_1_head'"):
        parse_arguments(["a_1_head"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d_model: [", r"mine\.yaml is not YAML"),
        ("extends: 5", r"mine\.yaml: extends must name one recipe, got 5"),
        ("d_model: [64, 32]", "d_model takes one value, got 64 32"),
        ("train_file: [a.tsv, --d_model]", "train_file: --d_model looks like an option"),
        ("accelerator_config: {bad: 1}", "accelerator_config: unknown key 'bad'"),
        ("optim_args: nonsense", "optim=.* with optim_args=nonsense"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_refused_by_its_file_or_field(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        parse_arguments([recipe(tmp_path, text)])
