"""A small Hugging Face Hub on the loopback interface, for tests that push and pull.

    with HubServer(folder) as hub:
        hub.add_user("alice", token="hf_alice", organizations=["lab"])
        # a process with HF_ENDPOINT=hub.url and HF_TOKEN=hf_alice pushes to "lab/model"
        assert hub.files("lab/model")["config.json"] == ...

It keeps what it is sent, computes every hash anew and refuses what does not fit. Left out: Xet
(clients set HF_HUB_DISABLE_XET=1), pull requests, gated repositories, .gitignore, paged lists.
All is standard library, but for the YAML of cards, which PyYAML reads, as in the client.
"""

import base64
import contextlib
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


# From the `.gitattributes` that the Hub gives a new repository.
LFS_PATTERNS = """
*.7z *.arrow *.bin *.ckpt *.gz *.h5 *.joblib *.model *.msgpack *.npy *.npz *.onnx *.parquet *.pickle
*.pkl *.pt *.pth *.safetensors *.tar *.xz *.zip *.zst *tfevents*
""".split()
LARGEST_REGULAR_BYTES = 10_000_000


class Request(NamedTuple):
    """One request; `status` is `None` where the connection was dropped before an answer."""

    method: str
    path: str
    status: int | None


class File(NamedTuple):
    """A file of a commit; its content lies in the folder `objects`, under its sha256."""

    sha256: str
    size: int
    is_lfs: bool
    blob: str  # git's id: of the content, or of the pointer to the LFS object

    @property
    def oid(self) -> str:
        """The hash that clients compare: sha256 of an LFS object, git's id of anything else."""
        return self.sha256 if self.is_lfs else self.blob

    @property
    def pointer(self) -> bytes:
        version = "https://git-lfs.github.com/spec/v1"
        return f"version {version}\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @property
    def lfs(self) -> dict[str, Any]:
        """What listings add about an LFS object, in the words of both kinds of listing."""
        if not self.is_lfs:
            return {}
        hashes = {"oid": self.sha256, "sha256": self.sha256}
        return {"lfs": {**hashes, "size": self.size, "pointerSize": len(self.pointer)}}


class Commit(NamedTuple):
    id: str
    parent: str | None
    title: str
    message: str
    author: str
    date: datetime
    files: Mapping[str, File]


class User(NamedTuple):
    name: str
    role: str
    namespaces: frozenset[str]


@dataclass
class Repo:
    kind: str
    id: str
    private: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    uploaded: set[str] = field(default_factory=set)  # sha256 of LFS objects

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
class Fault:
    kind: str  # "fail", "drop" or "truncate"
    method: str
    path: str
    number: int  # a status, or bytes
    times: int
    in_answer: bool = True


@dataclass
class Answer:
    body: Any = b""  # bytes, or what becomes JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class HubError(Exception):
    """An answer that is an error, with the headers by which clients know which."""

    def __init__(self, status: int, message: str, code: str = "", **headers: str) -> None:
        super().__init__(message)
        headers |= {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}
        self.answer = Answer({"error": message}, status, headers)


