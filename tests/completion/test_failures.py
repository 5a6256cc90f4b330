"""A failure costs one answer, which says what failed; and events amid a request or a load lose nothing."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import pytest

from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Completion, Progress
from fastcoder_lsp.core.reason_codes import CODES
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.errors import ModelInvalidError, ResourceError
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.model import RETRY_MS
from tests.completion.simulated import URI, SimulatedEngine, Simulation, script, threaded

START = "if x:\n    "
OTHER = "file:///b.py"
MODEL = script("value = compute()\n", START)
WHOLE = "value = compute()"


class PanicError(BaseException):
    """As libraries written in Rust raise it: no Exception."""


FAILURES = [
    (ModelInvalidError("damaged", "fetch it"), "damaged"),
    (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    (OSError(28, "No space left on device"), "No space left on device"),
    (MemoryError(), "out of memory"),
    (PanicError("index out of bounds"), "PanicError: index out of bounds"),
    (SystemExit(3), "SystemExit: 3"),
]


@pytest.mark.parametrize(("failure", "told"), FAILURES)
def test_any_error_of_loading_answers_all_requests_with_a_reason(failure: BaseException, told: str) -> None:
    simulation = Simulation(MODEL, Policy())
    simulation.failure = failure
    preload = simulation.service.preload()
    question = simulation.ask(START)
    simulation.work()
    assert preload.result(0) is False
    answer = question.result(0)
    assert (answer.text, answer.finish) == ("", "error")
    assert answer.reason is not None
    assert answer.reason.code == "error"
    assert told in answer.reason.text
    assert answer.reason.hint
    error = next(status for status in simulation.statuses if status.state == "error")
    assert (error.message, error.hint) == (answer.reason.text, answer.reason.hint)
    simulation.failure = None
    assert simulation.answer(START).finish == "error"
    simulation.rest(RETRY_MS)
    assert simulation.answer(START).text == WHOLE


def test_a_thread_answers_them_too_and_lives_on() -> None:
    simulation = Simulation(MODEL, Policy())
    simulation.failure = PanicError("index out of bounds")
    service = threaded(simulation.load)
    assert service.preload().result(20) is False
    assert service.submit(simulation.request(START)).result(20).finish == "error"
    simulation.failure = None
    service.reload()

    def panics(_: float) -> float:
        raise PanicError

    simulation.engine.takes = panics
    assert service.submit(simulation.request(START)).result(20).finish == "error"
    simulation.engine.takes = float
    assert service.submit(simulation.request(START)).result(20).text == WHOLE
    service.shutdown()


def test_a_request_that_waits_when_the_service_ends_is_answered() -> None:
    simulation, loading, gate = Simulation(MODEL, Policy()), threading.Event(), threading.Event()

    def wait() -> None:
        loading.set()
        assert gate.wait(20)

    simulation.while_loading = wait
    service = threaded(simulation.load)
    waiting = [service.preload(), service.preload()]
    assert loading.wait(20)
    service.shutdown(wait_s=0.01)
    waiting.append(service.preload())
    gate.set()
    assert [future.result(20) for future in waiting] == [True, False, False]


def _fails(error: BaseException) -> Callable[[float], float]:
    def fail(_: float) -> float:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "told"),
    [(ResourceError("The context is full.", "Close it."), "The context is full."), (KeyError("x"), "KeyError: 'x'")],
)
def test_what_fails_in_the_making_is_the_answer(error: Exception, told: str) -> None:
    simulation = Simulation(MODEL, Policy())
    simulation.answer("x = 1\n")
    simulation.engine.takes = _fails(error)
    answer = simulation.answer(START)
    assert answer.reason is not None
    assert answer.reason.code == "error"
    assert told in answer.reason.text
    simulation.engine.takes = float
    assert simulation.answer(START).text == WHOLE


@pytest.mark.parametrize("pieces", range(6))
def test_a_rename_while_a_question_is_open_costs_nothing(pieces: int) -> None:
    simulation = Simulation(MODEL, Policy())
    future = simulation.ask(START)
    simulation.work(pieces=pieces)
    simulation.service.document_renamed(URI, OTHER)
    simulation.work(until=future.done)
    assert future.result(0).text == WHOLE
    assert simulation.ask(START + "va", uri=OTHER).result(0).text == WHOLE[2:]
    assert not simulation.ask(START + "va").done()
    assert not [status for status in simulation.statuses if status.state == "error"]


@pytest.mark.parametrize("pieces", range(6))
def test_a_close_while_a_question_is_open_answers_it(pieces: int) -> None:
    simulation = Simulation(MODEL, Policy())
    future = simulation.ask(START)
    simulation.work(pieces=pieces)
    simulation.service.document_closed(URI)
    answer = future.result(0)
    assert answer.text == ""
    assert (answer.reason and answer.reason.code) == "changed"
    simulation.rest(20_000)
    assert not [status for status in simulation.statuses if status.state == "error"]
    assert not simulation.ask(START).done()


@pytest.mark.parametrize("happens", ["close", "rename", "reload", "off and on"])
def test_whatever_comes_while_the_model_loads_no_answer_is_lost(happens: str) -> None:
    for uri in (URI, OTHER):
        simulation = Simulation(MODEL, Policy(), load_ms=1000)

        def interfere(simulation: Simulation = simulation, uri: str = uri) -> None:
            simulation.while_loading = lambda: None
            service = simulation.service
            match happens:
                case "close":
                    service.document_closed(uri)
                case "rename":
                    service.document_renamed(uri, "file:///c.py")
                case "reload":
                    service.reload()
                case "off and on":
                    service.set_enabled(False)
                    service.set_enabled(True)

        simulation.while_loading = interfere
        preload, future = simulation.service.preload(), simulation.ask(START)
        simulation.work()
        assert preload.done()
        answer = future.result(0)
        assert answer.text == WHOLE or (answer.reason is not None and answer.reason.code in CODES)
        assert (answer.text == WHOLE) == (happens == "rename" or (happens == "close" and uri == OTHER))
        assert simulation.answer("# again\n" + START).text == WHOLE
        assert not [status for status in simulation.statuses if status.state == "error"]


@pytest.mark.parametrize("policy", [Policy(), Policy(100, 100, 4000)])
def test_what_the_old_model_says_is_gone_after_a_reload(policy: Policy) -> None:
    for last in range(1, 40):
        simulation, pieces = Simulation(MODEL, policy), 0

        def reload(ms: float, simulation: Simulation = simulation, last: int = last) -> float:
            nonlocal pieces
            pieces += 1
            if pieces == last:
                simulation.reload()
            return ms

        simulation.engine.takes = reload
        simulation.ask(START)
        simulation.work()
        if pieces < last:
            return  # the model has said all by then
        assert not simulation.ask(START).done()
    pytest.fail("the answer never ended")


def test_a_model_that_fails_to_close_does_not_block_the_next() -> None:
    """A full disk, when what was learnt is to be kept."""
    simulation = Simulation(MODEL, Policy())
    simulation.answer("x = 1\n")
    simulation.engine.close = _raise_full_disk  # type: ignore[method-assign]
    simulation.reload()
    assert simulation.answer(START).text == WHOLE


def _raise_full_disk() -> None:
    raise OSError(28, "No space left on device")


def _why(answer: Completion) -> tuple[str, bool]:
    assert answer.text == ""
    assert answer.reason is not None
    assert answer.reason.code in CODES
    return answer.reason.code, bool(answer.reason.text)


class TestAnEmptyAnswerHasItsReason:
    """One of the known codes, in words that hold what is known of it; `tests/lsp/test_reasons.py` has the others."""

    def test_switched_off(self) -> None:
        simulation = Simulation(MODEL, Policy())
        open_then = simulation.ask(START)
        simulation.service.set_enabled(False)
        assert _why(open_then.result(0)) == ("off", True)
        assert _why(simulation.ask(START).result(0)) == ("off", True)

    def test_overtaken_while_the_model_is_loaded(self) -> None:
        simulation = Simulation(MODEL, Policy(), load_ms=1000)
        answers: list[Future[Completion]] = [simulation.ask(START)]
        simulation.while_loading = lambda: answers.append(simulation.ask(START + "v"))
        simulation.work()
        reason = answers[0].result(0).reason
        assert reason is not None
        assert reason.code == "loading"
        assert "weights" in reason.text
        assert "50" in reason.text
        assert answers[1].result(0).text == WHOLE[1:]

    def test_too_slow_by_so_much(self) -> None:
        simulation = Simulation(MODEL, Policy(100, 100, 1000))
        answer = simulation.answer("x" * 1000 + START)
        assert _why(answer) == ("slow", True)
        assert answer.reason is not None
        assert "100 ms" in answer.reason.text
        more_ms = int(answer.reason.text.split("about ")[1].split(" ms")[0].replace(",", ""))
        assert 400 < more_ms < 1500

    def test_the_models_end_and_nothing_worth_showing(self) -> None:
        assert _why(Simulation(script("", START), Policy()).answer(START)) == ("end", True)
        assert _why(Simulation(script("\n\n", START), Policy()).answer(START)) == ("end", True)
        unfit = Simulation(script(")\n", START), Policy()).answer(START)
        assert _why(unfit) == ("nothing", True)
        assert unfit.reason is not None
        assert unfit.reason.text.endswith("It closes a bracket that is not open.")


def test_a_status_says_what_an_exception_says_in_one_line() -> None:
    simulation = Simulation(MODEL, Policy())
    simulation.failure = RuntimeError("a\nb " * 1000)
    simulation.answer(START)
    status = next(status for status in simulation.statuses if status.state == "error")
    assert status == Status("error", message=status.message, hint=status.hint)
    assert "\n" not in status.message
    assert len(status.message) < 400


def last_state(simulation: Simulation) -> str:
    return simulation.statuses[-1].state


def test_a_model_that_is_exchanged_while_it_loads_is_not_used() -> None:
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


def test_switched_off_during_an_answer_the_last_status_is_off() -> None:
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


def test_a_request_made_from_an_answer_is_answered_too() -> None:
    simulation = Simulation(MODEL, Policy())
    inner: list[Future[Completion]] = []
    simulation.ask("y = ").add_done_callback(lambda _: inner.append(simulation.ask("z = ")))
    outer = simulation.ask(START)
    simulation.work()
    assert outer.done()
    assert all(future.done() for future in inner)
    assert len(inner) == 1


def test_an_error_on_closing_costs_no_other_document_its_answer() -> None:
    simulation = Simulation(MODEL, Policy())
    simulation.answer(START)

    def fail(_: str) -> None:
        raise OSError("full")

    simulation.drafter.forget = fail  # type: ignore[method-assign, assignment]
    future = simulation.ask("y = 1\n" + START)
    simulation.service.document_closed("file:///other.py")
    simulation.work()
    assert future.result(0).text
