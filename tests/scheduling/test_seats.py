"""Several fronts over one model: each has what it would have alone, and nobody has to wait for long."""

import math
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Completion
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.scheduling.budget import CHUNK_MS
from fastcoder_lsp.scheduling.model import RETRY_MS
from tests.completion.simulated import URI, NextLetter, script
from tests.scheduling.shared import Front, Shared, alone

START = "x = "
OTHER = "file:///b.py"
WHOLE = "value = compute()"
MODEL = script(f"{WHOLE}\n", START)
PATIENT = Policy()
SHARING = Policy(automatic_ms=1000, invoked_ms=900, background_ms=1)
BLOCK = script("".join(f"v{line} = 1\n    " for line in range(6)), "if x:\n    ")
HURRIED = Policy(automatic_ms=260, invoked_ms=900, background_ms=1500)


def loaded(
    people: int, policy: Policy = PATIENT, *, most: int = 100, says: NextLetter = MODEL
) -> tuple[Shared, list[Front]]:
    """So many fronts, each with its part of the model."""
    shared = Shared(says, most=most)
    fronts = [shared.open(policy) for _ in range(people)]
    preloads = [front.service.preload() for front in fronts]
    shared.work()
    assert all(preload.result(0) for preload in preloads)
    return shared, fronts


def all_done(futures: "Sequence[Future[Completion]]") -> bool:
    """Whether everybody has an answer."""
    return all(future.done() for future in futures)


def closed(shared: Shared) -> bool:
    """Whether the model is unloaded."""
    return shared.caches.closed


@pytest.mark.parametrize("people", [2, 3, 4])
def test_everybody_is_answered_with_what_they_would_have_had_alone(people: int) -> None:
    """At once, in documents of one name that hold other texts."""
    shared, fronts = loaded(people)
    texts = [f"# {'only mine ' * number}{number}\n{START}" for number in range(people)]
    futures = [front.ask(text) for front, text in zip(fronts, texts, strict=True)]
    shared.work()
    plain = [alone(MODEL, text) for text in texts]
    for future, single in zip(futures, plain, strict=True):
        assert future.result(0).text == WHOLE == single.text
        assert (future.result(0).counts.prefilled, future.result(0).counts.steps) == (
            single.counts.prefilled,
            single.counts.steps,
        )
    assert shared.loads == 1


def test_a_piece_each_in_turn() -> None:
    """Nobody has two while another one waits."""
    shared, (left, right) = loaded(2)
    left.ask(START)
    right.ask(START)
    shared.work(pieces=6)
    for _ in range(8):
        before = left.engine().steps, right.engine().steps
        shared.work(pieces=2)
        assert (left.engine().steps, right.engine().steps) == (before[0] + 1, before[1] + 1)


def test_whose_turn_it_is_is_known_while_somebody_waits() -> None:
    shared, (one, two) = loaded(2)
    scheduler = shared.scheduler
    assert scheduler.turn_of() is None
    futures = [front.ask(START, f"file:///{number}.py") for number, front in enumerate((one, two))]
    turns = []
    while not all_done(futures):
        scheduler.turn()
        turns.append(scheduler.turn_of())
    assert {turn for turn in turns if turn is not None} == set(scheduler._seats)
    assert turns[-1] is None
    two.ask("# another\n" + START)
    scheduler.turn()
    assert scheduler.turn_of() is not None
    two.service.shutdown(0)
    shared.work()
    assert scheduler.turn_of() is scheduler._served is None


def test_the_newest_question_wins_within_a_front_and_only_there() -> None:
    """A key of one person takes nothing from another."""
    shared, (left, right) = loaded(2)
    older, others = left.ask(START), right.ask(START)
    shared.work(pieces=4)
    newer = left.ask(START + "v")
    shared.work()
    assert older.result(0).finish == "superseded"
    assert others.result(0).text == WHOLE
    assert newer.result(0).text == WHOLE[1:]


