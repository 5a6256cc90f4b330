"""Whatever the host does, who asked is answered once: it may be another process, which stalls, dies, talks nonsense."""

from collections.abc import Callable
from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.completion.protocol import (
    Answered,
    Forgotten,
    HostListener,
    Indexing,
    Made,
    Notice,
    StatusChanged,
    Worked,
)
from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.service import CompletionService, ServiceListener
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import CachedSuffix, CursorContext, Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Counts, Snapshot
from fastcoder_lsp.workspace.document import OpenTexts
from tests.host.scripted import ScriptedHost

URI = "file:///a.py"


def answer(text: str) -> Answer:
    return Answer("shown", (CachedSuffix(text, 0),), "stop", ms={"total": 5.0})


class SilentHost(ScriptedHost):
    """Answers nothing by itself; `at_once` is called within each question."""

    def __init__(self, listener: HostListener) -> None:
        super().__init__(listener, Settings(), {}, OpenTexts())
        self.at_once: Callable[[Question], None] = lambda _: None

    def ask(self, question: Question) -> None:
        self.at_once(question)


class InOrder(ServiceListener):
    def __init__(self, heard: list[tuple[object, ...]]) -> None:
        self._heard = heard

    def status(self, status: Status) -> None:
        self._heard.append((status.state,))

    def indexing(self, progress: Indexing) -> None:
        self._heard.append((progress.done, progress.total, progress.building))

    def notice(self, text: str) -> None:
        self._heard.append((text,))


class Editor:
    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.service = CompletionService(
            self._open,
            InOrder(self.heard),
        )
        self.futures: list[Future[Completion]] = []
        self.answers: dict[int, int] = {}

    def _open(self, listener: HostListener) -> SilentHost:
        self.host = SilentHost(listener)
        return self.host

    def ask(self, before: str, version: int = 0) -> "Future[Completion]":
        snapshot = Snapshot(URI, None, "python", version or len(self.futures) + 1, before + "\n")
        number = len(self.futures)
        future = self.service.submit(CompletionRequest(snapshot, len(before)))
        future.add_done_callback(lambda _: self.answers.update({number: self.answers.get(number, 0) + 1}))
        self.futures.append(future)
        return future


def test_an_answer_that_never_comes_keeps_no_later_one_away() -> None:
    editor = Editor()
    lost, later = editor.ask("a = "), editor.ask("b = ")
    assert lost.result(0).finish == "superseded"
    editor.host.listener(Answered(2, answer("2")))
    assert later.result(0).text == "2"
    assert ("withdraw", 1) in editor.host.calls
    left = editor.ask("c = ")
    editor.service.shutdown()
    assert left.result(0).finish == "superseded"
    assert editor.host.calls[-1] == ("close",)


def test_a_repeated_late_or_unasked_answer_is_heard_once() -> None:
    editor = Editor()
    older, newer = editor.ask("a = "), editor.ask("b = ")
    for number in (2, 2, 1, 0, -1, 3, 99, 2):
        editor.host.listener(Answered(number, answer(str(number))))
    assert older.result(0).finish == "superseded"
    assert newer.result(0).text == "2"
    counts = editor.service.statistics()
    assert (counts.shown, counts.superseded, counts.failed) == (1, 1, 0)
    third = editor.ask("c = ")
    assert not third.done(), "what came for question 3 before it was asked is not its answer"
    editor.host.listener(Answered(3, answer("3")))
    assert third.result(0).text == "3"


def test_an_answer_within_the_question_is_heard() -> None:
    editor = Editor()
    editor.host.at_once = lambda question: editor.host.listener(
        Answered(question.number, Answer.failed(Status("error", message="gone")))
    )
    first = editor.ask("a = ").result(0)
    assert (first.reason and first.reason.text) == "gone"
    editor.host.at_once = lambda question: editor.host.listener(Answered(question.number, answer("1")))
    assert editor.ask("a = ", version=9).result(0).text == "1"


def test_what_is_known_of_the_host_is_what_it_said() -> None:
    counts = Editor().service.statistics()
    assert (counts.model, counts.engine, counts.budget_ms) == ("scripted", "none", {"automatic": 500.0})


def test_progress_and_notices_go_through() -> None:
    editor = Editor()
    editor.host.listener(Indexing(3, 10, building=True))
    editor.host.listener(Notice("look"))
    assert editor.heard[-2:] == [(3, 10, True), ("look",)]


def test_a_listener_that_fails_does_not_reach_the_host() -> None:
    """Not even by what libraries written in Rust raise, which is no Exception."""

    class Failing(ServiceListener):
        def status(self, status: Status) -> None:
            raise SystemExit

        def indexing(self, progress: Indexing) -> None:
            raise SystemExit

        def notice(self, text: str) -> None:
            raise SystemExit

    editor = Editor()
    service = CompletionService(editor._open, Failing())
    service.on(StatusChanged(Status("ready")))
    service.on(Indexing(1, 2, building=False))
    service.on(Notice("look"))


NONSENSE = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(["a = ", "b = ", "a = 1"])),
        st.tuples(st.just("cancel"), st.just("")),
        st.tuples(st.just("answered"), st.integers(-2, 12)),
        st.tuples(st.just("made"), st.sampled_from(["1", "2 + 3", ""])),
        st.tuples(st.just("forgotten"), st.sampled_from([URI, None])),
        st.tuples(st.just("told"), st.sampled_from(["loading", "ready", "error", "thinking"])),
        st.tuples(st.just("close"), st.just("")),
        st.tuples(st.just("reload"), st.just("")),
    ),
    max_size=25,
)


@given(NONSENSE)
def test_any_order_of_anything(story: list[tuple[str, object]]) -> None:
    editor = Editor()
    listener = editor.host.listener
    for what, value in story:
        match what, value:
            case "ask", str(before):
                editor.ask(before)
            case "cancel", _:
                if editor.futures:
                    editor.futures[-1].cancel()
            case "answered", int(number):
                listener(Answered(number, answer("1")))
            case "made", str(text):
                listener(Made(URI, Suggestion(CursorContext("a = ", "\n"), text)))
            case "forgotten", uri:
                listener(Forgotten(uri if isinstance(uri, str) else None))
            case "told", "loading" | "ready" | "error" | "thinking" as state:
                listener(StatusChanged(Status(state)))
            case "close", _:
                editor.service.document_closed(URI)
            case _:
                editor.service.reload()
        listener(Worked(Counts()))
    editor.service.shutdown()
    assert editor.answers == dict.fromkeys(range(len(editor.futures)), 1)
    counts = editor.service.statistics()
    answered = counts.shown + counts.empty + counts.typed_through + counts.superseded + counts.cancelled
    assert counts.requests == answered + counts.failed == len(editor.futures)
