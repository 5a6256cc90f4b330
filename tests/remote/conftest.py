"""Servers, and fronts that ask them."""

from collections.abc import Iterator

import pytest

from tests.opened import opening
from tests.remote.front import Front, Fronts
from tests.remote.scripted_server import ScriptedServer, Serve


@pytest.fixture
def serve() -> Iterator[Serve]:
    yield from opening(ScriptedServer, ScriptedServer.close)


@pytest.fixture
def front() -> Iterator[Fronts]:
    yield from opening(Front, lambda front: front.service.shutdown(4.0))
