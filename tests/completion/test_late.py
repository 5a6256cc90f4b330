"""Late suggestions, told once, and other candidates from the prompt that is in the KV cache already."""

import numpy as np
import pytest

from fastcoder_lsp.completion.protocol import Made
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.suggestions import CursorContext, Suggestion
from fastcoder_lsp.core import DraftTree, Late, StepCosts
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.runtime.costs import PROMPT_TOKENS, prompt_options
from fastcoder_lsp.scheduling.budget import OWED_MS, Budgets
from fastcoder_lsp.scheduling.request import Branch, branches, from_branch
from tests.completion.simulated import URI, NextLetter, SimulatedEngine, Simulation, plain, script
from tests.fake_engine import Ranked

START = "if x:\n    "
WHOLE = "one()\n    two()\n    three()"
MODEL = script(f"{WHOLE}\nrest()", START)
LINE = script("value = compute()\n", START)
OPEN = Policy(0, 0, 0)
"""All budgets are chosen from the machine's speed."""
LONG = "x" * 3000 + "\n" + START
"""A place whose prompt does not fit the budget: its tokens alone take one and a half seconds."""


def places(simulation: Simulation) -> list[Late]:
    return [late for late, _ in simulation.late]


def test_a_text_too_late_for_its_budget_is_announced() -> None:
    simulation = Simulation(LINE, OPEN)
    assert simulation.answer(LONG).text == ""
    asked = simulation.version
    simulation.rest(60_000)
    assert places(simulation) == [Late(URI, asked, len(LONG))]
    steps = simulation.engine.steps
    again = simulation.ask(LONG)
    assert again.done()
    assert again.result(0).text == "value = compute()"
    assert simulation.engine.steps == steps


def test_a_generation_of_an_earlier_key_may_differ_from_typing() -> None:
    other, typed = script("other()\n", START), script("typed()\n", START + "t")
    simulation = Simulation(lambda before: (typed if LONG + "t" in before else other)(before), OPEN)
    simulation.answer("x = 0\n")
    simulation.ask(LONG)
    pieces = len(simulation.engine.pieces)
    simulation.work(until=lambda: len(simulation.engine.pieces) > pieces)
    assert simulation.answer(LONG + "t").text == ""
    asked = simulation.version
    simulation.rest(60_000)
    assert places(simulation)[-1] == Late(URI, asked, len(LONG) + 1)


def test_it_is_told_within_one_piece_of_work_of_being_made() -> None:
    simulation = Simulation(LINE, OPEN)
    simulation.answer(LONG)
    simulation.work(until=lambda: bool(simulation.late))
    ((_, told_ms),) = simulation.late
    assert simulation.engine.pieces[-1] == told_ms


def test_a_slow_machine_is_given_the_time_it_needs() -> None:
    simulation = Simulation(LINE, OPEN)
    simulation.answer("x = 1\n")
    simulation.engine.takes = lambda ms: 8 * ms
    simulation.answer(LONG)
    simulation.rest(60_000)
    assert len(simulation.late) == 1


def test_a_configured_limit_holds() -> None:
    simulation = Simulation(LINE, Policy(200, 200, 300))
    simulation.answer(LONG)
    simulation.rest(60_000)
    assert simulation.late == []
    assert simulation.engine.pieces[-1] <= 200 + 300


def test_a_useful_beginning_is_announced_before_the_whole_text() -> None:
    simulation, seen = Simulation(MODEL, Policy(100, 100, 60_000)), [""]
    assert simulation.answer(START).text == ""
    while len(seen) < 3:
        told = len(simulation.late)
        simulation.work(until=lambda: len(simulation.late) > told)  # noqa: B023
        recalled = simulation.service._known._memory.recall(URI, CursorContext(START, simulation.after))
        assert recalled is not None
        seen.append(recalled.text)
    simulation.rest(60_000)
    assert seen == ["", "one()", WHOLE]
    assert len(simulation.late) == 2


def test_after_a_beginning_the_whole_text_is_announced() -> None:
    simulation = Simulation(MODEL, Policy(500, 500, 4000))
    assert simulation.answer(START).text == "one()\n    two()"
    simulation.rest(60_000)
    assert len(simulation.late) == 1
    assert simulation.ask(START).result(0).text == WHOLE


def test_after_typing_along_a_text_is_announced_at_the_new_place() -> None:
    simulation = Simulation(MODEL, Policy(500, 500, 4000))
    simulation.answer(START)
    assert simulation.ask(START + "on").result(0).text == "e()\n    two()"
    simulation.rest(60_000)
    assert places(simulation) == [Late(URI, simulation.version, len(START) + 2)]


def test_nothing_is_told_that_was_shown() -> None:
    simulation = Simulation(LINE, Policy(5000, 5000, 4000))
    assert simulation.answer(START).text
    simulation.answer(START)
    simulation.rest(60_000)
    assert simulation.late == []


