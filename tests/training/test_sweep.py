"""Lists of runs. A small script stands in for training/run.py and keeps what it was told."""

import json
import re
import shlex
import subprocess
import sys

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
if folder.name == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if folder.name == "long":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)
if folder.name.startswith("wait"):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
if "_" in folder.name:
    while len((folder.parent / "told").read_text().splitlines()) < 2:
        time.sleep(0.01)
if folder.name.startswith("wait"):
    if folder.name.endswith("long"):
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


def test_a_run_that_is_killed_for_its_memory_does_not_end_the_list(folder, caplog):
    assert [each.name for each in train_all([run("killed"), run("a")], folder)] == ["a"]
    assert "killed has failed: status -9." in caplog.text


def test_sigterm_reaches_the_run_and_ends_the_list(folder):
    # The script sends it to this process, as a scheduler does, and waits for what is passed on.
    with pytest.raises(SystemExit) as end:
        list(train_all([run("long"), run("a")], folder))
    assert end.value.code == 143
    assert len(told(folder)) == 1


def test_several_runs_are_trained_at_a_time(folder):
    # Each waits for the other.
    runs = [run("both_1"), run("both_2"), run("a")]
    assert {each.name for each in train_all(runs, folder, jobs=2)} == {"both_1", "both_2", "a"}


def test_sigterm_reaches_all_runs_that_go_on(folder):
    with pytest.raises(SystemExit) as end:
        list(train_all([run("wait_1"), run("wait_2_long"), run("a")], folder, jobs=2))
    assert end.value.code == 143
    assert len(told(folder)) == 2


# Launchers


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("srun -c 2 {command}", ["srun", "-c", "2", "python", "a b"]),
        ("sbatch --wrap '{command}'", ["sbatch", "--wrap", "python 'a b'"]),
        ('sbatch -J {name} --wrap "{command}"', ["sbatch", "-J", "x", "--wrap", "python 'a b'"]),
        ("ssh host 'nohup {command} &'", ["ssh", "host", "nohup python 'a b' &"]),
    ],
)
def test_a_command_takes_its_place_in_a_launchers(launcher, words):
    assert sweep.launcher_words(launcher, ["python", "a b"], "x") == words


@pytest.fixture
def launcher(folder):
    """Something like sbatch: it keeps what it is told, and says so."""
    script = folder.parent / "batch.py"
    script.write_text(
        "import sys\n"
        "with open('queue', 'a') as queue: queue.write(sys.argv[2] + '\\n')\n"
        "print('Submitted batch job 7')\n"
    )
    return f"{sys.executable} {script} --wrap '{{command}}'"


def work_off(place):
    """What a scheduler does with the queue."""
    queue = place / "queue"
    for command in queue.read_text().splitlines():
        subprocess.run(shlex.split(command), cwd=place, check=True)
    queue.unlink()


def test_what_is_submitted_is_collected_by_the_next_call(folder, launcher):
    runs = [run("a"), run("b")]
    assert list(sweep.submit_all(runs[:1], folder, launcher)) == []
    assert (folder / "a" / "submitted").read_text() == "Submitted batch job 7\n"
    assert list(sweep.submit_all(runs, folder, launcher)) == []
    assert len((folder.parent / "queue").read_text().splitlines()) == 2
    work_off(folder.parent)
    assert list(sweep.submit_all(runs, folder, launcher)) == runs
    assert not (folder.parent / "queue").exists()
    assert [argv[-1] for argv in told(folder)] == ["auto"] * 2


def test_what_a_scheduler_has_lost_is_submitted_again_on_demand(folder, launcher):
    for again in (False, False, True):
        assert list(sweep.submit_all([run("a")], folder, launcher, again=again)) == []
    assert len((folder.parent / "queue").read_text().splitlines()) == 2


def test_a_launcher_that_fails_is_told(folder):
    with pytest.raises(ValueError, match=r"--launcher: false .* failed with status 1 for a\."):
        list(sweep.submit_all([run("a")], folder, "false {command}"))
    assert not (folder / "a" / "submitted").exists()


# The whole command

