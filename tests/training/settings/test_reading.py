"""From the command line and a recipe to settings."""

import pytest

from training.settings.reading import parse_arguments


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


def test_yaml_text_that_means_a_number_or_no_is_cast_by_its_field(tmp_path):
    # YAML reads 1e-9 as text and a bare no as false.
    text = 'adam_epsilon: 1e-9\nreport_to: none\nsave_strategy: "no"\nfp16: no\n'
    mine = recipe(tmp_path, text)
    training = parse_arguments([mine, "--output_dir", str(tmp_path)]).training
    assert training.adam_epsilon == 1e-9
    assert training.save_strategy == "no"
    assert training.fp16 is False


def test_an_unknown_option_is_refused_with_the_nearest_name():
    with pytest.raises(
        ValueError, match="command line: unknown key 'd_modle'; did you mean 'd_model'"
    ):
        parse_arguments(["base", "--d_modle", "3"])


def test_a_value_of_the_wrong_type_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="d_model must be a whole number, got d_model='wide'"):
        parse_arguments(["base", "--d_model", "wide"])


def test_the_recipe_comes_first():
    told = r"A recipe must come first \(backward, base, big.*; --help"
    with pytest.raises(ValueError, match=told):
        parse_arguments(["--d_model", "3"])


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


def test_an_option_that_is_a_list_grows_and_any_other_is_given_once(folder):
    options = ["base", "--train_source", "a", "--train_source", "b", "--train_target", "c", "d"]
    parsed = parse_arguments(options).data
    assert (parsed.train_source, parsed.train_target) == (["a", "b"], ["c", "d"])
    with pytest.raises(ValueError, match="command line: --d_model is given twice"):
        parse_arguments(["base", "--d_model", "64", "--d_model=32"])


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


@pytest.mark.parametrize("name", ["max_steps", "license", "train_file", "eval_strategy"])
def test_an_option_without_a_value_is_refused_unless_it_is_a_switch(name):
    with pytest.raises(ValueError, match=f"command line: --{name} needs a value"):
        parse_arguments(["base", f"--{name}", "--bf16"])


def test_a_strategy_may_be_no_without_quotes(tmp_path):
    # YAML reads it as false.
    parsed = parse_arguments([recipe(tmp_path, "extends: base\neval_strategy: no\n")])
    assert parsed.training.eval_strategy == "no"


def test_lists_of_the_library_may_have_several_values():
    command = ["base", "--optim_target_modules", "q_proj", "v_proj"]
    assert parse_arguments(command).training.optim_target_modules == ["q_proj", "v_proj"]


def test_an_empty_list_goes_back_to_the_default(tmp_path):
    parsed = parse_arguments([recipe(tmp_path, "gradient_accumulation_steps: []\n")])
    assert parsed.training.gradient_accumulation_steps == 1