@pytest.mark.parametrize(("people", "lines"), [(1, 4), (2, 2), (3, 1), (4, 1)])
def test_who_shares_is_answered_in_time(people: int, lines: int) -> None:
    """By a beginning, as long as the time is shared by: what others do between is reckoned with."""
    shared, fronts = loaded(people, SHARING, says=BLOCK)
    late: list[float] = []
    for key in range(12):
        asked_ms = shared.clock.ms
        futures = [front.ask(f"# {key}\nif x:\n    ") for front in fronts]
        for future in futures:
            future.add_done_callback(lambda _, asked_ms=asked_ms: late.append(shared.clock.ms - asked_ms))  # type: ignore[misc]
        shared.work(until=partial(all_done, futures))
    assert len(late) == 12 * people
    assert max(late) <= SHARING.automatic_ms
    shown = [len(future.result(0).text.splitlines()) for front in fronts for *_, future in front.asked]
    assert min(shown) == lines, shown


@pytest.mark.parametrize("others", [1, 2, 3])
def test_what_others_do_until_ones_next_turn_is_part_of_ones_time(others: int) -> None:
    """Who is in a hurry among those who are not, is answered before their pieces would make it too late."""
    shared, (hurried, *patient) = loaded(1 + others, PATIENT, says=BLOCK)
    for budget_ms in range(600, 700, 7):
        hurried.policy = Policy(automatic_ms=budget_ms, invoked_ms=900, background_ms=1)
        for front in patient:
            front.ask(f"# {budget_ms}\nif x:\n    ")
        asked_ms = shared.clock.ms
        future = hurried.ask(f"# {budget_ms}\nif x:\n    ")
        shared.work(until=future.done)
        assert shared.clock.ms - asked_ms <= budget_ms


@pytest.mark.parametrize("policy", [PATIENT, HURRIED, Policy(automatic_ms=1, invoked_ms=1)])
def test_who_asks_without_end_keeps_nobody_waiting(policy: Policy) -> None:
    """One front asks anew before every turn; the other one has every second piece all the same."""
    shared, (greedy, modest) = loaded(2, policy)
    modest.policy = PATIENT
    future = modest.ask(START)
    needed = alone(MODEL, START).counts
    turns = 0
    while not future.done():
        greedy.ask(f"# {turns}\n{START}")
        shared.scheduler.turn()
        turns += 1
        assert turns <= 2 * (needed.steps + 4)
    assert future.result(0).text == WHOLE


def test_work_in_advance_yields_to_anybodys_question() -> None:
    """Within a piece, whoever it is done for."""
    shared, (idle, busy) = loaded(2, HURRIED)
    idle.ask("# a long beginning\n" * 60 + START)
    shared.work(until=idle.asked[-1][2].done)
    answered = len(idle.engine().pieces)
    shared.work(pieces=4)
    assert len(idle.engine().pieces) > answered, "it works in advance"
    pieces = len(idle.engine().pieces)
    future = busy.ask(START)
    shared.work(until=future.done)
    assert len(idle.engine().pieces) == pieces
    assert shared.clock.ms <= busy.asked[0][1] + HURRIED.automatic_ms
    shared.work()
    assert len(idle.engine().pieces) > pieces


def test_back_and_forth_between_documents_computes_nothing_again() -> None:
    """A key in one, a key in the other: as many tokens of prompts as if each were typed by itself."""

    def typed(shared: Shared, front: Front, uris: tuple[str, ...]) -> int:
        for length in range(8):
            for uri in uris:
                future = front.ask(f"# {uri}\n" * 30 + START + "?" * length, uri)
                shared.work(until=future.done)
                future.cancel()
        return shared.caches.prefilled()

    singly = sum(typed(*one, (uri,)) for uri in (URI, OTHER) for one in [_one(HURRIED)])
    assert typed(*_one(HURRIED), (URI, OTHER)) == singly


@pytest.mark.parametrize("most", [1, 2])
def test_what_is_given_up_for_lack_of_memory_is_made_again(most: int) -> None:
    """Three people with one or two KV caches in all: the same texts."""
    shared, fronts = loaded(3, most=most)
    futures = [front.ask(f"# {front.name}\n{START}") for front in fronts]
    invoked = fronts[0].ask(START, OTHER, invoked=True)
    shared.work()
    assert futures[0].result(0).finish == "superseded"
    assert [future.result(0).text for future in (*futures[1:], invoked)] == [WHOLE] * 3


