"""A small Hugging Face Hub on the loopback interface, for tests that push and pull.

    with HubServer(folder) as hub:
        hub.add_user("alice", token="hf_alice", organizations=["lab"])
        # a process with HF_ENDPOINT=hub.url and HF_TOKEN=hf_alice pushes to "lab/model"
        assert hub.files("lab/model")["config.json"] == ...

It keeps what it is sent, computes every hash anew and refuses what does not fit. Left out: Xet (clients
set HF_HUB_DISABLE_XET=1), pull requests, gated repositories, .gitignore, pages of long lists.
Standard library, but for the YAML of model cards, which is read by PyYAML as the client does.
"""

import base64
import hashlib
import json
import os
import re
import secrets
import socket
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

import yaml


# What the Hub writes into `.gitattributes` of a new repository, as far as it matters here.
LFS_PATTERNS = (
    "*.7z *.arrow *.bin *.bz2 *.ckpt *.gz *.h5 *.joblib *.model *.msgpack *.npy *.npz *.onnx *.parquet "
    "*.pickle *.pkl *.pt *.pth *.safetensors *.tar *.xz *.zip *.zst *tfevents*"
).split()
LARGEST_REGULAR_BYTES = 10_000_000
KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}


class Request(NamedTuple):
    """One request; `status` is `None` where the connection was dropped before an answer."""

    method: str
    path: str
    status: int | None


@dataclass(frozen=True)
class User:
    name: str
    role: str
    namespaces: frozenset[str]


@dataclass(frozen=True)
class File:
    """A file of a commit; its content lies in the folder `objects`, under its sha256."""

    sha256: str
    size: int
    is_lfs: bool
    blob: str  # git's id: of the content, or of the pointer to the LFS object

    @property
    def oid(self) -> str:
        """The hash that clients compare: sha256 of an LFS object, git's id of anything else."""
        return self.sha256 if self.is_lfs else self.blob


@dataclass(frozen=True)
class Commit:
    id: str
    parent: str | None
    title: str
    message: str
    author: str
    date: datetime
    files: Mapping[str, File]


@dataclass
class Repo:
    kind: str
    id: str
    private: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    lfs_objects: set[str] = field(default_factory=set)  # sha256 of what was uploaded here

    @property
    def namespace(self) -> str:
        return self.id.split("/")[0]

    @property
    def path(self) -> str:
        return self.id if self.kind == "model" else f"{self.kind}s/{self.id}"

    def at(self, revision: str) -> Commit:
        """The commit that a branch, a tag, or the first 7 or more digits of an id name."""
        found = self.branches.get(revision) or self.tags.get(revision)
        if not found and re.fullmatch("[0-9a-f]{7,40}", revision):
            found = next((name for name in self.commits if name.startswith(revision)), None)
        if not found:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[found]

    def history(self, revision: str) -> Iterable[Commit]:
        commit: Commit | None = self.at(revision)
        while commit:
            yield commit
            commit = self.commits.get(commit.parent or "")


