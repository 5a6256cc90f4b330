"""One model is loaded for all fronts: who waits for it, how it fails, and who has it anew."""

from functools import partial

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.scheduling.model import RETRY_MS
from tests.scheduling.seats import MODEL, PATIENT, START, WHOLE, all_done, loaded
from tests.scheduling.shared import Shared


def test_everybody_waits_for_one_load_and_has_all_their_time_after_it() -> None:
    shared = Shared(MODEL, load_ms=4000)
    fronts = [shared.open(Policy(automatic_ms=260, invoked_ms=3000)) for _ in range(3)]
    futures = [front.ask(START) for front in fronts]
    shared.work(until=partial(all_done, futures))
    assert [future.result(0).text for future in futures] == [WHOLE] * 3
    assert shared.loads == 1
    for front in fronts:
        assert ("loading", 50) in [(status.state, status.percent) for status in front.statuses]


def test_a_load_that_fails_answers_all_who_wait_and_is_tried_again() -> None:
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


def test_who_only_looks_on_is_told_how_a_load_ends() -> None:
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


def test_who_loads_it_anew_takes_nothing_from_the_others() -> None:
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
