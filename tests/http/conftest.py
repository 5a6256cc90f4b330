"""Servers for a file of tests, or for one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.http.toy_server import ToyServer


@pytest.fixture(scope="module")
def server() -> Iterator[ToyServer]:
    server = ToyServer("return sum(items)\n")
    yield server
    server.close()


@pytest.fixture
def start() -> Iterator[Callable[..., ToyServer]]:
    started: list[ToyServer] = []

    def new(*arguments: Any, **named: Any) -> ToyServer:
        started.append(ToyServer(*arguments, **named))
        return started[-1]

    yield new
    for server in started:
        server.close()