@dataclass
class Call:
    """What a request brings to the function that answers it."""

    user: User | None
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body or b"{}")
        except ValueError as error:
            raise HubError(400, f"The body is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise HubError(400, "The body is not a JSON object")
        return value

    def asks(self, name: str) -> bool:
        return self.query.get(name, ["false"])[0].lower() in ("true", "1")


@dataclass
class Answer:
    body: Any = b""  # bytes, or what becomes JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class HubError(Exception):
    """An answer that is an error, with the headers by which clients know it."""

    def __init__(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        super().__init__(message)
        headers = {"X-Error-Message": message, **headers}
        if code:
            headers["X-Error-Code"] = code
        self.answer = Answer({"error": message}, status, headers)


@dataclass
class Fault:
    kind: str  # "fail", "drop" or "truncate"
    method: str
    path: str
    number: int  # a status, or bytes
    times: int
    in_answer: bool = True


_ROUTES: list[tuple[str, re.Pattern[str], bool, Callable[..., Answer]]] = []
_API = r"/api/(?P<kind>models|datasets|spaces)/(?P<id>[^/]+/[^/]+)"
_WEB = r"/(?:(?P<kind>datasets|spaces)/)?(?P<id>[^/]+/[^/]+)"


def _route(method: str, path: str, write: bool = False) -> Callable[..., Any]:
    """Let a method answer; where the path names a repository, `repo` is one the user may read.

    With `write` it is one the user may write to.
    """

    def register(function: Callable[..., Answer]) -> Callable[..., Answer]:
        _ROUTES.append((method, re.compile(path), write, function))
        return function

    return register


class HubServer:
    """A Hub that listens on a free port of 127.0.0.1, from `start` (or `with`) to `stop`.

    `requests` lists every request so far; `faults` those still to come (clear it to end them).

    Args:
        folder: where contents are kept, each in `objects` under its sha256.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self._users: dict[str, User] = {}  # by token
        self._repos: dict[tuple[str, str], Repo] = {}
        self._uploads: dict[str, tuple[Repo, str, int]] = {}  # by ticket: where, sha256, bytes
        self._lock = threading.RLock()
        self._connections: set[socket.socket] = set()
        self._port = 0
        (folder / "objects").mkdir(parents=True, exist_ok=True)

    # What tests call

    def start(self) -> Self:
        """Listen; after a `stop` on the same port as before."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.hub = self
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Refuse connections and close those that are open; nothing that was stored is lost."""
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._connections):
            _hang_up(connection)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def environment(self, home: Path, token: str | None = None) -> dict[str, str]:
        """The variables of a process that talks to this Hub, with its cache in `home`.

        Its client reads them when it is imported, so that a process of its own is needed.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING")) and name != "TRANSFORMERS_OFFLINE"
        }
        return {
            **kept,
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "OMP_NUM_THREADS": "1",
            **({"HF_TOKEN": token} if token else {}),
        }

    def add_user(
        self, name: str, token: str, role: str = "write", organizations: Iterable[str] = ()
    ) -> None:
        """Let a token act for a user, with role "write" or "read", in these organisations too."""
        self._users[token] = User(name, role, frozenset([name, *organizations]))

    def files(
        self, repo_id: str, revision: str = "main", repo_type: str = "model"
    ) -> dict[str, bytes]:
        """The content of every file by its path, `.gitattributes` of the new repository included."""
        with self._lock:
            files = self._repos[repo_type, repo_id].at(revision).files
        return {path: self._content(file) for path, file in files.items()}

    def commits(
        self, repo_id: str, revision: str = "main", repo_type: str = "model"
    ) -> list[Commit]:
        """The commits up to a revision, the newest first."""
        with self._lock:
            return list(self._repos[repo_type, repo_id].history(revision))

    def put(
        self,
        repo_id: str,
        files: Mapping[str, bytes],
        private: bool = False,
        repo_type: str = "model",
    ) -> str:
        """Commit files past the protocol, without a card's checks; create the repository if missing.

        Returns:
            The id of the commit.
        """
        with self._lock:
            repo = self._repos.get((repo_type, repo_id)) or self._create(
                repo_type, repo_id, private
            )
            stored = {
                path: self._store(content, is_lfs=_goes_to_lfs(path, len(content), content[:512]))
                for path, content in files.items()
            }
            repo.lfs_objects |= {file.sha256 for file in stored.values() if file.is_lfs}
            changed = {**repo.at("main").files, **stored}
            return self._commit(repo, "main", changed, "Put files", "", repo.namespace).id

    def fail(self, method: str, path: str, status: int = 500, times: int = 1) -> None:
        """Answer the next `times` requests whose path has a match of `path` with an error."""
        self.faults.append(Fault("fail", method, path, status, times))

    def drop(
        self,
        method: str,
        path: str,
        after_bytes: int = 0,
        times: int = 1,
        in_answer: bool | None = None,
    ) -> None:
        """Close the connection after so many bytes of a body.

        Args:
            method: as `path` and `times` in `fail`.
            path: see `method`.
            after_bytes: of the request's body, and nothing is done; or of the answer's.
            times: see `method`.
            in_answer: whether the request is carried out and the answer cut off; unless said, so for
                GET and HEAD only.
        """
        in_answer = method in ("GET", "HEAD") if in_answer is None else in_answer
        self.faults.append(Fault("drop", method, path, after_bytes, times, in_answer))

    def truncate(self, method: str, path: str, to_bytes: int, times: int = 1) -> None:
        """Answer with the first bytes of the body only, as if there were no more."""
        self.faults.append(Fault("truncate", method, path, to_bytes, times))

    # Answers to requests

    def _answer(self, method: str, call: Call, token: str | None) -> Answer:
        try:
            if token is not None:
                if token not in self._users:
                    raise HubError(401, "Invalid credentials in Authorization header")
                call.user = self._users[token]
            for verb, path, write, function in _ROUTES:
                match = path.fullmatch(call.path)
                if match and verb == ("GET" if method == "HEAD" else method):
                    groups = {k: unquote(v) for k, v in match.groupdict().items() if v is not None}
                    with self._lock:
                        if "id" in groups:
                            kind = KINDS[groups.pop("kind", "models")]
                            groups["repo"] = self._find(call.user, kind, groups.pop("id"), write)
                        return function(self, call, **groups)
            is_repo = re.match(r"/api/(models|datasets|spaces)/|.*/resolve/", call.path)
            raise HubError(404, "Not found", "RepoNotFound" if is_repo else None)
        except HubError as error:
            return error.answer

    def _find(self, user: User | None, kind: str, repo_id: str, write: bool) -> Repo:
        repo = self._repos.get((kind, repo_id))
        if not repo or (repo.private and not (user and repo.namespace in user.namespaces)):
            # A stranger must not learn whether it exists.
            raise HubError(404 if user else 401, "Repository not found", "RepoNotFound")
        if write:
            self._may_write(user, repo.namespace)
        return repo

    def _may_write(self, user: User | None, namespace: str) -> User:
        if not user:
            raise HubError(401, "Invalid username or password.")
        if user.role != "write":
            raise HubError(403, "you must use a write token to upload to a repository")
        if namespace not in user.namespaces:
            raise HubError(
                403, f"You don't have the rights to write under the namespace {namespace}"
            )
        return user

    @_route("GET", "/api/whoami-v2")
    def _whoami(self, call: Call) -> Answer:
        user = call.user
        if not user:
            raise HubError(401, "Invalid username or password.")
        organizations = sorted(user.namespaces - {user.name})
        token = {"displayName": "test", "role": user.role}
        return Answer(
            {
                "type": "user",
                "name": user.name,
                "fullname": user.name,
                "orgs": [{"name": name, "roleInOrg": "write"} for name in organizations],
                "auth": {"type": "access_token", "accessToken": token},
            }
        )

    @_route("POST", "/api/repos/create")
    def _create_repo(self, call: Call) -> Answer:
        kind, repo_id = self._named(call)
        asked = call.json()
        name = repo_id.split("/")[1]
        if (
            not re.fullmatch(r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?", name, re.ASCII)
            or re.search(r"--|\.\.", name)
            or name.endswith(".git")
        ):
            raise HubError(400, f"Invalid repo name: {repo_id}")
        answer = {"name": repo_id, "url": f"{self.url}/{Repo(kind, repo_id).path}"}
        if (
            kind,
            repo_id,
        ) in self._repos:  # a client told to accept this reads the url all the same
            answer["error"] = f"You already created this {kind} repo"
            return Answer(answer, 409, {"X-Error-Message": answer["error"]})
        self._create(kind, repo_id, _is_private(asked))
        return Answer(answer)

    @_route("DELETE", "/api/repos/delete")
    def _delete_repo(self, call: Call) -> Answer:
        if not self._repos.pop(self._named(call), None):
            raise HubError(404, "Repository not found", "RepoNotFound")
        return Answer()

    def _named(self, call: Call) -> tuple[str, str]:
        """Kind and id of the repository that the body names, in a namespace the user may write to."""
        asked = call.json()
        namespace = asked.get("organization") or (call.user.name if call.user else "")
        self._may_write(call.user, namespace)
        kind = asked.get("type") or "model"
        if kind not in KINDS.values() or not isinstance(asked.get("name"), str):
            raise HubError(400, '"type" must be model, dataset or space, and "name" a text')
        return kind, f"{namespace}/{asked['name']}"

    @_route("PUT", f"{_API}/settings", write=True)
    def _settings(self, call: Call, repo: Repo) -> Answer:
        repo.private = _is_private(call.json(), default=repo.private)
        return Answer({"private": repo.private})

    @_route("GET", f"{_API}/auth-check")
    def _may_read(self, call: Call, repo: Repo) -> Answer:
        return Answer({})

    @_route("GET", f"{_API}/auth-check/write", write=True)
    def _may_push(self, call: Call, repo: Repo) -> Answer:
        return Answer({})

    @_route("GET", r"/api/(?P<plural>models|datasets|spaces)")
    def _list(self, call: Call, plural: str) -> Answer:
        author = call.query.get("author", [None])[0]
        namespaces = call.user.namespaces if call.user else ()
        return Answer(
            [
                self._described(repo, repo.at("main"))
                for (kind, _), repo in self._repos.items()
                if kind == KINDS[plural]
                and author in (None, repo.namespace)
                and (not repo.private or repo.namespace in namespaces)
            ]
        )

    @_route("GET", rf"{_API}(?:/revision/(?P<revision>[^/]+))?")
    def _info(self, call: Call, repo: Repo, revision: str = "main") -> Answer:
        return Answer(self._described(repo, repo.at(revision), call.asks("blobs")))

    def _described(self, repo: Repo, commit: Commit, blobs: bool = False) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = []
        for path, file in commit.files.items():
            siblings.append({"rfilename": path})
            if blobs:
                siblings[-1] |= {"size": file.size, "blobId": file.blob}
                if file.is_lfs:
                    lfs = {
                        "sha256": file.sha256,
                        "size": file.size,
                        "pointerSize": len(_pointer(file)),
                    }
                    siblings[-1]["lfs"] = lfs
        card = {}
        if "README.md" in commit.files:
            card = read_card(self._content(commit.files["README.md"]).decode(errors="replace"))[0]
        created = list(repo.commits.values())[0].date
        return {
            "id": repo.id,
            "author": repo.namespace,
            "sha": commit.id,
            "createdAt": _iso(created),
            "lastModified": _iso(commit.date),
            "private": repo.private,
            "gated": False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": card.get("tags", []),
            "pipeline_tag": card.get("pipeline_tag"),
            "library_name": card.get("library_name"),
            "cardData": card,
            "siblings": siblings,
        }

    @_route("GET", f"{_API}/refs")
    def _refs(self, call: Call, repo: Repo) -> Answer:
        def listed(names: dict[str, str], folder: str) -> list[dict[str, str]]:
            return [
                {"name": name, "ref": f"refs/{folder}/{name}", "targetCommit": commit}
                for name, commit in names.items()
            ]

        branches, tags = listed(repo.branches, "heads"), listed(repo.tags, "tags")
        return Answer({"branches": branches, "tags": tags, "converts": [], "pullRequests": []})

    @_route("POST", rf"{_API}/branch/(?P<name>[^/]+)", write=True)
    def _create_branch(self, call: Call, repo: Repo, name: str) -> Answer:
        start = call.json().get("startingPoint") or "main"
        return self._point(repo.branches, name, repo.at(start), f"Reference already exists: {name}")

    @_route("POST", rf"{_API}/tag/(?P<revision>[^/]+)", write=True)
    def _create_tag(self, call: Call, repo: Repo, revision: str) -> Answer:
        name = call.json().get("tag", "")
        return self._point(repo.tags, name, repo.at(revision), f"Tag already exists: {name}")

    def _point(self, names: dict[str, str], name: str, commit: Commit, taken: str) -> Answer:
        if not re.fullmatch(r"[\w./-]+", name):
            raise HubError(400, f"Invalid reference name: {name!r}")
        if name in names:
            raise HubError(409, taken)
        names[name] = commit.id
        return Answer({})

    @_route("DELETE", rf"{_API}/(?P<what>branch|tag)/(?P<name>[^/]+)", write=True)
    def _delete_reference(self, call: Call, repo: Repo, what: str, name: str) -> Answer:
        if (what, name) == ("branch", "main"):
            raise HubError(403, "The branch main cannot be deleted")
        names = repo.branches if what == "branch" else repo.tags
        if not names.pop(name, None):
            raise HubError(404, f"Invalid rev id: {name}", "RevisionNotFound")
        return Answer({})

    @_route("GET", rf"{_API}/commits/(?P<revision>[^/]+)")
    def _commits(self, call: Call, repo: Repo, revision: str) -> Answer:
        return Answer(
            [
                {
                    **_headline(commit),
                    "message": commit.message,
                    "authors": [{"user": commit.author}],
                }
                for commit in repo.history(revision)
            ]
        )

    @_route("GET", rf"{_API}/tree/(?P<revision>[^/]+)(?:/(?P<folder>.+))?")
    def _tree(self, call: Call, repo: Repo, revision: str, folder: str = "") -> Answer:
        commit = repo.at(revision)
        paths = _with_folders(commit.files)
        if folder and folder.rstrip("/") not in paths:
            raise HubError(404, f"{folder} does not exist on {revision}", "EntryNotFound")
        above = PurePosixPath(folder)
        inside = [
            path
            for path in paths
            if above == PurePosixPath(path).parent
            or (call.asks("recursive") and above in PurePosixPath(path).parents)
        ]
        return Answer([self._entry(repo, commit, path, call.asks("expand")) for path in inside])

    @_route("POST", rf"{_API}/paths-info/(?P<revision>[^/]+)")
    def _paths_info(self, call: Call, repo: Repo, revision: str) -> Answer:
        commit = repo.at(revision)
        form = parse_qs(call.body.decode())
        expand = form.get("expand", ["false"])[0].lower() == "true"
        known = _with_folders(commit.files)
        return Answer(
            [
                self._entry(repo, commit, path, expand)
                for path in form.get("paths", [])
                if path in known
            ]
        )

    def _entry(self, repo: Repo, commit: Commit, path: str, expand: bool) -> dict[str, Any]:
        file = commit.files.get(path)
        entry: dict[str, Any]
        if file:
            entry = {"type": "file", "oid": file.blob, "size": file.size, "path": path}
        else:
            inside = {
                p[len(path) + 1 :]: f for p, f in commit.files.items() if p.startswith(f"{path}/")
            }
            entry = {"type": "directory", "oid": tree_id(inside), "size": 0, "path": path}
        if file and file.is_lfs:
            entry["lfs"] = {
                "oid": file.sha256,
                "size": file.size,
                "pointerSize": len(_pointer(file)),
            }
        if expand:
            touched = commit
            for older in repo.history(commit.id):
                if older.files.get(path) != file:
                    break
                touched = older
            entry["lastCommit"] = _headline(touched)
        return entry

    @_route("POST", "/api/validate-yaml")
    def _validate_yaml(self, call: Call) -> Answer:
        asked = call.json()
        metadata, errors, warnings = read_card(str(asked.get("content")))
        errors = errors or card_errors(metadata)
        status = 400 if errors else 200
        if "text/plain" in call.headers.get("Accept", ""):
            lines = [f"- Error: {error}" for error in errors] + [
                f"- Warning: {w}" for w in warnings
            ]
            return Answer("\n".join(lines).encode(), status, {"Content-Type": "text/plain"})
        return Answer(
            {
                "errors": [{"message": error} for error in errors],
                "warnings": [{"message": warning} for warning in warnings],
            },
            status,
        )

    @_route("POST", rf"{_API}/preupload/(?P<revision>[^/]+)", write=True)
    def _preupload(self, call: Call, repo: Repo, revision: str) -> Answer:
        present = repo.at(revision).files
        files = []
        for asked in call.json()["files"]:
            path = asked["path"]
            is_lfs = _goes_to_lfs(path, asked["size"], base64.b64decode(asked["sample"]))
            files.append(
                {
                    "path": path,
                    "uploadMode": "lfs" if is_lfs else "regular",
                    "shouldIgnore": False,
                    "oid": present[path].oid if path in present else None,
                }
            )
        return Answer({"files": files})

    @_route("POST", rf"{_WEB}\.git/info/lfs/objects/batch", write=True)
    def _lfs_batch(self, call: Call, repo: Repo) -> Answer:
        objects = []
        for asked in call.json()["objects"]:
            oid, size = asked["oid"], asked["size"]
            objects.append({"oid": oid, "size": size})
            if oid not in repo.lfs_objects:
                ticket = secrets.token_urlsafe(16)
                self._uploads[ticket] = repo, oid, size
                objects[-1]["actions"] = {
                    "upload": {"href": f"http://localhost:{self._port}/upload/{ticket}"},
                    "verify": {"href": f"{self.url}/{repo.path}.git/info/lfs/verify"},
                }
        return Answer({"transfer": "basic", "objects": objects})

    @_route("PUT", r"/upload/(?P<ticket>[^/]+)")
    def _upload(self, call: Call, ticket: str) -> Answer:
        if ticket not in self._uploads:
            raise HubError(403, "The address of this upload is not valid")
        repo, oid, size = self._uploads[ticket]
        found = hashlib.sha256(call.body).hexdigest()
        if (found, len(call.body)) != (oid, size):
            message = f"Announced {size} bytes of sha256 {oid}, got {len(call.body)} of {found}"
            raise HubError(400, message)
        self._store(call.body, is_lfs=True)
        repo.lfs_objects.add(oid)
        return Answer()

    @_route("POST", rf"{_WEB}\.git/info/lfs/verify", write=True)
    def _verify(self, call: Call, repo: Repo) -> Answer:
        asked = call.json()
        self._uploaded(repo, str(asked.get("oid")), asked.get("size"))
        return Answer({})

    def _uploaded(self, repo: Repo, oid: str, size: int | None) -> File:
        """The LFS object that a client says it uploaded, its content hashed once more."""
        path = self.folder / "objects" / oid
        if oid not in repo.lfs_objects or not path.is_file():
            raise HubError(
                404, f"The LFS object {oid} was not uploaded to {repo.id}", "LfsNotFound"
            )
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != oid or size not in (None, len(content)):
            raise HubError(422, f"The LFS object {oid} is not the one announced, of {size} bytes")
        return self._store(content, is_lfs=True)

    @_route("POST", rf"{_API}/commit/(?P<branch>[^/]+)", write=True)
    def _commit_request(self, call: Call, repo: Repo, branch: str) -> Answer:
        if call.asks("create_pr"):
            raise HubError(501, "Pull requests are not served here")
        if branch not in repo.branches:
            raise HubError(404, f"Invalid rev id: {branch}", "RevisionNotFound")
        head = repo.at(branch)
        header, files = {}, dict(head.files)
        for line in call.body.splitlines():
            operation = json.loads(line)
            key, value = operation["key"], operation["value"]
            if key == "header":
                header = value
                continue
            path = value["path"]
            if not path or set(path.split("/")) & {"", ".", "..", ".git"}:
                raise HubError(400, f"Invalid path in repo: {path!r}")
            if key == "file":
                files[path] = self._store(base64.b64decode(value["content"]), is_lfs=False)
                if path == "README.md":
                    self._check_card(files[path])
            elif key == "lfsFile":
                files[path] = self._uploaded(repo, value["oid"], value.get("size"))
            elif key in ("deletedFile", "deletedFolder"):
                prefix = f"{path.rstrip('/')}/"
                gone = [
                    p
                    for p in files
                    if p == path or (key == "deletedFolder" and p.startswith(prefix))
                ]
                if not gone:
                    raise HubError(
                        404, f"A file with this name doesn't exist: {path}", "EntryNotFound"
                    )
                for each in gone:
                    del files[each]
            else:
                raise HubError(400, f"Unknown operation: {key}")
        if not header.get("summary"):
            raise HubError(400, "A commit needs a summary")
        if not head.id.startswith(header.get("parentCommit") or ""):
            raise HubError(412, "A commit has happened since. Please refresh and try again.")
        assert call.user
        commit = self._commit(
            repo, branch, files, header["summary"], header.get("description", ""), call.user.name
        )
        url = f"{self.url}/{repo.path}/commit/{commit.id}"
        return Answer({"success": True, "commitOid": commit.id, "commitUrl": url})

    def _check_card(self, card: File) -> None:
        metadata, errors, _ = read_card(self._content(card).decode(errors="replace"))
        errors = errors or card_errors(metadata)
        if errors:
            raise HubError(400, "Invalid metadata in README.md: " + "; ".join(errors))

    @_route("GET", rf"{_WEB}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
    def _resolve(self, call: Call, repo: Repo, revision: str, path: str) -> Answer:
        commit = repo.at(revision)
        headers = {"X-Repo-Commit": commit.id, "Accept-Ranges": "bytes"}
        file = commit.files.get(path)
        if not file:
            raise HubError(404, f"{path} is not in {repo.id}", "EntryNotFound", **headers)
        headers["ETag"] = f'"{file.oid}"'
        if file.is_lfs:
            # To another host, or the client follows at once and loses these headers.
            headers["Location"] = f"http://localhost:{self._port}/cdn/{file.sha256}"
            headers |= {"X-Linked-ETag": headers["ETag"], "X-Linked-Size": str(file.size)}
            return Answer(b"", 302, headers)
        return _part(self._content(file), call, headers)

    @_route("GET", "/cdn/(?P<sha256>[0-9a-f]{64})")
    def _cdn(self, call: Call, sha256: str) -> Answer:
        path = self.folder / "objects" / sha256
        if not path.is_file():
            raise HubError(404, "Not found")
        return _part(path.read_bytes(), call, {"ETag": f'"{sha256}"', "Accept-Ranges": "bytes"})

    # The store

    def _create(self, kind: str, repo_id: str, private: bool) -> Repo:
        repo = self._repos[kind, repo_id] = Repo(kind, repo_id, private)
        lines = "".join(
            f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in LFS_PATTERNS
        )
        attributes = self._store(lines.encode(), is_lfs=False)
        self._commit(
            repo, "main", {".gitattributes": attributes}, "initial commit", "", repo.namespace
        )
        return repo

    def _store(self, content: bytes, is_lfs: bool) -> File:
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.folder / "objects" / sha256
        if not path.is_file():
            path.write_bytes(content)
        file = File(sha256, len(content), is_lfs, git_id("blob", content))
        return File(sha256, len(content), True, git_id("blob", _pointer(file))) if is_lfs else file

    def _content(self, file: File) -> bytes:
        return (self.folder / "objects" / file.sha256).read_bytes()

    def _commit(
        self,
        repo: Repo,
        branch: str,
        files: Mapping[str, File],
        title: str,
        message: str,
        author: str,
    ) -> Commit:
        files = dict(sorted(files.items()))
        date = datetime.now(UTC)
        parent = repo.branches.get(branch)
        who = f"{author} <{author}@users.noreply> {int(date.timestamp())} +0000"
        text = f"tree {tree_id(files)}\n" + (f"parent {parent}\n" if parent else "")
        text += f"author {who}\ncommitter {who}\n\n{title}\n\n{message}\n"
        commit = Commit(
            git_id("commit", text.encode()), parent, title, message, author, date, files
        )
        repo.commits[commit.id] = commit
        repo.branches[branch] = commit.id
        return commit


def git_id(kind: str, content: bytes) -> str:
    """The name that git gives to a "blob", a "tree" or a "commit"."""
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


def tree_id(files: Mapping[str, File]) -> str:
    """Git's name of a folder with these files, by their paths in it."""
    entries: list[tuple[str, str, str]] = []
    folders: dict[str, dict[str, File]] = {}
    for path, file in files.items():
        name, _, rest = path.partition("/")
        if rest:
            folders.setdefault(name, {})[rest] = file
        else:
            entries.append((name, "100644", file.blob))
    entries += [(f"{name}/", "40000", tree_id(inside)) for name, inside in folders.items()]
    lines = (
        f"{mode} {name.rstrip('/')}\0".encode() + bytes.fromhex(blob)
        for name, mode, blob in sorted(entries)
    )
    return git_id("tree", b"".join(lines))


def _pointer(file: File) -> bytes:
    lines = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{file.sha256}\nsize {file.size}\n"
    )
    return lines.encode()


def _goes_to_lfs(path: str, size: int, sample: bytes) -> bool:
    name = PurePosixPath(path).name
    is_named = any(fnmatch(name, pattern) for pattern in LFS_PATTERNS)
    return is_named or size > LARGEST_REGULAR_BYTES or b"\0" in sample


def _with_folders(files: Mapping[str, File]) -> list[str]:
    folders = {str(above) for path in files for above in PurePosixPath(path).parents}
    return sorted({*files, *folders} - {"."})


def _is_private(asked: dict[str, Any], default: bool = False) -> bool:
    if "visibility" in asked:
        return asked["visibility"] == "private"
    return bool(asked.get("private", default))


def _iso(date: datetime) -> str:
    return date.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _headline(commit: Commit) -> dict[str, str]:
    return {"id": commit.id, "title": commit.title, "date": _iso(commit.date)}


def _part(content: bytes, call: Call, headers: dict[str, str]) -> Answer:
    """The content, or the range of it that was asked for."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", call.headers.get("Range", ""))
    if not match or match.groups() == ("", ""):
        return Answer(content, 200, headers)
    size = len(content)
    first, last = match.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= end:
        raise HubError(416, "Range not satisfiable", **{"Content-Range": f"bytes */{size}"})
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Answer(content[start:end], 206, headers)


# Metadata of cards. The wording and the list are the Hub's, as users reported them
# (github.com/huggingface/huggingface_hub/issues/4218 and others) and its documentation gives them.

LICENSES = (
    "apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 "
    "bigcode-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear "
    "c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 "
    "cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 "
    "cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl "
    "ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl "
    "lgpl-2.1 lgpl-3.0 isc h-research intel-research lppl-1.3c ms-pl apple-ascl apple-amlr mpl-2.0 "
    "odc-by odbl openmdw-1.0 openrail++ osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl lgpl-lr "
    "deepfloyd-if-license fair-noncommercial-research-license llama2 llama3 llama3.1 llama3.2 llama3.3 "
    "llama4 grok2-community gemma unknown other"
).split()
PIPELINE_TAGS = (
    "any-to-any audio-classification audio-text-to-text audio-to-audio automatic-speech-recognition "
    "depth-estimation document-question-answering feature-extraction fill-mask graph-ml "
    "image-classification image-feature-extraction image-segmentation image-text-to-text image-to-3d "
    "image-to-image image-to-text image-to-video keypoint-detection mask-generation multiple-choice "
    "object-detection other question-answering reinforcement-learning robotics sentence-similarity "
    "summarization table-question-answering table-to-text tabular-classification tabular-regression "
    "tabular-to-text text-classification text-generation text-ranking text-retrieval text-to-3d "
    "text-to-audio text-to-image text-to-speech text-to-video text2text-generation "
    "time-series-forecasting token-classification translation unconditional-image-generation "
    "video-classification video-text-to-text visual-document-retrieval visual-question-answering "
    "voice-activity-detection zero-shot-classification zero-shot-image-classification "
    "zero-shot-object-detection"
).split()


class _Loader(yaml.SafeLoader):
    """YAML as the Hub reads it: `no` is Norwegian, only `true` and `false` are truth values."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:bool"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


def read_card(text: str) -> tuple[dict[str, Any], list[str], list[str]]:
    """The metadata of a card, errors, and warnings."""
    block = re.match(r"\s*---[\r\n]+([\S\s]*?)[\r\n]+---(?:\r\n|\n|$)", text)
    if not block:
        return {}, [], ["empty or missing yaml metadata in repo card"]
    try:
        metadata = yaml.load(block[1], Loader=_Loader)  # noqa: S506, a safe one
    except yaml.YAMLError as error:
        return {}, [f"Invalid YAML in README.md: {error}"], []
    if not isinstance(metadata, dict):
        return {}, ["The YAML metadata of your README.md is invalid."], []
    tag = metadata.get("pipeline_tag")
    if tag is None or tag in PIPELINE_TAGS:
        return metadata, [], []
    official = ", ".join(PIPELINE_TAGS)
    return metadata, [], [f'The pipeline tag "{tag}" is not in the official list: {official}']


def card_errors(metadata: dict[str, Any]) -> list[str]:
    """What the Hub refuses in a card's metadata; keys it does not know are allowed."""
    errors: list[str] = []
    for name, value in _each(metadata, "license"):
        if value not in LICENSES:
            errors.append(f'"{name}" must be one of [{", ".join(LICENSES)}, array]')
    for name, value in _each(metadata, "language"):
        if not isinstance(value, str):
            errors.append(f'"{name}" must be a string')
        elif value != value.lower():
            errors.append(f'"{name}" must only contain lowercase characters')
        elif not re.fullmatch("[a-z]{2,3}|code|multilingual", value):
            errors.append(
                f'"{name}" with value "{value}" is not valid. It must be an ISO 639-1, 639-2 or 639-3 '
                'code (two/three letters), or a special value like "code", "multilingual". If you want '
                "to use BCP-47 identifiers, you can specify them in language_bcp47."
            )
    for name, value in _each(metadata, "datasets"):
        if not re.fullmatch(r"(?:[\w-]+/)?[\w.-]+", str(value)):
            errors.append(
                f'"{name}" with value "{value}" is not valid. If possible, use a dataset id from '
                "https://hf.co/datasets."
            )
    for key in ("tags", "metrics"):
        if not isinstance(metadata.get(key, []), list):
            errors.append(f'"{key}" must be an array')
    for key in ("pipeline_tag", "library_name"):
        if not isinstance(metadata.get(key, ""), str):
            errors.append(f'"{key}" must be a string')
    if "model-index" in metadata:
        errors += _mismatches(metadata["model-index"], _MODEL_INDEX, "model-index")
    return errors


def _each(metadata: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    """A value, or those of a list, with their names."""
    if key not in metadata:
        return []
    if not isinstance(metadata[key], list):
        return [(key, metadata[key])]
    return [(f"{key}[{i}]", value) for i, value in enumerate(metadata[key])]


# A list holds the shape of its items; a name with "?" may be absent; `object` is anything but nothing.
_MODEL_INDEX: list[Any] = [
    {
        "name": str,
        "results": [
            {
                "task": {"type": str, "name?": str},
                "dataset": {
                    "type": re.compile(r"(?:[\w-]+/)?[\w.-]+"),
                    "name": str,
                    "config?": str,
                    "split?": str,
                    "revision?": str,
                },
                "metrics": [{"type": str, "value": object, "name?": str, "config?": str}],
                "source?": {"url": str, "name?": str},
            }
        ],
    }
]


def _mismatches(value: Any, shape: Any, name: str) -> list[str]:
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f'"{name}" must be an array']
        pairs = [(item, shape[0], f"{name}[{i}]") for i, item in enumerate(value)]
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f'"{name}" must be of type object']
        pairs = []
        for key, inner in shape.items():
            inside = f"{name}.{key.rstrip('?')}"
            if value.get(key.rstrip("?")) is not None:
                pairs.append((value[key.rstrip("?")], inner, inside))
            elif not key.endswith("?"):
                return [f'"{inside}" is required']
    elif isinstance(shape, re.Pattern):
        if isinstance(value, str) and shape.fullmatch(value):
            return []
        message = f'"{name}" with value "{value}" fails to match the required pattern'
        return [f"{message}: /^{shape.pattern}$/"]
    else:
        return [] if isinstance(value, shape) else [f'"{name}" must be a string']
    return [error for pair in pairs for error in _mismatches(*pair)]


# HTTP


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: HubServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.hub._connections.add(self.connection)

    def finish(self) -> None:
        self.server.hub._connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        try:
            self._serve_one()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _serve_one(self) -> None:
        hub = self.server.hub
        url = urlsplit(self.path)
        fault = self._fault(url.path)
        if fault and fault.kind == "drop" and not fault.in_answer:
            self._body(fault.number)
            self._log(url.path, None)
            self._hang_up()
            return
        body = self._body()
        if fault and fault.kind == "fail":
            answer = HubError(fault.number, "A fault that the test asked for").answer
        else:
            token = self.headers.get("Authorization")
            call = Call(None, url.path, parse_qs(url.query), self.headers, body)
            try:
                answer = hub._answer(self.command, call, token and token.removeprefix("Bearer "))
            except (
                Exception
            ):  # a mistake in this file, or a body no client sends: let the test see it
                answer = Answer({"error": traceback.format_exc()}, 500)
        content = (
            answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        )
        if fault and fault.kind == "truncate":
            content = content[: fault.number]
        self._log(url.path, answer.status)
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault and fault.kind == "drop":
            content = content[: fault.number]
        if self.command != "HEAD":
            self.wfile.write(content)
        if fault and fault.kind == "drop":
            self._hang_up()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve

    def _fault(self, path: str) -> Fault | None:
        hub = self.server.hub
        with hub._lock:
            for fault in hub.faults:
                if fault.method == self.command and re.search(fault.path, path):
                    fault.times -= 1
                    if fault.times <= 0:
                        hub.faults.remove(fault)
                    return fault
        return None

    def _log(self, path: str, status: int | None) -> None:
        self.server.hub.requests.append(Request(self.command, path, status))

    def _hang_up(self) -> None:
        self.close_connection = True
        _hang_up(self.connection)

    def _body(self, limit: int | None = None) -> bytes:
        """The body, or its first bytes."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
                if limit is not None and len(body) >= limit:
                    return body[:limit]
            self.rfile.readline()
            return body
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size if limit is None else min(size, limit))
        if limit is None and len(body) < size:
            raise ConnectionError("the client hung up in the middle of its body")
        return body


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
