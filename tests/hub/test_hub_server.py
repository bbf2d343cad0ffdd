"""The Hub of the tests against huggingface_hub's own client, in processes of its own, unpatched."""

import base64
import hashlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.hub.hub_server import HubServer, read_card


Environment = Callable[..., dict[str, str]]

# Bytes of every value, twice: not text, and more than a client sends to have its kind guessed.
WEIGHTS = bytes(range(256)) * 2000
HELLO = b"hello\n"
HELLO_BLOB = "ce013625030ba8dba906f756967f9e9ca394464a"  # `echo hello | git hash-object --stdin`


def run(code: str, environment: dict[str, str], *arguments: object) -> Any:
    """What a client process prints, read as JSON; its code finds `api`, `sys.argv` and `told`.

    `told(f)` is the name of the error that `f()` raises and its message.
    """
    start = """
        import json, os, sys
        import huggingface_hub
        from huggingface_hub import HfApi, hf_hub_download, snapshot_download
        api = HfApi()

        def told(function):
            try:
                function()
            except Exception as error:
                return [type(error).__name__, str(error)]
            return ["nothing", ""]
        """
    command = [sys.executable, "-c", dedent(start) + dedent(code), *map(str, arguments)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def ask(
    hub: HubServer, method: str, path: str, body: object = None, token: str | None = "hf_alice"
) -> tuple[int, Any, http.client.HTTPMessage]:
    """One request by hand: status, body (JSON where it is some) and headers of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", int(hub.url.rsplit(":", 1)[1]), timeout=30)
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request(method, path, content, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    is_json = answer.headers["Content-Type"] == "application/json" and text
    return answer.status, json.loads(text) if is_json else text, answer.headers


def count(hub: HubServer, method: str, part: str) -> int:
    return sum(each.method == method and part in each.path for each in hub.requests)


def operation(key: str, **value: object) -> bytes:
    return json.dumps({"key": key, "value": value}).encode() + b"\n"


SUMMARY = operation("header", summary="By hand")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A regular file, one that is large storage, and one in a folder."""
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "hello.txt").write_bytes(HELLO)
    (source / "sub" / "note.txt").write_bytes(b"a note")
    (source / "model.safetensors").write_bytes(WEIGHTS)
    return source


def test_pushes_are_kept_byte_for_byte_and_an_unchanged_one_makes_no_commit(
    hub_server: HubServer, hub_environment: Environment, folder: Path
) -> None:
    code = """
        folder = sys.argv[1]
        api.create_repo("lab/m")
        first = api.upload_folder(repo_id="lab/m", folder_path=folder, commit_message="One").oid
        tree = {each.path: each for each in api.list_repo_tree("lab/m", recursive=True)}
        again = api.upload_folder(repo_id="lab/m", folder_path=folder).oid
        with open(f"{folder}/hello.txt", "a") as file:
            file.write("more")
        os.remove(f"{folder}/sub/note.txt")
        second = api.upload_folder(
            repo_id="lab/m", folder_path=folder, commit_message="Two", delete_patterns="sub/*"
        ).oid
        titles = [each.title for each in api.list_repo_commits("lab/m")]
        third = api.delete_file("hello.txt", "lab/m").oid
        print(json.dumps({
            "oids": [first, again, second, third],
            "titles": titles,
            "hello": tree["hello.txt"].blob_id,
            "weights": tree["model.safetensors"].lfs.sha256,
            "regular": [path for path, each in tree.items() if not getattr(each, "lfs", None)],
            "info": api.model_info("lab/m").sha,
            "name": api.whoami()["name"],
        }))
        """
    found = run(code, hub_environment("alice"), folder)
    first, again, second, third = found["oids"]
    assert first == again
    assert len({first, second, third}) == 3
    assert found["titles"] == ["Two", "One", "initial commit"]
    assert found["hello"] == HELLO_BLOB
    assert found["weights"] == hashlib.sha256(WEIGHTS).hexdigest()
    assert set(found["regular"]) == {".gitattributes", "hello.txt", "sub", "sub/note.txt"}
    assert found["info"] == third
    assert found["name"] == "alice"

    def without_attributes(revision: str) -> dict[str, bytes]:
        files = hub_server.files("lab/m", revision)
        assert b"*.safetensors filter=lfs" in files.pop(".gitattributes")
        return files

    weights = {"model.safetensors": WEIGHTS}
    assert without_attributes(first) == weights | {"hello.txt": HELLO, "sub/note.txt": b"a note"}
    assert without_attributes(second) == weights | {"hello.txt": HELLO + b"more"}
    assert without_attributes("main") == weights
    assert [each.parent for each in hub_server.commits("lab/m")][:2] == [second, first]
    assert count(hub_server, "PUT", "/upload/") == 1


