"""Budgets, the background, adoption: in simulated time, where a step takes exactly what it is said to take."""

import math
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.question import Policy, Quiet
from fastcoder_lsp.core import Completion, StepCosts
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.scheduling.budget import ANSWER_MS, Budgets, LatencyEstimator
from tests.completion.simulated import COSTS, URI, Simulation, script

START = "if x:\n    "
WHOLE = "one()\n    two()\n    three()"
STEPS = len(WHOLE) + len("\nrest(")
"""Until it is plain that the block is over."""
MODEL = script(f"{WHOLE}\nrest()", START)
HURRIED = Policy(automatic_ms=500, invoked_ms=2000, background_ms=4000)


def test_at_the_deadline_the_whole_lines_are_the_answer() -> None:
    simulation = Simulation(MODEL, HURRIED)
    answer = simulation.answer(START)
    assert (answer.text, answer.finish) == ("one()\n    two()", "budget")
    assert simulation.clock.ms <= 500
    assert simulation.service.statistics().budgeted == 1


def test_a_request_that_waited_for_the_model_gets_a_keys_time() -> None:
    """After seconds of loading an empty answer would be absurd; the next one is as quick as any."""
    simulation = Simulation(MODEL, HURRIED, load_ms=5000)
    assert simulation.answer(START).text == WHOLE
    assert simulation.clock.ms <= 5000 + HURRIED.invoked_ms
    asked_ms = simulation.clock.ms
    simulation.answer("y = 1\n" + START)
    assert simulation.clock.ms <= asked_ms + HURRIED.automatic_ms


def test_waiting_for_the_model_shortens_no_longer_budget() -> None:
    simulation = Simulation(MODEL, Policy(automatic_ms=5000, invoked_ms=50, background_ms=0), load_ms=5000)
    assert simulation.answer(START).text == WHOLE


@pytest.mark.parametrize(("invoked_ms", "text"), [(0, "one()"), (1000, "")])
def test_a_key_waits_for_a_first_line_longer_than_its_budget(invoked_ms: float, text: str) -> None:
    """On a machine slower than measured, unless the settings limit the time."""
    simulation = Simulation(MODEL, Policy(invoked_ms=invoked_ms))
    simulation.engine.takes = lambda ms: 20 * ms
    assert simulation.answer(START, invoked=True).text == text
    assert simulation.clock.ms > Budgets.of(Policy(invoked_ms=invoked_ms), COSTS).invoked_ms - 100


@pytest.mark.parametrize("waited_ms", [0, 150, 300, 480])
def test_a_budget_counts_from_the_arrival(waited_ms: float) -> None:
    simulation = Simulation(MODEL, HURRIED)
    simulation.answer("x = 0\n")  # the model is loaded
    asked_ms = simulation.clock.ms
    future = simulation.service.submit(simulation.request(START), HURRIED, waited_ms)
    simulation.work(until=future.done)
    assert future.result(0).finish == "budget"
    assert simulation.clock.ms <= asked_ms + HURRIED.automatic_ms - waited_ms


@pytest.mark.parametrize("budget_ms", range(40, 900, 30))
def test_a_budgeted_answer_is_in_time_and_begins_the_plain_one(budget_ms: int) -> None:
    simulation = Simulation(MODEL, Policy(budget_ms, budget_ms, 4000))
    answer = simulation.answer(START)
    assert simulation.clock.ms <= budget_ms
    assert WHOLE.startswith(answer.text)
    assert answer.text in {"", WHOLE} or WHOLE[len(answer.text) :].startswith("\n")


def test_the_rest_is_made_ahead_and_shown_without_a_model() -> None:
    simulation = Simulation(MODEL, HURRIED)
    simulation.answer(START)
    simulation.work()
    steps = simulation.engine.steps
    answer = simulation.answer(START + "on")
    assert (answer.text, answer.finish) == (WHOLE[2:], "typed-through")
    assert simulation.engine.steps == steps == STEPS
    assert simulation.service.statistics().background == 1
    assert b"".join(token.piece for step in answer.trace for token in step.tokens).decode().startswith(WHOLE)
    assert answer.counts.steps == STEPS


def test_typing_along_adopts_the_running_generation() -> None:
    simulation = Simulation(MODEL, HURRIED)
    futures: list[Future[Completion]] = []
    for typed in ("", "o", "on"):
        if futures:
            futures[-1].cancel()
        futures.append(simulation.ask(START + typed))
        simulation.work(pieces=4)
    simulation.work(until=futures[-1].done)
    answer = futures[-1].result(0)
    assert answer.text
    assert WHOLE[2:].startswith(answer.text)
    assert answer.counts.prefilled == 0
    simulation.work()
    assert simulation.engine.steps == STEPS
    assert simulation.engine.prefilled == len(START)
    assert simulation.service.statistics().adopted == 2


