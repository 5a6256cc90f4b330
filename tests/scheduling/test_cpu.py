"""Where a client's CPU time goes: each piece of work has a cause, and the cause follows what is shown in the end."""

from collections import Counter

import pytest

from fastcoder_lsp.completion.question import Policy, Quiet
from tests.completion.simulated import COSTS, TOKEN_MS, script
from tests.scheduling.shared import Front, Shared

SAYS = "a = 1\n    b = 2"
START = "def f():\n    "
OTHER = f"class C:\n    pass\n\n\n{START}"
ONE_LINE = Policy(quiet=Quiet(lines=1))


def opened(policy: Policy) -> Front:
    says = script(SAYS, START)
    return Shared(lambda text: says(text) if START in text else "").open(policy)


def answer(front: Front, before: str) -> str:
    future = front.ask(before)
    front.shared.work(until=future.done)
    return future.result(0).text


def spent(front: Front) -> dict[str, float]:
    """In milliseconds, once all work is done, with what the scheduler has yet to tell."""
    front.shared.work()
    told = Counter(front.service.statistics().cpu_s)
    told.update(front.host.client.current.cpu.take())
    return {cause: ms for cause, seconds in told.items() if (ms := round(1e3 * seconds, 6))}


STEP_MS = COSTS.step_ms(1)


def prompt_ms(before: str) -> float:
    return COSTS.prompt_ms(len(before.encode()))


@pytest.mark.parametrize(("policy", "shown"), [(Policy(), SAYS), (ONE_LINE, "a = 1")])
def test_steps_count_as_shown_as_far_as_the_text_is(policy: Policy, shown: str) -> None:
    front = opened(policy)
    assert answer(front, START) == shown
    found = spent(front)
    assert found["steps_shown"] == STEP_MS * (len(shown) + 1)
    assert found["prefill_used"] == prompt_ms(START)
    assert sum(found.values()) == pytest.approx(front.shared.clock.ms)


def test_all_of_a_long_prompt_is_of_use() -> None:
    front, far = opened(Policy()), "# far\n" * 1000
    assert answer(front, far + START) == SAYS
    found = spent(front)
    assert found["prefill_used"] > 0.9 * len(far) * TOKEN_MS
    assert found.get("prefill_unused", 0.0) < STEP_MS


def test_steps_move_once_the_user_types_up_to_their_text() -> None:
    front = opened(ONE_LINE)
    answer(front, START)
    assert answer(front, f"{START}a = 1\n    ") == "b = 2"
    found = spent(front)
    assert found["steps_shown"] == STEP_MS * (len(SAYS) + 1)
    assert sum(found.values()) == pytest.approx(front.shared.clock.ms)


def test_work_for_a_question_that_was_typed_past_is_seen_by_nobody() -> None:
    front = opened(Policy())
    front.ask(START)
    front.shared.work(pieces=3)
    future = front.ask("y")
    front.shared.work(until=future.done)
    found = spent(front)
    assert found["prefill_unused"] == prompt_ms(START)
    assert found["steps_unseen"] > 0
    assert "steps_shown" not in found
    assert sum(found.values()) == pytest.approx(front.shared.clock.ms)


def test_work_ahead_is_of_use_once_its_text_is_shown() -> None:
    for asks in (False, True):
        front = opened(Policy(background_ms=10_000))
        answer(front, START)
        front.service.accepted(front.request(OTHER), front.policy)
        front.shared.work()
        if asks:
            assert answer(front, OTHER) == SAYS
        found = spent(front)
        assert ("prefetch_used" in found, "prefetch_unused" in found) == (asks, not asks)
        assert ("steps_unseen" in found) == (not asks)
