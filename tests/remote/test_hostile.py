"""Servers and proxies that mean harm: each question is answered once, by the text or by nothing with a reason."""

import json
import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from fastcoder_lsp.core.reason_codes import CODES
from fastcoder_lsp.remote.client import BODY_BYTES, HEAD_BYTES, Timeouts
from tests.http.toy_server import ToyServer
from tests.opened import until
from tests.remote.faulty import Faulty
from tests.remote.front import Front, Fronts
from tests.remote.scripted_server import (
    LlamaServer,
    Reply,
    Request,
    Serve,
    as_json,
    chunk,
    event,
    events_head,
)

SLACK = 20_000_000
"""What the system's buffers of a connection hold, and what is asked before the question."""


class Endless:
    """Says the same again and again, and counts it. `before` comes once."""

    def __init__(self, before: bytes, again: bytes) -> None:
        self.before, self.again, self.sent = before, again, 0

    def __call__(self, _: Request) -> Iterator[bytes]:
        yield self.before
        block = self.again * (65_536 // len(self.again) + 1)
        while True:
            self.sent += len(block)
            yield block


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
ENDLESS = {
    "100 continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", HEAD_BYTES),
    "103 early hints": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n", HEAD_BYTES),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", HEAD_BYTES),
    "a header": (b"HTTP/1.1 200 OK\r\na: ", b"b", HEAD_BYTES),
    "a status line": (b"HTTP/1.1 200 ", b"O", HEAD_BYTES),
    "blank lines": (b"", b"\r\n", HEAD_BYTES),
    "an extension of a chunk": (events_head() + b"1;a=", b"b", BODY_BYTES),
    "extensions of chunks": (events_head(), b"1;" + b"a=b;" * 500 + b"\r\n\n\r\n", BODY_BYTES),
    "chunks of a byte": (events_head(), b"1\r\n\n\r\n", BODY_BYTES),
    "trailers": (events_head() + b"0\r\n", b"a: b\r\n", BODY_BYTES),
    "comments": (events_head() + b"7ffffff0\r\n", b":\n", BODY_BYTES),
    "a comment": (events_head() + b"7ffffff0\r\n:", b"a", BODY_BYTES),
    "other fields": (events_head() + b"7ffffff0\r\n", b"id: 1\nretry: 1\n", BODY_BYTES),
    "empty events": (events_head() + b"7ffffff0\r\n", b"data: {}\n\n", BODY_BYTES),
    "empty texts": (events_head() + b"7ffffff0\r\n", b'data: {"content": ""}\n\n', BODY_BYTES),
    "an event": (events_head() + b"7ffffff0\r\ndata: ", b"[", BODY_BYTES),
    "json": (CHUNKED + b"7ffffff0\r\n", b"[", BODY_BYTES),
    "json, chunks of a byte": (CHUNKED, b"1\r\n[\r\n", BODY_BYTES),
    "a refusal": (b"HTTP/1.1 500 X\r\ncontent-type: application/json\r\n\r\n", b'"', BODY_BYTES),
    "a redirection": (b"HTTP/1.1 307 X\r\nlocation: /infill\r\n\r\n", b"a", BODY_BYTES),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_hung_up_on(serve: Serve, front: Fronts, what: str) -> None:
    before, again, most = ENDLESS[what]
    endless = Endless(before, again)
    server = serve(Faulty(endless))
    asking = front(server.url)
    assert asking.ask("x = ").text == ""
    assert endless.sent <= most + SLACK
    server.handler = LlamaServer(lambda _: "1\n")
    assert asking.ask("y = ").text == "1"


@pytest.mark.parametrize("what", ["100 continue", "comments", "json", "chunks of a byte"])
def test_a_server_that_never_says_what_it_is_is_hung_up_on(serve: Serve, front: Fronts, what: str) -> None:
    before, again, most = ENDLESS[what]
    endless = Endless(before, again)
    server = serve(endless)
    asking = front(server.url)
    assert asking.ask("only_here = ").reason is not None
    assert endless.sent <= most + SLACK
    assert "only_here" not in json.dumps([request.body for request in server.requests])


