"""Drafters that run a model as sources of `auto`: asked while they pay, left out where they don't, and tried again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fastcoder_lsp.core import NO_DRAFT, NORMED, Draft, DraftContext, DrafterTraits, DraftTree, StepCosts, Verified
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.auto.evidence import TEXT, TRAINED
from fastcoder_lsp.draft.auto.sources import DrafterSource, FoundContinuations
from fastcoder_lsp.draft.base import NONE, Drafter, NoDrafter, Pinned
from fastcoder_lsp.draft.pricing import TRIALS, Forecast, timed
from fastcoder_lsp.draft.registry import DrafterParts, make, warm_up
from fastcoder_lsp.papers.jacobi import JacobiSource
from tests.draft.test_exactness import VOCABULARY, request
from tests.draft.toys import RepetitiveEngine
from tests.engine import tiny_models
from tests.papers import own_weights
from tests.papers.small_models import lending, toys

CONTEXT = DraftContext((1, 2, 3), 3)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1.0

    def __call__(self) -> float:
        return self.seconds


class Dear(Drafter):
    def __init__(self, clock: Clock, ms: float, forecast: Forecast | None = None) -> None:
        super().__init__(NONE)
        self._clock, self.ms, self._forecast = clock, ms, forecast

    def forecast(self, costs: StepCosts | None) -> Forecast | None:
        return self._forecast

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        self._clock.seconds += self.ms / 1e3
        return Draft((7, 8, 9, 10), (-1, 0, 0, 1), ("x",) * 4, (0,) * 4)


STEPS_OF_A_DECODE = 50


def steps(
    source: DrafterSource,
    clock: Clock,
    count: int,
    accepted: Sequence[int],
    ms: float = 20.0,
    tokens: Sequence[int] = (7, 8, 10),
) -> int:
    """So many steps; in those where it was asked, tokens by these sources are accepted; returns how often it was."""
    before = source.asked
    for number in range(count):
        if number % STEPS_OF_A_DECODE == STEPS_OF_A_DECODE - 1:
            source.begin(CONTEXT, Pinned())
        asked = source.asked
        source.find(CONTEXT, FoundContinuations())
        clock.seconds += ms / 1e3
        took = list(accepted) if source.asked > asked else []
        emitted = (*tokens[: len(took)], 1)
        source.observe(DraftTree.chain((3,)), Verified((), emitted), took, 3)
    return source.asked - before


def made(ms: float, forecast: Forecast | None = None) -> tuple[DrafterSource, Clock]:
    clock = Clock()
    costs = None if forecast is None else StepCosts((1, 16), (20.0, 30.0), 1.0)
    source = DrafterSource(Dear(clock, ms, forecast), clock, costs)
    source.warm_up()
    source.begin(CONTEXT, Pinned())
    return source, clock


def test_every_path_is_a_continuation() -> None:
    source, _ = made(1)
    found = FoundContinuations()
    source.find(CONTEXT, found)
    assert [[token for token in row if token >= 0] for row in found.continuations.rows_KD.tolist()] == [
        [7, 9],
        [7, 8, 10],
    ]
    assert set(found.continuations.source_K.tolist()) == {TRAINED}


@pytest.mark.parametrize(("ms", "accepted", "pays"), [(10, 2, True), (30, 2, True), (50, 2, False), (10, 0, False)])
def test_it_is_asked_where_what_it_brings_is_worth_its_time(ms: float, accepted: int, pays: bool) -> None:
    """Steps of 20 ms that give one token otherwise: two more are worth 40 ms, and none are worth nothing."""
    source, clock = made(ms)
    steps(source, clock, 300, [TRAINED] * accepted)
    asked = steps(source, clock, 1000, [TRAINED] * accepted)
    assert asked == 1000 if pays else asked <= 10


@pytest.mark.parametrize(
    ("ms", "forecast", "first", "accepted", "tokens", "then", "most"),
    [
        pytest.param(10, None, 300, [TEXT] * 2, (7, 8, 10), 1000, 10, id="others said it too"),
        pytest.param(30, None, 300, [TRAINED] * 3, (7, 50, 51), 1000, 10, id="another drafter said it"),
        pytest.param(50, Forecast(5.0, 2.0), 100, [TRAINED], (7, 8, 10), 1000, 16, id="longer than was foretold"),
        pytest.param(5, Forecast(5.0, 2.0), 100, [], (7, 8, 10), 1000, 16, id="less than was foretold"),
        pytest.param(1, Forecast(1.0, 8.0), 500, [], (7, 8, 10), 2000, 199, id="cheap, of great promise, and wrong"),
    ],
)
def test_what_is_no_gain_is_hardly_asked_any_more(
    ms: float,
    forecast: Forecast | None,
    first: int,
    accepted: list[int],
    tokens: tuple[int, ...],
    then: int,
    most: int,
) -> None:
    source, clock = made(ms, forecast)
    steps(source, clock, first, accepted, tokens=tokens)
    assert steps(source, clock, then, accepted, tokens=tokens) <= most


def test_a_drafter_that_comes_to_pay_is_found_again() -> None:
    source, clock = made(10)
    steps(source, clock, 2000, [])
    assert steps(source, clock, 4000, [TRAINED] * 3) > 1000


def test_what_cannot_pay_is_known_before_it_is_asked() -> None:
    source, clock = made(30, Forecast(ms=30.0, tokens=1.5))
    assert steps(source, clock, 200, [TRAINED]) == 0
    clock.seconds, started = 0.0, source.asked
    steps(source, clock, 20_000, [])
    assert 0 < (source.asked - started) * 0.030 < 2 * TRIALS * clock.seconds


def test_what_may_pay_is_begun_with() -> None:
    source, clock = made(5, Forecast(ms=5.0, tokens=2.0))
    assert steps(source, clock, 1, [TRAINED]) == 1


@pytest.mark.parametrize("empty", [False, True], ids=["fails", "says nothing"])
def test_a_drafter_that_never_drafts_is_dropped(empty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source, clock = made(5, Forecast(ms=5.0, tokens=8.0))

    def propose(context: DraftContext, nodes: int) -> Draft:
        clock.seconds += 0.005
        if not empty:
            raise IndexError(nodes)
        return NO_DRAFT

    monkeypatch.setattr(source.drafter, "propose", propose)
    assert steps(source, clock, 300, []) < 200
    assert steps(source, clock, 2000, []) <= 16
    assert not source.pays()


def test_hidden_states_are_kept_only_for_a_drafter_that_pays() -> None:
    for forecast, layers in ((Forecast(30.0, 1.5), ()), (Forecast(5.0, 2.0), (NORMED,)), (None, (NORMED,))):
        source, clock = made(30, forecast)
        source.drafter.traits = DrafterTraits(layers=(NORMED,))
        assert source.layers == layers
    source, clock = made(30, Forecast(30.0, 1.5))
    source.drafter.traits = DrafterTraits(layers=(NORMED,))
    assert steps(source, clock, 20_000, []) == 0
    assert source.layers == ()


def test_without_a_price_it_is_asked_in_every_step() -> None:
    clock = Clock()
    source = DrafterSource(Dear(clock, 1000, Forecast(1000.0, 0.0)), clock, StepCosts((1,), (1.0,), 1.0), priced=False)
    source.warm_up()
    source.begin(CONTEXT, Pinned())
    assert steps(source, clock, 300, []) == 300


def test_weights_tell_what_a_draft_takes_and_brings(tmp_path: Path) -> None:
    for method in own_weights.MADE:
        drafter = make(own_weights.write(tmp_path / method, method))
        assert isinstance(drafter, Drafter)
        found = drafter.forecast(None)
        assert found is not None
        assert found.ms >= 0
    clock = Clock()
    for said, believed in ((2.25, 1.25), (-3.0, 0.0), (1e300, 8.0)):
        assert timed(lambda: None, {"tokens_a_pass": said}, clock) == Forecast(0.0, believed)


def test_auto_asks_for_no_states_where_weights_cannot_pay(tmp_path: Path) -> None:
    record, tensors = own_weights.eagle()
    own_weights.save(tmp_path, replace(record, figures={"tokens_a_pass": 1.0}), tensors)
    parts = DrafterParts(costs=StepCosts((1, 64), (20.0, 30.0), 1.0))
    for name, layers in ((f"auto:weights={tmp_path}", ()), (f"auto:weights={tmp_path},priced=false", record.layers)):
        drafter = make(name, parts)
        warm_up(drafter)
        assert set(drafter.traits.layers) == set(layers)


def test_the_reading_of_a_text_is_not_the_price() -> None:
    source, clock = made(1000)
    drafter = source.drafter
    assert isinstance(drafter, Dear)
    steps(source, clock, 1, [TRAINED])
    drafter.ms = 10
    assert steps(source, clock, 200, [TRAINED]) == 200


def test_a_busy_machine_changes_nothing() -> None:
    source, clock = made(300)
    assert steps(source, clock, 500, [TRAINED] * 2, ms=200) == 500


def test_auto_drafts_by_a_smaller_model_where_it_is_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DrafterSource, "pays", lambda _: True)  # a toy costs more than what it drafts for
    prompt = (1, 2)
    drafter = make("auto:without=prompt/cache/recycling/recycling-pairs", DrafterParts(smaller=toys(VOCABULARY)))
    plain = decode(RepetitiveEngine(), NoDrafter(), request(prompt), lambda: False)
    drafted = decode(RepetitiveEngine(), drafter, request(prompt), lambda: False)
    assert drafted.tokens == plain.tokens
    assert drafted.counts.by_source.get("trained", 0) > 0
    assert drafter.figures()["draft-model, asked"] > 0
    assert not make("auto", DrafterParts()).figures()


def test_a_smaller_model_is_timed_before_it_is_asked(tmp_path: Path) -> None:
    engine = tiny_models.load(tiny_models.make_model(tmp_path / "model", "qwen2"), tmp_path / "cache", "cpu-int8")
    parts = DrafterParts(smaller=lending(lambda: engine), costs=StepCosts((1, 64), (20.0, 30.0), 1.0))
    for name in ("draft-model", "draft-model-tree"):
        drafter = make(name, parts)
        warm_up(drafter)
        assert isinstance(drafter, Drafter)
        found = drafter.forecast(parts.costs)
        assert found is not None
        assert found.ms > 0
    warm_up(make("auto", parts))
    engine.close()


def test_auto_drafts_by_the_models_own_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DrafterSource, "pays", lambda _: True)
    drafter = make("auto:without=prompt/cache/recycling/recycling-pairs", DrafterParts(skipped=frozenset({1})))
    assert drafter.traits.skims
    plain = decode(RepetitiveEngine(), NoDrafter(), request((1, 2)), lambda: False)
    drafted = decode(RepetitiveEngine(), drafter, request((1, 2)), lambda: False)
    assert drafted.tokens == plain.tokens
    assert drafted.counts.by_source.get("trained", 0) > 0
    assert np.isclose(drafter.figures()["self, asked"] + drafter.figures()["self, left out"], drafted.counts.steps)


def test_states_that_are_kept_already_allow_a_trial() -> None:
    source, clock = made(5, Forecast(ms=5.0, tokens=2.0))
    source.drafter.traits = DrafterTraits(layers=(NORMED,))
    asked, decodes = 0, 0
    for _ in range(200):
        lent = source.layers
        context = replace(CONTEXT, engine=object() if lent else None)  # type: ignore[arg-type]
        source.begin(context, Pinned())
        decodes += bool(lent)
        for _ in range(20):
            before = source.asked
            source.find(context, FoundContinuations())
            assert lent or source.asked == before
            clock.seconds += 0.020
            source.observe(DraftTree.chain((3,)), Verified((), (1,)), [], 3)
        asked = source.asked
    assert source.layers == ()
    assert 1 < decodes < 60
    assert asked < 100


def test_a_first_step_without_room_for_guesses_leaves_no_state() -> None:
    source = JacobiSource(block=4)
    source.begin(DraftContext([1, 2, 3], 3), cast("Any", None))
    verified = Verified((), (6,), np.array([[6]], np.int64), np.array([[1.0]], np.float32))
    source.observe(DraftTree.chain((3,)), verified, [], 3)
    assert source._state == []