JUDGED = """\
import json, pathlib, sys, yaml
argv = sys.argv[1:]
given = dict(zip([option[2:] for option in argv[1::2]], argv[2::2]))
folder = pathlib.Path(given["output_dir"])
folder.mkdir(parents=True, exist_ok=True)
with (folder.parent / "told").open("a") as told:
    told.write(json.dumps(argv) + "\\n")
if given["dropout"] == "0.9":
    sys.exit(1)
references = [f"word_{n} and word_{n + 1} or word_{n + 2}" for n in range(40)]
# 0.1 is best on the validation set, and worst on the test set.
wrong = round(100 * abs(float(given["dropout"]) - 0.1)) + int(given["seed"]) % 40
hypotheses = ["no"] * wrong + references[wrong:]
for name, texts in (("hypotheses", hypotheses), ("references", references)):
    (folder / f"validation.{name}").write_text("".join(f"{text}\\n" for text in texts))
scores = {"bleu": 100 - wrong, "chrf++": 50.0, "loss_nats_per_token": 1.0}
test = {"bleu": wrong, "chrf++": 50.0}
results = {
    "chosen": {**yaml.safe_load(open(argv[0])), **given},
    "scores": {"validation": scores, "test": test},
    "training": {"seconds": 60, "updates": 5},
    "parameters": 10,
    "commit": "abc",
}
(folder / "results.json").write_text(json.dumps(results))
"""
RECIPE = """\
d_model: 32
d_k: 16
d_v: 16
num_heads: 2
train_file: [text.tsv]
validation_file: [text.tsv]
predict_with_generate: true
"""


@pytest.fixture
def recipe(folder, monkeypatch):
    """Its path, beside which runs are in the folder `runs`."""
    (folder.parent / "run.py").write_text(JUDGED)
    (folder.parent / "text.tsv").write_text("a\tb\n")
    (folder.parent / "mine.yaml").write_text(RECIPE)
    return "mine.yaml"


def sweep_by(*argv):
    with pytest.raises(SystemExit) as end:
        sweep.main([*argv, "--output_dir", "runs"])
    return end.value.code


def test_a_sweep_trains_every_combination_and_names_the_best(folder, recipe, capsys):
    options = ["--set", "dropout=0.1,0.2,0.15", "--set", "num_heads=2", "--seeds", "1,2"]
    assert sweep_by(recipe, *options, "--max_steps", "5") == 0
    commands = told(folder)
    assert len(commands) == 6 and all("--max_steps" in argv for argv in commands)
    names = [argv[argv.index("--output_dir") + 1].rpartition("/")[2] for argv in commands]
    assert names[:4] == [
        *("dropout_0.1-num_heads_2-seed_1", "dropout_0.2-num_heads_2-seed_1"),
        *("dropout_0.15-num_heads_2-seed_1", "dropout_0.1-num_heads_2-seed_2"),
    ]
    shown = capsys.readouterr().out
    assert "The best of 3 is dropout=0.1, num_heads=2: BLEU " in shown
    report = json.loads((folder / "sweep.json").read_text())
    assert [row["fields"]["dropout"] for row in report["rows"]] == [0.1, 0.15, 0.2]
    assert report["rows"][0]["seeds"]["2"]["test"]["bleu"] == 2  # the worst: it is not looked at
    table = [line.split("\t") for line in (folder / "sweep.tsv").read_text().splitlines()]
    assert table[0][:4] == ["dropout", "num_heads", "seeds", "score"]
    assert [float(line[3]) for line in table[1:]] == [row["score"] for row in report["rows"]]
    assert [line[:3] for line in table[1:]] == [[n, "2", "2"] for n in ("0.1", "0.15", "0.2")]
    assert (folder / "sweep.png").stat().st_size > 1000
    # The same command again trains nothing; a longer one only what is new.
    assert sweep_by(recipe, *options, "--max_steps", "5") == 0
    assert len(told(folder)) == 6
    assert sweep_by(recipe, *options[:-1], "1,2,3", "--max_steps", "5") == 0
    assert len(told(folder)) == 9


