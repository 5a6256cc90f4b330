"""Whatever comes while something else is going on: a model exchanged while it loads, off while an answer is made."""

from concurrent.futures import Future
from dataclasses import replace

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import Completion, Progress
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.runtime.parts import Runtime
from tests.completion.simulated import SimulatedEngine, Simulation, script

START = "if x:\n    "
MODEL = script("value = compute()\n", START)


class PanicError(BaseException):
    """As libraries written in Rust raise it: no Exception."""


def last_state(simulation: Simulation) -> str:
    return simulation.statuses[-1].state


def test_a_model_that_is_exchanged_while_it_loads_is_not_used() -> None:
    """What was loaded for the old settings is closed, and the same place is answered by the new model."""
    simulation = Simulation(MODEL, Policy(), load_ms=100)
    first = simulation.engine
    closed: list[int] = []
    first.close = lambda: closed.append(first.steps)  # type: ignore[method-assign]

    def exchanged() -> None:
        simulation.while_loading = lambda: None
        simulation.engine = SimulatedEngine(simulation.clock, script("new()\n", START))
        simulation.reload()

    def load_first(progress: Progress) -> Runtime:
        runtime, engines = simulation.load(progress), OneSlot(first)
        return replace(runtime, slots=Slots(engines), closing=engines.close)

    simulation.while_loading = exchanged
    simulation.reload(load_first)
    simulation.ask(START)
    simulation.work()
    assert simulation.answer(START).text == "new()"
    assert closed == [0]
    assert first.steps == 0


def test_switched_off_while_an_answer_is_made_the_last_word_is_off() -> None:
    """And after other settings the state is that nothing is loaded yet."""
    simulation = Simulation(MODEL, Policy())
    simulation.ask(START)
    simulation.work(pieces=4)
    simulation.service.set_enabled(False)
    simulation.work()
    assert last_state(simulation) == "off"
    simulation.service.set_enabled(True)
    assert simulation.answer(START).text
    simulation.work()
    simulation.reload()
    simulation.work()
    assert last_state(simulation) == "starting"


def test_who_asks_again_from_an_answer_is_answered_too() -> None:
    """A callback of a question that is overtaken may ask at once."""
    simulation = Simulation(MODEL, Policy())
    inner: list[Future[Completion]] = []
    simulation.ask("y = ").add_done_callback(lambda _: inner.append(simulation.ask("z = ")))
    outer = simulation.ask(START)
    simulation.work()
    assert outer.done()
    assert all(future.done() for future in inner)
    assert len(inner) == 1


def test_a_listener_that_raises_anything_stops_nothing() -> None:
    """Libraries written in Rust raise what is no Exception."""
    simulation = Simulation(MODEL, Policy())

    def fail(_: object) -> None:
        raise PanicError("a listener")

    simulation.service._on_status = simulation.service._on_late = fail
    assert simulation.answer(START).text


def test_a_document_that_cannot_be_forgotten_costs_no_other_its_answer() -> None:
    """The failure is in the log."""
    simulation = Simulation(MODEL, Policy())
    simulation.answer(START)

    def fail(_: str) -> None:
        raise OSError("full")

    simulation.drafter.forget = fail  # type: ignore[method-assign, assignment]
    future = simulation.ask("y = 1\n" + START)
    simulation.service.document_closed("file:///other.py")
    simulation.work()
    assert future.result(0).text


def test_every_request_is_counted_once() -> None:
    """Those that were asked while it was off, too."""
    simulation = Simulation(MODEL, Policy())
    simulation.answer(START)
    simulation.service.set_enabled(False)
    simulation.answer(START)
    simulation.service.set_enabled(True)
    simulation.ask("a = ")
    simulation.ask("b = ").cancel()
    simulation.answer("c = ")
    counts = simulation.service.statistics()
    parts = (counts.shown, counts.empty, counts.typed_through, counts.superseded, counts.cancelled, counts.failed)
    assert counts.requests == sum(parts) == 5