def test_branches_tags_and_ids_name_revisions(
    hub_server: HubServer, hub_environment: Environment
) -> None:
    old = hub_server.put("lab/m", {"a.txt": b"old"})
    code = """
        old = sys.argv[1]
        api.create_branch("lab/m", branch="try/1", revision=old)
        api.create_branch("lab/m", branch="try/1", exist_ok=True)
        api.create_tag("lab/m", tag="v1")
        upload = dict(path_in_repo="a.txt", repo_id="lab/m")
        new = api.upload_file(path_or_fileobj=b"new", revision="try/1", **upload).oid
        api.create_tag("lab/m", tag="v2", revision="try/1")

        def content(revision):
            with open(hf_hub_download("lab/m", "a.txt", revision=revision)) as file:
                return file.read()

        contents = {name: content(name) for name in ("main", "try/1", "v1", "v2", old, new)}
        refs = api.list_repo_refs("lab/m")
        errors = [
            told(lambda: api.create_tag("lab/m", tag="v1")),
            told(lambda: content("v3")),
            told(lambda: hf_hub_download("lab/m", "b.txt")),
            told(lambda: api.upload_file(path_or_fileobj=b"x", revision="v1", **upload)),
            told(lambda: api.upload_file(path_or_fileobj=b"x", parent_commit=new, **upload)),
            told(lambda: api.delete_file("b.txt", "lab/m")),
        ]
        api.delete_branch("lab/m", branch="try/1")
        api.delete_tag("lab/m", tag="v2")
        print(json.dumps({
            "new": new,
            "contents": contents,
            "branches": {each.name: each.target_commit for each in refs.branches},
            "tags": {each.name: each.target_commit for each in refs.tags},
            "errors": errors,
            "left": [len(api.list_repo_refs("lab/m").branches), api.revision_exists("lab/m", "v2")],
        }))
        """
    found = run(code, hub_environment("alice"), old)
    new = found["new"]
    assert found["branches"] == {"main": old, "try/1": new}
    assert found["tags"] == {"v1": old, "v2": new}
    is_new = {name: text == "new" for name, text in found["contents"].items()}
    assert is_new == {"main": False, "try/1": True, "v1": False, "v2": True, old: False, new: True}
    names, messages = zip(*found["errors"], strict=True)
    assert names == (
        "HfHubHTTPError",
        "RevisionNotFoundError",
        "RemoteEntryNotFoundError",
        "RevisionNotFoundError",
        "HfHubHTTPError",
        "RemoteEntryNotFoundError",
    )
    assert "409" in messages[0]
    assert "A commit has happened since" in messages[4]
    assert "doesn't exist" in messages[5]
    assert found["left"] == [1, False]


def test_a_private_repository_is_hidden_from_strangers_and_read_only_for_readers(
    hub_server: HubServer, hub_environment: Environment
) -> None:
    code = """
        api.create_repo("lab/m", private=True)
        upload = dict(path_or_fileobj=b"x", path_in_repo="a.bin", repo_id="lab/m")
        api.upload_file(**upload)

        def download(name, token):  # into a cache of its own
            cache = os.path.join(os.environ["HF_HOME"], name)
            hf_hub_download("lab/m", "a.bin", token=token, cache_dir=cache)

        tokens = {"nobody": False, "bob": "hf_bob", "reader": "hf_reader", "wrong": "hf_wrong"}
        found = {}
        for name, token in tokens.items():
            found[name] = [
                told(lambda: api.model_info("lab/m", token=token)),
                told(lambda: download(name, token)),
                told(lambda: api.upload_file(token=token, **upload)),
            ]
        api.update_repo_settings("lab/m", private=False)
        found["public"] = [
            told(lambda: api.model_info("lab/m", token=False)),
            told(lambda: download("public", False)),
            told(lambda: api.upload_file(token="hf_bob", **upload)),
        ]
        print(json.dumps(found))
        """
    found = run(code, hub_environment("alice"))
    names = {who: [name for name, _ in each] for who, each in found.items()}
    hidden = "RepositoryNotFoundError"
    assert names["bob"] == [hidden] * 3
    assert names["nobody"] == [hidden] * 3
    assert names["reader"] == ["nothing", "nothing", "HfHubHTTPError"]
    assert "you must use a write token" in found["reader"][2][1]
    assert "Invalid credentials" in found["wrong"][0][1]
    assert "Invalid credentials" in found["wrong"][2][1]
    assert names["public"] == ["nothing", "nothing", "HfHubHTTPError"]
    assert "403" in found["public"][2][1]
    assert len(hub_server.commits("lab/m")) == 2
    assert ask(hub_server, "GET", "/api/models/no/no", token=None)[0] == 401
    assert ask(hub_server, "GET", "/api/models/no/no")[0] == 404


