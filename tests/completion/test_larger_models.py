"""Larger models on a CPU, in simulated time: a first text comes, and what is typed meanwhile loses none of the work."""

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.runtime.costs import PROMPT_TOKENS, prompt_options
from fastcoder_lsp.scheduling.budget import OWED_MS, Budgets
from tests.completion.simulated import Simulation, script

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
    """The first answer is in time and may be empty; the text is made while the user waits, and is known then."""
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
    """Typed along what the model says, slowly: the prompt is read once, and the rest comes without another reading."""
    simulation, before = simulation_of(size), longest_prompt(size)
    for typed in range(5):
        simulation.answer(before + SAYS[:typed])
        simulation.rest(8_000)
    assert simulation.answer(before + SAYS[:5]).text == SAYS[5:].rstrip("\n")
    assert simulation.engine.prefilled < len(before) + 40


def test_prompts_are_as_long_as_is_read_in_ten_seconds() -> None:
    """All of it where a token takes seven milliseconds or fewer; a function around the cursor however slow it is."""
    limits = [prompt_options(0, ROOM, ms).limit for ms in (0.0, 0.5, 7.1, 7.2, 13.0, 29.0, 1e9)]
    assert limits == [PROMPT_TOKENS, PROMPT_TOKENS, PROMPT_TOKENS, 1388, 769, 512, 512]
    assert prompt_options(0, 400, 29.0).limit == 400
