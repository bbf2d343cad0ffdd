"""Names, options, recipes, paths and numbers on the pages are those of the code."""

import dataclasses
import json
import pkgutil
import re
import tomllib

import pytest
from accelerate.commands.launch import launch_command_parser

from tests.conftest import REPOSITORY
from tests.docs.pages import PAGES, blocks, read
from vaswani_hf import cli


WITH_STYLE = [*PAGES, "STYLE_GUIDE.md"]
FOLDERS = ("benchmarks", "demo", "docs", "examples", "tests", "training", "vaswani_hf")
# Of every program, ruff, TensorBoard, Slurm, mtdata.
ELSEWHERE = {
    *("--help", "--version", "--fix", "--logdir", "--array", "--wrap", "--gpus", "--requeue"),
    *("--job-name", "--merge"),
}
OPTION = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*")


@pytest.fixture(scope="module")
def options():
    """Every option of training, vaswani-hf, accelerate, the benchmarks, the tour and the page."""
    from training.settings.fields import DataArguments, ModelArguments, VaswaniTrainingArguments

    fields = {
        f"--{field.name}"
        for part in (ModelArguments, DataArguments, VaswaniTrainingArguments)
        for field in dataclasses.fields(part)
    }
    launcher = {
        name for action in launch_command_parser()._actions for name in action.option_strings
    }
    scripts = {
        name
        for place in ("benchmarks/*.py", "demo/*.py", "examples/*.py", "training/sweep.py")
        for script in REPOSITORY.glob(place)
        for name in OPTION.findall(script.read_text(encoding="utf-8"))
    }
    return fields | launcher | scripts | ELSEWHERE


@pytest.mark.parametrize("page", WITH_STYLE)
def test_options_exist(page, options, capsys):
    named = set(OPTION.findall(read(page))) - options
    if named:
        for command in (
            *("translate", "score", "filter", "align", "evaluate", "compare"),
            *("distill", "parse", "evalb", "convert", "push", "plot", "serve"),
            *(f"draw {what}" for what in ("attention", "beams", "heads", "loss")),
            *("draw positions", "draw schedule", "vocabulary trim", "vocabulary extend"),
            "merge",
        ):
            with pytest.raises(SystemExit):
                cli.main([*command.split(), "--help"])
        named -= set(OPTION.findall(capsys.readouterr().out))
    assert not named


@pytest.mark.parametrize("page", WITH_STYLE)
def test_paths_exist(page):
    named = re.findall(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*", read(page))
    linked = [
        target
        for target in re.findall(r"\]\(([^)#\s]+)", read(page))
        if not re.match(r"https?:|mailto:", target)
    ]
    folder = (REPOSITORY / page).parent
    missing = [name for name in named if not any(REPOSITORY.glob(name.rstrip("./")))]
    missing += [target for target in linked if not (folder / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", WITH_STYLE)
def test_dotted_names_exist(page):
    for name in set(re.findall(r"(?<![\w./])vaswani_hf(?:\.\w+)+", read(page))):
        pkgutil.resolve_name(name)


def test_the_layout_is_that_of_the_repository():
    (tree,) = [block.text for block in blocks("README.md") if block.language == ""]
    parents = []
    for line in tree.splitlines():
        indent, name = re.match(r"( *)([\w/]+/)\s", line).groups()
        parents[len(indent) // 2 :] = [name]
        assert (REPOSITORY / "".join(parents)).is_dir(), line


def test_the_readme_stays_short():
    assert len(read("README.md").split()) <= 900


def test_scores_are_those_of_the_measured_results():
    folder = REPOSITORY / "benchmarks" / "results"
    multi30k = json.loads((folder / "2026-11-21-multi30k_small.json").read_text())
    tatoeba = json.loads((folder / "2026-11-21-tatoeba.json").read_text())["runs"]
    runs = [multi30k["results"], tatoeba["1"], tatoeba["2"]]
    rows = [row for row in read("docs/results.md").splitlines() if "2026-11-21" in row]
    assert len(rows) == len(runs)
    short = read("README.md")
    for row, run in zip(rows, runs, strict=True):
        score = run["scores"]["test"]
        bleu = f"| {score['bleu']:.2f} |"
        assert bleu in row and f"{run['training']['updates']:,} updates" in row
        assert bleu in short and score["bleu_signature"] in short
    quarters = " | ".join(f"{quarter['bleu']:.2f}" for quarter in multi30k["quarters"])
    assert f"| BLEU | {quarters} |" in read("docs/results.md")


def test_every_recipe_is_in_the_table():
    from training.settings.recipes import recipe_names

    for name in recipe_names():
        folder, _, _ = name.rpartition("/")
        shown = f"{folder}/..." if folder else name
        assert f"| `{shown}` |" in read("docs/recipes.md")


def test_every_benchmark_is_told_of():
    for script in (REPOSITORY / "benchmarks").glob("*.py"):
        assert f"`{script.name}`" in read("benchmarks/README.md")


def test_the_parameter_counts_are_the_models():
    import torch

    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration

    for config in (VaswaniConfig.base(), VaswaniConfig.big()):
        with torch.device("meta"):
            count = VaswaniForConditionalGeneration(config).num_parameters()
        assert f"{count:,}" in read("docs/recipes.md")


def test_the_parameter_counts_of_students_are_the_models():
    import torch

    from training.settings.reading import parse_arguments
    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration

    for recipe in ("base", "student", "student_tiny"):
        shape = {**parse_arguments([recipe]).model, "vocab_size": 32000}
        with torch.device("meta"):
            count = VaswaniForConditionalGeneration(VaswaniConfig(**shape)).num_parameters()
        assert f" {count:,} |" in read("docs/distillation.md")


def test_the_shown_mistake_is_told_so():
    from training.settings.reading import parse_arguments

    (shown,) = re.findall(r"^training/run.py: (.*)$", read("docs/training.md"), flags=re.MULTILINE)
    with pytest.raises(ValueError, match=f"^{re.escape(shown)}$"):
        parse_arguments(["base", "--warmup_step", "1"])


def test_every_extra_is_in_the_table():
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    shown = re.findall(r"^\| `(\w+)` \|", read("docs/index.md"), flags=re.MULTILINE)
    assert set(shown) == set(extras)


def test_layers_for_adapters_are_those_of_the_model():
    import torch

    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration

    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(VaswaniConfig(encoder_layers=1, decoder_layers=1))
    layers = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    table = read("docs/adapters.md").partition("| Layers | are |")[2]
    rows = re.findall(r"^\| (`[^|]+) \|", table, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(named) >= 8 and named <= layers