def test_a_superseded_request_is_adopted_too() -> None:
    """Editors that do not cancel: the older one is answered empty at once, its work goes on for the newer one."""
    simulation = Simulation(MODEL, HURRIED)
    first = simulation.ask(START)
    simulation.work(pieces=5)
    second = simulation.ask(START + "o")
    assert first.result(0).finish == "superseded"
    simulation.work(until=second.done)
    simulation.work()
    assert simulation.engine.steps == STEPS


def test_an_adopted_answer_waits_for_no_past_deadline() -> None:
    """Somebody has waited for this text for a whole budget: what is whole of it is shown at once."""
    simulation = Simulation(MODEL, HURRIED)
    simulation.ask(START).cancel()
    first = simulation.ask(START)
    simulation.work(until=lambda: simulation.clock.ms > 490 - ANSWER_MS)
    first.cancel()
    second = simulation.ask(START + "o")
    simulation.work(pieces=3)
    assert second.result(0).text == "ne()\n    two()"


def test_other_text_ends_what_is_running_within_a_piece() -> None:
    simulation = Simulation(MODEL, HURRIED)
    simulation.ask(START).cancel()
    simulation.ask(START)
    simulation.work(pieces=8)
    steps = simulation.engine.steps
    other = simulation.ask(START + "ot")
    simulation.work(pieces=1)
    assert simulation.engine.steps - steps <= 1
    simulation.work(until=other.done)
    assert simulation.drafter.expected[-1] != ()


def test_a_prefill_is_cut_and_resumed() -> None:
    before = "x" * 1500 + "\n" + START
    simulation = Simulation(MODEL, Policy(400, 400, background_ms=1))
    answer = simulation.answer(before)
    assert (answer.text, answer.finish) == ("", "budget")
    assert simulation.clock.ms <= 400
    assert 0 < simulation.engine.prefilled < len(before)
    simulation.answer(before)
    assert simulation.clock.ms <= 800
    for _ in range(4):
        simulation.answer(before)
    assert simulation.engine.prefilled == len(before)


def test_a_newer_request_waits_for_one_piece_at_most() -> None:
    simulation = Simulation(MODEL, HURRIED)
    simulation.ask("x" * 1500)
    simulation.work(pieces=30)
    ends = simulation.engine.pieces
    assert max(b - a for a, b in pairwise(ends)) <= 61


def test_the_background_has_a_budget() -> None:
    simulation = Simulation(MODEL, Policy(100, 100, background_ms=200))
    simulation.answer(START)
    simulation.work()
    assert simulation.clock.ms <= 300
    done = simulation.engine.steps
    assert done < len(WHOLE)
    simulation.policy = Policy()
    assert simulation.answer(START).text == "one()"
    assert simulation.answer(START + "one()").text == WHOLE.removeprefix("one()")
    assert simulation.engine.steps == STEPS


def test_all_is_quiet_ten_seconds_after_the_last_key() -> None:
    endless = script("word + " * 1000, START)
    simulation = Simulation(endless, Policy(300, 300, background_ms=60_000))
    simulation.answer(START)
    simulation.rest(30_000)
    assert simulation.engine.pieces[-1] <= 10_000
    assert simulation.host.scheduler.turn() == math.inf


def test_a_pause_prepares_the_prompt_unless_power_is_saved() -> None:
    for ahead in (True, False):
        simulation = Simulation(MODEL, Policy(2000, 2000, 4000, ahead=ahead))
        simulation.answer(START)
        simulation.rest(1000 - simulation.clock.ms)
        assert simulation.service.statistics().ahead == 0
        simulation.rest(2000)
        assert simulation.service.statistics().ahead == ahead


def test_after_an_accept_the_next_completion_is_made_unasked() -> None:
    simulation = Simulation(MODEL, HURRIED)
    simulation.service.preload()
    simulation.service.accepted(simulation.request(f"{START}one()\n    "), HURRIED)
    simulation.work()
    steps = simulation.engine.steps
    assert simulation.answer(f"{START}one()\n    ").text == "two()\n    three()"
    assert simulation.engine.steps == steps > 0
    assert simulation.service.statistics().ahead == 1


def test_work_ahead_gives_way_and_is_adopted() -> None:
    simulation = Simulation(MODEL, HURRIED)
    simulation.service.preload()
    simulation.service.accepted(simulation.request(f"{START}one()\n    "), HURRIED)
    simulation.work(pieces=6)
    done = simulation.engine.steps
    answer = simulation.answer(f"{START}one()\n    ")
    assert answer.text
    simulation.work()
    assert 0 < done < simulation.engine.steps == len("two()\n    three()\nrest(")


