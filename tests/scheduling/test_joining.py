"""Fronts come, go and switch off; one model is loaded for all of them, and its memory is given back."""

import math
import sys
import threading
from functools import partial
from types import SimpleNamespace

import psutil
import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.scheduling import model
from fastcoder_lsp.scheduling.budget import CHUNK_MS
from fastcoder_lsp.scheduling.model import RETRY_MS, SharedModel, trim_heap
from tests.scheduling.several_fronts import HURRIED, MODEL, PATIENT, START, WHOLE, all_done, loaded
from tests.scheduling.shared import Shared


def closed(shared: Shared) -> bool:
    return shared.caches.closed


def test_a_client_that_leaves_frees_all_it_held() -> None:
    shared, (leaving, staying) = loaded(2)
    left, kept = leaving.ask(START), staying.ask(START)
    shared.work(pieces=8)
    assert any(name.startswith(leaving.name) for name in shared.caches.engines)
    leaving.service.shutdown()
    assert left.result(0).finish == "superseded"
    shared.scheduler.turn()
    assert not any(name.startswith(leaving.name) for name in shared.caches.engines)
    shared.work()
    assert kept.result(0).text == WHOLE
    assert not closed(shared)
    assert leaving.service.preload().result(0) is False
    statuses = len(leaving.statuses)
    staying.ask(START + "v")
    shared.work()
    assert len(leaving.statuses) == statuses


def test_the_model_outlives_the_last_front_and_serves_the_next() -> None:
    shared, (only,) = loaded(1)
    only.service.shutdown()
    shared.work()
    assert not closed(shared)
    future = shared.open(PATIENT).ask(START)
    shared.work()
    assert future.result(0).text == WHOLE
    assert shared.loads == 1


def test_off_unloads_once_no_client_wants_the_model() -> None:
    shared, (left, right) = loaded(2)
    left.service.set_enabled(False)
    shared.work()
    assert left.statuses[-1].state == "off"
    assert not closed(shared)
    future = right.ask(START)
    shared.work()
    assert future.result(0).text == WHOLE
    right.service.set_enabled(False)
    shared.work()
    assert closed(shared)
    left.service.set_enabled(True)
    future = left.ask(START)
    shared.work()
    assert future.result(0).text == WHOLE
    assert shared.loads == 2


def test_the_last_client_of_a_model_leaves() -> None:
    shared, (off, on) = loaded(2)
    off.service.set_enabled(False)
    on.service.shutdown()
    shared.work()
    assert closed(shared)


def test_a_joining_front_costs_the_others_no_more_than_a_piece() -> None:
    shared, (typist,) = loaded(1, HURRIED)
    future = typist.ask("# much to read\n" * 40 + START)
    shared.work(pieces=2)
    asked_ms = typist.asked[-1][1]
    shared.open(HURRIED).service.preload()
    shared.work(until=future.done)
    assert shared.clock.ms <= asked_ms + HURRIED.automatic_ms + CHUNK_MS
    assert math.isfinite(shared.clock.ms)


def test_a_front_that_cannot_be_told_costs_the_others_nothing() -> None:
    shared, (deaf, other) = loaded(2)

    def fail(*_: object, **__: object) -> None:
        raise BrokenPipeError

    for verb in ("answered", "made", "forgotten", "counted", "worked", "told"):
        setattr(deaf.service, verb, fail)
    deaf.ask(START)
    future = other.ask(START)
    shared.work()
    assert future.result(0).text == WHOLE
    deaf.host.close(0)
    shared.work()
    assert not any(name.startswith(deaf.name) for name in shared.caches.engines)
    other.service.reload()
    future = other.ask(f"#\n{START}")
    shared.work()
    assert future.result(0).text == WHOLE


def test_a_closed_fronts_memory_is_collected_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, (leaving, staying) = loaded(2)
    collected: list[float] = []
    counting = SimpleNamespace(
        collect=lambda: collected.append(shared.clock.ms), freeze=lambda: None, unfreeze=lambda: None
    )
    monkeypatch.setattr("fastcoder_lsp.scheduling.model.gc", counting)
    future = staying.ask(START)
    shared.work(pieces=4)
    leaving.service.shutdown()
    shared.work(until=future.done)
    assert not collected
    shared.work()
    shared.rest(5000)
    assert len(collected) == 1


MIB = 2**20


