"""Nothing silences the service: in simulated time, whatever stalls, jumps, fails or is misjudged.

The promise: within two requests of a machine that is quick again there is text, where there would have been any without
all that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.completion.question import Policy, Question, place_of
from fastcoder_lsp.core import CompletionRequest, Snapshot, StepCosts
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.scheduling.budget import MOST, LatencyEstimator, first_tokens
from fastcoder_lsp.scheduling.model import RETRY_MS
from tests.completion.simulated import COSTS, Simulation, script
from tests.examples import examples

START = "if x:\n    "
WHOLE = "one()\n    two()\n    three()"
MODEL = script(f"{WHOLE}\nrest()", START)
PAUSE_MS = 120.0
"""Between two keys of a quick typist."""
MINUTE_MS = 60_000.0
IN_A_STALL = COSTS.times(100)
"""What was measured while the machine hardly got on: a single step seems to exceed every budget."""


@dataclass(frozen=True)
class Stall:
    """Each of the next `pieces` of work takes `ms` more, by the clock: a stopped process, or a clock put back."""

    ms: float
    pieces: int = 1


@dataclass(frozen=True)
class Slow:
    """Each of the next `pieces` takes so many times as long; 0: the clock stands still."""

    times: float
    pieces: int


@dataclass(frozen=True)
class Jump:
    """The clock shows another time."""

    ms: float


@dataclass(frozen=True)
class Type:
    """A question at another place; the worker does so many pieces of work for it."""

    pieces: int
    invoked: bool = False
    cancelled: bool = False


@dataclass(frozen=True)
class Rest:
    """Nobody asks for so long."""

    ms: float


@dataclass(frozen=True)
class Load:
    """The model is loaded anew, the first time in vain where there is a failure."""

    failure: Callable[[], BaseException] | None = None


def _no_memory() -> BaseException:
    return ResourceError("There is not enough memory.")


Event = Stall | Slow | Jump | Type | Rest | Load

EVENTS = st.one_of(
    st.builds(Stall, st.sampled_from([-MINUTE_MS, -300.0, 50.0, 1000.0, 12_460.0, 60 * MINUTE_MS]), st.integers(1, 12)),
    st.builds(Slow, st.sampled_from([0.0, 2.0, 10.0, 3000.0]), st.integers(1, 12)),
    st.builds(Jump, st.sampled_from([-60 * MINUTE_MS, -2000.0, 10_000.0, 24 * 60 * MINUTE_MS])),
    st.builds(Type, st.integers(0, 30), st.booleans(), st.booleans()),
    st.builds(Rest, st.sampled_from([1.0, 200.0, 3000.0, MINUTE_MS])),
    st.builds(Load, st.sampled_from([None, _no_memory, ZeroDivisionError, MemoryError])),
)
BELIEVED = st.sampled_from(
    [
        COSTS,
        IN_A_STALL,
        StepCosts((1, 64), (COSTS.ms[0] / 50, COSTS.ms[1] / 50), COSTS.prefill_ms / 50),
        StepCosts((1, 64), (COSTS.ms[0], 64 * COSTS.ms[0]), COSTS.ms[0]),
        StepCosts((1, 64), (math.nan, math.nan), math.nan),
        StepCosts((1, 64), (math.inf, math.inf), math.inf),
        StepCosts((1,), (0.0,), 0.0),
        StepCosts((), (), 0.0),
    ]
)
POLICIES = st.sampled_from(
    [Policy(260, 900, 1500), Policy(0, 0, 0), Policy(400, 400, 200), Policy(300, 300, 0, ahead=False)]
)


class Machine:
    """What the clock shows for a piece of work, while things happen to it."""

    def __init__(self) -> None:
        self.happening: list[Callable[[float], float]] = []

    def __call__(self, ms: float) -> float:
        return self.happening.pop(0)(ms) if self.happening else ms


class Hardship:
    """A simulated service, and what happens to it.

    `answer` asks at a place that nothing is known of, as somebody does who types.
    """

    def __init__(self, policy: Policy, believed: StepCosts) -> None:
        self.simulation = Simulation(MODEL, policy, costs=believed)
        self.machine = Machine()
        self.simulation.engine.takes = self.machine
        self._places = 0

    def place(self) -> str:
        self._places += 1
        return f"# {self._places}\n{START}"

    def happen(self, event: Event) -> None:
        simulation, machine = self.simulation, self.machine
        match event:
            case Stall(ms, pieces):
                machine.happening += pieces * [lambda by_itself: by_itself + ms]
            case Slow(times, pieces):
                machine.happening += pieces * [lambda by_itself: by_itself * times]
            case Jump(ms):
                simulation.clock.ms += ms
            case Type(pieces, invoked, cancelled):
                future = simulation.ask(self.place(), invoked=invoked)
                simulation.work(pieces=pieces // 2)
                if cancelled:
                    future.cancel()
                simulation.work(pieces=pieces)
            case Rest(ms):
                simulation.rest(ms)
            case Load(failure):
                simulation.failure = failure() if failure is not None else None
                simulation.reload()
                simulation.answer(self.place())
                simulation.failure = None

    def quick_again(self) -> None:
        """All is as it was; what could not be loaded is tried again, five seconds after a question at latest."""
        self.machine.happening.clear()
        self.answer()
        self.simulation.rest(RETRY_MS + 1)

    def answer(self) -> str:
        return self.simulation.answer(self.place()).text


@given(st.lists(EVENTS, max_size=12), POLICIES, BELIEVED, st.booleans())
@example([Type(4), Stall(10_000.0), Type(30)], Policy(260, 900, 1500), COSTS, False)
@example([Type(0), Stall(12_460.0), Type(1)], Policy(0, 0, 0), COSTS, False)
@settings(max_examples=examples(100))
def test_two_requests_after_whatever_happened_there_is_text(
    events: list[Event], policy: Policy, believed: StepCosts, pausing: bool
) -> None:
    hardship = Hardship(policy, believed)
    for event in events:
        hardship.happen(event)
    if pausing or any(isinstance(event, Load) and event.failure is not None for event in events):
        hardship.quick_again()
    hardship.machine.happening.clear()
    first = hardship.answer()
    if pausing:
        hardship.simulation.rest(PAUSE_MS)
    assert first or hardship.answer()


@pytest.mark.parametrize("stopped_ms", [10_000.0, 25_000.0])
@pytest.mark.parametrize("policy", [Policy(260, 900, 1500), Policy(0, 0, 0)])
def test_after_a_stop_all_is_as_before_from_the_third_key_on(stopped_ms: float, policy: Policy) -> None:
    shown = []
    for ms in (0.0, stopped_ms):
        hardship = Hardship(policy, COSTS)
        hardship.answer()
        hardship.simulation.ask(hardship.place())
        hardship.simulation.work(pieces=5)
        hardship.happen(Stall(ms))
        texts = []
        for _ in range(8):
            texts.append(hardship.answer())
            hardship.simulation.rest(PAUSE_MS)
        shown.append(texts[2:])
    assert shown[0] == shown[1]
    assert all(shown[0])


def test_a_request_that_is_stopped_itself_gets_its_text_late() -> None:
    hardship = Hardship(Policy(0, 0, 0), COSTS)
    hardship.answer()
    future = hardship.simulation.ask(hardship.place())
    hardship.simulation.work(pieces=2)
    hardship.happen(Stall(20_000.0))
    hardship.simulation.work(until=future.done)
    answer = future.result(0)
    assert answer.text == ""
    assert (answer.reason and answer.reason.code) == "slow"
    hardship.simulation.work()
    assert hardship.simulation.late


def test_costs_of_a_stall_are_found_wrong_by_the_background() -> None:
    simulation = Hardship(Policy(260, 900, 1500), IN_A_STALL).simulation
    simulation.service.preload()
    simulation.service.accepted(simulation.request(START), simulation.policy)
    simulation.work()
    assert simulation.ask(START).result(0).text


def test_a_text_without_a_deadline_survives_repeated_stalls() -> None:
    hardship = Hardship(Policy(0, 0, 0), COSTS)
    simulation = hardship.simulation
    assert simulation.answer("x" * 3000 + START).text == ""
    for _ in range(5):
        hardship.happen(Stall(20_000.0))
        simulation.work(pieces=3)
    simulation.work()
    assert simulation.late


def test_one_slow_piece_is_not_believed_many_are_up_to_a_bound() -> None:
    pace = LatencyEstimator(COSTS, lambda: 0.0)
    pace.stepped(1, 1000 * COSTS.ms[0])
    assert pace.step_ms(1) <= 2 * COSTS.ms[0]
    for _ in range(5):
        pace.stepped(1, COSTS.ms[0])
    assert pace.step_ms(1) == COSTS.ms[0]
    for _ in range(100):
        pace.stepped(1, 1000 * COSTS.ms[0])
    assert pace.step_ms(1) == MOST * COSTS.ms[0]


def test_a_learnt_stall_fades_by_quick_pieces_or_time() -> None:
    for passed_ms in (-6000.0, 0.0, 6000.0):
        now = [1e6]
        pace = LatencyEstimator(COSTS, lambda now=now: now[0])  # type: ignore[misc]
        for _ in range(100):
            pace.stepped(1, 1000 * COSTS.ms[0])
            pace.prefilled(64, MINUTE_MS)
            pace.answered(MINUTE_MS)
        now[0] += passed_ms
        if not passed_ms:
            for _ in range(3):
                pace.stepped(1, COSTS.ms[0])
                pace.prefilled(64, COSTS.step_ms(1) + 64 * COSTS.prefill_ms)
                pace.answered(1.0)
        assert pace.step_ms(1) <= 1.5 * COSTS.ms[0]
        assert pace.prefill_ms(64) <= 1.5 * (COSTS.step_ms(1) + 64 * COSTS.prefill_ms)
        assert pace.answer_ms() <= 20.0


@example([0.0] * 20, COSTS)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20), BELIEVED)
def test_no_observation_and_no_cost_makes_a_piece_impossible(took: list[float], believed: StepCosts) -> None:
    pace = LatencyEstimator(believed, lambda: 0.0)
    for ms in took:
        pace.stepped(1, ms)
        pace.prefilled(64, ms)
        pace.answered(ms)
    assert 0 <= pace.step_ms(64) < math.inf
    assert 0 <= pace.prefill_ms(64) < math.inf
    assert 0 <= pace.answer_ms() < 100.0
    assert pace.rows_within(math.inf, 64) == 64
    assert pace.stretch_within(math.inf, 64) >= 1
    request = CompletionRequest(Snapshot("file:///a.py", None, "python", 1, "x"), 1)
    limited = Policy(automatic_ms=200.0)
    assert (first_tokens(Question(1, request, place_of(request), limited, 0.0, 0.0), pace) or 0) > 0
    assert pace.step_ms(1) <= MOST * pace.costs.ms[0] * 1.001
