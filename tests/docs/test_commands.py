"""What README.md, CONTRIBUTING.md and the pages of docs/ tell a reader to type is typed here.

Commands run in this process, with a small trained model in place of the reader's. A training is
parsed with all its settings; the one of README.md is run.
"""

import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from unittest import mock

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser

from tests.conftest import REPOSITORY
from tests.docs.pages import PAGES, blocks, commands, read
from tests.parsing.treebank import SENTENCES
from training.settings.reading import parse_arguments
from training.sweep import read_plan
from vaswani_hf import VaswaniForConditionalGeneration, cli, conversion
from vaswani_hf.hub.folder import export


LANGUAGES = {"", "bibtex", "python", "sh", "text", "yaml"}
ON_THE_HUB = "ORG/NAME"
# Models that a page converts, and which a test does not have.
ELSEWHERE = {
    *("Helsinki-NLP/opus-mt-en-de", "opus-2020-02-26"),
    *("wmt16.en-de.joined-dict.transformer", "seq2seq.pt"),
}
ADAPTERS = ("law", "medicine")
HAS_PEFT = importlib.util.find_spec("peft") is not None
EXTRAS = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
# A recipe for large machines, cut down to two updates of a model that fits anywhere.
SMALL = (
    "--vocab_size 300 --d_model 32 --d_ff 64 --num_heads 2 --encoder_layers 1 --decoder_layers 1 "
    "--source_tokens 200 --target_tokens 200 --max_steps 2 --save_minutes 9 --use_cpu true"
)
SERVED = []  # the application that `vaswani-hf serve` of a page has made
# Runs commands of the Hub one after the other in one process, which spares the imports.
SEVERAL = """
import json, sys
from vaswani_hf.cli import main
for argv in json.loads(sys.argv[1]):
    assert main(argv) == 0, argv
"""


@pytest.fixture(scope="module")
def original(copier, unlearned_parser, tmp_path_factory):
    """A folder with the files that the pages speak of."""
    folder = tmp_path_factory.mktemp("reader")
    rounds = [f"{way}.{number}" for number in range(3) for way in ("backward", "forward")]
    for name in ("demo", "mine", "other", *rounds):
        run = folder / "runs" / name
        export(*copier, run)
        log = [{"step": step, "loss_nats_per_token": 5.0 / step} for step in (1, 2, 3)]
        (run / "log_history.json").write_text(json.dumps(log))
    export(*unlearned_parser, folder / "runs" / "parser")
    if HAS_PEFT:
        for name in ADAPTERS:
            save_adapter(folder / "runs" / "other", folder / "runs" / name)
    for split in ("train", "valid"):
        (folder / f"{split}.trees").write_text("".join(f"{tree}\n" for tree in SENTENCES))
    # Characters that no vocabulary here has, enough for 1,000 new pieces.
    (folder / "new.en").write_text("".join(map(chr, range(0x4E00, 0x5300))) + "\n")
    with (folder / "new.en").open("a") as file:
        file.write((folder / "new.en").read_text())
    (folder / "page.html").write_text("<p>a <b>b</b> c</p>\n")
    unit = "<trans-unit><source>a <g>b</g> c</source></trans-unit>"
    (folder / "app.xlf").write_text(f'<xliff version="1.2"><file>{unit}</file></xliff>')
    for split, count in [("train", 60), ("valid", 3), ("test", 3), ("mono", 3)]:
        for side in ("en", "de"):
            (folder / f"{split}.{side}").write_text("a b c d\n" * count)
        (folder / f"{split}.links").write_text("0-0 1-1 2-2 3-3\n" * count)
    return folder


def save_adapter(base, folder):
    """A LoRA that changes nothing, as PEFT makes it at first; the base as a reader names it."""
    import peft

    named = base.relative_to(folder.parents[1])
    settings = peft.LoraConfig(target_modules=["query_proj"], base_model_name_or_path=str(named))
    model = VaswaniForConditionalGeneration.from_pretrained(base)
    model.add_adapter(settings)
    model.save_pretrained(folder)


@pytest.fixture
def workplace(original, tmp_path, monkeypatch):
    """A copy of that folder, which is where we are."""
    folder = tmp_path / "reader"
    shutil.copytree(original, folder)
    monkeypatch.chdir(folder)
    return folder


# What a reader can type


def type_in(command):
    """Run a command as a shell would, with its one pipe and its one redirection."""
    command, _, target = command.partition(" > ")
    *feeders, command = command.split(" | ")
    assert len(feeders) <= 1 and "&" not in command and ";" not in command
    given = ""
    for feeder in feeders:
        program, *words = shlex.split(feeder)
        assert program in ("echo", "seq"), feeder
        lines = [" ".join(words)] if program == "echo" else range(1, int(words[0]) + 1)
        given = "".join(f"{line}\n" for line in lines)
    program, *words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
    # A program that no function below knows is one that no test runs.
    output = PROGRAMS[Path(program).name](words, given)
    if target:
        Path(target.strip()).write_text(output, encoding="utf-8")
    return output