class Blocks:
    """A model made of many small blocks, as objects of Python and of libraries are."""

    costs = StepCosts((1, 8), (1.0, 2.0), 0.1)

    def __init__(self) -> None:
        self.blocks = [bytes(1000) for _ in range(100_000)]

    def close(self) -> None:
        self.blocks.clear()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc keeps what is freed, others do not")
def test_what_was_many_small_blocks_is_given_back() -> None:
    process, kept = psutil.Process(), list[bytes]()

    def load_and_free() -> None:
        blocks = [bytes(1000) for _ in range(100_000)]
        kept.append(blocks[-1])

    thread = threading.Thread(target=load_and_free)
    thread.start()
    thread.join()
    held = process.memory_info().rss
    trim_heap()
    assert process.memory_info().rss < held - 50 * MIB


def test_unloading_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[int] = []
    blocks = Blocks()
    monkeypatch.setattr(model, "trim_heap", lambda: there.append(len(blocks.blocks)))
    shared = SharedModel(lambda _progress: blocks, lambda _share, _what: None, lambda: 0.0)
    shared.unload()
    assert there == []
    shared.get()
    shared.unload()
    assert there == [0]


def test_all_clients_wait_for_one_load_with_their_time_after_it() -> None:
    shared = Shared(MODEL, load_ms=4000)
    fronts = [shared.open(Policy(automatic_ms=260, invoked_ms=3000)) for _ in range(3)]
    futures = [front.ask(START) for front in fronts]
    shared.work(until=partial(all_done, futures))
    assert [future.result(0).text for future in futures] == [WHOLE] * 3
    assert shared.loads == 1
    for front in fronts:
        assert ("loading", 50) in [(status.state, status.percent) for status in front.statuses]


def test_a_failed_load_answers_all_waiting_and_is_retried() -> None:
    shared = Shared(MODEL)
    shared.failure = ModelMissingError("there is none", "get one")
    fronts = [shared.open(PATIENT) for _ in range(3)]
    futures = [front.ask(START) for front in fronts]
    shared.work()
    for front, future in zip(fronts, futures, strict=True):
        assert future.result(0).finish == "error"
        assert front.statuses[-1].message == "there is none"
    assert shared.loads == 1
    shared.failure = None
    shared.clock.ms += RETRY_MS
    future = fronts[2].ask(START)
    shared.work()
    assert future.result(0).text == WHOLE


def test_an_idle_front_is_told_how_a_load_ends() -> None:
    shared = Shared(MODEL)
    asking, idle = shared.open(PATIENT), shared.open(PATIENT)
    asking.ask(START)
    shared.work()
    assert [status.state for status in idle.statuses] == ["starting", "loading", "starting"]
    shared.failure = ModelMissingError("there is none", "get one")
    asking.service.reload()
    asking.ask(START)
    shared.work()
    assert (idle.statuses[-1].state, idle.statuses[-1].message) == ("error", "there is none")


def test_what_one_front_cannot_have_the_others_have() -> None:
    shared = Shared(MODEL)
    odd, plain = shared.open(PATIENT, failure=ModelMissingError("not tuned", "")), shared.open(PATIENT)
    left, right = odd.ask(START), plain.ask(START)
    shared.work()
    assert left.result(0).finish == "error"
    assert right.result(0).text == WHOLE
    assert shared.loads == 1


def test_a_reload_takes_nothing_from_other_fronts() -> None:
    shared, (left, right) = loaded(2)
    future = right.ask(START)
    shared.work(pieces=8)
    left.service.reload()
    shared.work()
    assert future.result(0).text == WHOLE
    assert shared.loads == 2

    def again() -> None:
        shared.while_loading = lambda: None
        left.service.reload()

    shared.while_loading = again
    left.service.reload()
    future = right.ask(f"#\n{START}")
    shared.work()
    assert future.result(0).text == WHOLE


def test_other_parts_of_the_model_for_one_front() -> None:
    shared, (left, right) = loaded(2)
    futures = left.ask(START), right.ask(START)
    shared.work(pieces=8)
    made: list[str] = []

    def make(model: object) -> object:
        made.append("again")
        raise ModelMissingError("cannot be had")

    shared.scheduler.refit(left.host.client, make)  # type: ignore[arg-type]
    shared.work()
    assert made == ["again"]
    assert futures[0].result(0).finish == "error"
    assert futures[1].result(0).text == WHOLE
    assert shared.loads == 1
