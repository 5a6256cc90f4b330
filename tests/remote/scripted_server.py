"""Servers that are asked in a model's place, on a port of loopback: each says what a test wants, in a form of its own.

Written on plain sockets, so that a test can have them break off, drip, lie and vanish as servers and proxies do.
"""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Reply = Iterator[bytes]


@dataclass
class Request:
    """What came: the method, the path, the headers in small letters, the body as a value."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    gone: threading.Event = field(default_factory=threading.Event)


Handler = Callable[[Request], Reply]


class ScriptedServer:
    """Answers each request by what `handler`, exchanged at any time, gives: pieces of the response as they go out.

    `hung_up` counts the connections that it has closed by itself, in the middle of an answer or behind it.
    """

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.requests: list[Request] = []
        self.hung_up = 0
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as file:
                while (request := _read(file)) is not None:
                    self.requests.append(request)
                    try:
                        for piece in self.handler(request):
                            connection.sendall(piece)
                    except OSError:
                        request.gone.set()
                        raise
        except (OSError, ssl.SSLError):
            self.hung_up += 1


def _read(file: Any) -> Request | None:
    """The next request; None where the client has hung up, be it in the middle of one."""
    first = file.readline().decode(errors="replace").split()
    if len(first) < 2:
        return None
    headers = dict[str, str]()
    while line := file.readline().decode(errors="replace"):
        if not line.strip():
            break
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    else:
        return None
    length = int(headers.get("content-length", 0))
    data = file.read(length)
    if len(data) < length:
        return None
    return Request(first[0], first[1], headers, json.loads(data) if data else {})


def response(code: int, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {code} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body


def as_json(value: Any, code: int = 200) -> bytes:
    return response(code, json.dumps(value).encode())


def events_head() -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(value: Any) -> bytes:
    """An event of a stream."""
    return chunk(b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n")


Serve = Callable[..., ScriptedServer]


class LlamaServer:
    """llama.cpp's routes, as its README says: `says` after a prompt, letter by letter; `wait` is called before each."""

    def __init__(self, says: Callable[[str], str], wait: Callable[[int], object] = lambda _: None) -> None:
        self.says, self.wait = says, wait

    def __call__(self, request: Request) -> Reply:
        if request.path == "/props":
            yield as_json({"default_generation_settings": {"n_ctx": 4096}, "build_info": "b1-abc"})
        elif request.path == "/v1/models":
            yield as_json({"data": [{"id": "toy-gguf"}]})
        elif request.path == "/infill":
            yield from self._infill(request)
        else:
            yield as_json({"error": {"code": 404, "message": "File Not Found"}}, 404)

    def _infill(self, request: Request) -> Reply:
        text = self.says(request.body["input_prefix"] + request.body.get("prompt", ""))
        if request.body.get("seed"):
            text = f"variant_{request.body['seed']}\n"
        most = request.body["n_predict"]
        kept = _until(text[:most], request.body)
        last = {"content": "", "stop": True, "stop_type": "limit" if len(kept) == most < len(text) else "eos"}
        text = kept
        if not request.body.get("stream"):
            yield as_json(last | {"content": text})
            return
        yield events_head()
        for number, letter in enumerate(text):
            self.wait(number)
            yield event({"content": letter, "stop": False})
        yield event(last) + chunk(b"")


class OpenAIServer:
    """OpenAI's completions. A `suffix` is "read", "refused" (vLLM) or "ignored" (LM Studio)."""

    def __init__(self, says: Callable[[str, str], str], model: str = "toy", suffix: str = "read") -> None:
        self.says, self.model, self.suffix = says, model, suffix

    def __call__(self, request: Request) -> Reply:
        body = request.body
        if request.path == "/v1/models":
            yield as_json({"object": "list", "data": [{"id": self.model}]})
        elif request.path != "/v1/completions":
            yield as_json({"detail": "Not Found"}, 404)
        elif body.get("model") != self.model:
            yield as_json({"error": {"message": f"The model `{body.get('model')}` does not exist."}}, 404)
        elif self.suffix == "refused" and body.get("suffix"):
            yield as_json({"error": {"message": "suffix is not currently supported"}}, 400)
        else:
            yield from self._complete(body)

    def _complete(self, body: dict[str, Any]) -> Reply:
        suffix = body.get("suffix", "") if self.suffix == "read" else ""
        text = _until(self.says(body["prompt"], suffix)[: body["max_tokens"]], body)
        usage = {"prompt_tokens": len((body["prompt"] + suffix).split()), "completion_tokens": len(text)}
        if not body.get("stream"):
            yield as_json({"choices": [{"text": text, "finish_reason": "stop"}], "usage": usage})
            return
        yield events_head()
        for letter in text:
            yield event({"choices": [{"text": letter, "finish_reason": None}]})
        yield event({"choices": [{"text": "", "finish_reason": "stop"}]}) + event(b"[DONE]") + chunk(b"")


def _until(text: str, body: dict[str, Any]) -> str:
    """The text before the first of the request's stop words."""
    return min((text.partition(word)[0] for word in body.get("stop", ())), key=len, default=text)