def vaswani_hf(argv, given=""):
    """The command of the package; what it writes goes to a file, as it does to a reader's."""
    if ON_THE_HUB in argv:  # see test_the_commands_for_the_hub_run
        return ""
    if not HAS_PEFT and any(name in word for word in argv for name in ADAPTERS):
        return ""
    if {"--split", "html", "xliff"} & set(argv) and importlib.util.find_spec("sentencex") is None:
        return ""
    if argv[0] == "serve":
        return serve(argv)
    way = [option for option in ("--from", "--to") if argv[0] == "convert" and option in argv]
    name = f"{way[0][2:]}_{argv[argv.index(way[0]) + 1]}" if way else None
    with (
        contextlib.ExitStack() as stack,
        tempfile.TemporaryFile("w+", encoding="utf-8") as source,
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
    ):
        # Of ONNX too, which takes long, the arguments alone are checked: test_onnx.py has the rest.
        if name == "to_onnx" or argv[1] in ELSEWHERE:
            stack.enter_context(mock.patch.object(conversion, name, autospec=True))
        source.write(given)
        source.seek(0)
        stack.enter_context(mock.patch.object(sys, "stdin", source))
        stack.enter_context(contextlib.redirect_stdout(output))
        assert cli.main(argv) == 0, argv
        output.seek(0)
        return output.read()


def serve(argv):
    """All but listening: what `curl` sends comes to the application another way."""
    if importlib.util.find_spec("fastapi") is None:
        return ""

    def take(server, bound):
        server.queue.start()
        SERVED[:] = [server.config.app]

    with (
        mock.patch("vaswani_hf.server.running.bind"),
        mock.patch("vaswani_hf.server.running.serve", take),
    ):
        assert cli.main(argv) == 0, argv
    return ""


def curl(words, given=""):
    if importlib.util.find_spec("fastapi") is None:
        return ""
    from fastapi.testclient import TestClient

    silent, url, *options = words
    path = re.fullmatch(r"http://127\.0\.0\.1:5000(/\w+)", url)[1]
    values = {name: [] for name in ("-d", "-H")}
    for name, value in zip(options[::2], options[1::2], strict=True):
        values[name].append(value)
    headers = dict(header.split(": ") for header in values["-H"])
    headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    answer = TestClient(SERVED[0]).post(path, content="&".join(values["-d"]), headers=headers)
    assert silent == "-s" and answer.status_code == 200, answer.text
    return answer.text


def python(words, given=""):
    """A script of the repository: its arguments are read, and nothing is trained or measured."""
    script, *options = words
    if script == "training/run.py":
        parse_arguments(options)
    elif script == "training/sweep.py":
        plan = read_plan(options)
        parse_arguments(
            [plan.options.recipe, *(f"--{name}={value}" for name, value in plan.common.items())]
        )
    elif script == "-m" and options[0].startswith("benchmarks."):
        return python([f"{options[0].replace('.', '/')}.py", *options[1:]])
    elif script == "-m":
        assert options[0] == "pytest", words
        paths = [option for option in options[1:] if "/" in option]
        assert all((REPOSITORY / path).exists() for path in paths), paths
    else:
        code = (REPOSITORY / script).read_text(encoding="utf-8")
        for option in options:
            assert not option.startswith("--") or f'"{option}"' in code, option
    return ""


def accelerate(words, given=""):
    command, *options = words
    assert command == "launch"
    known = launch_command_parser().parse_args(options)
    if known.config_file:
        assert load_config_from_file(str(REPOSITORY / known.config_file)).num_processes >= 2
    return python([known.training_script, *known.training_script_args])