def test_repositories_are_created_once_where_the_user_may_and_with_a_valid_name(
    hub_server: HubServer, hub_environment: Environment
) -> None:
    code = """
        url = str(api.create_repo("mine"))
        api.create_repo("lab/data", repo_type="dataset")
        found = [
            told(lambda: api.create_repo("mine")),
            told(lambda: api.create_repo("alice/mine", exist_ok=True)),
            told(lambda: api.create_repo("bob/m")),
            told(lambda: api.create_repo("lab/m", token="hf_reader")),
            told(lambda: api.create_repo("lab/m", token="hf_wrong")),
        ]
        exists = [api.repo_exists(f"lab/{name}", repo_type="dataset") for name in ("data", "m")]
        api.delete_repo("alice/mine")
        gone = [api.repo_exists("alice/mine"), told(lambda: api.delete_repo("alice/mine"))[0]]
        print(json.dumps([url, found, exists, gone]))
        """
    url, found, exists, gone = run(code, hub_environment("alice"))
    assert url == f"{hub_server.url}/alice/mine"
    names, messages = zip(*found, strict=True)
    assert names == ("HfHubHTTPError", "nothing", *["HfHubHTTPError"] * 3)
    for message, told in zip(messages, ("409", "", "403", "403", "401"), strict=True):
        assert told in message
    assert "under the namespace bob" in messages[2]
    assert exists == [True, False]
    assert gone == [False, "RepositoryNotFoundError"]
    for name in ("a--b", ".a", "a.git", "ä", "a b", "x" * 97):  # the client would not send them
        asked = {"name": name, "organization": "lab"}
        status, answer, _ = ask(hub_server, "POST", "/api/repos/create", asked)
        assert (status, answer["error"]) == (400, f"Invalid repo name: lab/{name}")


def test_the_command_line_uploads_and_downloads(
    hub_server: HubServer, hub_environment: Environment, folder: Path, tmp_path: Path
) -> None:
    def hf(user: str | None, *arguments: object) -> str:
        command = [Path(sys.executable).parent / "hf", *arguments]
        environment = hub_environment(user)
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    hf("alice", "upload", "lab/cli", folder, "--commit-message", "From a shell")
    assert hub_server.commits("lab/cli")[0].title == "From a shell"
    hf(None, "download", "lab/cli", "--local-dir", tmp_path / "copy")
    for name in ("hello.txt", "sub/note.txt", "model.safetensors"):
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()


def test_a_snapshot_serves_offline_and_without_a_server(
    hub_server: HubServer, hub_environment: Environment
) -> None:
    hub_server.put("lab/m", {"model.safetensors": WEIGHTS, "sub/a.txt": HELLO})
    environment = hub_environment()
    code = """
        found = snapshot_download("lab/m", revision=sys.argv[1])
        print(json.dumps({
            os.path.relpath(os.path.join(folder, name), found):
                os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(found) for name in names
        }))
        """
    sizes = run(code, environment, "main")
    assert sizes.pop(".gitattributes") > 0
    assert sizes == {"model.safetensors": len(WEIGHTS), "sub/a.txt": len(HELLO)}
    asked = len(hub_server.requests)
    again = run(code, environment | {"HF_HUB_OFFLINE": "1"}, "main")
    assert again.keys() == {".gitattributes", *sizes}
    assert len(hub_server.requests) == asked
    hub_server.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(hub_server, "GET", "/api/whoami-v2")
    hub_server.start()
    assert ask(hub_server, "GET", "/api/whoami-v2")[1]["name"] == "alice"
    assert hub_server.files("lab/m")["sub/a.txt"] == HELLO