class HubServer:
    """A Hub that listens on a free port of 127.0.0.1, from `start` (or `with`) to `stop`.

    `requests` lists every request so far; `faults` those to come (clear it to end them).

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

    def start(self) -> Self:
        """Listen; after a `stop` on the same port as before."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.hub = self
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Refuse connections and close those that are open; what was stored stays."""
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
            "no_proxy": "127.0.0.1,localhost",
            "OMP_NUM_THREADS": "1",
            **({"HF_TOKEN": token} if token else {}),
        }

    def add_user(
        self, name: str, token: str, role: str = "write", organizations: Iterable[str] = ()
    ) -> None:
        """Let a token act for a user, as "write" or "read", in these organisations too."""
        self._users[token] = User(name, role, frozenset([name, *organizations]))

    def files(self, repo_id: str, revision: str = "main", kind: str = "model") -> dict[str, bytes]:
        """Every file's content by its path, `.gitattributes` of the new repository included."""
        with self._lock:
            files = self._repos[kind, repo_id].at(revision).files
        return {path: self._content(file) for path, file in files.items()}

    def commits(self, repo_id: str, revision: str = "main", kind: str = "model") -> list[Commit]:
        """The commits up to a revision, the newest first."""
        with self._lock:
            return list(self._repos[kind, repo_id].history(revision))

    def put(self, repo_id: str, files: Mapping[str, bytes], private: bool = False) -> str:
        """Commit files to a model past the protocol, unchecked; create it if it is missing.

        Returns:
            The id of the commit.
        """
        with self._lock:
            repo = self._repos.get(("model", repo_id)) or self._create("model", repo_id, private)
            changed = dict(repo.at("main").files)
            for path, content in files.items():
                changed[path] = self._store(content, _goes_to_lfs(path, len(content), content))
                repo.uploaded.add(changed[path].sha256)
            return self._commit(repo, "main", changed, "Put files", "", repo.namespace).id

    def fail(self, method: str, path: str, status: int = 500, times: int = 1) -> None:
        """Answer the next `times` requests whose path has a match of `path` with an error."""
        self.faults.append(Fault("fail", method, path, status, times))

    def drop(
        self, method: str, path: str, after_bytes: int = 0, times: int = 1, answer: bool = False
    ) -> None:
        """Close the connection after so many bytes of the request's body, and do nothing.

        With `answer`, as always for GET: after so many bytes of the answer, everything done.
        """
        answer = answer or method in ("GET", "HEAD")
        self.faults.append(Fault("drop", method, path, after_bytes, times, answer))

    def truncate(self, method: str, path: str, to_bytes: int, times: int = 1) -> None:
        """Answer with the first bytes of the body only, as if there were no more."""
        self.faults.append(Fault("truncate", method, path, to_bytes, times))

    def _find(self, user: User | None, kind: str, repo_id: str, write: bool) -> Repo:
        repo = self._repos.get((kind, repo_id))
        if not repo or (repo.private and not (user and repo.namespace in user.namespaces)):
            # A stranger must not learn whether it exists.
            raise HubError(404 if user else 401, "Repository not found", "RepoNotFound")
        if write:
            _check_may_write(user, repo.namespace)
        return repo

    def _create(self, kind: str, repo_id: str, private: bool) -> Repo:
        repo = self._repos[kind, repo_id] = Repo(kind, repo_id, private)
        lines = [f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in LFS_PATTERNS]
        files = {".gitattributes": self._store("".join(lines).encode(), is_lfs=False)}
        self._commit(repo, "main", files, "initial commit", "", repo.namespace)
        return repo

    def _commit(
        self,
        repo: Repo,
        branch: str,
        files: Mapping[str, File],
        title: str,
        message: str,
        author: str,
    ) -> Commit:
        date = datetime.now(UTC)
        parent = repo.branches.get(branch)
        files = dict(sorted(files.items()))
        name = git_id("commit", f"{parent} {author} {date} {title} {message} {files}".encode())
        repo.commits[name] = Commit(name, parent, title, message, author, date, files)
        repo.branches[branch] = name
        return repo.commits[name]

    def _store(self, content: bytes, is_lfs: bool) -> File:
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.folder / "objects" / sha256
        if not path.is_file():
            path.write_bytes(content)
        file = File(sha256, len(content), is_lfs, git_id("blob", content))
        return file._replace(blob=git_id("blob", file.pointer)) if is_lfs else file

    def _content(self, file: File) -> bytes:
        return (self.folder / "objects" / file.sha256).read_bytes()

    def _uploaded(self, repo: Repo, sha256: str, size: int | None) -> File:
        """The LFS object that a client says it uploaded, its content hashed once more."""
        if sha256 not in repo.uploaded:
            raise HubError(404, f"The LFS object {sha256} was never uploaded to {repo.id}")
        content = (self.folder / "objects" / sha256).read_bytes()
        _check_object(content, sha256, len(content) if size is None else size)
        return self._store(content, is_lfs=True)


def _check_object(content: bytes, sha256: str, size: int) -> None:
    found = hashlib.sha256(content).hexdigest()
    if (found, len(content)) != (sha256, size):
        told = f"announced are {size} bytes of sha256 {sha256}"
        raise HubError(400, f"Here are {len(content)} bytes of sha256 {found}, {told}")


