"""What a step costs: timed through the engine's protocol alone, kept for the next start, not believed when damaged."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.runtime.costs import LEAST_MS, PROBES, WIDTHS, believable, measure, smoothed, step_costs
from fastcoder_lsp.runtime.parts import cpu_nodes
from tests.fake_engine import FakeEngine

CURVE = {1: 20.0, 2: 19.0, 3: 24.0, 4: 22.0, 6: 27.0, 8: 30.0}


class Clocked(FakeEngine):
    """An engine whose passes take a made-up time on a made-up clock."""

    def __init__(
        self,
        max_nodes: int = 8,
        device: str = "cpu (toy)",
        stalls: Mapping[int, float] = MappingProxyType({}),
        disturbed: int = 4,
    ) -> None:
        super().__init__(vocabulary=100, context=512, chunk=512)
        self.info = replace(self.info, device=device, max_nodes=max_nodes)
        self.now = 0.0
        self._stalls, self._passes, self._disturbed = stalls, 0, disturbed

    def clock(self) -> float:
        return self.now

    def works(self, rows: int, *, prefill: bool) -> None:
        # The first steps are slower, as on a machine that others use.
        ms = rows if prefill else CURVE.get(rows, 100.0) + (50.0 if self.steps <= self._disturbed else 0.0)
        self.now += ms / 1e3 + self._stalls.get(self._passes, 0.0)
        self._passes += 1


def test_the_least_time_of_a_width_counts_and_costs_never_fall() -> None:
    engine = Clocked()
    costs = measure(engine, engine.clock)
    assert costs.widths == (1, 2, 3, 4, 6, 8)
    assert costs.ms == pytest.approx((19.0, 19.0, 22.0, 22.0, 27.0, 30.0))
    assert costs.prefill_ms == pytest.approx(1.0)
    assert engine.cached() == ()


def test_a_slow_engine_is_timed_once() -> None:
    """Somebody waits for it: what takes too long is not repeated."""
    engine = Clocked(max_nodes=64, disturbed=6)
    measure(engine, engine.clock)
    assert engine.steps == len(WIDTHS)


@given(st.lists(st.floats(0, 1e6), min_size=len(WIDTHS), max_size=len(WIDTHS)))
def test_whatever_was_timed_the_curve_is_believable(times: list[float]) -> None:
    costs = StepCosts(WIDTHS, smoothed(WIDTHS, times), LEAST_MS)
    assert believable(costs)
    assert all(ms <= max(time, LEAST_MS) for ms, time in zip(costs.ms, times, strict=True))
    assert smoothed(WIDTHS, costs.ms) == pytest.approx(costs.ms)


@pytest.mark.parametrize("stalled", range(24))
@pytest.mark.parametrize("stall_s", [1.0, 60.0])
def test_a_stall_while_timing_leaves_no_trace(stalled: int, stall_s: float) -> None:
    """Whichever pass it falls on, a prefill's too: what comes out is what comes out without it, or near it."""
    undisturbed, disturbed = Clocked(), Clocked(stalls={stalled: stall_s})
    true, costs = (measure(engine, engine.clock) for engine in (undisturbed, disturbed))
    assert costs.widths == true.widths
    assert all(a <= 1.1 * b for a, b in zip(costs.ms, true.ms, strict=True))
    assert costs.prefill_ms <= 1.1 * true.prefill_ms


def test_a_clock_that_stands_still_measures_something_believable() -> None:
    """No time at all is no time that anything could be divided by."""
    costs = measure(Clocked(), lambda: 5.0)
    assert believable(costs)


def test_a_second_start_reads_what_the_first_measured(tmp_path: Path) -> None:
    messages: list[str] = []
    engine, again = Clocked(), Clocked()
    first = step_costs(engine, "model a", tmp_path, lambda _, message: messages.append(message), engine.clock)
    assert messages
    messages.clear()
    assert step_costs(again, "model a", tmp_path, lambda _, message: messages.append(message), again.clock) == first
    assert again.steps == 2 * PROBES  # of one row, and of several
    assert not messages
    for engine, identity in ((Clocked(), "model b"), (Clocked(device="cpu (toy, 7 threads)"), "model a")):
        step_costs(engine, identity, tmp_path, lambda *_: None)
        assert engine.steps > 0


def test_what_was_measured_on_a_busy_machine_does_not_stay(tmp_path: Path) -> None:
    """Steps much quicker than those that were kept: all is timed anew, and that is kept."""
    engine = Clocked()
    first = step_costs(engine, "model", tmp_path, lambda *_: None, engine.clock)
    (path,) = (tmp_path / "costs").iterdir()
    busy = json.loads(path.read_bytes())
    kept = [100 * ms for ms in busy["ms"]], [*busy["ms"][:2], 28.5, 38.0, 57.0, 76.0]
    for times in kept:  # all of it, and wide steps alone
        path.write_text(json.dumps(busy | {"ms": times}))
        for _ in range(2):
            engine = Clocked()
            costs = step_costs(engine, "model", tmp_path, lambda *_: None, engine.clock)
            assert costs.ms == pytest.approx(first.ms)
            assert json.loads(path.read_bytes())["ms"] == pytest.approx(first.ms)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b"{}",
        b'{"widths": [1, 2], "ms": [1.0], "prefill_ms": 1.0}',
        b'{"widths": [1, 2], "ms": [2.0, 1.0], "prefill_ms": 1.0}',
        b'{"widths": [2, 4], "ms": [1.0, 2.0], "prefill_ms": 1.0}',
        b'{"widths": [1], "ms": [NaN], "prefill_ms": 1.0}',
        b'{"widths": [1], "ms": [1.0], "prefill_ms": -1.0}',
        b'{"widths": [1], "ms": [Infinity], "prefill_ms": 1.0}',
        b'{"widths": [1], "ms": [0.0], "prefill_ms": 1.0}',
        b'{"widths": [1], "ms": [1.0], "prefill_ms": 9000.0}',
        b'{"widths": [1, 2], "ms": [1.0, 9000.0], "prefill_ms": 1.0}',
    ],
)
def test_a_damaged_file_is_measured_anew(tmp_path: Path, content: bytes) -> None:
    first = step_costs(Clocked(), "model", tmp_path, lambda *_: None)
    (path,) = (tmp_path / "costs").iterdir()
    path.write_bytes(content)
    engine = Clocked()
    step_costs(engine, "model", tmp_path, lambda *_: None)
    assert engine.steps > 0
    assert tuple(json.loads(path.read_bytes())["widths"]) == first.widths


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "costs").write_text("in the way")
    assert step_costs(Clocked(), "model", tmp_path, lambda *_: None).widths == (1, 2, 3, 4, 6, 8)


@pytest.mark.parametrize(
    ("ms", "nodes"), [((20.0, 25.0, 35.0, 80.0), 8), ((20.0, 21.0, 25.0, 40.0), 16), ((20.0, 40.0, 80.0, 160.0), 8)]
)
def test_drafters_that_fill_their_rows_get_those_that_are_cheap(ms: tuple[float, ...], nodes: int) -> None:
    """Two fifths dearer than one row is cheap; eight rows are given in any case."""
    assert cpu_nodes(StepCosts((1, 8, 16, 64), ms, 1.0)) == nodes
