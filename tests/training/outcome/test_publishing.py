"""Trainings that push to the Hub, at the end or at every save, and what keeps them from it."""

import json
import subprocess
import sys

import pytest
from huggingface_hub import ModelCard

from tests.hub.client import WITHOUT_PACKAGE
from tests.hub.hub_server import HubServer
from tests.training.runs import RECIPE, results_of, run, write_pairs
from tests.training.warm import WarmStart
from vaswani_hf import Translator


TOKEN = "hf_alice_secret"
PUSH = ("--push_to_hub", "--license", "cc-by-4.0", "--hub_model_id")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pushing")
    write_pairs(folder / "train.tsv", 40)
    write_pairs(folder / "test.tsv", 4, seed=1)
    files = f"train_file: {folder}/train.tsv\ntest_file: {folder}/test.tsv\nmax_steps: 8\n"
    languages = "source_language: en\ntarget_language: de\n"
    (folder / "tiny.yaml").write_text(RECIPE + files + languages)
    return folder


@pytest.fixture(scope="module")
def running_hub(tmp_path_factory):
    with HubServer(tmp_path_factory.mktemp("hub")) as server:
        server.add_user("alice", TOKEN, organizations=["lab"])
        yield server


@pytest.fixture
def hub(running_hub):
    """One Hub for all tests here; each has a repository of its own."""
    running_hub.faults.clear()
    return running_hub


@pytest.fixture(scope="module")
def train(running_hub, tmp_path_factory, folder):
    """`run`, in processes that talk to the Hub, with that token or with none."""
    environment = running_hub.environment(tmp_path_factory.mktemp("home"))
    start = WarmStart(environment)

    def run_with(token, *options, **how):
        variables = {**environment, **({"HF_TOKEN": token} if token else {})}
        return run(folder, *options, environment=variables, start=start, **how)

    yield run_with
    start.close()


def weights_in(hub, name, commit):
    return hub.files(name, commit.id).get("model.safetensors")


