"""The service's promises: every request answered once, the latest wins, off is off, a failure costs one answer.

The engine is the toy of the decoding tests: these promises are about queueing, where a model would only add waiting.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Completion, CompletionRequest, Progress, SelectedCompletion, ShouldStop, Snapshot
from fastcoder_lsp.documents import CLOSED_AT_MOST
from fastcoder_lsp.errors import ModelMissingError
from fastcoder_lsp.runtime.parts import Runtime
from tests.completion.simulated import threaded
from tests.completion.toys import ToyPrompts, toy_model, toy_runtime
from tests.fake_engine import SayingEngine, marked

WAIT_S = 60.0


class GatedEngine(SayingEngine):
    """Holds every step until the gate is open."""

    def __init__(self, says: str) -> None:
        super().__init__(says, self._wait)
        self.chunk = 8
        self.gate, self.stepping = threading.Event(), threading.Event()
        self.gate.set()
        self.fails = False

    def _wait(self) -> None:
        self.stepping.set()
        assert self.gate.wait(WAIT_S)
        if self.fails:
            raise ZeroDivisionError


class Bench:
    """A service, its toy parts, and every status it told."""

    def __init__(self, says: str = "value = 1", *, enabled: bool = True, idle_s: float = 60.0) -> None:
        self.says = says
        self.engine = GatedEngine(says)
        self.prompts = ToyPrompts(marked)
        self.loads = 0
        self.statuses: list[Status] = []
        self.failure: Exception | None = None
        self.service = threaded(self.load, self.statuses.append, enabled=enabled, idle_s=idle_s)

    def load(self, progress: Progress) -> Runtime:
        if self.failure is not None:
            raise self.failure
        self.loads += 1
        progress(0.5, "weights")
        self.engine = GatedEngine(self.says)
        model = toy_model(self.engine)
        return toy_runtime(model, self.prompts, closing=model.engines.close)

    def ask(
        self, text: str = "x = 2\n", after: str = "\n", uri: str = "file:///a.py", **more: Any
    ) -> Future[Completion]:
        snapshot = Snapshot(uri, uri.removeprefix("file://"), "python", more.pop("version", 1), text + after)
        return self.service.submit(CompletionRequest(snapshot, len(text), **more))

    def blocked(self, **where: Any) -> Future[Completion]:
        """A request whose first step hangs until the gate opens."""
        assert self.ask().result(WAIT_S).text
        self.engine.gate.clear()
        self.engine.stepping.clear()
        future = self.ask("y = 3\n", **where)
        assert self.engine.stepping.wait(WAIT_S)
        return future


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.engine.gate.set()
    made.service.shutdown()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_request_is_answered_by_the_model(bench: Bench) -> None:
    answer = bench.ask().result(WAIT_S)
    assert (answer.text, answer.start, answer.end) == ("value = 1", 6, 6)
    assert answer.counts.steps == answer.counts.tokens + 1 == len("value = 1") + 1
    assert answer.counts.prefilled == 7
    assert answer.ms["total"] >= answer.ms["verify"] > 0


def test_the_latest_wins_over_all_documents(bench: Bench) -> None:
    first = bench.blocked()
    second = bench.ask("z = 4\n", uri="file:///b.py")
    assert first.done()
    assert first.result().finish == "superseded"
    bench.engine.gate.set()
    assert second.result(WAIT_S).text == "value = 1"


def test_a_cancel_stops_within_a_step(bench: Bench) -> None:
    first = bench.blocked()
    assert first.cancel()
    steps = bench.engine.steps
    bench.engine.gate.set()
    assert bench.ask("z = 4\n").result(WAIT_S).text
    assert bench.engine.steps - steps <= 1 + len("value = 1") + 1


def test_typing_along_needs_no_model(bench: Bench) -> None:
    bench.ask("x = 2\n").result(WAIT_S)
    steps = bench.engine.steps
    answer = bench.ask("x = 2\nval", version=2)
    assert answer.done()
    assert (answer.result().text, answer.result().finish) == ("ue = 1", "typed-through")
    assert bench.engine.steps == steps


def test_ghost_text_and_popup_share_an_answer(bench: Bench) -> None:
    first = bench.blocked()
    second = bench.ask("y = 3\n")
    assert not first.done()
    first.cancel()
    bench.engine.gate.set()
    assert second.result(WAIT_S).text == "value = 1"
    assert bench.service.statistics().shown == 2


def test_a_selected_popup_entry_is_continued(bench: Bench) -> None:
    answer = bench.ask("pri", selected=SelectedCompletion(0, 3, "printer")).result(WAIT_S)
    assert (answer.text, answer.start, answer.end) == ("printervalue = 1", 0, 3)


def test_off_means_off(bench: Bench) -> None:
    quiet = Bench(enabled=False)
    assert quiet.ask().result(WAIT_S).finish == "off"
    assert quiet.loads == 0
    assert quiet.statuses == [Status("off")]
    quiet.service.shutdown()
    bench.ask().result(WAIT_S)
    engine = bench.engine
    bench.service.set_enabled(False)
    wait_until(lambda: engine.closed)
    assert bench.ask("y").result(WAIT_S).finish == "off"
    bench.service.set_enabled(True)
    assert bench.ask("y = 2\n").result(WAIT_S).text
    assert bench.loads == 2


def test_a_model_that_is_missing_is_said_and_tried_again(bench: Bench) -> None:
    bench.failure = ModelMissingError("no model", "run this")
    assert bench.ask().result(WAIT_S).finish == "error"
    assert bench.statuses[-1] == Status("error", message="no model", hint="run this")
    bench.failure = None
    bench.service.reload()
    assert bench.ask().result(WAIT_S).text == "value = 1"
    assert bench.statuses[-1] == Status("ready")


def test_loading_is_told(bench: Bench) -> None:
    bench.ask().result(WAIT_S)
    wait_until(lambda: bench.statuses[-1].state == "ready")
    assert [status.state for status in bench.statuses] == [
        "starting", "loading", "loading", "ready", "thinking", "ready",
    ]  # fmt: skip
    assert bench.statuses[2].percent == 50


def test_a_bug_costs_one_answer(bench: Bench) -> None:
    bench.ask().result(WAIT_S)
    bench.engine.fails = True
    assert bench.ask("y = 3\n").result(WAIT_S).finish == "error"
    bench.engine.fails = False
    assert bench.ask("z = 4\n").result(WAIT_S).text == "value = 1"


def test_a_closed_document_is_forgotten(bench: Bench) -> None:
    bench.ask().result(WAIT_S)
    bench.service.document_renamed("file:///a.py", "file:///c.py")
    assert bench.ask("x = 2\nva", uri="file:///c.py").result(WAIT_S).finish == "typed-through"
    bench.service.document_closed("file:///c.py")
    assert bench.ask("x = 2\nva", uri="file:///c.py").result(WAIT_S).finish != "typed-through"
    assert bench.prompts.calls == [("rename", "file:///c.py")]
    bench.service.document_closed("file:///c.py")
    for number in range(CLOSED_AT_MOST):
        bench.ask("x = 2\nva", uri=f"file:///{number}.py").result(WAIT_S)
        bench.service.document_closed(f"file:///{number}.py")
    bench.ask("x = 2\nva").result(WAIT_S)
    assert bench.prompts.calls[1:] == [("forget", "file:///c.py")]


def test_a_pause_prepares_the_next_answer() -> None:
    bench = Bench(idle_s=0.02)
    bench.ask().result(WAIT_S)
    wait_until(lambda: bench.prompts.calls == [("settle", "file:///a.py")])
    time.sleep(0.1)
    assert bench.prompts.calls == [("settle", "file:///a.py")]
    bench.service.shutdown()


def test_shutdown_answers_whoever_waits(bench: Bench) -> None:
    future = bench.blocked()
    threading.Timer(0.05, bench.engine.gate.set).start()
    bench.service.shutdown()
    assert future.result(WAIT_S).finish == "superseded"
    assert bench.ask().result(WAIT_S).finish == "off"


def test_in_a_storm_each_request_is_answered_once(bench: Bench) -> None:
    chance, futures = random.Random(7), []
    for number in range(300):
        futures.append(bench.ask(f"n = {number}\n", uri=f"file:///{number % 5}.py"))
        if chance.random() < 0.33:
            futures[chance.randrange(max(0, number - 3), number + 1)].cancel()
        if chance.random() < 0.1:
            time.sleep(0.002)
    last = bench.ask("last = 1\n")
    assert last.result(WAIT_S).text == "value = 1"
    assert all(future.done() for future in futures)
    counts = bench.service.statistics()
    answered = counts.shown + counts.empty + counts.typed_through + counts.superseded + counts.cancelled + counts.failed
    assert counts.requests == answered == 301


def test_stopping_is_asked_between_prefill_chunks(bench: Bench) -> None:
    bench.ask().result(WAIT_S)
    seen: list[int] = []
    real = bench.engine.prefill

    def watched(tokens: Sequence[int], should_stop: ShouldStop) -> Any:
        def counted() -> bool:
            seen.append(1)
            if len(seen) == 2:
                bench.ask("other = 1\n", uri="file:///b.py")
            return should_stop()

        return real(tokens, counted)

    bench.engine.prefill = watched  # type: ignore[method-assign]
    assert bench.ask("long " * 100).result(WAIT_S).finish == "superseded"
    wait_until(lambda: bench.service.statistics().shown == 2)
