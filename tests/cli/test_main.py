import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch

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
    names = ("translate", "score", "align", "evaluate", "compare", "convert", "push", "plot")
    assert all(f"    {name} " in shown for name in names)


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