def test_objects_whose_hash_or_size_is_wrong_are_refused(hub_server: HubServer) -> None:
    ask(hub_server, "POST", "/api/repos/create", {"name": "m", "organization": "lab"})
    ask(hub_server, "POST", "/api/repos/create", {"name": "other", "organization": "lab"})
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    batch, verify = "/lab/m.git/info/lfs/objects/batch", "/lab/m.git/info/lfs/verify"
    announced = {"oid": sha256, "size": len(WEIGHTS)}
    lfs_file = {"path": "model.safetensors", "algo": "sha256", **announced}
    commit = SUMMARY + operation("lfsFile", **lfs_file)

    def status(method: str, path: str, body: object) -> int:
        return ask(hub_server, method, path, body)[0]

    answer = ask(hub_server, "POST", batch, {"operation": "upload", "objects": [announced]})[1]
    href = answer["objects"][0]["actions"]["upload"]["href"]
    path = "/" + href.split("/", 3)[3]
    assert status("PUT", path, WEIGHTS[:-1]) == 400
    assert status("PUT", path, b"\1" + WEIGHTS[1:]) == 400
    assert status("PUT", "/upload/guessed", WEIGHTS) == 403
    assert status("POST", verify, announced) == 404
    assert status("POST", "/api/models/lab/m/commit/main", commit) == 404
    assert ask(hub_server, "PUT", path, WEIGHTS, token=None)[0] == 200
    assert status("POST", verify, {"oid": sha256, "size": 1}) == 400
    assert status("POST", verify, announced) == 200
    wrong = SUMMARY + operation("lfsFile", **lfs_file | {"size": 1})
    assert status("POST", "/api/models/lab/m/commit/main", wrong) == 400
    # What another repository holds does not count.
    assert status("POST", "/api/models/lab/other/commit/main", commit) == 404
    # Nor does what has rotted since.
    kept = hub_server.folder / "objects" / sha256
    kept.write_bytes(WEIGHTS[::-1])
    assert status("POST", "/api/models/lab/m/commit/main", commit) == 400
    kept.write_bytes(WEIGHTS)
    assert len(hub_server.commits("lab/m")) == 1
    assert status("POST", "/api/models/lab/m/commit/main", commit) == 200
    assert hub_server.files("lab/m")["model.safetensors"] == WEIGHTS
    answer = ask(hub_server, "POST", batch, {"operation": "upload", "objects": [announced]})[1]
    assert "actions" not in answer["objects"][0]


def test_commits_refuse_paths_outside_and_large_regular_files(hub_server: HubServer) -> None:
    hub_server.put("lab/m", {})
    large = base64.b64encode(bytes(10_000_001)).decode()
    for path, content in (
        ("../a", ""),
        ("a//b", ""),
        ("/a", ""),
        (".git/config", ""),
        ("a", large),
    ):
        body = SUMMARY + operation("file", path=path, content=content, encoding="base64")
        assert ask(hub_server, "POST", "/api/models/lab/m/commit/main", body)[0] == 400
    assert set(hub_server.files("lab/m")) == {".gitattributes"}


