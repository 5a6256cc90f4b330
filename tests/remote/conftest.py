"""Servers, and fronts that ask them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.remote.front import Front
from tests.remote.scripted_server import Handler, ScriptedServer


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    started: list[ScriptedServer] = []

    def new(handler: Handler, **named: Any) -> ScriptedServer:
        started.append(ScriptedServer(handler, **named))
        return started[-1]

    yield new
    for server in started:
        server.close()


@pytest.fixture
def front() -> Iterator[Callable[..., Front]]:
    opened: list[Front] = []

    def new(*arguments: Any, **named: Any) -> Front:
        opened.append(Front(*arguments, **named))
        return opened[-1]

    yield new
    for one in opened:
        one.service.shutdown(4.0)
