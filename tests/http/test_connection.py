"""Connections that come to no request end, by a scripted clock and over a socket; those that do stay."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from uvicorn.server import ServerState

from fastcoder_lsp.http import guard
from fastcoder_lsp.http import server as http_server
from fastcoder_lsp.http.server import HEAD_S, MAX_AHEAD, MAX_CONNECTIONS, READ_S, HttpConnection, configuration
from tests.http.toy_server import Start

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{"


class Clock:
    """The part of an event loop that a connection needs, with a time that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._calls = list[tuple[float, Callable[[], object], asyncio.TimerHandle]]()
        self._loop = asyncio.get_running_loop()

    def call_later(self, delay_s: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now_s + delay_s, call, (), self._loop)
        self._calls.append((self.now_s + delay_s, call, handle))
        return handle

    def create_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        return self._loop.create_task(work)

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        due = [one for one in self._calls if one[0] <= self.now_s]
        self._calls = [one for one in self._calls if one[0] > self.now_s]
        for _, call, handle in due:
            if not handle.cancelled():
                call()


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.said, self.closed, self.aborted, self.most = bytearray(), False, False, 65_536
        self.reads = True

    def write(self, data: Any) -> None:
        self.said += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, None)
        self.most = 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Guest:
    """A connection, and the clock by which it lives. `answers`: whether the application answers by itself."""

    def __init__(self, *, answers: bool = True, state: ServerState | None = None) -> None:
        self.clock, self.wire, self.may_answer = Clock(), Wire(), asyncio.Event()
        if answers:
            self.may_answer.set()

        async def app(_scope: Any, receive: Any, send: Any) -> None:
            watching = asyncio.create_task(receive())  # as whoever wants to know whether the client hangs up
            for _ in range(5):
                await asyncio.sleep(0)
            await self.may_answer.wait()
            watching.cancel()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

        config = configuration(lambda: app)
        config.load()
        loop: Any = self.clock
        self.connection = HttpConnection(config, state or ServerState(), {}, loop)
        self.connection.connection_made(self.wire)

    async def say(self, data: bytes) -> None:
        self.connection.data_received(data)
        for _ in range(20):
            await asyncio.sleep(0)

    def answers(self) -> int:
        return self.wire.said.count(b"HTTP/1.1 200")


async def test_a_silent_connection_is_closed() -> None:
    guest = Guest()
    guest.clock.pass_s(HEAD_S - 1)
    assert not guest.wire.closed
    guest.clock.pass_s(1)
    assert guest.wire.closed


async def test_a_head_that_drips_does_not_put_its_end_off() -> None:
    guest = Guest()
    for byte in GET[:-1]:
        assert not guest.wire.closed or guest.clock.now_s >= HEAD_S
        await guest.say(bytes([byte]))
        guest.clock.pass_s(HEAD_S / 10)
    assert guest.wire.closed


async def test_the_next_head_has_the_same_time_from_its_first_byte() -> None:
    """A client that keeps its connection, as most do, may be silent between, as long as uvicorn lets it."""
    guest = Guest()
    for number in range(5):
        await guest.say(GET[:20])
        guest.clock.pass_s(HEAD_S - 1)
        await guest.say(GET[20:])
        assert guest.answers() == number + 1
        guest.clock.pass_s(4)
        assert not guest.wire.closed
    for byte in GET[:-1]:
        await guest.say(bytes([byte]))
        guest.clock.pass_s(HEAD_S / 10)
    assert guest.wire.closed


async def test_a_connection_that_waits_for_an_answer_stays_open() -> None:
    guest = Guest(answers=False)
    await guest.say(POST)
    for _ in range(20):
        guest.clock.pass_s(HEAD_S)
        await guest.say(b" ")
    assert not guest.wire.closed
    guest.may_answer.set()
    await guest.say(b" ")
    assert guest.answers() == 1


async def test_the_rest_of_a_refused_body_ends() -> None:
    guest = Guest()
    await guest.say(POST)
    assert guest.answers() == 1
    for _ in range(40):
        await guest.say(b" ")
        guest.clock.pass_s(HEAD_S / 10)
    assert guest.wire.closed


async def test_unread_answers_are_dropped() -> None:
    """What closes in order waits for its reader, for ever; one that reads late, and then again, has the time anew."""
    guest = Guest()
    assert guest.wire.most == 0
    for _ in range(3):
        guest.connection.pause_writing()
        guest.clock.pass_s(READ_S - 1)
        guest.connection.resume_writing()
    guest.connection.pause_writing()
    guest.clock.pass_s(READ_S - 1)
    assert not guest.wire.aborted
    guest.clock.pass_s(1)
    assert guest.wire.aborted


async def test_there_are_only_so_many() -> None:
    state = ServerState()
    guests = [Guest(state=state) for _ in range(MAX_CONNECTIONS)]
    late = Guest(state=state)
    assert late.wire.closed
    late.connection.connection_lost(None)
    await guests[0].say(GET)
    assert guests[0].answers() == 1
    guests[1].connection.connection_lost(None)
    guests[1].clock.pass_s(HEAD_S)
    again = Guest(state=state)
    await again.say(GET)
    assert again.answers() == 1


async def test_requests_ahead_of_their_answers_wait_at_the_client() -> None:
    guest, sent, most = Guest(), 0, 0
    some = GET * 1_000
    for _ in range(2_000):
        if guest.wire.reads:
            sent += 1_000
            guest.connection.data_received(some)
        await asyncio.sleep(0)
        most = max(most, sent - guest.answers())
    assert most * len(GET) <= MAX_AHEAD + 2 * len(some)
    for _ in range(200_000):
        if guest.answers() == sent:
            break
        await asyncio.sleep(0)
    assert guest.answers() == sent
    assert guest.wire.reads


def test_over_a_socket(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_S", 0.3)
    server = start("x\n")
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.settimeout(0.05)
        for _ in range(10_000):
            with contextlib.suppress(TimeoutError):
                if not heard(slow, b"a"):
                    break
        else:
            raise AssertionError("it is never cut off")
    monkeypatch.setattr(http_server, "HEAD_S", 600.0)
    monkeypatch.setattr(guard, "BODY_S", 0.3)
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(POST)
        assert slow.recv(12) == b"HTTP/1.1 408"


def heard(connected: socket.socket, byte: bytes) -> bytes:
    try:
        connected.sendall(byte)
        return connected.recv(100)
    except (ConnectionResetError, BrokenPipeError):
        return b""
