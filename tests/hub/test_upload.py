"""Pushes and pulls through huggingface_hub's own client, with a server that keeps what it gets."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from tests.hub.hub_server import HubServer
from tests.hub.test_download import RESULTS, STRANGER
from vaswani_hf.hub.card import write_model_card
from vaswani_hf.hub.folder import export


# Runs the command line again and again in one process, which spares the imports. One request a
# line: arguments, and the user whose token is set.
CLIENT = """
import contextlib, io, json, os, sys, tempfile
from vaswani_hf.cli import main
for line in sys.stdin:
    request = json.loads(line)
    os.environ.pop("HF_TOKEN", None)
    if request["token"]:
        os.environ["HF_TOKEN"] = request["token"]
    err = io.StringIO()
    with tempfile.TemporaryFile("w+") as out:  # a file, as translations go to its number
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(request["argv"])
        out.seek(0)
        print(json.dumps([status, out.read(), err.getvalue()]), flush=True)
"""


class Client:
    def __init__(self, environment):
        self.environment = environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(self, *argv, user="alice"):
        token = None if user is None else f"hf_{user}_secret"
        self.process.stdin.write(json.dumps({"argv": [*map(str, argv)], "token": token}) + "\n")
        self.process.stdin.flush()
        status, out, err = json.loads(self.process.stdout.readline())
        assert "_secret" not in out + err
        return status, out, err

    def fails(self, *argv, user="alice"):
        """The message of a command that fails: one line, and nothing else."""
        status, out, err = self(*argv, user=user)
        assert status == 1 and not out, out
        assert err.startswith("vaswani-hf: "), err
        assert "Traceback" not in err
        return err

    def close(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="module")
def running_hub(tmp_path_factory):
    with HubServer(tmp_path_factory.mktemp("hub")) as server:
        server.add_user("alice", "hf_alice_secret", organizations=["lab"])
        server.add_user("bob", "hf_bob_secret")
        server.add_user("reader", "hf_reader_secret", role="read", organizations=["lab"])
        yield server


@pytest.fixture
def hub(running_hub):
    running_hub.faults.clear()
    running_hub.requests.clear()
    return running_hub


@pytest.fixture(scope="module")
def client(running_hub, tmp_path_factory):
    started = Client(running_hub.environment(tmp_path_factory.mktemp("home")))
    yield started
    started.close()


def make_folder(folder, copier, license="cc-by-4.0"):
    """What a training leaves behind."""
    export(*copier, folder)
    samples = [
        {"source": text, "translation": text, "reference": text} for text in ("a b c", "h g", "e")
    ]
    chosen = {"train_source": ["/home/somebody/data/train.en"], "dataset": None}
    results = {**RESULTS, "samples": samples, "chosen": chosen}
    (folder / "results.json").write_text(json.dumps(results))
    settings = {"recipe": "multi30k", "training": {"output_dir": "/home/somebody/runs/mine"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "log_history.json").write_text("[]\n")
    write_model_card(folder, results, languages=["en", "de"], license=license)
    return folder


@pytest.fixture(scope="module")
def folder(copier, tmp_path_factory):
    path = make_folder(tmp_path_factory.mktemp("runs") / "mine", copier)
    (path / "checkpoint-50").mkdir()
    (path / "checkpoint-50" / "optimizer.pt").write_bytes(b"pickled")
    (path / "training_args.bin").write_bytes(b"pickled")
    (path / "notes.txt").write_text("mine alone\n")
    before = digests(path)
    yield path
    assert digests(path) == before  # whatever went wrong


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def card_of(hub, name, tmp_path):
    path = tmp_path / "README.md"
    path.write_bytes(hub.files(name)["README.md"])
    return ModelCard.load(path)


# There and back


def test_a_push_is_fetched_again_and_says_the_same(hub, client, folder, tmp_path):
    status, out, err = client("push", folder, "--to", "lab/copier")
    assert status == 0, err
    assert "a b c\n    a b c\n" in out and f"{hub.url}/lab/copier" in out
    files = hub.files("lab/copier")
    assert set(files) - {".gitattributes"} == {
        "README.md",
        "config.json",
        "config.yaml",
        "configuration_vaswani.py",
        "generation_config.json",
        "generation_vaswani.py",
        "layers_vaswani.py",
        "loss_vaswani.py",
        "log_history.json",
        "model.safetensors",
        "modeling_vaswani.py",
        "results.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert files["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert set(json.loads(files["config.json"])["auto_map"]) == {
        "AutoConfig",
        "AutoModel",
        "AutoModelForSeq2SeqLM",
    }
    everything = b"".join(files.values())
    assert b"/home" not in everything and b"_secret" not in everything
    assert json.loads(files["results.json"])["scores"] == RESULTS["scores"]
    assert yaml.safe_load(files["config.yaml"])["training"]["output_dir"] == "mine"

    card = card_of(hub, "lab/copier", tmp_path)
    assert card.data.license == "cc-by-4.0" and card.data.language == ["en", "de"]
    assert card.data.eval_results[0].metric_value == pytest.approx(27.345, abs=0.01)
    assert 'name = "lab/copier"' in card.text and "a b c | a b c" in card.text

    # Nothing has changed: no commit, no upload.
    hub.requests.clear()
    number = len(hub.commits("lab/copier"))
    assert client("push", folder, "--to", "lab/copier", "--no-verify")[0] == 0
    assert len(hub.commits("lab/copier")) == number
    assert not [request for request in hub.requests if request.method == "PUT"]


def test_a_stranger_loads_what_was_pushed_without_the_package(hub, client, folder, tmp_path):
    assert client("push", folder, "--to", "lab/strange", "--no-verify")[0] == 0
    code = STRANGER.replace(
        "AutoTokenizer.from_pretrained(folder, trust_remote_code=True)",
        "AutoTokenizer.from_pretrained(folder)",  # without either
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "lab/strange"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        env=hub.environment(tmp_path / "home"),
    )
    assert done.returncode == 0, done.stderr
    assert "['a b c', 'h']" in done.stdout and "VaswaniModel" in done.stdout


def test_a_private_repository_needs_a_token(hub, client, folder, tmp_path):
    argv = ("push", folder, "--to", "lab/hidden", "--private", "--no-verify")
    assert client(*argv)[0] == 0
    text = tmp_path / "text"
    text.write_text("a b\n")
    message = client.fails("translate", "--model", "lab/hidden", text, user=None)
    assert "fetch lab/hidden" in message and "private" in message and "hf auth login" in message
    assert client("translate", "--model", "lab/hidden", text)[:2] == (0, "a b\n")


def test_branches_tags_and_commits_are_revisions(hub, client, folder, copier, tmp_path):
    assert client("push", folder, "--to", "lab/versions", "--no-verify")[0] == 0
    first = hub.commits("lab/versions")[0].id
    argv = ("push", folder, "--to", "lab/versions", "--revision", "next", "--no-verify")
    assert client(*argv, "--license", "mit")[0] == 0
    assert hub.commits("lab/versions")[0].id == first  # main stays as it is
    assert b"license: mit" in hub.files("lab/versions", "next")["README.md"]
    text = tmp_path / "text"
    text.write_text("a b\n")
    for revision in ("next", first):
        argv = ("translate", "--model", "lab/versions", "--revision", revision, text)
        assert client(*argv)[:2] == (0, "a b\n")
    message = client.fails("translate", "--model", "lab/versions", "--revision", "old", text)
    assert "no such revision" in message
    message = client.fails("translate", "--model", folder, "--revision", "next", text)
    assert "revision=next" in message


def test_large_weights_go_into_several_files_and_replace_one_another(hub, client, folder):
    argv = ("push", folder, "--to", "lab/sharded", "--no-verify")
    assert client(*argv, "--max_shard_size", "100KB")[0] == 0
    files = hub.files("lab/sharded")
    shards = [name for name in files if name.endswith(".safetensors")]
    assert len(shards) > 1 and "model.safetensors.index.json" in files
    assert client(*argv)[0] == 0
    files = hub.files("lab/sharded")
    assert [name for name in files if ".safetensors" in name] == ["model.safetensors"]


def test_the_cache_serves_without_the_hub(hub, client, folder, tmp_path):
    assert client("push", folder, "--to", "lab/cached", "--no-verify")[0] == 0
    environment = hub.environment(tmp_path / "home")

    def translate(**more):
        return subprocess.run(
            [sys.executable, "-m", "vaswani_hf.cli", "translate", "--model", "lab/cached"],
            input="a b c\n",
            capture_output=True,
            text=True,
            check=False,
            env={**environment, **more},
        )

    assert translate().stdout == "a b c\n"
    hub.requests.clear()
    assert translate(HF_HUB_OFFLINE="1").stdout == "a b c\n"
    assert hub.requests == []
    done = translate(HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "empty"))
    assert done.returncode == 1 and "lab/cached" in done.stderr and "Traceback" not in done.stderr


def test_a_downloaded_folder_is_a_model(hub, client, folder, tmp_path):
    assert client("push", folder, "--to", "lab/downloaded", "--no-verify")[0] == 0
    hf = Path(sys.executable).parent / "hf"
    subprocess.run(
        [hf, "download", "lab/downloaded", "--local-dir", tmp_path / "local"],
        check=True,
        capture_output=True,
        env=hub.environment(tmp_path / "home"),
    )
    (tmp_path / "text").write_text("a b\n")
    argv = ("translate", "--model", tmp_path / "local", tmp_path / "text")
    assert client(*argv)[:2] == (0, "a b\n")


# The card


def test_a_push_asks_for_a_license(hub, client, copier, tmp_path):
    bare = make_folder(tmp_path / "bare", copier, license=None)
    message = client.fails("push", bare, "--to", "lab/bare")
    assert "license" in message and "--license" in message
    assert hub.requests == []  # before anything is sent
    argv = ("push", bare, "--to", "lab/bare", "--no-verify")
    assert client(*argv, "--license", "cc0-1.0")[0] == 0
    assert card_of(hub, "lab/bare", tmp_path).data.license == "cc0-1.0"
    message = client.fails(*argv, "--license", "my own")
    assert "license: my own" in message and "cc0-1.0" in message


def test_a_model_without_a_training_gets_a_card(hub, client, copier, tmp_path):
    export(*copier, tmp_path / "converted")
    argv = ("push", tmp_path / "converted", "--to", "lab/converted", "--license", "mit")
    argv += ("--source_language", "en", "--target_language", "de", "--no-verify")
    assert client(*argv)[0] == 0
    card = card_of(hub, "lab/converted", tmp_path)
    assert card.data.language == ["en", "de"] and "translates English to German" in card.text
    assert "## Scores" not in card.text
    assert "no language code" in client.fails(*argv, "--source_language", "English")


def test_a_card_that_somebody_wrote_stays(hub, client, copier, tmp_path):
    mine = make_folder(tmp_path / "mine", copier)
    text = (mine / "README.md").read_text() + "\nTrained for my thesis.\n"
    (mine / "README.md").write_text(text)
    assert client("push", mine, "--to", "lab/mine", "--no-verify")[0] == 0
    assert "Trained for my thesis." in hub.files("lab/mine")["README.md"].decode()


# Faults on the way up


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (None, "No token"),
        ("nobody", "does not know the token"),
        ("reader", "may not write"),
        ("bob", "may not write"),
    ],
)
def test_who_may_not_push_is_told(hub, client, folder, user, said):
    assert said in client.fails("push", folder, "--to", "lab/refused", user=user)
    hub.put("lab/existing", {"notes": b"here"})
    number = len(hub.commits("lab/existing"))
    assert said in client.fails("push", folder, "--to", "lab/existing", user=user)
    assert len(hub.commits("lab/existing")) == number


@pytest.mark.parametrize("name", ["a/b/c", "lab/two--dashes", "lab/with space"])
def test_a_name_that_cannot_be_is_refused(hub, client, folder, name):
    assert name in client.fails("push", folder, "--to", name)
    assert hub.requests == []


def test_a_repository_of_another_model_is_not_overwritten(hub, client, folder):
    hub.put("lab/taken", {"config.json": b'{"model_type": "marian"}'})
    number = len(hub.commits("lab/taken"))
    assert "marian" in client.fails("push", folder, "--to", "lab/taken")
    assert len(hub.commits("lab/taken")) == number


def test_nothing_private_goes_into_a_public_repository(hub, client, folder):
    hub.put("lab/public", {"notes": b"here"})
    message = client.fails("push", folder, "--to", "lab/public", "--private")
    assert "is public" in message
    assert not [request for request in hub.requests if request.path.endswith("preupload/main")]


def test_a_push_that_the_hub_breaks_off_is_finished_by_the_next(hub, client, folder):
    hub.fail("POST", "/commit/", status=500, times=10)
    message = client.fails("push", folder, "--to", "lab/broken", "--no-verify")
    assert "answered 500" in message and "Run the same again" in message
    hub.faults.clear()
    hub.requests.clear()
    assert client("push", folder, "--to", "lab/broken", "--no-verify")[0] == 0
    assert not [request for request in hub.requests if request.method == "PUT"]  # is there already
    files = hub.files("lab/broken")
    assert files["model.safetensors"] == (folder / "model.safetensors").read_bytes()


def test_a_connection_that_ends_in_the_middle_is_told(hub, client, folder):
    hub.drop("POST", "/commit/", after_bytes=100, times=10)
    message = client.fails("push", folder, "--to", "lab/dropped", "--no-verify")
    assert hub.url in message and "Run the same again" in message


def test_a_large_file_that_never_comes_through_is_told(hub, client, folder):
    hub.fail("PUT", ".", status=500, times=100)
    message = client.fails("push", folder, "--to", "lab/never", "--no-verify")
    assert "answered 500" in message and "Run the same again" in message


def test_a_hub_that_fails_once_does_not_end_a_push(hub, client, folder):
    hub.fail("POST", "/repos/create", status=503)
    hub.fail("POST", "/commit/", status=502)
    hub.drop("PUT", "", after_bytes=1000)
    assert client("push", folder, "--to", "lab/shaky", "--no-verify")[0] == 0
    assert len(hub.commits("lab/shaky")) == 2  # the repository's own, and one


def test_a_hub_that_is_not_there_is_told(hub, client, folder, tmp_path):
    hub.stop()
    try:
        assert hub.url in client.fails("push", folder, "--to", "lab/away")
        (tmp_path / "text").write_text("a\n")
        message = client.fails("translate", "--model", "lab/away", tmp_path / "text")
        assert "lab/away" in message and hub.url in message
    finally:
        hub.start()


def test_a_folder_that_is_not_whole_is_not_pushed(hub, client, folder, tmp_path):
    assert "no folder" in client.fails("push", tmp_path / "nowhere", "--to", "lab/x")
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(weights[:-100])
    assert "model.safetensors" in client.fails("push", broken, "--to", "lab/x")
    (broken / "model.safetensors").unlink()
    assert "training_args.bin" in client.fails("push", broken, "--to", "lab/x")
    shutil.copyfile(folder / "model.safetensors", broken / "model.safetensors")
    for path in broken.glob("tokenizer*"):
        path.unlink()
    assert "tokenizer" in client.fails("push", broken, "--to", "lab/x")
    assert hub.requests == []


def test_a_push_that_cannot_be_fetched_says_so(hub, client, folder):
    hub.truncate("GET", "/", to_bytes=20_000, times=1000)
    message = client.fails("push", folder, "--to", "lab/unfetched")
    assert "was pushed (commit" in message and "could not load it" in message


# Faults on the way down


def damaged(hub, folder, name, **changed):
    files = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.suffix in (".json", ".py", ".safetensors")
    }
    files.update({key.replace("__", "."): value for key, value in changed.items()})
    hub.put(name, {key: value for key, value in files.items() if value is not None})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model__safetensors": b"\x10\0\0\0\0\0\0\0{}"}, "model.safetensors of lab/NAME is torn"),
        ({"config__json": b"{"}, "config.json of lab/NAME is no JSON"),
        ({"config__json": None}, "has no config.json"),
        ({"model__safetensors": None, "pytorch_model__bin": b"x"}, "no model.safetensors"),
    ],
    ids=["torn", "json", "none", "pickle"],
)
def test_what_cannot_be_loaded_is_told(hub, client, folder, tmp_path, request, changed, said):
    name = f"lab/{request.node.callspec.id}"
    damaged(hub, folder, name, **changed)
    (tmp_path / "text").write_text("a\n")
    message = client.fails("translate", "--model", name, tmp_path / "text")
    assert said.replace("lab/NAME", name) in message
    assert not [request for request in hub.requests if request.path.endswith(".bin")]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("d_ff", 96, "feed_forward.inner.weight has shape (128, 64) instead of (96, 64)"),
        ("encoder_layers", 3, "encoder.layers.2."),
        ("decoder_layers", 1, "has no place in the model"),
        ("num_heads", "four", "num_heads"),
        ("dropout", 7, "dropout=7"),
    ],
)
def test_an_edited_config_is_told(hub, client, folder, tmp_path, field, value, said):
    name = f"lab/edited_{field}_{value}"
    config = json.loads((folder / "config.json").read_text()) | {field: value}
    damaged(hub, folder, name, config__json=json.dumps(config).encode())
    (tmp_path / "text").write_text("a\n")
    assert said in client.fails("translate", "--model", name, tmp_path / "text")


def test_a_download_that_ends_early_is_no_model(hub, client, folder, tmp_path):
    damaged(hub, folder, "lab/early")
    hub.truncate("GET", "model.safetensors|/cdn|objects", to_bytes=1000, times=20)
    (tmp_path / "text").write_text("a\n")
    message = client.fails("translate", "--model", "lab/early", tmp_path / "text")
    assert "lab/early" in message
    hub.faults.clear()
    assert client("translate", "--model", "lab/early", tmp_path / "text")[:2] == (0, "a\n")


def test_a_full_disk_is_told(hub, folder, tmp_path):
    damaged(hub, folder, "lab/large")
    code = (
        "import resource, signal, sys; from vaswani_hf.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"  # else it kills, where a disk would not
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "sys.exit(main(['translate', '--model', 'lab/large']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="a\n",
        capture_output=True,
        text=True,
        check=False,
        env=hub.environment(tmp_path / "home"),
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "no space is left" in last and "HF_HOME" in last and "Traceback" not in done.stderr
