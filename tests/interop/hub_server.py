"""A small server that answers what huggingface_hub asks of the Hub: a repository of files, read and written."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_of_the_owner"


class HubServer(ThreadingHTTPServer):
    """Serves the files of `folder` as the model `name`, and keeps what was asked for and what was uploaded."""

    def __init__(self, name: str, folder: Path):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name, self.folder = name, folder
        self.fetched: list[str] = []
        self.uploaded: dict[str, bytes] = {}
        self.created: dict[str, Any] = {}


class _Handler(BaseHTTPRequestHandler):
    server: HubServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer_file(with_content=False)

    def do_GET(self) -> None:
        api = f"/api/models/{self.server.name}"
        if self.path.startswith(f"{api}/revision/main"):
            self._answer_json({"id": self.server.name, "sha": COMMIT, "siblings": []})
        elif self.path.startswith(f"{api}/tree/{COMMIT}"):
            files = [
                {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": _etag(path)}
                for path in self.server.folder.iterdir()
            ]
            self._answer_json(files)
        elif self.path.startswith(f"{api}/revision/"):
            self._answer_json({}, 404, "RevisionNotFound")
        else:
            self._answer_file(with_content=True)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        api = f"/api/models/{self.server.name}"
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer_json({"error": "Invalid user token"}, 401)
        elif self.path == "/api/repos/create":
            self.server.created = json.loads(body)
            self._answer_json({"url": f"https://huggingface.co/{self.server.name}"})
        elif self.path == "/api/validate-yaml":
            self._answer_json({"errors": [], "warnings": []})
        elif self.path == f"{api}/preupload/main":
            names = [file["path"] for file in json.loads(body)["files"]]
            self._answer_json(
                {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}
            )
        elif self.path.startswith(f"{api}/commit/main"):
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.server.uploaded[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            url = f"https://huggingface.co/{self.server.name}/commit/{COMMIT}"
            self._answer_json({"commitUrl": url, "commitOid": COMMIT, "success": True})
        else:
            self._answer_json({}, 404)

    def _answer_file(self, with_content: bool) -> None:
        path = self.server.folder / self.path.partition("?")[0].rpartition("/")[2]
        if not self.path.startswith(f"/{self.server.name}/resolve/{COMMIT}/") or not path.is_file():
            self._answer_json({}, 404, "RepoNotFound" if self.server.name not in self.path else "EntryNotFound")
            return
        content = path.read_bytes()
        self.send_response(200)
        for key, value in {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": COMMIT, "Content-Length": len(content)}.items():
            self.send_header(key, str(value))
        self.end_headers()
        if with_content:
            self.server.fetched.append(path.name)
            self.wfile.write(content)

    def _answer_json(self, value: Any, status: int = 200, code: str | None = None) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if code is not None:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _etag(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def hub_server(name: str, folder: Path) -> Iterator[HubServer]:
    """Run the server for as long as the block lasts."""
    server = HubServer(name, folder)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