def _check_may_write(user: User | None, namespace: str) -> None:
    if not user:
        raise HubError(401, "Invalid username or password.")
    if user.role != "write":
        raise HubError(403, "you must use a write token to upload to a repository")
    if namespace not in user.namespaces:
        raise HubError(403, f"You don't have the rights to write under the namespace {namespace}")


def _goes_to_lfs(path: str, size: int, start: bytes) -> bool:
    is_named = any(fnmatch(PurePosixPath(path).name, pattern) for pattern in LFS_PATTERNS)
    return is_named or size > LARGEST_REGULAR_BYTES or b"\0" in start[:512]


def git_id(kind: str, content: bytes) -> str:
    """The name that git gives to a "blob", a "tree" or a "commit"."""
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: HubServer


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed already
        connection.shutdown(socket.SHUT_RDWR)


_KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}
_API = r"/api/(?P<kind>models|datasets|spaces)/(?P<id>[^/]+/[^/]+)"
_WEB = r"/(?:(?P<kind>datasets|spaces)/)?(?P<id>[^/]+/[^/]+)"
_ROUTES: list[tuple[str, re.Pattern[str], bool, Callable[..., Any]]] = []


def _route(method: str, path: str, write: bool = False) -> Callable[..., Any]:
    """Let a function answer; it returns an `Answer`, or what becomes the JSON of one.

    Where the path names a repository, `repo` is one that the user may read; with `write`, write to.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _ROUTES.append((method, re.compile(path), write, function))
        return function

    return register


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.hub = self.server.hub
        self.hub._connections.add(self.connection)

    def finish(self) -> None:
        self.hub._connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        try:
            self._serve(url.path)
        except ConnectionError:
            self.close_connection = True

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815, http.server's names

    def _serve(self, path: str) -> None:
        fault = self._fault(path)
        kind = fault.kind if fault else ""
        if fault and not fault.in_answer:
            self._read(fault.number)
            self.hub.requests.append(Request(self.command, path, None))
            raise self._hung_up()
        self.body = self._read()
        if fault and kind == "fail":
            answer = HubError(fault.number, "A fault that the test asked for").answer
        else:
            answer = self._answer(path)
        is_bytes = isinstance(answer.body, bytes)
        content = answer.body if is_bytes else json.dumps(answer.body).encode()
        if fault and kind == "truncate":
            content = content[: fault.number]
        self.hub.requests.append(Request(self.command, path, answer.status))
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(content)))
        kind_of_body = "application/octet-stream" if is_bytes else "application/json"
        for name, value in {"Content-Type": kind_of_body, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: fault.number] if fault and kind == "drop" else content)
        if kind == "drop":
            raise self._hung_up()

    def _fault(self, path: str) -> Fault | None:
        with self.hub._lock:
            for fault in self.hub.faults:
                if fault.method == self.command and re.search(fault.path, path):
                    fault.times -= 1
                    if fault.times <= 0:
                        self.hub.faults.remove(fault)
                    return fault
        return None

    def _hung_up(self) -> ConnectionError:
        _hang_up(self.connection)
        return ConnectionError("dropped")

    def _read(self, limit: int | None = None) -> bytes:
        """The body, or its first bytes."""
        if "Transfer-Encoding" in self.headers:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
                if limit is not None and len(body) >= limit:
                    return body
            self.rfile.readline()
            return body
        size = int(self.headers.get("Content-Length", 0))
        wanted = size if limit is None else min(size, limit)
        body = self.rfile.read(wanted)
        if len(body) < wanted:
            raise ConnectionError("the client hung up in the middle of its body")
        return body

    def _answer(self, path: str) -> Answer:
        try:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self.user = self.hub._users.get(token)
            if token and not self.user:
                raise HubError(401, "Invalid credentials in Authorization header")
            method = "GET" if self.command == "HEAD" else self.command
            for verb, pattern, write, function in _ROUTES:
                match = pattern.fullmatch(path)
                if match and verb == method:
                    groups = match.groupdict()
                    named: dict[str, Any] = {k: unquote(v) for k, v in groups.items() if v}
                    with self.hub._lock:
                        if "id" in named:
                            kind, name = _KINDS[named.pop("kind", "models")], named.pop("id")
                            named["repo"] = self.hub._find(self.user, kind, name, write)
                        found = function(self, **named)
                    return found if isinstance(found, Answer) else Answer(found)
            is_repo = re.match(r"/api/(models|datasets|spaces)/|.*/resolve/", path)
            raise HubError(404, "Not found", "RepoNotFound" if is_repo else "")
        except HubError as error:
            return error.answer
        except Exception:  # a mistake in this file, or a body no client sends: let the test see it
            return Answer({"error": traceback.format_exc()}, 500)

    def _asks(self, name: str) -> bool:
        return self.query.get(name, [""])[0].lower() in ("true", "1")

    @_route("GET", "/api/whoami-v2")
    def _whoami(self) -> Any:
        if not self.user:
            raise HubError(401, "Invalid username or password.")
        name, role, namespaces = self.user
        organizations = [{"name": each, "roleInOrg": role} for each in sorted(namespaces - {name})]
        auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": role}}
        user = {"type": "user", "name": name, "fullname": name}
        return {**user, "orgs": organizations, "auth": auth}

    @_route("POST", "/api/repos/create")
    def _create_repo(self) -> Any:
        kind, repo_id, asked = self._named()
        name = repo_id.split("/")[1]
        is_valid = re.fullmatch(r"\w([\w.-]{0,94}\w)?", name, re.ASCII)
        if not is_valid or re.search(r"--|\.\.|\.git$", name):
            raise HubError(400, f"Invalid repo name: {repo_id}")
        answer = {"name": repo_id, "url": f"{self.hub.url}/{Repo(kind, repo_id).path}"}
        if (kind, repo_id) in self.hub._repos:
            # A client that was told to accept this reads the url all the same.
            answer["error"] = f"You already created this {kind} repo"
            return Answer(answer, 409, {"X-Error-Message": answer["error"]})
        self.hub._create(kind, repo_id, _is_private(asked))
        return answer

    @_route("DELETE", "/api/repos/delete")
    def _delete_repo(self) -> Any:
        if not self.hub._repos.pop(self._named()[:2], None):
            raise HubError(404, "Repository not found", "RepoNotFound")
        return {}

    def _named(self) -> tuple[str, str, dict[str, Any]]:
        """Kind and id of a repository where the user may write, out of the body, and the body."""
        asked = json.loads(self.body)
        namespace = asked.get("organization") or (self.user.name if self.user else "")
        _check_may_write(self.user, namespace)
        return asked.get("type") or "model", f"{namespace}/{asked['name']}", asked

    @_route("PUT", f"{_API}/settings", write=True)
    def _settings(self, repo: Repo) -> Any:
        repo.private = _is_private(json.loads(self.body), default=repo.private)
        return {"private": repo.private}

    @_route("GET", rf"{_API}/auth-check")
    def _may_be_read(self, repo: Repo) -> Any:
        return {}

    @_route("GET", rf"{_API}/auth-check/write", write=True)
    def _may_be_written(self, repo: Repo) -> Any:
        return {}

    @_route("GET", rf"{_API}(?:/revision/(?P<revision>[^/]+))?")
    def _info(self, repo: Repo, revision: str = "main") -> Any:
        commit = repo.at(revision)
        siblings = []
        for path, file in commit.files.items():
            blob = {"size": file.size, "blobId": file.blob, **file.lfs}
            siblings.append({"rfilename": path, **(blob if self._asks("blobs") else {})})
        readme = commit.files.get("README.md")
        card = read_card(self.hub._content(readme).decode(errors="replace"))[0] if readme else {}
        return {
            "id": repo.id,
            "author": repo.namespace,
            "sha": commit.id,
            "lastModified": _iso(commit.date),
            "private": repo.private,
            "tags": card.get("tags", []),
            "pipeline_tag": card.get("pipeline_tag"),
            "library_name": card.get("library_name"),
            "cardData": card,
            "siblings": siblings,
        }

    @_route("GET", f"{_API}/refs")
    def _refs(self, repo: Repo) -> Any:
        def listed(names: dict[str, str], kind: str) -> list[dict[str, str]]:
            entries = [(name, f"refs/{kind}/{name}", commit) for name, commit in names.items()]
            return [
                dict(zip(("name", "ref", "targetCommit"), each, strict=True)) for each in entries
            ]

        branches, tags = listed(repo.branches, "heads"), listed(repo.tags, "tags")
        return {"branches": branches, "tags": tags, "converts": [], "pullRequests": []}

    @_route("POST", rf"{_API}/branch/(?P<name>[^/]+)", write=True)
    def _create_branch(self, repo: Repo, name: str) -> Any:
        start = json.loads(self.body).get("startingPoint") or "main"
        return self._point(repo.branches, name, repo.at(start))

    @_route("POST", rf"{_API}/tag/(?P<revision>[^/]+)", write=True)
    def _create_tag(self, repo: Repo, revision: str) -> Any:
        return self._point(repo.tags, json.loads(self.body)["tag"], repo.at(revision))

    def _point(self, names: dict[str, str], name: str, commit: Commit) -> Any:
        if name in names:
            raise HubError(409, f"Reference already exists: {name}")
        names[name] = commit.id
        return {}

    @_route("DELETE", rf"{_API}/(?P<kind_of_name>branch|tag)/(?P<name>[^/]+)", write=True)
    def _delete_reference(self, repo: Repo, kind_of_name: str, name: str) -> Any:
        names = repo.branches if kind_of_name == "branch" else repo.tags
        if names is repo.branches and name == "main":
            raise HubError(403, "The branch main cannot be deleted")
        if not names.pop(name, None):
            raise HubError(404, f"Invalid rev id: {name}", "RevisionNotFound")
        return {}

    @_route("GET", rf"{_API}/commits/(?P<revision>[^/]+)")
    def _commits(self, repo: Repo, revision: str) -> Any:
        return [
            {
                **{"id": commit.id, "title": commit.title, "message": commit.message},
                **{"date": _iso(commit.date), "authors": [{"user": commit.author}]},
            }
            for commit in repo.history(revision)
        ]

    @_route("GET", rf"{_API}/tree/(?P<revision>[^/]+)(?:/(?P<folder>.+))?")
    def _tree(self, repo: Repo, revision: str, folder: str = "") -> Any:
        entries = _entries(repo.at(revision))
        above = PurePosixPath(folder)
        if folder and str(above) not in entries:
            raise HubError(404, f"{folder} does not exist on {revision}", "EntryNotFound")
        reach = None if self._asks("recursive") else 1
        return [e for p, e in entries.items() if above in list(PurePosixPath(p).parents)[:reach]]

    @_route("POST", rf"{_API}/paths-info/(?P<revision>[^/]+)")
    def _paths_info(self, repo: Repo, revision: str) -> Any:
        entries = _entries(repo.at(revision))
        asked = parse_qs(self.body.decode()).get("paths", [])
        return [entries[path] for path in asked if path in entries]

    @_route("POST", "/api/validate-yaml")
    def _validate_yaml(self) -> Any:
        _, errors, warnings = read_card(json.loads(self.body)["content"])
        status = 400 if errors else 200
        if self.headers.get("Accept") == "text/plain":
            text = "\n".join(f"- Error: {error}" for error in errors)
            return Answer(text.encode(), status, {"Content-Type": "text/plain"})
        lists = {"errors": errors, "warnings": warnings}
        answer = {name: [{"message": each} for each in found] for name, found in lists.items()}
        return Answer(answer, status)

    @_route("POST", rf"{_API}/preupload/(?P<revision>[^/]+)", write=True)
    def _preupload(self, repo: Repo, revision: str) -> Any:
        present = {path: file.oid for path, file in repo.at(revision).files.items()}
        files = []
        for asked in json.loads(self.body)["files"]:
            path, start = asked["path"], base64.b64decode(asked["sample"])
            mode = "lfs" if _goes_to_lfs(path, asked["size"], start) else "regular"
            told = {"path": path, "uploadMode": mode, "shouldIgnore": False}
            files.append({**told, "oid": present.get(path)})
        return {"files": files}

    @_route("POST", rf"{_WEB}\.git/info/lfs/objects/batch", write=True)
    def _lfs_batch(self, repo: Repo) -> Any:
        objects = []
        for asked in json.loads(self.body)["objects"]:
            objects.append({"oid": asked["oid"], "size": asked["size"]})
            if asked["oid"] not in repo.uploaded:
                ticket = secrets.token_urlsafe(16)
                self.hub._uploads[ticket] = repo, asked["oid"], asked["size"]
                put = f"http://localhost:{self.hub._port}/upload/{ticket}"
                verify = f"{self.hub.url}/{repo.path}.git/info/lfs/verify"
                objects[-1]["actions"] = {"upload": {"href": put}, "verify": {"href": verify}}
        return {"transfer": "basic", "objects": objects}

    @_route("PUT", "/upload/(?P<ticket>[^/]+)")
    def _upload(self, ticket: str) -> Any:
        if ticket not in self.hub._uploads:
            raise HubError(403, "The address of this upload is not valid")
        repo, sha256, size = self.hub._uploads[ticket]
        _check_object(self.body, sha256, size)
        self.hub._store(self.body, is_lfs=True)
        repo.uploaded.add(sha256)
        return {}

    @_route("POST", rf"{_WEB}\.git/info/lfs/verify", write=True)
    def _verify(self, repo: Repo) -> Any:
        asked = json.loads(self.body)
        self.hub._uploaded(repo, asked["oid"], asked["size"])
        return {}

    @_route("POST", rf"{_API}/commit/(?P<branch>[^/]+)", write=True)
    def _commit(self, repo: Repo, branch: str) -> Any:
        if self._asks("create_pr"):
            raise HubError(501, "Pull requests are not served here")
        if branch not in repo.branches:
            raise HubError(404, f"Invalid rev id: {branch}", "RevisionNotFound")
        head = repo.at(branch)
        files = dict(head.files)
        header, *operations = [json.loads(line) for line in self.body.splitlines()]
        for operation in operations:
            self._change(repo, files, operation["key"], operation["value"])
        told = header["value"]
        if not head.id.startswith(told.get("parentCommit", "")):
            raise HubError(412, "A commit has happened since. Please refresh and try again.")
        author = self.user.name if self.user else ""
        commit = self.hub._commit(
            repo, branch, files, told["summary"], told.get("description", ""), author
        )
        url = f"{self.hub.url}/{repo.path}/commit/{commit.id}"
        return {"success": True, "commitOid": commit.id, "commitUrl": url}

    def _change(self, repo: Repo, files: dict[str, File], key: str, told: dict[str, Any]) -> None:
        path = told["path"].rstrip("/")
        if set(path.split("/")) & {"", ".", "..", ".git"}:
            raise HubError(400, f"Invalid path in repo: {path!r}")
        if key == "lfsFile":
            files[path] = self.hub._uploaded(repo, told["oid"], told.get("size"))
        elif key == "file":
            content = base64.b64decode(told["content"])
            if len(content) > LARGEST_REGULAR_BYTES:
                raise HubError(400, f"{path} has {len(content)} bytes and is not an LFS object")
            if path == "README.md" and (errors := read_card(content.decode(errors="replace"))[1]):
                raise HubError(400, "Invalid metadata in README.md: " + "; ".join(errors))
            files[path] = self.hub._store(content, is_lfs=False)
        elif key in ("deletedFile", "deletedFolder"):
            inside = f"{path}/"
            is_folder = key == "deletedFolder"
            gone = [p for p in files if (p.startswith(inside) if is_folder else p == path)]
            if not gone:
                raise HubError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            for each in gone:
                del files[each]
        else:
            raise HubError(400, f"Unknown operation: {key}")

    @_route("GET", rf"{_WEB}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
    def _resolve(self, repo: Repo, revision: str, path: str) -> Any:
        commit = repo.at(revision)
        headers = {"X-Repo-Commit": commit.id}
        file = commit.files.get(path)
        if not file:
            raise HubError(404, f"{path} is not in {repo.id}", "EntryNotFound", **headers)
        headers["ETag"] = f'"{file.oid}"'
        if not file.is_lfs:
            return self._part(self.hub._content(file), headers)
        # To another host, or the client follows at once and loses these headers.
        headers["Location"] = f"http://localhost:{self.hub._port}/cdn/{file.sha256}"
        headers |= {"X-Linked-ETag": headers["ETag"], "X-Linked-Size": str(file.size)}
        return Answer(b"", 302, headers)

    @_route("GET", "/cdn/(?P<sha256>[0-9a-f]{64})")
    def _cdn(self, sha256: str) -> Any:
        path = self.hub.folder / "objects" / sha256
        if not path.is_file():
            raise HubError(404, "Not found")
        return self._part(path.read_bytes(), {"ETag": f'"{sha256}"'})

    def _part(self, content: bytes, headers: dict[str, str]) -> Answer:
        """The content, or the range of it that was asked for."""
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not asked or asked.groups() == ("", ""):
            return Answer(content, 200, {**headers, "Accept-Ranges": "bytes"})
        size = len(content)
        first, last = asked.groups()
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if start >= end:
            raise HubError(416, "Range not satisfiable", **{"Content-Range": f"bytes */{size}"})
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return Answer(content[start:end], 206, headers)


def _entries(commit: Commit) -> dict[str, dict[str, Any]]:
    """What a listing says of each file and folder, by its path."""
    entries = {}
    for path, file in commit.files.items():
        entries[path] = {"type": "file", "oid": file.blob, "size": file.size, "path": path}
        entries[path] |= file.lfs
        for above in list(map(str, PurePosixPath(path).parents))[:-1]:
            inside = [f for p, f in commit.files.items() if p.startswith(f"{above}/")]
            tree = git_id("tree", repr(inside).encode())  # not git's own, but as unique
            entries[above] = {"type": "directory", "oid": tree, "size": 0, "path": above}
    return entries


def _is_private(asked: dict[str, Any], default: bool = False) -> bool:
    visibility = asked.get("visibility")
    return visibility == "private" if visibility else bool(asked.get("private", default))


def _iso(date: datetime) -> str:
    return date.strftime("%Y-%m-%dT%H:%M:%S.000Z")


# Cards. Lists and wording are the Hub's, from its documentation and from what users report of it
# (github.com/huggingface/huggingface_hub/issues/4218 has the licenses).

LICENSES = """
apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0
bigcode-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear
c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0
cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl
ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1
lgpl-3.0 isc h-research intel-research lppl-1.3c ms-pl apple-ascl apple-amlr mpl-2.0 odc-by odbl
openmdw-1.0 openrail++ osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl lgpl-lr
deepfloyd-if-license fair-noncommercial-research-license llama2 llama3 llama3.1 llama3.2 llama3.3
llama4 grok2-community gemma unknown other
""".split()
PIPELINE_TAGS = """
any-to-any audio-classification audio-text-to-text audio-to-audio automatic-speech-recognition
depth-estimation document-question-answering feature-extraction fill-mask graph-ml
image-classification image-feature-extraction image-segmentation image-text-to-text image-to-3d
image-to-image image-to-text image-to-video keypoint-detection mask-generation multiple-choice
object-detection other question-answering reinforcement-learning robotics sentence-similarity
summarization table-question-answering table-to-text tabular-classification tabular-regression
tabular-to-text text-classification text-generation text-ranking text-retrieval text-to-3d
text-to-audio text-to-image text-to-speech text-to-video text2text-generation
time-series-forecasting token-classification translation unconditional-image-generation
video-classification video-text-to-text visual-document-retrieval visual-question-answering
voice-activity-detection zero-shot-classification zero-shot-image-classification
zero-shot-object-detection
""".split()

# A list holds the shape of its items, a pattern is of a text; "?" marks what may be left out.
_TEXT, _DATASET = re.compile(r"[\s\S]+"), re.compile(r"(?:[\w-]+/)?[\w.-]+")
_OPTIONAL = {"config?": _TEXT, "split?": _TEXT, "revision?": _TEXT}
_RESULT = {
    "task": {"type": _TEXT, "name?": _TEXT},
    "dataset": {"type": _DATASET, "name": _TEXT, **_OPTIONAL},
    "metrics": [{"type": _TEXT, "value": object, "name?": _TEXT, "config?": _TEXT}],
    "source?": {"url": _TEXT, "name?": _TEXT},
}
_CARD = {
    "tags?": [_TEXT],
    "metrics?": [_TEXT],
    "pipeline_tag?": _TEXT,
    "library_name?": _TEXT,
    "model-index?": [{"name": _TEXT, "results": [_RESULT]}],
}
_VALUES = {  # of one value or of each in a list: the pattern, and what is said otherwise
    "license": (
        "|".join(map(re.escape, LICENSES)),
        f"must be one of [{', '.join(LICENSES)}, array]",
    ),
    "language": (
        "[a-z]{2,3}|code|multilingual",
        'with value "{}" is not valid. It must be an ISO 639-1, 639-2 or 639-3 code (two/three '
        'letters), or a special value like "code", "multilingual". If you want to use BCP-47 '
        "identifiers, you can specify them in language_bcp47.",
    ),
    "datasets": (
        _DATASET.pattern,
        'with value "{}" is not valid. If possible, use a dataset id from https://hf.co/datasets.',
    ),
    "base_model": (
        _DATASET.pattern,
        'with value "{}" is not valid. Use a model id from https://hf.co/models.',
    ),
}


class _Loader(yaml.SafeLoader):
    """YAML as the Hub reads it: `no` is Norwegian, only `true` and `false` are truth values."""


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, regexp) for tag, regexp in resolvers if tag != _BOOL]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("true|false"), list("tf"))


def read_card(text: str) -> tuple[dict[str, Any], list[str], list[str]]:
    """The metadata of a card, the errors in it, and the warnings."""
    block = re.match(r"\s*---[\r\n]+([\S\s]*?)[\r\n]+---(?:\r\n|\n|$)", text)
    if not block:
        return {}, [], ["empty or missing yaml metadata in repo card"]
    try:
        metadata = yaml.load(block[1], Loader=_Loader)
    except yaml.YAMLError as error:
        return {}, [f"Invalid YAML in README.md: {error}"], []
    if not isinstance(metadata, dict):
        return {}, ["The YAML metadata of your README.md is invalid."], []
    errors = _mismatches(metadata, _CARD, "")
    for key, (allowed, complaint) in _VALUES.items():
        value = metadata.get(key, [])
        is_list = isinstance(value, list)
        named = {f"{key}[{i}]": v for i, v in enumerate(value)} if is_list else {key: value}
        for name, each in named.items():
            if not isinstance(each, str):
                errors.append(f'"{name}" must be a string')
            elif key == "language" and each != each.lower():
                errors.append(f'"{name}" must only contain lowercase characters')
            elif not re.fullmatch(allowed, each):
                errors.append(f'"{name}" {complaint.format(each)}')
    warnings = []
    if metadata.get("pipeline_tag", "other") not in PIPELINE_TAGS:
        tag = f'The pipeline tag "{metadata["pipeline_tag"]}"'
        warnings.append(f"{tag} is not in the official list: {', '.join(PIPELINE_TAGS)}")
    return metadata, errors, warnings


def _mismatches(value: Any, shape: Any, name: str) -> list[str]:
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f'"{name}" must be an array']
        return [e for i, v in enumerate(value) for e in _mismatches(v, shape[0], f"{name}[{i}]")]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f'"{name}" must be of type object']
        errors = []
        for key, inner in shape.items():
            inside = f"{name}.{key}".strip(".?")
            if value.get(key.rstrip("?")) is not None:
                errors += _mismatches(value[key.rstrip("?")], inner, inside)
            elif not key.endswith("?"):
                errors.append(f'"{inside}" is required')
        return errors
    if shape is object:
        return []
    if not isinstance(value, str):
        return [f'"{name}" must be a string']
    if shape.fullmatch(value):
        return []
    told = f'"{name}" with value "{value}" fails to match the required pattern'
    return [f"{told}: /^{shape.pattern}$/"]
