"""The real gateway over real replicas without Ray, on a real port of loopback."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.team.toy_team import ToyTeam


@pytest.fixture
def start() -> Iterator[Callable[..., ToyTeam]]:
    started: list[ToyTeam] = []

    def new(*arguments: Any, **named: Any) -> ToyTeam:
        started.append(ToyTeam(*arguments, **named))
        return started[-1]

    yield new
    for team in started:
        team.close()