def test_a_suggestion_is_ready_where_the_cursor_rests() -> None:
    simulation = Simulation(MODEL, HURRIED)
    place = simulation.request(f"{START}one()\n    ")
    simulation.service.cursor_rests(place, HURRIED)
    simulation.rest(2000)
    assert simulation.engine.pieces == [], "the cursor loads no model"
    simulation.service.preload()
    simulation.work()
    simulation.service.cursor_rests(place, HURRIED)
    simulation.rest(20_000)
    assert not simulation.late, "nothing is shown before a request"
    steps = simulation.engine.steps
    assert simulation.answer(f"{START}one()\n    t").text == "wo()\n    three()"
    assert simulation.engine.steps == steps > 0


@pytest.mark.parametrize(
    "why", ["", "asked there", "waiting", "off", "saver", "snoozed", "edit", "in a word", "secret"]
)
def test_a_resting_cursor_costs_nothing_where(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = HURRIED
    simulation = Simulation(MODEL, HURRIED)
    simulation.service.preload()
    simulation.answer(START)
    place = simulation.request(START if why == "asked there" else f"{START}one()\n    ")
    match why:
        case "asked there":
            place = replace(place, snapshot=replace(place.snapshot, version=place.snapshot.version - 1))
        case "waiting":
            simulation.ask("other")
        case "off":
            simulation.service.set_enabled(False)
        case "saver":
            policy = replace(policy, ahead=False)
        case "snoozed":
            policy = replace(policy, quiet=Quiet(snoozed=True))
        case "edit":
            simulation.service.edits.submit(EditQuestion(0, URI, "a.py", "python", 1, "x", 0, ()))
        case "in a word":
            policy, place = replace(policy, in_words=False), replace(place, offset=place.offset - len("e()\n    "))
        case "secret":
            policy, place = replace(policy, in_secrets=False), simulation.request("password = 'hunter2")
    sent = list[object]()
    monkeypatch.setattr(simulation.host, "send", sent.append)
    simulation.service.cursor_rests(place, policy)
    assert bool(sent) == (not why)


def test_a_place_is_prepared_anew_after_its_document_was_closed() -> None:
    simulation = Simulation(MODEL, HURRIED)
    simulation.service.preload()
    simulation.work()
    place = simulation.request(f"{START}one()\n    ")
    for _ in range(2):
        simulation.service.cursor_rests(place, HURRIED)
        simulation.rest(20_000)
        steps = simulation.engine.steps
        simulation.service.document_closed(URI)
    assert steps == 2 * len("two()\n    three()\nrest(")


def test_a_late_text_gives_way_to_the_cursors_new_place() -> None:
    simulation = Simulation(MODEL, Policy(100, 100, 4000))
    assert simulation.answer(START).text == ""
    simulation.service.cursor_rests(simulation.request(f"{START}one()\n    ", uri="file:///b.py"), simulation.policy)
    simulation.rest(10_000)
    assert not simulation.late
    assert simulation.answer(f"{START}one()\n    t", uri="file:///b.py").text == "wo()\n    three()"


def test_a_closed_document_ends_its_work() -> None:
    simulation = Simulation(MODEL, Policy(100, 100, 4000))
    simulation.answer(START)
    simulation.service.document_closed(URI)
    simulation.work()
    steps = simulation.engine.steps
    simulation.rest(5000)
    assert simulation.engine.steps == steps


def test_budgets_from_the_measured_speed() -> None:
    assert Budgets.of(Policy(123, 456, 789), COSTS) == Budgets(123, 456, 789)
    chosen = Budgets.of(Policy(0, 0, 0), StepCosts((1,), (15.0,), 0.25))
    assert chosen == Budgets(304, 5 * 304, 10 * 304)
    slow = Budgets.of(Policy(0, 0, 0), StepCosts((1,), (500.0,), 5.0))
    assert slow == Budgets(400, 2 * (16 * 500 + 256 * 5), 4000)
    assert Budgets.of(Policy(0, 0, 0), StepCosts((1,), (0.7,), 0.01)).automatic_ms == 200


@given(st.floats(0, 500), st.integers(1, 128), st.lists(st.floats(10, 200), max_size=20))
def test_what_is_said_to_fit_fits(ms: float, at_most: int, took: list[float]) -> None:
    pace = LatencyEstimator(COSTS, lambda: 0.0)
    for time_ms in took:
        pace.stepped(1, time_ms)
        pace.prefilled(64, time_ms)
    rows = pace.rows_within(ms, at_most)
    assert 0 <= rows <= at_most
    assert not rows or pace.step_ms(rows) <= ms
    assert rows == at_most or pace.step_ms(rows + 1) > ms
    tokens = pace.stretch_within(ms, at_most)
    assert not tokens or pace.prefill_ms(tokens) <= ms