def test_a_run_that_failed_is_told_and_the_others_are_judged(folder, recipe, capsys, caplog):
    assert sweep_by(recipe, "--set", "dropout=0.1,0.9") == 1
    assert "has failed: status 1. See runs/dropout_0.9-seed_42.log." in caplog.text
    assert "The best of 1 is dropout=0.1" in capsys.readouterr().out
    assert (folder / "dropout_0.9-seed_42.log").exists()


def test_only_report_trains_nothing_and_needs_no_lock(folder, recipe, monkeypatch, capsys):
    sweep_by(recipe, "--set", "dropout=0.1", "--seeds", "1")
    monkeypatch.setattr(sweep, "FolderLock", None)  # the sweep that goes on may have it
    assert sweep_by(recipe, "--set", "dropout=0.1,0.2", "--seeds", "1", "--only_report") == 0
    assert len(told(folder)) == 1
    assert "The best of 1" in capsys.readouterr().out


def test_a_dry_run_shows_the_commands(folder, recipe, capsys):
    sweep.main([recipe, "--set", "dropout=0.1,0.2", "--dry_run", "--output_dir", "runs"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "--dropout 0.2 --seed 42 --output_dir" in lines[1]
    assert not folder.exists()


def test_the_cores_are_divided_among_runs(folder, recipe, monkeypatch, capsys):
    monkeypatch.setattr(sweep, "available_cores", lambda: 8)
    for options in (["--jobs", "2"], ["--jobs", "2", "--threads", "1"], ["--jobs", "1"]):
        sweep.main([recipe, "--set", "dropout=0.1", *options, "--dry_run"])
    lines = capsys.readouterr().out.splitlines()
    assert [re.findall(r"--threads (\d+)", line) for line in lines] == [["4"], ["1"], []]


def test_a_launcher_is_called_and_its_runs_are_judged_once_they_are_there(
    folder, recipe, launcher, capsys
):
    argv = [recipe, "--set", "dropout=0.1,0.2", "--launcher", launcher]
    assert sweep_by(*argv) == 0
    assert capsys.readouterr().out == ""
    work_off(folder.parent)
    assert sweep_by(*argv) == 0
    assert "The best of 2 is dropout=0.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "There is nothing to vary"),
        (["--set", "dropout"], "--set must be FIELD=VALUE,VALUE or FIELD=LOW:HIGH, got --set drop"),
        (["--set", "dropout="], "--set dropout=: a value is missing"),
        (["--set", "dropout=0.1,"], "a value is missing"),
        (["--set", "dropout=0.1,0.10"], "a value is named twice"),
        (["--set", "dropuot=0.1"], "--set: unknown key 'dropuot'; did you mean 'dropout'?"),
        (["--set", "dropout=0.1,much"], "dropout must be a number, got dropout='much'"),
        (["--set", "dropout=0.1,1.5"], r"dropout_1.5: dropout must .*1\.5"),
        (["--set", "num_heads=2,3", "--set", "learning_rate=-1"], "learning_rate_-1.0: learning_r"),
        (["--set", "dropout=0.1", "--set", "dropout=0.2"], "--set dropout is given twice"),
        (["--set", "dropout=0.1", "--dropout", "0.2"], "both varied by --set and set for all runs"),
        (["--set", "seed=1,2"], "use --seeds"),
        (["--set", "dropout=0.1", "--seeds", "1,,2"], "--seeds must be a whole number, got"),
        (["--set", "dropout=0.1", "--seeds", "1,1"], "a seed is named twice"),
        (["--set", "dropout=0.1", "--seeds", "-1"], r"seed must be in 0 to"),
        (["--set", "dropout=0.1", "--seeds", "1", "--seed", "2"], "--seed and --seeds are both"),
        (["--set", "dropout=0.1", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--set", "dropout=0.1", "--trials", "0"], "--trials must be at least 1, got 0"),
        (["--set", "dropout=0.0:0.4"], "is a range, which --trials N searches"),
        (["--set", "dropout=0.4:0.1", "--trials", "2"], "from a value to a larger one"),
        (["--set", "learning_rate=0:1:log", "--trials", "2"], "by its logarithm starts above 0"),
        (["--set", "dropout=0.0:1.5", "--trials", "2"], r"dropout=1.5: dropout must"),
        (["--set", "dropout=0.1", "--launcher", "sbatch"], "must have a place for the training"),
        (["--set", "dropout=0.1", "--launcher", "a '{command}"], "cannot be read: No closing quo"),
        (["--set", "dropout=0.1", "--resubmit"], "--resubmit is for --launcher only"),
        (["--set", "dropout=0.1", "--picture", "a.gif"], r"must end in .png, .svg"),
        (["--set", "dropout=0.1", "--wormup_steps", "1"], "unknown key 'wormup_steps'; did you"),
        (["--set", "train_file=text.tsv,none.tsv"], "train_file_none.tsv: There is no file none"),
        (["--set", "dropout=0.1", "--predict_with_generate", "false"], "set predict_with_generate"),
        (["--set", "dropout=0.1", "--validation_file", "no.tsv"], "There is no file no.tsv"),
    ],
)
def test_what_cannot_work_is_one_line_before_anything_starts(folder, recipe, argv, told):
    with pytest.raises(SystemExit) as end:
        sweep.main([recipe, *argv, "--output_dir", "runs"])
    assert re.search(told, end.value.code), end.value.code
    assert "\n" not in end.value.code and end.value.code.startswith("training/sweep.py: ")
    assert not folder.exists()


def test_a_recipe_without_a_validation_set_is_refused(folder, recipe):
    (folder.parent / "mine.yaml").write_text(RECIPE.replace("validation_file: [text.tsv]\n", ""))
    with pytest.raises(SystemExit, match="judges by a validation set, and none is named"):
        sweep.main([recipe, "--set", "dropout=0.1"])


# A search


@pytest.fixture
def searched(folder, recipe):
    """Dropouts of the runs so far."""
    pytest.importorskip("optuna")

    def search(*options):
        argv = ["--set", "dropout=0.0:0.4", "--set", "num_heads=2,4", "--seeds", "1,2"]
        sweep_by(recipe, *argv, *options)
        return [(argv[argv.index("--dropout") + 1], argv[4]) for argv in told(folder)[::2]]

    return search


def test_a_search_that_was_killed_goes_on_as_it_would_have(folder, searched, monkeypatch, capsys):
    whole = searched("--trials", "4")
    assert len(whole) == len(set(whole)) == 4
    assert all(0 <= float(dropout) <= 0.4 for dropout, _ in whole)
    assert "The best of 4 is dropout=" in capsys.readouterr().out
    folder.rename(folder.parent / "before")
    started = sweep._wait_for
    kills = iter([None, None, True])

    def wait_for(command, *log):
        if next(kills, None):
            raise KeyboardInterrupt
        return started(command, *log)

    monkeypatch.setattr(sweep, "_wait_for", wait_for)
    with pytest.raises(KeyboardInterrupt):
        searched("--trials", "4")
    assert searched("--trials", "5")[:4] == whole
    table = (folder / "sweep.tsv").read_text().splitlines()
    assert len(table) == 6 and table[0].startswith("dropout\tnum_heads\t")


def test_a_search_of_something_else_needs_another_folder(folder, recipe, searched):
    searched("--trials", "1")
    with pytest.raises(SystemExit, match=r"dropout=0.0:0.4 .* choose another folder"):
        sweep.main([recipe, "--set", "dropout=0.0:0.3", "--trials", "1", "--output_dir", "runs"])
    same = [recipe, "--set", "dropout=0.0:0.4", "--set", "num_heads=2,4", "--output_dir", "runs"]
    for other in (["--seeds", "1,2", "--metric", "chrf++"], ["--seeds", "1"]):
        with pytest.raises(SystemExit, match=r"has a search of --seeds 1,2 --metric bleu, and --s"):
            sweep.main([*same, *other, "--trials", "2"])
        with pytest.raises(SystemExit, match=r"^0$"):
            sweep.main([*same, *other, "--trials", "2", "--only_report"])
