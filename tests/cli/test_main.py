import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import REPOSITORY
from vaswani_hf import Translator
from vaswani_hf.cli import main
from vaswani_hf.hub.folder import export


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("a b\nc\n")
    return path


def test_the_installed_command_translates_what_comes_through_a_pipe(copier, tmp_path):
    export(*copier, tmp_path)
    script = Path(sys.executable).parent / "vaswani-hf"
    done = subprocess.run(
        [script, "translate", "--model", tmp_path],
        input="a b c\n\nh g\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a b c\n\nh g\n"


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"    {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA out of memory.\nTry this."),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory\nframe #0"),
        MemoryError(),
    ],
)
def test_want_of_memory_is_one_line(text, capsys, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(Translator, "from_pretrained", fail)
    assert main(["translate", "--model", "any", str(text)]) == 1
    line = capsys.readouterr().err
    assert line.startswith("vaswani-hf: ") and line.count("\n") == 1
    assert "memory" in line.lower()


def test_a_fault_of_our_own_is_shown_whole(text, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Translator, "from_pretrained", fail)
    with pytest.raises(RuntimeError, match="mat1"):
        main(["translate", "--model", "any", str(text)])


def test_what_a_terminal_cannot_show_is_spelled_out(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    (tmp_path / "log_history.json").write_text('[{"step": 1, "loss_nats_per_token": 2.0}]')
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["plot", str(tmp_path), "-o", str(tmp_path / "Bögen.png")]) == 0
    terminal.flush()
    assert terminal.buffer.getvalue().endswith(rb"B\xf6gen.png" + b"\n")


# What is said without a model is said at once: a process imports what the command needs, and no
# library of a model. By the clock this could not be tested.
COMMANDS = (
    *("translate", "score", "filter", "align", "evaluate", "compare"),
    *("distill", "convert", "merge", "push", "plot"),
)
HELP = ["--help", "--version", *(f"{name} --help" for name in COMMANDS)]
USAGE_ERRORS = [
    *("", "transform", "translate", "convert a b", "push a", "plot", "merge a"),
    *("merge nowhere/at/all new", "translate --model m --model n --adapter a"),
    "translate --model m --adapter a --engine ctranslate2",
    "translate --model m --num_beams four",
    "translate --model m --engine marian",
    "translate --model m --num_beams 0",
    "translate --model m --batch_tokens 0",
    "translate --model m --chunk_sentences 0",
    "translate --model m --length_penalty nan",
    "translate --model m --length_penalty_type log",
    "translate --model m --threads 0",
    "translate --model m --compute_type int8",
    "translate --model m --engine ctranslate2 --dtype float16",
    "translate --model m --dtype int8",
    "translate --model m --n_best 0",
    "translate --model m --n_best 5 --num_beams 4",
    "translate --model m --format xml",
    "translate --model m --alignments",
    "translate --model m --prefix nowhere.txt",
    "translate --model m --prefix README.md --split sentences",
    "translate --model m --temperature 0.5",
    "translate --model m --sampling_topk 0 --num_beams 4",
    "translate --model m --sampling_topk 0 --seed 1 --engine ctranslate2",
    "score --model m --source README.md --target README.md --threads 0",
    "score --model m --source README.md --target README.md --device cuda:0,cuda:1",
    "compare a --references b",
    "distill README.md --output_source a --output_target b --keep_best 0",
    "distill README.md --output_source a --output_target b --by score",
    "distill README.md --output_source a --output_target b --choose chrf",
    "distill README.md --output_source a --output_target a",
    "distill - --output_source a --output_target b",
    "distill README.md --output_source README.md --output_target b",
    "evaluate --hypotheses a --references b --metrics meteor",
    "translate --model m --engine ctranslate2 --threads 0",
    "translate --model m --engine ctranslate2 --revision main",
    "translate --model m nowhere.txt",
    "translate --model m --resume",
    "translate --model m --shard 1/2",
    "translate --model m --language en",
    "score --model m --source nowhere.txt --target README.md",
    "score --model m --source README.md --target README.md --length_penalty nan",
    "score --model no/such/folder --source README.md --target README.md",
    "align --model m --source README.md --target README.md --engine ctranslate2",
    "align --model m --source README.md --target README.md --batch_tokens 0",
    "translate --model no/such/folder /dev/null",
    "translate --model no/such/folder --engine ctranslate2 /dev/null",
    "convert a b --from marian --quantization int8",
    "convert a b --from torch",
    "convert a tests --to onnx",
    "convert no/such/folder b --to ctranslate2",
    "push no/such/folder --to org/name",
    "push tests --to a/b/c",
    "plot runs -o picture.jpeg",
    "plot no/such/folder",
]
MODULES_OF_COMMANDS = """
import contextlib, json, os, sys
from vaswani_hf.cli import main

found = {}
for command in json.load(sys.stdin):
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
        try:
            status = main(command.split())
        except SystemExit as ended:
            status = ended.code
    found[command] = [status, *{name.partition(".")[0] for name in sys.modules}]
print(json.dumps(found))
"""
LIBRARIES = {"torch", "transformers", "numpy", "tokenizers", "ctranslate2", "matplotlib"}


@pytest.fixture(scope="module")
def modules_of_commands():
    """For each command its status and what has been imported, in a process that runs them all."""
    done = subprocess.run(
        [sys.executable, "-c", MODULES_OF_COMMANDS],
        input=json.dumps([*HELP, *USAGE_ERRORS]),
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", [*HELP, *USAGE_ERRORS])
def test_help_and_usage_errors_load_no_library(modules_of_commands, command):
    status, *modules = modules_of_commands[command]
    assert status == 0 if command in HELP else status in (1, 2)
    assert LIBRARIES & set(modules) == set()


def test_ctranslate2_translates_without_torch_and_transformers(talkative):
    pytest.importorskip("ctranslate2")
    code = (
        "import sys; from vaswani_hf.cli import main; status = main(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr); sys.exit(status)"
    )
    command = ["translate", "--engine", "ctranslate2", "--device", "cpu", "--model", talkative[1]]
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        input="s1 s2\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("t") and done.stdout.count("\n") == 1
    assert {"torch", "transformers", "numpy"} & set(done.stderr.split()) == set()