def test_who_leaves_frees_all_that_they_had() -> None:
    """Their question, their KV caches, their turns; the others' answer comes as if they had not been."""
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
    """An editor that is opened a moment later finds it loaded."""
    shared, (only,) = loaded(1)
    only.service.shutdown()
    shared.work()
    assert not closed(shared)
    future = shared.open(PATIENT).ask(START)
    shared.work()
    assert future.result(0).text == WHOLE
    assert shared.loads == 1


def test_off_unloads_once_nobody_wants_the_model() -> None:
    """And on loads it again."""
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


def test_the_last_who_wanted_it_leaves() -> None:
    """Those who stay have switched it off."""
    shared, (off, on) = loaded(2)
    off.service.set_enabled(False)
    on.service.shutdown()
    shared.work()
    assert closed(shared)


def test_everybody_waits_for_one_load_and_has_all_their_time_after_it() -> None:
    """They are told how far it is, too."""
    shared = Shared(MODEL, load_ms=4000)
    fronts = [shared.open(Policy(automatic_ms=260, invoked_ms=3000)) for _ in range(3)]
    futures = [front.ask(START) for front in fronts]
    shared.work(until=partial(all_done, futures))
    assert [future.result(0).text for future in futures] == [WHOLE] * 3
    assert shared.loads == 1
    for front in fronts:
        assert ("loading", 50) in [(status.state, status.percent) for status in front.statuses]


def test_a_load_that_fails_answers_all_who_wait_and_is_tried_again() -> None:
    """Once for all of them, not once for each."""
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
    """Well: it is loaded when they ask; or not, and why."""
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


def test_a_front_that_cannot_be_told_costs_the_others_nothing() -> None:
    """Not a turn, not the model; and what it had is given back all the same."""
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


def test_what_one_front_cannot_have_the_others_have() -> None:
    """A drafter that the model was not tuned for, say."""
    shared = Shared(MODEL)
    odd, plain = shared.open(PATIENT, failure=ModelMissingError("not tuned", "")), shared.open(PATIENT)
    left, right = odd.ask(START), plain.ask(START)
    shared.work()
    assert left.result(0).finish == "error"
    assert right.result(0).text == WHOLE
    assert shared.loads == 1


def test_what_goes_wrong_in_one_fronts_piece_is_its_own() -> None:
    """Its answer is an error, at once; the other one notices nothing."""
    shared, (unlucky, other) = loaded(2)
    left, right = unlucky.ask(START), other.ask(START)
    shared.work(pieces=6)
    shared.caches.fails.add(f"{unlucky.name}\n{URI}")
    shared.work()
    assert left.result(0).finish == "error"
    assert right.result(0).text == WHOLE
    assert other.statuses[-1].state == "ready"
    shared.caches.fails.clear()
    again = unlucky.ask(START + "v")
    shared.work()
    assert again.result(0).text == WHOLE[1:]


def test_who_loads_it_anew_takes_nothing_from_the_others() -> None:
    """Their questions wait for the new one, in the middle of a text or while it is being loaded."""
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
    """Its own are made anew, the model and the others' stay."""
    shared, (left, right) = loaded(2)
    futures = left.ask(START), right.ask(START)
    shared.work(pieces=8)
    made: list[str] = []

    def make(model: object) -> object:
        made.append("again")
        raise ModelMissingError("cannot be had")

    shared.scheduler.refit(left.host.seat, make)  # type: ignore[arg-type]
    shared.work()
    assert made == ["again"]
    assert futures[0].result(0).finish == "error"
    assert futures[1].result(0).text == WHOLE
    assert shared.loads == 1


def test_a_joining_front_costs_the_others_no_more_than_a_piece() -> None:
    """Whoever has an automatic budget keeps it: time is given for a load that takes long, not for one of a moment."""
    shared, (typist,) = loaded(1, HURRIED)
    future = typist.ask("# much to read\n" * 40 + START)
    shared.work(pieces=2)
    asked_ms = typist.asked[-1][1]
    shared.open(HURRIED).service.preload()
    shared.work(until=future.done)
    assert shared.clock.ms <= asked_ms + HURRIED.automatic_ms + CHUNK_MS
    assert math.isfinite(shared.clock.ms)


def _one(policy: Policy) -> tuple[Shared, Front]:
    shared, (front,) = loaded(1, policy)
    return shared, front


def test_what_a_front_leaves_behind_is_collected_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and not while somebody does: it holds all threads for a while."""
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
