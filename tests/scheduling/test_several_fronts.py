"""Several fronts over one model: each has what it would have alone, and nobody has to wait for long."""

from functools import partial

import pytest

from fastcoder_lsp.completion.question import Policy
from tests.completion.simulated import URI, script
from tests.scheduling.several_fronts import HURRIED, MODEL, PATIENT, START, WHOLE, all_done, loaded
from tests.scheduling.shared import Front, Shared, alone

OTHER = "file:///b.py"
SHARING = Policy(automatic_ms=1000, invoked_ms=900, background_ms=1)
BLOCK = script("".join(f"v{line} = 1\n    " for line in range(6)), "if x:\n    ")


@pytest.mark.parametrize("people", [2, 3, 4])
def test_each_client_gets_the_answer_it_would_get_alone(people: int) -> None:
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
    shared, (left, right) = loaded(2)
    left.ask(START)
    right.ask(START)
    shared.work(pieces=6)
    for _ in range(8):
        before = left.engine().steps, right.engine().steps
        shared.work(pieces=2)
        assert (left.engine().steps, right.engine().steps) == (before[0] + 1, before[1] + 1)


def test_the_turn_is_known_while_a_front_waits() -> None:
    shared, (one, two) = loaded(2)
    scheduler = shared.scheduler
    assert scheduler.turn_of() is None
    futures = [front.ask(START, f"file:///{number}.py") for number, front in enumerate((one, two))]
    turns = []
    while not all_done(futures):
        scheduler.turn()
        turns.append(scheduler.turn_of())
    assert {turn for turn in turns if turn is not None} == set(scheduler._clients)
    assert turns[-1] is None
    two.ask("# another\n" + START)
    scheduler.turn()
    assert scheduler.turn_of() is not None
    two.service.shutdown(0)
    shared.work()
    assert scheduler.turn_of() is scheduler._served is None


def test_the_newest_question_wins_within_a_front_and_only_there() -> None:
    shared, (left, right) = loaded(2)
    older, others = left.ask(START), right.ask(START)
    shared.work(pieces=4)
    newer = left.ask(START + "v")
    shared.work()
    assert older.result(0).finish == "superseded"
    assert others.result(0).text == WHOLE
    assert newer.result(0).text == WHOLE[1:]


@pytest.mark.parametrize(("people", "lines"), [(1, 4), (2, 2), (3, 1), (4, 1)])
def test_clients_that_share_a_model_are_answered_in_time(people: int, lines: int) -> None:
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
def test_other_fronts_turns_count_towards_a_budget(others: int) -> None:
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
def test_endless_requests_of_one_client_delay_no_other(policy: Policy) -> None:
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


def test_work_in_advance_yields_to_every_question() -> None:
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
    shared, fronts = loaded(3, most=most)
    futures = [front.ask(f"# {front.name}\n{START}") for front in fronts]
    invoked = fronts[0].ask(START, OTHER, invoked=True)
    shared.work()
    assert futures[0].result(0).finish == "superseded"
    assert [future.result(0).text for future in (*futures[1:], invoked)] == [WHOLE] * 3


def test_what_goes_wrong_in_one_fronts_piece_is_its_own() -> None:
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


def _one(policy: Policy) -> tuple[Shared, Front]:
    shared, (front,) = loaded(1, policy)
    return shared, front
