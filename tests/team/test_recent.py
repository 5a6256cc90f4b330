"""A new replica reads what will be its own: the latest texts, of its documents alone, as much as is kept."""

import asyncio
from collections.abc import Iterable

import pytest

from fastcoder_lsp.http.infill import InfillRequest
from fastcoder_lsp.team import calls as kept_calls
from fastcoder_lsp.team.calls import (
    READ_S,
    READ_SOON_S,
    Call,
    RecentCalls,
    ReplicaAnswer,
    ReplicaCalls,
    Tenant,
    coming,
    place_of,
    preferred,
    time_to_read,
)
from fastcoder_lsp.team.replica import TeamReplica
from fastcoder_lsp.team.scripted import MODULE
from tests.team.toy_team import Start

TEXT = "value = 1\n" * 40


def call(number: int, text: str = TEXT) -> Call:
    return Call(place_of("ada", f"{number}.py"), Tenant("ada", str(number)), InfillRequest(f"# {number}\n{text}", ""))


def places(calls: Iterable[tuple[float, Call]]) -> list[str]:
    return [one.place for _, one in calls]


def test_the_last_call_of_each_document_is_kept_for_a_while() -> None:
    kept = RecentCalls()
    for at_s, number in ((0.0, 1), (1.0, 2), (2.0, 1)):
        kept.keep(call(number, f"{at_s}"), at_s)
    assert [(age_s, one.ask.before) for age_s, one in kept.calls(3.0)] == [(1.0, "# 1\n2.0"), (2.0, "# 2\n1.0")]
    assert not kept.calls(3.0 + kept_calls.AGE_S)
    for number in range(kept_calls.DOCUMENTS + 9):
        kept.keep(call(number), 10.0)
    assert len(kept.calls(10.0)) == kept_calls.DOCUMENTS
    kept.keep(call(0, "x" * (kept_calls.CHARACTERS - 10)), 11.0)
    assert len(kept.calls(11.0)) == 1
    kept.keep(call(1, "y" * kept_calls.CHARACTERS), 12.0)
    assert not kept.calls(12.0), "one that is too long alone is not kept at all"
    kept.keep(call(2), 13.0)
    assert len(kept.calls(13.0)) == 1


def test_what_comes_to_a_new_replica_is_read_from_all() -> None:
    calls = [call(number) for number in range(60)]
    old = [
        ReplicaCalls("a", "1", tuple((9.0, one) for one in calls)),
        ReplicaCalls("b", "1", ((1.0, call(7, "later")),)),
    ]
    added = coming(old, "c", "1")
    assert sorted(places(added)) == sorted(
        one.place for one in calls if preferred(one.place, ["a", "b", "c"])[0] == "c"
    )
    assert 5 < len(added) < 40
    first = coming(old, "c", "2")
    assert sorted(places(first)) == sorted(one.place for one in calls), "nobody else will be there, as far as it knows"
    assert first[0][0] == 1.0
    assert first[0][1].ask.before.endswith("later")
    second = coming([*old, ReplicaCalls("c", "2", ())], "d", "2")
    assert sorted(places(second)) == sorted(one.place for one in calls if preferred(one.place, ["c", "d"])[0] == "d")


def test_a_replica_that_is_needed_soon_reads_little() -> None:
    old, new = ReplicaCalls("a", "1", ()), ReplicaCalls("b", "2", ())
    assert time_to_read([old], "1") == time_to_read([], "1") == READ_SOON_S < READ_S
    assert time_to_read([old], "2") == time_to_read([new, old], "2") == READ_S


def test_what_was_read_is_found(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document's first request to a replica that has read it computes what is new in it, and no more.

    What it read is as old as it was to whoever begins next: the latest is first there, too.
    """
    monkeypatch.setattr(kept_calls, "AGE_S", 1e6)
    team = start()
    replica = TeamReplica(team.config, "later", lambda _: {}, MODULE)

    async def asked() -> tuple[int, ReplicaCalls, ReplicaAnswer]:
        read = await replica.read([(0.0, call(1)), (9.0, call(2)), (99.0, call(3))], 60.0)
        held = replica.held()
        answer = await replica.answer(call(1, f"{TEXT}x"))
        assert isinstance(answer, ReplicaAnswer)
        return read, held, answer

    try:
        read, held, answer = asyncio.run(asked())
        assert read == 3
        assert places(held.calls) == [call(number).place for number in (1, 2, 3)]
        assert answer.said.completion.counts.reused > len(TEXT) // 2
        assert len(replica.held().calls) == 3
        assert asyncio.run(replica.read([(0.0, call(4))], 0.0)) == 0, "there is no time"
    finally:
        replica.close()


def test_what_would_push_out_a_later_text_is_not_read(start: Start) -> None:
    team = start()
    replica = TeamReplica(team.config, "later", lambda _: {}, MODULE)
    most = team.config.replicas.tenants
    older = Call(place_of("ada", "copy.py"), Tenant("ada", "0"), InfillRequest(f"# copied\n{TEXT}", ""))

    async def asked() -> tuple[int, int]:
        read = await replica.read(
            [(0.0, call(0)), (1.0, older), *((2.0, call(1 + more)) for more in range(most))], 60.0
        )
        answer = await replica.answer(call(0, f"{TEXT}x"))
        assert isinstance(answer, ReplicaAnswer)
        return read, answer.said.completion.counts.reused

    try:
        read, reused = asyncio.run(asked())
        assert read == most
        assert reused > len(TEXT) // 2
    finally:
        replica.close()