def test_large_files_come_from_another_host_and_in_ranges(hub_server: HubServer) -> None:
    commit = hub_server.put("lab/m", {"model.safetensors": WEIGHTS, "a.txt": HELLO})
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    status, _, headers = ask(hub_server, "HEAD", "/lab/m/resolve/main/model.safetensors")
    assert status == 302
    assert headers["Location"].startswith("http://localhost:")
    assert headers["X-Repo-Commit"] == commit
    assert headers["X-Linked-Etag"] == f'"{sha256}"'
    assert headers["X-Linked-Size"] == str(len(WEIGHTS))
    status, body, headers = ask(hub_server, "GET", "/lab/m/resolve/main/a.txt")
    assert (status, body, headers["ETag"]) == (200, HELLO, f'"{HELLO_BLOB}"')
    status, _, headers = ask(hub_server, "HEAD", "/lab/m/resolve/main/b.txt")
    assert (status, headers["X-Error-Code"]) == (404, "EntryNotFound")
    assert headers["X-Repo-Commit"] == commit

    connection = http.client.HTTPConnection("127.0.0.1", int(hub_server.url.rsplit(":", 1)[1]))
    parts = (
        ("5-9", 206, WEIGHTS[5:10]),
        ("511990-", 206, WEIGHTS[-10:]),
        ("-3", 206, WEIGHTS[-3:]),
    )
    for asked, status, expected in (*parts, ("512000-", 416, None)):
        connection.request("GET", f"/cdn/{sha256}", headers={"Range": f"bytes={asked}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == status
        if expected:
            assert body == expected
            start = WEIGHTS.index(expected) if asked == "5-9" else len(WEIGHTS) - len(expected)
            end = start + len(expected) - 1
            assert answer.headers["Content-Range"] == f"bytes {start}-{end}/{len(WEIGHTS)}"
    connection.close()


def test_downloads_resume_and_short_ones_are_noticed(
    hub_server: HubServer, hub_environment: Environment
) -> None:
    megabyte = 1 << 20
    large = os.urandom(12 * megabyte)  # the client writes to disk by 10 megabytes
    hub_server.put("lab/m", {"model.safetensors": large, "other.safetensors": WEIGHTS})
    hub_server.drop("GET", "/cdn/", after_bytes=11 * megabyte)
    code = """
        import hashlib
        with open(hf_hub_download("lab/m", "model.safetensors"), "rb") as file:
            print(json.dumps(hashlib.sha256(file.read()).hexdigest()))
        """
    assert run(code, hub_environment()) == hashlib.sha256(large).hexdigest()
    gets = [
        each.status for each in hub_server.requests if each[:1] == ("GET",) and "/cdn/" in each.path
    ]
    assert gets == [200, 206]
    assert hub_server.faults == []
    hub_server.truncate("GET", "/cdn/", to_bytes=1000)
    code = """
        short = told(lambda: hf_hub_download("lab/m", "other.safetensors"))
        print(json.dumps([short, os.path.getsize(hf_hub_download("lab/m", "other.safetensors"))]))
        """
    (name, message), size = run(code, hub_environment())
    assert name == "OSError"
    assert "should be of size 512000 but has size 1000" in message
    assert size == len(WEIGHTS)


def test_a_push_that_failed_finishes_what_was_left(
    hub_server: HubServer, hub_environment: Environment, folder: Path
) -> None:
    hub_server.put("lab/m", {})
    hub_server.drop("PUT", "/upload/", after_bytes=1000)
    hub_server.fail("POST", r"/commit/", status=500, times=2)
    code = """
        import contextlib, io
        def push():
            with contextlib.redirect_stderr(io.StringIO()):
                api.upload_folder(repo_id="lab/m", folder_path=sys.argv[1])
        print(json.dumps([told(push) for _ in range(int(sys.argv[2]))]))
        """
    found = run(code, hub_environment("alice"), folder, 3)
    assert [name for name, _ in found] == ["HfHubHTTPError", "HfHubHTTPError", "nothing"]
    assert "500" in found[0][1]
    uploads = [each.status for each in hub_server.requests if each.method == "PUT"]
    assert uploads == [None, 200]
    assert len(hub_server.commits("lab/m")) == 3
    assert hub_server.files("lab/m")["model.safetensors"] == WEIGHTS

    # A commit that was made although its answer was lost is not made twice.
    (folder / "hello.txt").write_bytes(b"changed")
    hub_server.drop("POST", "/commit/", answer=True)
    found = run(code, hub_environment("alice"), folder, 2)
    assert [name for name, _ in found] == ["RemoteProtocolError", "nothing"]
    assert len(hub_server.commits("lab/m")) == 4
    assert hub_server.files("lab/m")["hello.txt"] == b"changed"


GOOD_CARD = """---
language:
- de
- en
license: apache-2.0
library_name: transformers
pipeline_tag: translation
datasets:
- wmt/wmt14
metrics:
- sacrebleu
model-index:
- name: base
  results:
  - task:
      type: translation
    dataset:
      type: wmt/wmt14
      name: WMT 2014
    metrics:
    - type: sacrebleu
      value: 27.3
---
# A model
"""


def test_a_good_card_has_no_errors() -> None:
    metadata, errors, warnings = read_card(GOOD_CARD)
    assert (errors, warnings) == ([], [])
    assert metadata["model-index"][0]["results"][0]["metrics"][0]["value"] == 27.3


def test_no_is_norwegian_but_false_is_not() -> None:  # the Hub reads YAML 1.2
    metadata, errors, _ = read_card(GOOD_CARD.replace("- en", "- no"))
    assert (metadata["language"], errors) == (["de", "no"], [])
    assert read_card(GOOD_CARD.replace("- en", "- false"))[1] == ['"language[1]" must be a string']


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # As users report the Hub's own words.
        ("apache-2.0", "Apache 2.0", '"license" must be one of [apache-2.0, mit, openrail,'),
        ("apache-2.0", "gpl-2.0-or-later", '"license" must be one of [apache-2.0, mit,'),
        (
            "- en",
            "- pt_pt",
            '"language[1]" with value "pt_pt" is not valid. It must be an ISO 639-1',
        ),
        ("- de", "- DE", '"language[0]" must only contain lowercase characters'),
        ("- wmt/wmt14", "- WMT 14", '"datasets[0]" with value "WMT 14" is not valid.'),
        ("name: WMT 2014", "split: test", '"model-index[0].results[0].dataset.name" is required'),
        (
            "type: wmt/wmt14",
            "type: W M T",
            '"model-index[0].results[0].dataset.type" with value "W',
        ),
        ("type: translation", "name: it", '"model-index[0].results[0].task.type" is required'),
        ("value: 27.3", "name: BLEU", '"model-index[0].results[0].metrics[0].value" is required'),
        (
            "    metrics:\n    -",
            "    metrics:\n     ",
            '"model-index[0].results[0].metrics" must be an',
        ),
        ("  results:", "  scores:", '"model-index[0].results" is required'),
        ("- name: base\n ", "  name: base\n ", '"model-index" must be an array'),
        ("- sacrebleu\nmodel", "  sacrebleu\nmodel", '"metrics" must be an array'),
        ("pipeline_tag: translation", "pipeline_tag: [", "Invalid YAML in README.md: "),
    ],
)
def test_each_mistake_in_a_card_is_named(old: str, new: str, expected: str) -> None:
    assert GOOD_CARD.count(old) >= 1
    _, errors, _ = read_card(GOOD_CARD.replace(old, new, 1))
    assert len(errors) == 1
    assert errors[0].startswith(expected)


