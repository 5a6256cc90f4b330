"""A hub on localhost, for the real client: one model, by the hub's own protocol."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_id(data: bytes) -> str:
    """Git's name of a file's content."""
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data)).hexdigest()


@dataclass
class Hub:
    """What the server holds and was asked. `sums` overrides what it says of a file; `cut` ends an answer early.

    After `quiet_after` cut answers (if not negative) a cut file is answered with nothing at all. `page`: what
    everything is answered with, where a network wants something else first. `about` and `headers`: members and headers
    that a hostile server sends in place of its own.
    """

    hub_id: str
    files: Mapping[str, bytes]
    sums: dict[str, str] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""
    quiet_after: int = -1
    page: bytes = b""
    about: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def sha256(self, name: str) -> str:
        return self.sums.get(name, hashlib.sha256(self.files[name]).hexdigest())

    def listing(self) -> list[dict[str, object]]:
        """The files as the hub's tree lists them; weights are large files, with a sum."""
        entries: list[dict[str, object]] = []
        for name, data in self.files.items():
            entry: dict[str, object] = {"type": "file", "path": name, "rfilename": name, "size": len(data)}
            entry |= {"oid": git_id(data), "blobId": self.sums.get(name, git_id(data))}
            if name.endswith((".safetensors", ".bin", ".gguf")):
                sha256 = self.sha256(name)
                entry["lfs"] = {"oid": sha256, "sha256": sha256, "size": len(data), "pointerSize": 134}
            entries.append(entry)
        return entries


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = hub
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    hub: Hub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 the base class's name
        """Nothing on stderr."""

    def _answer(self, *, body: bool) -> None:
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        hub.asked.append(f"{self.command} {path} {self.headers.get('Range', '')}".strip())
        api, plain = f"/api/models/{hub.hub_id}", f"/{hub.hub_id}/resolve/"
        if hub.page:
            self._send(200, hub.page, {"Content-Type": "text/html"}, body=body)
        elif path == api or path.startswith(f"{api}/revision/"):
            about = {"id": hub.hub_id, "sha": COMMIT, "siblings": hub.listing(), "cardData": {"license": "mit"}}
            self._send(200, json.dumps(about | hub.about).encode(), {"Content-Type": "application/json"}, body=body)
        elif path.startswith(f"{api}/tree/"):
            self._send(200, json.dumps(hub.listing()).encode(), {"Content-Type": "application/json"}, body=body)
        elif path.startswith(plain) and (name := path.removeprefix(plain).partition("/")[2]) in hub.files:
            self._send_file(name, body=body)
        else:
            missing = {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
            self._send(404, b"{}", missing, body=body)

    def _send_file(self, name: str, *, body: bool) -> None:
        hub = self.server.hub
        data, start = hub.files[name], 0
        large = name.endswith((".safetensors", ".bin"))
        etag = hub.sha256(name) if large else git_id(data)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "X-Linked-Size": str(len(data))}
        if wanted := self.headers.get("Range", ""):
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        stop = hub.cut.get(name)
        if stop is not None and body and hub.quiet_after >= 0:
            stop = stop if hub.quiet_after else 0
            hub.quiet_after = max(0, hub.quiet_after - 1)
        self._send(206 if wanted else 200, data[start:], headers, body=body, stop=stop)

    def _send(
        self, status: int, data: bytes, headers: Mapping[str, str], *, body: bool, stop: int | None = None
    ) -> None:
        """Answer; of the body `stop` bytes at most, then the connection ends."""
        self.send_response(status)
        for key, value in (dict(headers) | self.server.hub.headers).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data[:stop])
        if stop is not None:
            self.close_connection = True
