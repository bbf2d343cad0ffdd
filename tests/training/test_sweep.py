"""Lists of runs. A small script stands in for training/run.py and keeps what it was told."""

import json

import pytest

from training import sweep
from training.sweep import Run, train_all


SCRIPT = """\
import json, os, pathlib, signal, sys, time
argv = sys.argv[1:]
folder = pathlib.Path(argv[argv.index("--output_dir") + 1])
folder.mkdir(parents=True, exist_ok=True)
with (folder.parent / "told").open("a") as told:
    told.write(json.dumps(argv) + "\\n")
if folder.name == "bad":
    sys.exit(3)
if folder.name == "long":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)
given = dict(zip(argv[1::2], argv[2::2]))
chosen = {"d_model": 32, "train_source": "d", "dropout": given["--dropout"]}
(folder / "results.json").write_text(json.dumps({"chosen": chosen}))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Of all runs."""
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    (tmp_path / "tiny.yaml").write_text("d_model: 32\ndropout: 0.3\n")
    monkeypatch.setattr(sweep, "SCRIPT", script)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def run(name, dropout=0.1):
    return Run(name, "tiny", {"dropout": dropout, "train_source": ["a b", "c"]})


def told(folder):
    """The command lines so far; there may be none."""
    path = folder / "told"
    return [json.loads(line) for line in path.open()] if path.exists() else []


def test_what_is_missing_is_trained_in_order_and_goes_on_from_a_checkpoint(folder):
    assert [each.name for each in train_all([run("b"), run("a")], folder)] == ["b", "a"]
    common = ["tiny", "--dropout", "0.1", "--train_source", "a b", "c"]
    assert told(folder) == [
        [*common, "--output_dir", str(folder / name), "--resume_from_checkpoint", "auto"]
        for name in "ba"
    ]


def test_what_has_finished_is_not_trained_again(folder):
    list(train_all([run("a")], folder))
    assert [each.name for each in train_all([run("a"), run("b")], folder)] == ["a", "b"]
    assert len(told(folder)) == 2


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"dropout": 0.2}, r"dropout=0\.1, and dropout=0\.2 is"),
        ({}, r"dropout=0\.1, and dropout=0\.3 is"),  # the recipe's
        ({"dropout": 0.1, "num_heads": 2}, "num_heads=None, and num_heads=2 is"),
    ],
)
def test_a_finished_run_of_other_settings_is_refused(folder, fields, told):
    list(train_all([run("a")], folder))
    with pytest.raises(ValueError, match=f"a has finished with {told} asked for"):
        list(train_all([Run("a", "tiny", fields)], folder))


def test_a_finished_run_whose_text_has_moved_is_the_same(folder):
    list(train_all([run("a")], folder))
    moved = Run("a", "tiny", {"dropout": "0.10", "train_source": "elsewhere", "disable_tqdm": True})
    assert [each.name for each in train_all([moved], folder)] == ["a"]
    assert len(told(folder)) == 1


def test_a_run_that_fails_is_left_out_and_said(folder, caplog):
    assert [each.name for each in train_all([run("bad"), run("a")], folder)] == ["a"]
    assert "bad has failed: status 3." in caplog.text


def test_sigterm_reaches_the_run_and_ends_the_list(folder):
    # The script sends it to this process, as a scheduler does, and waits for what is passed on.
    with pytest.raises(SystemExit) as end:
        list(train_all([run("long"), run("a")], folder))
    assert end.value.code == 143
    assert len(told(folder)) == 1