def test_a_card_without_metadata_or_with_an_unknown_task_is_warned_of() -> None:
    assert read_card("# A model\n")[1:] == ([], ["empty or missing yaml metadata in repo card"])
    _, errors, warnings = read_card(GOOD_CARD.replace("tag: translation", "tag: translating"))
    assert errors == []
    assert warnings[0].startswith('The pipeline tag "translating" is not in the official list: ')


def test_the_client_refuses_a_card_that_the_hub_does_not_accept(
    hub_server: HubServer, hub_environment: Environment
) -> None:
    hub_server.put("lab/m", {})
    bad = GOOD_CARD.replace("apache-2.0", "mine")
    code = """
        import warnings
        good, bad = sys.argv[1:]
        upload = dict(path_in_repo="README.md", repo_id="lab/m")
        api.upload_file(path_or_fileobj=good.encode(), **upload)
        data = api.model_info("lab/m").card_data
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            api.upload_file(path_or_fileobj=b"# No metadata", **upload)
        print(json.dumps([
            told(lambda: api.upload_file(path_or_fileobj=bad.encode(), **upload)),
            [data.license, data.eval_results[0].metric_value],
            [str(each.message) for each in caught],
        ]))
        """
    uploaded, data, warnings = run(code, hub_environment("alice"), GOOD_CARD, bad)
    assert uploaded[0] == "ValueError"
    assert uploaded[1].startswith('Invalid metadata in README.md.\n- "license" must be one of [')
    assert data == ["apache-2.0", 27.3]
    assert any("empty or missing yaml metadata in repo card" in each for each in warnings)
    content = base64.b64encode(bad.encode()).decode()
    body = SUMMARY + operation("file", path="README.md", content=content, encoding="base64")
    status, answer, _ = ask(hub_server, "POST", "/api/models/lab/m/commit/main", body)
    assert status == 400
    assert answer["error"].startswith('Invalid metadata in README.md: "license" must be one of')


def test_a_dataset_that_was_pushed_loads_whole_and_streamed(
    hub_server: HubServer, hub_environment: Environment
) -> None:
    pytest.importorskip("datasets")
    code = """
        import datasets
        datasets.disable_progress_bars()
        rows = [{"de": "eins", "en": "one"}, {"de": "zwei", "en": "two"}]
        made = datasets.Dataset.from_list(rows)
        both = datasets.DatasetDict(train=made, test=made.select([1]))
        both.push_to_hub("lab/pairs", private=True)
        found = datasets.load_dataset("lab/pairs")
        streamed = datasets.load_dataset("lab/pairs", split="train", streaming=True)
        print(json.dumps([found["train"].to_list(), found["test"].to_list(), list(streamed)]))
        """
    rows = [{"de": "eins", "en": "one"}, {"de": "zwei", "en": "two"}]
    assert run(code, hub_environment("alice")) == [rows, rows[1:], rows]
    files = hub_server.files("lab/pairs", kind="dataset")
    parquet = [content for path, content in files.items() if path.endswith(".parquet")]
    assert [content[:4] for content in parquet] == [b"PAR1"] * 2
