"""The real gateway over real replicas without Ray, on a real port of loopback."""

from collections.abc import Iterator

import pytest

from tests.opened import opening
from tests.team.toy_team import Start, ToyTeam


@pytest.fixture
def start() -> Iterator[Start]:
    yield from opening(ToyTeam, ToyTeam.close)