@pytest.mark.parametrize("then", ["y = 1\n", START + "else"])
def test_after_a_request_elsewhere_the_old_place_is_silent(then: str) -> None:
    simulation = Simulation(LINE, OPEN)
    simulation.answer(LONG)
    simulation.ask(then, uri="file:///b.py").cancel()
    simulation.rest(60_000)
    assert simulation.late == []


def test_a_closed_or_renamed_document_is_told_of_no_more() -> None:
    for happens in ("close", "rename", "reload", "off"):
        simulation = Simulation(LINE, OPEN)
        simulation.answer(LONG)
        match happens:
            case "close":
                simulation.service.document_closed(URI)
            case "rename":
                simulation.service.document_renamed(URI, "file:///b.py")
            case "reload":
                simulation.reload()
            case "off":
                simulation.service.set_enabled(False)
        simulation.rest(60_000)
        assert simulation.late == []


def test_a_request_cancelled_while_loading_is_announced() -> None:
    simulation = Simulation(LINE, OPEN, load_ms=20_000)
    future = simulation.ask(START)
    simulation.while_loading = future.cancel
    simulation.rest(60_000)
    assert future.cancelled()
    assert places(simulation) == [Late(URI, simulation.version, len(START))]
    assert simulation.ask(START).result(0).text == "value = compute()"


def test_a_request_that_gave_up_behind_another_is_announced_too() -> None:
    simulation = Simulation(LINE, OPEN, load_ms=20_000)
    simulation.while_loading = lambda: simulation.ask("# other\n" + START).cancel()
    simulation.ask(START)
    simulation.rest(60_000)
    assert places(simulation) == [Late(URI, simulation.version, len("# other\n" + START))]


def test_a_key_at_a_late_text_gets_other_candidates_too() -> None:
    simulation = Simulation(LINE, Policy(0, 0, 0, alternatives=3))
    simulation.answer(LONG)
    simulation.rest(60_000)
    assert len(simulation.late) == 1
    assert not simulation.ask(LONG, invoked=True).done()


SIZES = {
    "1.5B": StepCosts((1, 16, 64), (35.0, 115.0, 430.0), 6.5),
    "3B": StepCosts((1, 16, 64), (85.0, 235.0, 900.0), 13.0),
    "7B": StepCosts((1, 16, 64), (225.0, 510.0, 1900.0), 29.0),
}
"""In four bits, by one thread of the machine of docs/benchmarks.md; a slow one."""
DEFAULT = Policy(automatic_ms=0, invoked_ms=0)
ROOM = 3968
SAYS = "(first, second)\n"


def simulation_of(size: str) -> Simulation:
    simulation = Simulation(script(SAYS, "call"), DEFAULT, costs=SIZES[size])
    simulation.engine.costs = SIZES[size]
    return simulation


def longest_prompt(size: str) -> str:
    """A letter is a token."""
    return "x" * (prompt_options(0, ROOM, SIZES[size].prefill_ms).limit - 40) + "call"


@pytest.mark.parametrize("size", SIZES)
def test_a_first_text_comes_after_the_longest_prompt(size: str) -> None:
    simulation, before = simulation_of(size), longest_prompt(size)
    began = simulation.clock.ms
    first = simulation.answer(before)
    budgets = Budgets.of(DEFAULT, SIZES[size])
    assert simulation.clock.ms - began <= budgets.automatic_ms + SIZES[size].step_ms(16)
    assert SAYS.startswith(first.text)
    simulation.rest(OWED_MS)
    asked = simulation.clock.ms
    assert simulation.answer(before).text == SAYS.rstrip("\n")
    assert simulation.clock.ms == asked


@pytest.mark.parametrize("size", SIZES)
def test_keys_that_come_meanwhile_lose_no_work(size: str) -> None:
    simulation, before = simulation_of(size), longest_prompt(size)
    for typed in range(5):
        simulation.answer(before + SAYS[:typed])
        simulation.rest(8_000)
    assert simulation.answer(before + SAYS[:5]).text == SAYS[5:].rstrip("\n")
    assert simulation.engine.prefilled < len(before) + 40


def test_prompts_are_as_long_as_is_read_in_ten_seconds() -> None:
    limits = [prompt_options(0, ROOM, ms).limit for ms in (0.0, 0.5, 7.1, 7.2, 13.0, 29.0, 1e9)]
    assert limits == [PROMPT_TOKENS, PROMPT_TOKENS, PROMPT_TOKENS, 1388, 769, 512, 512]
    assert prompt_options(0, 400, 29.0).limit == 400


def test_a_key_shows_an_interim_text_before_a_better_one() -> None:
    """A text that missed its request was never shown: only the key after the one that shows it waits."""
    simulation, place = Simulation(LINE, OPEN), CursorContext(START, "\n")
    simulation.service.on(Made(URI, Suggestion(place, "first()", interim=True, others=())))
    shown = simulation.ask(START, invoked=True)
    assert shown.done()
    assert shown.result(0).text == "first()"
    again = simulation.ask(START, invoked=True)
    assert not again.done()
    simulation.work(until=again.done)
    assert again.result(0).text == "value = compute()"


