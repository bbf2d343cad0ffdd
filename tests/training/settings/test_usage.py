"""`training/run.py --help` and `RECIPE --help`."""

import re

import pytest

from training.run import main
from training.settings.fields import FIELDS
from training.settings.library import UNUSABLE, WITHOUT_EFFECT
from training.settings.recipes import recipe_names
from training.settings.usage import usage


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def entries(text):
    """By its name, the text of each option: the value's form, the help and the value."""
    found = re.findall(r"^  --(\w+) (.*\n(?:    .*\n)*)", text, re.MULTILINE)
    assert len(found) == len(dict(found))  # each once
    return {name: " ".join(entry.split()) for name, entry in found}


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["demo", "--help"]])
def test_help_lists_every_field_that_can_be_set_and_no_other(argv, capsys):
    main(argv)
    assert entries(capsys.readouterr().out).keys() == FIELDS.keys() - {*WITHOUT_EFFECT, *UNUSABLE}


def test_every_field_has_a_help_of_its_own():
    helps = [spec.metadata["help"] for spec in FIELDS.values()]
    assert all(helps)
    assert len(set(helps)) == len(helps)


def test_fields_stand_under_their_titles():
    titles = re.findall(r"^(\w[^:\n]*):$", usage(["--help"]), re.MULTILINE)
    library = "training, by the library's Seq2SeqTrainingArguments"
    assert titles == ["recipes", "model", "data", "training", library]


def test_a_default_and_the_form_of_a_value_are_shown():
    shown = entries(usage(["--help"]))
    assert shown["d_model"].startswith("INTEGER width of")
    assert shown["d_model"].endswith("(default: 512)")  # Table 3, base
    assert shown["train_source"].startswith("TEXT ... ")
    assert shown["bf16"].startswith("true|false ")
    assert shown["eval_strategy"].startswith("no|steps|epoch ")
    assert shown["lr_scheduler_kwargs"].startswith("JSON ")
    assert "default" not in shown["max_minutes"]  # it has none


def test_a_recipes_values_stand_in_place_of_the_defaults():
    shown = entries(usage(["demo", "--help"]))
    assert shown["d_model"].endswith("(demo: 128)")  # demo.yaml
    assert shown["adam_beta2"].endswith("(demo: 0.98)")  # base.yaml, which it extends
    assert shown["split_digits"].endswith("(demo: true)")
    assert shown["save_minutes"].endswith("(demo: null)")
    assert shown["seed"].endswith("(default: 42)")
    files = entries(usage(["iwslt14_de_en", "--help"]))["train_source"]
    assert files.endswith("(iwslt14_de_en: iwslt14.tokenized.de-en/train.de)")


def test_a_recipe_of_ones_own_is_shown_by_its_comment_and_values(tmp_path):
    lines = ["# Half the width,", "# 50% of it.", "extends: base", "d_model: 256", "run_name: 50%"]
    (tmp_path / "mine.yaml").write_text("\n".join(lines))
    text = usage([f"{tmp_path}/mine.yaml", "--help"])
    assert "Half the width, 50% of it." in text
    assert entries(text)["d_model"].endswith("mine.yaml: 256)")
    assert entries(text)["run_name"].endswith("mine.yaml: 50%)")


def test_every_recipe_has_a_line_that_says_what_it_is():
    text = usage([]).partition("recipes:")[2].partition("\nmodel:")[0]
    for name in recipe_names():
        assert re.search(rf"^  {name}\s+\w.*$", text, re.MULTILINE), name
    assert re.search(r"^  big +The big model of Table 3, trained for 3.5 days$", text, re.MULTILINE)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_is_no_wider_than_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    widths = [len(line) for line in usage(["--help"]).splitlines()]
    assert columns - 20 < max(widths) <= columns


def test_help_for_an_unknown_recipe_names_a_near_one():
    with pytest.raises(SystemExit, match="no recipe 'multi30'; did you mean 'multi30k'"):
        main(["multi30", "--help"])