def make(words, given=""):
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(
        ["make", "--dry-run", *words], cwd=REPOSITORY, env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return ""


def pip(words, given=""):
    *options, package = words
    assert options == ["install", "-e"]
    named = re.fullmatch(r"\.\[([\w,]+)\]", package)[1].split(",")
    assert set(named) <= set(EXTRAS)
    return ""


def sacrebleu(words, given=""):
    done = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def sed(words, given=""):
    return subprocess.run(["sed", *words], capture_output=True, text=True, check=True).stdout


def xargs(words, given=""):
    """One command after the other, with each line in the place of `{}`."""
    first = words.index("vaswani-hf")
    assert words[0] == "-I{}", words
    for line in given.splitlines():
        vaswani_hf([word.replace("{}", line) for word in words[first + 1 :]])
    return ""


def sbatch(words, given=""):
    """The jobs of an array, one after the other, as Slurm would start them."""
    array, wrap, command = words
    assert wrap == "--wrap"
    first, last = re.fullmatch(r"--array=(\d+)-(\d+)", array).groups()
    for number in range(int(first), int(last) + 1):
        type_in(command.replace("$SLURM_ARRAY_TASK_ID", str(number)))
    return ""


def ln(words, given=""):
    options, target, link = words
    assert options == "-sf" and Path(target).is_file()
    Path(link).unlink(missing_ok=True)
    Path(link).symlink_to(target)
    return ""


def cat(words, given=""):
    return "".join(Path(word).read_text() for word in words)


def installed(*first):
    """A program of another package: it is there."""

    def check(words, given=""):
        assert tuple(words[: len(first)]) == first
        return ""

    return check


PROGRAMS = {
    "vaswani-hf": vaswani_hf,
    "python": python,
    "accelerate": accelerate,
    "make": make,
    "pip": pip,
    "sacrebleu": sacrebleu,
    "sed": sed,
    "cat": cat,
    "ln": ln,
    "curl": curl,
    "xargs": xargs,
    "sbatch": sbatch,
    "hf": installed("auth", "login"),
    "jupyter": installed("lab"),
    "tensorboard": installed("--logdir"),
}


def execute(code):
    """A Python block, as a script of its own."""
    packages = {
        **{"import peft": "peft", "with_adapter": "peft", "Quanto": "optimum"},
        **{"import ray": "ray", "split=": "sentencex"},
    }
    needed = [package for sign, package in packages.items() if sign in code]
    if any(importlib.util.find_spec(package) is None for package in needed):
        compile(code, "block", "exec")
        return
    with tempfile.TemporaryFile("w+") as output, contextlib.redirect_stdout(output):
        exec(code.replace("vocab_size=37000", "vocab_size=300"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_tells_to_type_works(page, request):
    found = blocks(page)
    assert {block.language for block in found} <= LANGUAGES
    if any(block.language in ("sh", "python") for block in found):
        request.getfixturevalue("workplace")
    for block in found:
        if block.language == "python":
            execute(block.text)
        elif block.language == "sh":
            for command in commands(block):
                type_in(command)
        elif block.language == "yaml":
            assert isinstance(yaml.safe_load(block.text), dict)
            if name := re.search(r"This is `([\w.]+\.yaml)`:$", block.before):
                Path(name[1]).write_text(block.text)
        if page.startswith("docs/tour/"):  # their pictures are drawn by tests/examples
            continue
        for name in re.findall(r'(?: -o |save_picture\(.*, ")([\w.]+)', block.text):
            assert Path(name).stat().st_size > 1000, name


# What comes of it


def test_a_redirected_translation_is_in_the_file(workplace):
    (block,) = [block for block in blocks("README.md") if "test.hypotheses" in block.text]
    outputs = [type_in(command) for command in commands(block)]
    assert Path("test.hypotheses").read_text() == outputs[-1] == "a b c d\n" * 3


def test_the_outputs_of_the_parts_of_a_file_are_its_translation(workplace):
    found = [block for block in blocks("docs/long_texts.md") if "--shard" in block.text]
    for block in found:
        for command in commands(block):
            type_in(command)
        assert Path("test.hypotheses").read_text() == "a b c d\n" * 3
        assert "".join(Path(f"part.{number}").read_text() for number in range(1, 5)) == (
            "a b c d\n" * 3
        )
    assert len(found) == 2


def test_the_tokenizer_of_its_page_is_saved(workplace):
    (block,) = [block for block in blocks("docs/tokenizer.md") if block.language == "python"]
    execute(block.text)
    assert Path("tokenizer", "tokenizer.json").is_file()


def environment_of(variables):
    """Variables for a process that imports from this repository."""
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**variables, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def test_the_commands_for_the_hub_run(workplace, hub_server, hub_environment):
    typed = [
        shlex.split(command.replace("ORG", "lab"))[1:]
        for page in ("README.md", "docs/hub.md")
        for block in blocks(page)
        if block.language == "sh"
        for command in commands(block)
        if command.startswith("vaswani-hf") and ON_THE_HUB in command
    ]
    different = [argv for place, argv in enumerate(typed) if argv not in typed[:place]]
    assert [argv[0] for argv in different] == ["push", "translate"]
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(different)],
        env=environment_of(hub_environment("alice")),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "it says the same" in done.stdout and done.stdout.endswith("a b c d\n" * 3)
    assert "model.safetensors" in hub_server.files("lab/NAME")


def test_the_training_command_runs(workplace):
    typed = [
        command
        for page in ("README.md", "docs/training.md")
        for block in blocks(page)
        if block.language == "sh"
        for command in commands(block)
        if command.startswith("accelerate launch")
    ]
    assert len(typed) == 2 and typed[0] == typed[1]  # run once
    words = shlex.split(typed[0])
    output = words[words.index("--output_dir") + 1]
    shutil.rmtree(output)  # the folder of another run, which would be refused
    words[words.index("training/run.py")] = str(REPOSITORY / "training" / "run.py")
    done = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", *words[2:], *SMALL.split()],
        env=environment_of(os.environ),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    # The table of what comes out.
    named = re.findall(r"`([\w.]+\.(?:json|yaml|md|safetensors))`", read("docs/training.md"))
    assert {"model.safetensors", "config.yaml", "results.json", "README.md"} <= set(named)
    for name in named:
        assert Path(output, name).is_file(), name