@pytest.mark.parametrize(
    "control", ["\x1b]0;title\x07", "\x1b[2J", "\b\b", "\x9b2J", "\u202e", "\u2066", "\u200b", "\ud800"]
)
@pytest.mark.parametrize("kind", ["llama.cpp", "fastcoder"])
def test_what_a_server_says_ends_before_a_control_character(
    serve: Serve, front: Fronts, control: str, kind: str
) -> None:
    def says(_: Request) -> Reply:
        value = {"content": f"one{control}two\n", "stop": True, "alternatives": [f"three{control}four\n", control]}
        if kind == "fastcoder":
            yield as_json(value)
        else:
            yield events_head() + event({"content": f"one{control}", "stop": False}) + event(value) + chunk(b"")

    asking = front(serve(Faulty(says)).url, remote_kind=kind)
    answer = asking.ask("x = ", invoked=True)
    assert answer.text == "one"
    assert [other.text for other in answer.others] in ([], ["three"])


def test_a_name_of_a_model_shows_no_control(serve: Serve, front: Fronts) -> None:
    """A server's list of models is shown to people."""

    class Named(LlamaServer):
        def __call__(self, request: Request) -> Reply:
            if request.path == "/v1/models":
                names = "a\x1b[2J", "b\u202e", "\ud83d", "m" * 5000, 7, None, "good"
                return iter([as_json({"data": [{"id": name} for name in names]})])
            return super().__call__(request)

    answer = front(serve(Named(lambda _: "1\n")).url).ask("x = ")
    assert (answer.text, answer.model) == ("1", "good")


SAYS = "return sum(items)"
BEFORE = "def total(items):\n    "
Damage = Callable[[bytes], tuple[bytes, bool]]
"""What becomes of a piece on its way back, and whether the connection is cut after it."""


def passed(piece: bytes) -> tuple[bytes, bool]:
    return piece, False


class Proxy:
    """Passes bytes on between a front and the server at `port`; `damage` may be exchanged at any time."""

    def __init__(self, port: int) -> None:
        self.damage: Damage = passed
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                front, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._pass, args=(front, server, passed), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, front, self._damaged), daemon=True).start()

    def _damaged(self, piece: bytes) -> tuple[bytes, bool]:
        return self.damage(piece)

    def _pass(self, source: socket.socket, to: socket.socket, damage: Damage) -> None:
        try:
            while piece := source.recv(65536):
                left, cut = damage(piece)
                to.sendall(left)
                if cut:
                    break
        except OSError:
            pass
        for one in (source, to):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@pytest.fixture(scope="module")
def server() -> Iterator[ToyServer]:
    server = ToyServer(f"{SAYS}\n")
    yield server
    server.close()


@pytest.fixture
def proxy(server: ToyServer) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


class Cutter:
    """Cuts the connection after so many bytes."""

    def __init__(self, after: int) -> None:
        self._left = after

    def __call__(self, piece: bytes) -> tuple[bytes, bool]:
        kept, self._left = piece[: self._left], self._left - len(piece)
        return kept, self._left <= 0


def outcome(asking: Front, number: int) -> str:
    completion = asking.ask(f"# {number}\n{BEFORE}", "\n")
    if completion.text:
        return completion.text
    assert completion.reason is not None
    assert completion.reason.code in CODES
    return completion.reason.code


def test_an_answer_that_is_cut_anywhere_is_none(proxy: Proxy, front: Fronts) -> None:
    asking = front(proxy.url)
    assert outcome(asking, 0) == SAYS
    outcomes = []
    for number, after in enumerate(range(1, 1400, 40), 1):
        proxy.damage = Cutter(after)
        outcomes.append(outcome(asking, number))
    assert set(outcomes) == {"remote-cut", SAYS}
    assert outcomes == sorted(outcomes), "the text comes once enough is let through, and always then"


def test_damaged_answers_are_never_another_text(proxy: Proxy, front: Fronts) -> None:
    """Bytes of the response's head are exchanged; those of the text itself nobody but the server could vouch for."""
    asking = front(proxy.url, timeouts=Timeouts(1.0, 0.2, 0.2))
    until(lambda: outcome(asking, 0) == SAYS)
    dice = random.Random(7)
    seen = set()
    for number in range(1, 50):
        place, letter = dice.randrange(0, 160), dice.randrange(256)

        def damage(piece: bytes, place: int = place, letter: int = letter) -> tuple[bytes, bool]:
            head = piece.startswith(b"HTTP/") and place < piece.find(b"\r\n\r\n")
            return (piece[:place] + bytes([letter]) + piece[place + 1 :] if head else piece), False

        proxy.damage = damage
        text = outcome(asking, number)
        seen.add(text)
        assert text in {SAYS, *CODES}
    proxy.damage = passed
    asking.service.reload()
    until(lambda: outcome(asking, 1000) == SAYS)
    assert len(seen) > 2