def test_two_processes_push_the_averaged_model_which_translates_as_before_without_the_package(
    train, hub, tmp_path
):
    output = tmp_path / "run"
    done = train(TOKEN, *PUSH, "lab/tiny", "--output_dir", str(output), processes=2)
    assert "translates 3 sentences as before" in done.stderr
    assert len(hub.commits("lab/tiny")) == 2  # the repository's own, and the model
    assert hub.files("lab/tiny")["model.safetensors"] == (
        (output / "model.safetensors").read_bytes()
    )
    assert not [name for name in hub.files("lab/tiny") if name.endswith((".pt", ".bin", ".pth"))]
    shown = done.stdout + done.stderr
    written = b"".join(path.read_bytes() for path in output.rglob("*") if path.is_file())
    pushed = b"".join(hub.files("lab/tiny").values())
    assert TOKEN not in shown
    assert TOKEN.encode() not in written + pushed
    assert str(tmp_path).encode() not in pushed

    results = results_of(output)
    card_path = tmp_path / "README.md"
    card_path.write_bytes(hub.files("lab/tiny")["README.md"])
    card = ModelCard.load(card_path)
    assert card.data.language == ["en", "de"]
    bleu = results["scores"]["test"]["bleu"]
    assert card.data.eval_results[0].metric_value == pytest.approx(bleu, abs=0.005)
    assert f"Pairs read {results['data']['pairs_read']}" in card.text
    assert "on 2 processes" in card.text

    # Elsewhere, without the package: what the folder's own model says.
    code = WITHOUT_PACKAGE.replace('["a b c", "h"]', '["abc de", "ed"]')
    found = subprocess.run(
        [sys.executable, "-c", code, "lab/tiny"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        env=hub.environment(tmp_path / "elsewhere"),
    )
    assert found.returncode == 0, found.stderr
    translator = Translator.from_pretrained(output)
    assert found.stdout.splitlines()[0] == str(translator(["abc de", "ed"]))


def test_every_save_is_pushed_and_the_averaged_model_comes_last(train, hub, tmp_path):
    output = tmp_path / "run"
    name = "lab/saves"
    argv = (*PUSH, name, "--hub_strategy", "every_save", "--hub_always_push", "--hub_private_repo")
    hub.fail("POST", "/commit/", status=500, times=3)  # the first of them comes to nothing
    done = train(None, *argv, "--hub_token", TOKEN, "--output_dir", str(output))
    assert "checkpoint-4 is not pushed, and training goes on" in done.stderr
    commits = hub.commits(name)
    assert [commit.title for commit in commits[:-1]] == [
        "Upload the model",
        "In training: checkpoint-8",
    ]
    assert weights_in(hub, name, commits[0]) == (output / "model.safetensors").read_bytes()
    assert weights_in(hub, name, commits[1]) == (
        (output / "checkpoint-8" / "model.safetensors").read_bytes()
    )
    card = hub.files(name, commits[1].id)["README.md"].decode()
    assert "after 8 of 8 updates" in card
    config = json.loads(hub.files(name, commits[1].id)["config.json"])
    assert "AutoModel" in config["auto_map"]
    assert TOKEN not in done.stdout + done.stderr
    assert TOKEN not in (output / "config.yaml").read_text()
    assert TOKEN not in (output / "results.json").read_text()


def test_a_failed_push_leaves_the_model_and_says_how_to_go_on(train, hub, tmp_path):
    output = tmp_path / "run"
    hub.fail("POST", "/commit/", status=500, times=100)
    done = train(TOKEN, *PUSH, "lab/failed", "--output_dir", str(output), status=1)
    assert f"vaswani-hf push {output} --to lab/failed" in done.stderr
    assert "Traceback" not in done.stderr
    hub.faults.clear()
    again = subprocess.run(
        [
            *(sys.executable, "-m", "vaswani_hf.cli", "push", str(output)),
            *("--to", "lab/failed", "--no-verify"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=hub.environment(tmp_path / "home", TOKEN),
    )
    assert again.returncode == 0, again.stderr
    assert hub.files("lab/failed")["model.safetensors"] == (
        (output / "model.safetensors").read_bytes()
    )


REFUSED = [
    (("--license", "my own"), "license: my own"),
    (("--license", ""), "needs the model's license"),
    (("--source_language", "English"), "'English' is no language code"),
    (("--hub_strategy", "checkpoint"), "hub_strategy=checkpoint"),
    (("--hub_model_id", "bob/tiny"), "may not write"),
    (("--hub_token", "hf_wrong_secret"), "does not know the token"),
    (("--model_name_or_path", "lab/nothing"), "fetch lab/nothing: "),
]
# training/run.py with each list of options that stands in a file, and the errors to another one.
# The first argument is a recipe, as in any run.
EACH = """\
import json, sys
from training.run import main

_, commands, told = sys.argv[1:]
errors = []
for argv in json.load(open(commands)):
    try:
        main(argv)
    except SystemExit as end:
        errors.append(str(end.code))
json.dump(errors, open(told, "w"))
"""


def test_what_could_not_be_pushed_is_not_trained(train, folder, tmp_path):
    commands = []
    for option, _ in REFUSED:
        given = {"--hub_model_id": "lab/tiny", "--license": "cc-by-4.0", **dict([option])}
        argv = [str(folder / "tiny.yaml"), "--push_to_hub", "--output_dir", str(tmp_path / "run")]
        commands.append(argv + [word for each in given.items() for word in each])
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    files = [str(tmp_path / "commands.json"), str(tmp_path / "errors.json")]
    (tmp_path / "each.py").write_text(EACH)
    done = train(TOKEN, *files, script=tmp_path / "each.py")
    errors = json.loads((tmp_path / "errors.json").read_text())
    for error, (option, said) in zip(errors, REFUSED, strict=True):
        assert error.startswith("training/run.py: ") and said in error, (option, error)
    assert "_secret" not in done.stderr + "".join(errors)
    assert not (tmp_path / "run").exists()
