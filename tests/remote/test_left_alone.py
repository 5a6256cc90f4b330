"""When a server is waited for no longer, and for how long it is left alone then."""

import threading
import time
from email.utils import formatdate
from itertools import count

import pytest

from fastcoder_lsp.remote.client import Timeouts
from fastcoder_lsp.remote.failures import from_status
from tests.opened import until
from tests.remote.faulty import SOON, Faulty, says
from tests.remote.front import WAIT_S, Fronts
from tests.remote.scripted_server import (
    LlamaServer,
    Reply,
    Request,
    Serve,
    as_json,
    event,
    events_head,
    response,
)


def test_typing_on_shows_that_a_server_is_silent(serve: Serve, front: Fronts) -> None:
    """Each key hangs up on the question before it, so that none waits for long enough to be given up by itself."""

    def handler(request: Request) -> Reply:
        if request.path == "/infill":
            threading.Event().wait(WAIT_S)
        yield as_json({"build_info": "fastcoder-lsp 9", "data": []})

    server = serve(handler)
    asking = front(server.url, timeouts=Timeouts(first_s=1.0), pauses_s=(600.0,))
    assert asking.service.preload().result(20)
    numbers = count()

    def told() -> list[str]:
        number = next(numbers)
        future = asking.submit(f"x{number} = ")
        until(lambda: future.done() or len(server.asked("/infill")) > number)
        future.cancel()
        return [status.message for status in asking.statuses if status.state == "error"]

    until(told)
    assert "did not answer in time" in told()[0]
    assert asking.code("y = ") == "remote-silent"
    assert len(server.asked("/infill")) > 2


def test_a_server_may_load_its_model_before_its_first_answer(serve: Serve, front: Fronts) -> None:
    server = serve(LlamaServer(lambda _: "1\n", lambda _: time.sleep(1.0)))
    asking = front(server.url, timeouts=Timeouts(read_s=0.5, first_s=WAIT_S))
    assert asking.ask("x = ").text == "1"
    assert asking.code("y = ") == "remote-silent"


def test_it_is_left_alone_ever_longer(serve: Serve, front: Fronts) -> None:
    server = serve(Faulty(says(as_json({}, 500))))
    asking = front(server.url, pauses_s=(0.0, 600.0))
    codes = [asking.code(f"x{number} = ") for number in range(5)]
    assert codes == ["remote-broken"] * 5
    assert len(server.asked("/infill")) == 2
    server.handler = LlamaServer(lambda _: "1\n")
    asking.service.reload()  # the user says: now
    assert asking.ask("x = ").text == "1"


def test_retry_after_is_kept(serve: Serve, front: Fronts) -> None:
    server = serve(Faulty(says(response(429, b"{}", Retry_After="60"))))
    asking = front(server.url)
    assert [asking.code(f"x{number} = ") for number in range(3)] == ["remote-busy"] * 3
    assert len(server.asked("/infill")) == 1


def test_retry_after_is_a_number_or_a_date() -> None:
    now_s = 1_800_000_000.0
    texts = {"5": 5, formatdate(now_s + 90, usegmt=True): 90, formatdate(now_s - 9, usegmt=True): 0, "soon": 0, "-3": 0}
    texts |= {"1e9": 3600, "nan": 0, "": 0}
    for text, wait_s in texts.items():
        assert from_status("h", 429, {"retry-after": text}, b"", now_s).wait_s == wait_s, text


def test_a_server_that_drips_what_it_is(serve: Serve, front: Fronts) -> None:
    def drips(_: Request) -> Reply:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n"
        while True:
            time.sleep(0.1)
            yield b" "

    server = serve(drips)
    asking = front(server.url, timeouts=SOON)
    assert asking.service.preload().result(20) is False
    assert "did not answer in time" in asking.statuses[-1].message
    server.handler = LlamaServer(lambda _: "1\n")
    until(lambda: asking.ask("y = ").text == "1")


@pytest.mark.parametrize("piece", ["x", " ", "\n ", "\n " * 200_000], ids=["a line", "blanks", "lines", "at once"])
def test_a_server_that_speaks_for_ever_is_hung_up_on(serve: Serve, front: Fronts, piece: str) -> None:
    """However little it was asked for, and whether what it says would ever end; others are answered meanwhile."""

    def for_ever(_: Request) -> Reply:
        yield events_head()
        while True:
            yield event({"content": piece, "stop": False})

    server = serve(Faulty(for_ever))
    asking = front(server.url)
    asking.ask("def f():\n    ", "\n")
    until(lambda: any(one.gone.is_set() for one in server.asked("/infill")))
    server.handler = LlamaServer(lambda _: "1\n")
    assert asking.ask("y = ").text == "1"
