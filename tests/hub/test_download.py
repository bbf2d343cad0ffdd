"""Models from the Hub, through the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub.client import put_model
from vaswani_hf.cli import main


def test_a_private_repository_needs_a_token(client, trained, text):
    argv = ("push", trained, "--to", "lab/hidden", "--private", "--no-verify")
    assert client(*argv)[0] == 0
    message = client.fails("translate", "--model", "lab/hidden", text, user=None)
    assert "fetch lab/hidden" in message and "private" in message and "hf auth login" in message
    assert client("translate", "--model", "lab/hidden", text)[:2] == (0, "a b\n")


def test_branches_tags_and_commits_are_revisions(hub, client, trained, text):
    assert client("push", trained, "--to", "lab/versions", "--no-verify")[0] == 0
    first = hub.commits("lab/versions")[0].id
    argv = ("push", trained, "--to", "lab/versions", "--revision", "next", "--no-verify")
    assert client(*argv, "--license", "mit")[0] == 0
    assert hub.commits("lab/versions")[0].id == first  # main stays as it is
    assert b"license: mit" in hub.files("lab/versions", "next")["README.md"]
    for revision in ("next", first):
        argv = ("translate", "--model", "lab/versions", "--revision", revision, text)
        assert client(*argv)[:2] == (0, "a b\n")
    message = client.fails("translate", "--model", "lab/versions", "--revision", "old", text)
    assert "no such revision" in message
    message = client.fails("translate", "--model", trained, "--revision", "next", text)
    assert "revision=next" in message


def test_the_cache_serves_without_the_hub(hub, client, trained, text, capsys):
    assert client("push", trained, "--to", "lab/cached", "--no-verify")[0] == 0
    assert client("translate", "--model", "lab/cached", text)[:2] == (0, "a b\n")
    hub.requests.clear()
    done = subprocess.run(
        [sys.executable, "-m", "vaswani_hf.cli", "translate", "--model", "lab/cached", text],
        capture_output=True,
        text=True,
        check=False,
        env={**client.environment, "HF_HUB_OFFLINE": "1"},
    )
    assert done.stdout == "a b\n"
    assert hub.requests == []
    # This process is offline too, and has a cache of its own, which is empty.
    assert main(["translate", "--model", "lab/cached", str(text)]) == 1
    assert "fetch lab/cached" in capsys.readouterr().err


def test_a_downloaded_folder_is_a_model(hub, client, trained, text, tmp_path):
    assert client("push", trained, "--to", "lab/downloaded", "--no-verify")[0] == 0
    hf = Path(sys.executable).parent / "hf"
    subprocess.run(
        [hf, "download", "lab/downloaded", "--local-dir", tmp_path / "local"],
        check=True,
        capture_output=True,
        env=hub.environment(tmp_path / "home"),
    )
    argv = ("translate", "--model", tmp_path / "local", text)
    assert client(*argv)[:2] == (0, "a b\n")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"model__safetensors": b"\x10\0\0\0\0\0\0\0{}"},
            "model.safetensors of lab/NAME is damaged",
        ),
        ({"config__json": b"{"}, "config.json of lab/NAME is not valid JSON"),
        ({"config__json": None}, "has no config.json"),
        ({"model__safetensors": None, "pytorch_model__bin": b"x"}, "no model.safetensors"),
    ],
    ids=["torn", "json", "none", "pickle"],
)
def test_what_cannot_be_loaded_is_told(hub, client, trained, text, request, changed, said):
    name = f"lab/{request.node.callspec.id}"
    put_model(hub, trained, name, **changed)
    message = client.fails("translate", "--model", name, text)
    assert said.replace("lab/NAME", name) in message
    assert not [request for request in hub.requests if request.path.endswith(".bin")]


def test_a_download_that_ends_early_is_no_model(hub, client, trained, text):
    put_model(hub, trained, "lab/early")
    hub.truncate("GET", "model.safetensors|/cdn|objects", to_bytes=1000, times=20)
    message = client.fails("translate", "--model", "lab/early", text)
    assert "lab/early" in message
    hub.faults.clear()
    assert client("translate", "--model", "lab/early", text)[:2] == (0, "a b\n")
