"""`bench team` asks as it says: answers, refusals, requests that a newer key gave up; and its figures are right."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.datasets.histories import TypedRun
from benchmarks.team import figures
from benchmarks.team_load import RequestRecord, TargetServer, checksum, type_all
from fastcoder_lsp.team.scripted import said_after
from tests.team.counted import looked_at
from tests.team.toy_team import ToyTeam

RUN = TypedRun("a.py", "python", "import os\n\n\n", 11, "def total(items):\n    return sum(items)\n")


@pytest.fixture
def start() -> Iterator[Callable[..., ToyTeam]]:
    started: list[ToyTeam] = []

    def new(**named: Any) -> ToyTeam:
        started.append(ToyTeam("[limits]\nopen = 1000\na_minute = 100000", **named))
        return started[-1]

    yield new
    for team in started:
        team.close()


def server(team: ToyTeam) -> TargetServer:
    return TargetServer(f"http://127.0.0.1:{team.port}", scripted=True)


def test_the_scripted_models_checksum_is_the_benchmarks() -> None:
    assert all(said_after(text, 8) == checksum(text, 8) for text in ("", "x", "größe\n"))


def test_every_key_is_asked_and_answered_with_its_own(start: Callable[..., ToyTeam]) -> None:
    team = start(replicas=2)
    asked = asyncio.run(type_all(server(team), [RUN], 4, 4.0, 30.0, patient=True, clock=looked_at()))
    found = figures(asked, 4.0, 4)
    assert found["requests"] == found["answered"] == len(team.calls) > 20
    assert found["by_another's_text"] == found["failed"] == 0
    assert all(one.right for one in asked)
    assert found["same_replica"] == 1.0
    assert found["prompt_reused"] > 0.5
    assert {one.typist for one in asked} == {0, 1, 2, 3}


def asked(typist: int, at_s: float, ms: float, code: int = 200, replica: str = "a") -> RequestRecord:
    return RequestRecord(typist, f"{typist}.py", at_s, code, ms, text=True, replica=replica, prefilled=1, reused=3)


def test_figures() -> None:
    found = figures(
        [asked(0, 0.0, 100.0), asked(0, 1.0, 300.0, replica="b"), asked(1, 2.0, 9.0, 429), asked(1, 3.0, 9.0, 503)],
        60,
        2,
    )
    assert (found["answered"], found["refused"], found["failed"]) == (2, 1, 1)
    assert found["ms"]["p50"] == 200.0
    assert found["same_replica"] == 0.0
    assert found["prompt_reused"] == 0.75
    assert found["a_person_and_minute"]["requests"] == 2.0
