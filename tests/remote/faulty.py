"""Servers that are llama.cpp's until a question comes, and fail then."""

import threading
from collections.abc import Callable

from fastcoder_lsp.remote.client import Timeouts
from tests.remote.front import WAIT_S
from tests.remote.scripted_server import LlamaServer, Reply, Request, chunk, event, events_head, response

SOON = Timeouts(connect_s=0.5, read_s=0.5, first_s=0.5)
"""For who is silent without end alone: a busy machine is, too."""
PAGE = response(200, b"<html><title>Sign in</title></html>", "text/html; charset=utf-8")
PIECE = {"content": "return", "stop": False}


class Faulty(LlamaServer):
    """A server that is llama.cpp's until a question comes, and then does what a test wants."""

    def __init__(self, fault: Callable[[Request], Reply]) -> None:
        super().__init__(lambda _: "")
        self.fault = fault

    def _infill(self, request: Request) -> Reply:
        return self.fault(request)


def says(data: bytes) -> Callable[[Request], Reply]:
    return lambda _: iter([data])


def half_a_stream(_: Request) -> Reply:
    yield events_head() + event(PIECE)
    raise OSError("it breaks off")


def half_a_header(_: Request) -> Reply:
    yield b"HTTP/1.1 20"
    raise OSError("it breaks off")


def ends_before_its_end(_: Request) -> Reply:
    """As a proxy ends a stream whose server is gone: in order, and too early."""
    yield events_head() + event(PIECE) + chunk(b"")


def drips_no_more(_: Request) -> Reply:
    yield events_head() + event(PIECE)
    threading.Event().wait(WAIT_S)


def silent(_: Request) -> Reply:
    threading.Event().wait(WAIT_S)
    yield b""
