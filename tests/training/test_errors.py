"""Errors of training/run.py: one line for what a user can mend, a traceback for what we did."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.runs import RECIPE, run, warm_start, write_pairs
from training.errors import PACKAGES, in_one_line, is_mendable
from training.run import main


REPOSITORY = Path(__file__).resolve().parents[2]


def test_what_a_user_can_mend_ends_in_one_line_that_names_the_program():
    with pytest.raises(SystemExit, match=r"^training/run\.py: unknown|^training/run\.py: command"):
        main(["base", "--d_modle", "3"])


def test_a_file_that_the_system_refuses_is_named(tmp_path):
    with pytest.raises(SystemExit) as ended, in_one_line({}):
        (tmp_path / "nowhere").read_text()
    assert str(ended.value) == f"training/run.py: {tmp_path}/nowhere: No such file or directory."


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: int("two"),
        lambda: [*zip([1], [], strict=True)],
        lambda: {}["absent"],
        lambda: json.loads("{"),
    ],
)
def test_a_bug_of_ours_keeps_its_traceback(wrong):
    with pytest.raises((ValueError, KeyError)) as raised, in_one_line({}):
        wrong()
    assert not is_mendable(raised.value)


def test_a_call_of_ours_that_fails_is_a_bug_and_a_raise_of_ours_is_mendable():
    from training.outcome.metrics import exact_match
    from training.settings.recipes import read_recipe

    with pytest.raises(ValueError, match="zip"), in_one_line({}):
        exact_match(["one"], [])
    with pytest.raises(SystemExit, match="no recipe 'multi30'"), in_one_line({}):
        read_recipe("multi30")


def test_the_traceback_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("VASWANI_TRACEBACK", "1")
    with pytest.raises(ValueError, match="no recipe 'multi30'"):
        main(["multi30"])


def test_other_processes_of_a_machine_keep_silent_and_leave_word_with_the_launcher(tmp_path):
    told = tmp_path / "error.json"
    environment = {"LOCAL_RANK": "1", "TORCHELASTIC_ERROR_FILE": str(told)}
    with pytest.raises(SystemExit) as ended, in_one_line(environment):
        (tmp_path / "nowhere").read_text()
    assert ended.value.code == 1
    assert json.loads(told.read_text())["message"].startswith(f"training/run.py: {tmp_path}")


# training/run.py where a package is missing. All of its imports are done anew; those of other
# packages, which take seconds, are there.
HIDDEN = """
import sys, runpy
hidden = sys.argv[1]
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == hidden or name.startswith(hidden + "."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
for name in list(sys.modules):
    if name.partition(".")[0] in (hidden, "training"):
        del sys.modules[name]
sys.argv = ["training/run.py", *sys.argv[2:]]
runpy.run_path("training/run.py", run_name="__main__")
"""


def run_without(package, folder, *options):
    (folder / "hidden.py").write_text(HIDDEN)
    return warm_start().run(str(folder / "hidden.py"), package, *options, environments=[os.environ])


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "transformers"])
def test_a_missing_package_is_named_with_what_installs_it(package, tmp_path):
    done = run_without(package, tmp_path, "base")
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("training/run.py: ")
    assert package in line and 'pip install -e ".[train]"' in line


@pytest.mark.parametrize("package", ["babel", "num2words"])
def test_what_only_the_demo_needs_is_named_when_it_is_asked_for(package, tmp_path):
    done = run_without(package, tmp_path, "demo", "--output_dir", str(tmp_path / "out"))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("training/run.py: The demo text is made with Babel and num2words, and")
    assert f"{package} is missing" in last and 'pip install "vaswani-hf[train]"' in last
    assert "Traceback" not in done.stderr


def our_lines(done):
    """What our code says; the launcher's own trace is of its own code."""
    for ours in ("training", "vaswani_hf"):  # the launcher shows where it stands itself
        assert f'File "{REPOSITORY / ours}' not in done.stderr
    # Another process's progress bar may stand before it on the same line.
    return re.findall(r"(?<!traceback : )training/run\.py: [^\r\n]*", done.stderr)


@pytest.fixture
def options(tmp_path):
    """Those of a run of twenty pairs by the recipe of `tmp_path`."""
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    write_pairs(tmp_path / "a.tsv", 20)
    return ["--train_file", str(tmp_path / "a.tsv"), "--output_dir", str(tmp_path / "out")]


def test_two_processes_end_together_with_one_line(tmp_path, options):
    (tmp_path / "a.tsv").open("a").write("one column\n")
    done = run(tmp_path, *options, processes=2, status=1)
    (line,) = our_lines(done)
    assert "a.tsv, line 21 has 1 columns" in line


BROKEN_ON_ONE = """
import os, sys
from training import run
load_corpus = run.load_corpus
def fail_on_one(*arguments):
    if os.environ["RANK"] == os.environ["BROKEN"]:
        raise OSError(28, "No space left on device", "/disk/cache")
    return load_corpus(*arguments)
run.load_corpus = fail_on_one
run.main(sys.argv[1:])
"""
CAUSE = "training/run.py: /disk/cache: No space left on device."


def test_the_first_process_that_fails_alone_leaves_none_waiting(tmp_path, options):
    (tmp_path / "broken.py").write_text(BROKEN_ON_ONE)
    done = run(
        *(tmp_path, *options),
        processes=2,
        script=tmp_path / "broken.py",
        status=1,
        environment={**os.environ, "BROKEN": "0"},
    )
    assert our_lines(done) == [CAUSE]


def test_the_launcher_tells_the_cause_where_another_process_fails_alone(tmp_path, options):
    (tmp_path / "broken.py").write_text(BROKEN_ON_ONE)
    config = str(REPOSITORY / "training" / "configs" / "cpu_2.yaml")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", "--config_file", config),
            *(str(tmp_path / "broken.py"), str(tmp_path / "tiny.yaml"), *options),
        ],
        cwd=REPOSITORY,
        env={
            **{**os.environ, "PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": ""},
            "BROKEN": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    (line,) = our_lines(done)
    assert line == CAUSE or "another process has ended" in line
    assert f"traceback : {CAUSE}" in done.stderr  # in the launcher's summary
