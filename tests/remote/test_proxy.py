"""Between the front and a real server a proxy does what it must not, at every place of an answer.

Whatever that is, each question is answered once: by the text, or by nothing with a reason; never by another text.
"""

import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from fastcoder_lsp.completion.reasons import CODES
from fastcoder_lsp.remote.client import Timeouts
from tests.http.toy_server import ToyServer
from tests.remote.front import Front, Fronts, until

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
