"""`bench team` asks as it says: answers, refusals, requests that a newer key gave up; and its figures are right."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.datasets.histories import TypedRun
from benchmarks.team import fairness, felt_s, figures
from benchmarks.team_load import GIVEN_UP, RequestRecord, TargetServer, arriving, checksum, closed, type_all
from fastcoder_lsp.errors import NetworkError
from fastcoder_lsp.team.calls import Call, ReplicaAnswer, ReplicaRefusal
from fastcoder_lsp.team.keys import Refusal
from fastcoder_lsp.team.scripted import said_after
from tests.opened import until
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


def test_a_newer_key_gives_the_request_before_it_up(
    start: Callable[..., ToyTeam], monkeypatch: pytest.MonkeyPatch
) -> None:
    team, unanswered = start(), 6
    answer = team.answer

    async def later(call: Call) -> ReplicaAnswer | ReplicaRefusal | Refusal:
        if len(team.calls) < unanswered:
            team.calls.append(call)
            await asyncio.Event().wait()
        return await answer(call)

    monkeypatch.setattr(team, "answer", later)
    asked = asyncio.run(type_all(server(team), [RUN], 1, 4.0, 15.0, clock=looked_at(0.05)))
    given_up = sum(one.code == GIVEN_UP for one in asked)
    assert given_up >= unanswered
    assert asked[-1].code == 200, "nothing comes after it"
    until(lambda: sum(outcome.code == 499 for outcome in team.outcomes) >= unanswered)


def test_loads_are_told_apart_by_how_they_end(start: Callable[..., ToyTeam]) -> None:
    team = start()
    assert {one.code for one in asyncio.run(closed(server(team), 2, 0.3, looked_at()))} == {200}
    team.refusal = Refusal("full", 1)
    refused = asyncio.run(arriving(server(team), 50.0, 2, 0.5, seed=1))
    assert {one.code for one in refused} == {429}
    assert 5 < len(refused) < 60
    nobody = TargetServer("http://127.0.0.1:9", scripted=True)
    assert {one.code for one in asyncio.run(arriving(nobody, 20.0, 1, 0.2, seed=1))} == {0}
    with pytest.raises(NetworkError):
        TargetServer("ftp://x").client(0)


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


def test_fairness_is_jains() -> None:
    assert fairness([asked(number, 0.0, 50.0) for number in range(4)]) == 1.0
    uneven = fairness([asked(0, 0.0, 1000.0), *(asked(number, 0.0, 1e-6) for number in (1, 2, 3))])
    assert uneven == pytest.approx(0.25, abs=1e-6)


def test_a_disturbance_is_felt_until_times_are_as_before() -> None:
    quiet = [asked(0, at / 10, 100.0) for at in range(100)]
    slow = [asked(0, 10 + at / 10, 900.0) for at in range(35)]
    after = [asked(0, 14 + at / 10, 100.0) for at in range(100)]
    assert felt_s([*quiet, *slow, *after], 10.0, 24.0) == 4.0
    assert felt_s([*quiet, *after], 10.0, 24.0) == 0.0