@pytest.mark.parametrize("alternatives", [1, 3])
def test_a_better_text_that_takes_too_long_leaves_the_shown_one(alternatives: int) -> None:
    policy = Policy(automatic_ms=0, invoked_ms=20, background_ms=0, alternatives=alternatives)
    simulation, place = Simulation(LINE, policy), CursorContext(LONG, "\n")
    simulation.service.on(Made(URI, Suggestion(place, "first()", interim=True)))
    for _ in range(2):
        assert simulation.answer(LONG, invoked=True).text == "first()"


ASKED_AT = "x = "
POLICY = Policy(automatic_ms=4000, invoked_ms=4000, background_ms=0, alternatives=3)


def rival(text: str) -> str:
    """Says `abc`, and goes on with whatever else was said instead of its first or second letter."""
    said = text.rpartition(ASKED_AT)[2]
    return "" if len(said) > 8 else "\n" if len(said) == 5 else chr(ord(said[-1]) + 1) if said else "a"


class DoubtfulEngine(SimulatedEngine):
    """Tells of every row its choice, and two letters that it found a little less likely."""

    def ranked(self, tree: DraftTree, top_k: int) -> Ranked:
        ids = np.array([[self.choose(text, ()), ord("m"), ord("p")] for text in self.texts(tree)])
        logits = np.array([[9.0, 9.0 - 1 - row, 9.0 - 5 - row] for row in range(len(tree))], dtype=np.float32)
        return ids, logits


def simulation(letter: NextLetter = rival, policy: Policy = POLICY) -> Simulation:
    made = Simulation(letter, policy)
    made.engine = DoubtfulEngine(made.clock, letter)
    return made


def test_an_invoked_request_gets_three_the_plain_one_first() -> None:
    made = simulation()
    answer = made.answer(ASKED_AT, invoked=True)
    texts = [answer.text, *(other.text for other in answer.others)]
    assert texts[0] == plain(rival, ASKED_AT) == "abcde"
    assert len(set(texts)) == 3
    assert texts[1] == "mnopq"
    assert made.engine.prefilled - len(ASKED_AT) <= 3 * 8  # rows of the first pass, and branches that ride along
    assert made.service.statistics().alternatives == 2


def test_cycling_asks_no_model() -> None:
    made = simulation()
    first = made.answer(ASKED_AT, invoked=True)
    steps = made.engine.steps
    again = made.answer(ASKED_AT, invoked=True)
    assert [again.text, *(other.text for other in again.others)] == [first.text, *(one.text for one in first.others)]
    assert made.answer(ASKED_AT + "mn").text == "opq"
    assert made.engine.steps == steps


def test_after_an_automatic_answer_no_prompt_is_prefilled_again() -> None:
    made = simulation()
    made.answer(ASKED_AT)
    before = made.engine.prefilled
    answer = made.answer(ASKED_AT, invoked=True)
    assert len(answer.others) == 2
    assert answer.counts.prefilled == answer.counts.steps == 0
    assert made.engine.prefilled - before <= 3 * 8


def test_automatic_requests_get_one() -> None:
    assert simulation().answer(ASKED_AT).others == ()


@pytest.mark.parametrize("budget_ms", range(100, 600, 50))
def test_alternatives_keep_the_budget(budget_ms: int) -> None:
    made = simulation(policy=Policy(budget_ms, budget_ms, 0, alternatives=3))
    answer = made.answer(ASKED_AT, invoked=True)
    assert made.clock.ms <= budget_ms
    assert not answer.others or answer.text == "abcde"


def request(healing: bytes = b"", says: bytes = b"") -> DecodeRequest:
    return DecodeRequest(
        prompt=(1, 2),
        max_tokens=10,
        end_ids=frozenset({0}),
        piece=lambda token: bytes([token]),
        allow=lambda _: np.arange(256),
        cut=lambda text: text.find("\n") if "\n" in text else None,
        healing=healing,
    )


def test_branches_are_ordered_by_how_near_they_were() -> None:
    found = branches(request(), (97, 98), [[97, 109, 0], [98, 110, 111]], [[9, 7, 8], [9, 8, 7]])
    assert found == [Branch((97, 110), 1), Branch((109,), 2), Branch((97, 111), 2)]


def test_what_the_user_typed_is_not_contradicted() -> None:
    assert branches(request(healing=b"a"), (97, 98), [[97, 109], [98, 110]], [[9, 8], [9, 7]]) == [Branch((97, 110), 2)]


def test_a_branch_is_a_request_of_its_own() -> None:
    begun = from_branch(request(healing=b"a"), Branch((97, 98), 1))
    assert begun is not None
    head, made = begun
    assert (head, made.prompt, made.max_tokens, made.healing) == ("b", (1, 2, 97, 98), 8, b"")
    assert made.cut("cd\n") == 2
    assert from_branch(request(), Branch((97, 10), 1)) is None
    assert from_branch(request(), Branch((0xC3,), 1)) is None
