"""Servers for a file of tests, or for one."""

from collections.abc import Iterator

import pytest

from tests.http.toy_server import Start, ToyServer
from tests.opened import opening


@pytest.fixture(scope="module")
def server() -> Iterator[ToyServer]:
    server = ToyServer("return sum(items)\n")
    yield server
    server.close()


@pytest.fixture
def start() -> Iterator[Start]:
    yield from opening(ToyServer, ToyServer.close)
