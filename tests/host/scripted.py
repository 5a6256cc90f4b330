"""A host around a `ModelHost` that says what the question tells it to, in this process or in one of its own."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp.completion.host import HostFacts, HostListener, Turn
from fastcoder_lsp.completion.question import Answer, Policy, Question, place_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Recalled, Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Counts, Snapshot


@dataclass
class Heard:
    """A `HostListener` that keeps all it is told."""

    answers: dict[int, list[Answer]] = field(default_factory=dict)
    makes: list[tuple[str, Suggestion]] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    others: list[tuple[object, ...]] = field(default_factory=list)
    at_s: dict[int, float] = field(default_factory=dict)
    news: threading.Condition = field(default_factory=threading.Condition)

    def answered(self, number: int, answer: Answer) -> None:
        with self.news:
            self.at_s[number] = time.perf_counter()
            self.answers.setdefault(number, []).append(answer)
            self.news.notify_all()

    def made(self, uri: str, suggestion: Suggestion) -> None:
        with self.news:
            self.makes.append((uri, suggestion))
            self.news.notify_all()

    def forgotten(self, uri: str | None) -> None:
        self.other("forgotten", uri)

    def counted(self, what: str, by: int) -> None:
        self.other("counted", what, by)

    def worked(self, counts: Counts) -> None:
        self.other("worked", counts)

    def told(self, status: Status) -> None:
        with self.news:
            self.statuses.append(status)
            self.news.notify_all()

    def indexing(self, done: int, total: int, *, building: bool) -> None:
        self.other("indexing", done, total, building)

    def notice(self, text: str) -> None:
        self.other("notice", text)

    def other(self, *what: object) -> None:
        with self.news:
            self.others.append(what)
            self.news.notify_all()

    def wait(self, until: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait until something is so; fails where it does not come about."""
        ends_s = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < ends_s, (self.answers, self.statuses, self.others)
            with self.news:
                self.news.wait(0.01)  # what is waited for may also come about in the host


class ScriptedHost:
    """Answers at once with the text left of the cursor's last word in capitals; keeps all calls.

    A line that ends in "hang" is not answered, and one that ends in "later" when it is withdrawn. At one that ends in
    "seize" the whole process hangs.
    """

    def __init__(self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        self.listener, self.calls = listener, list[tuple[object, ...]]()
        self.calls.append(("open", settings, dict(folders)))
        self.closed = threading.Event()
        self.turn: Turn = ""
        listener.told(Status("ready"))

    def ask(self, question: Question) -> None:
        self.calls.append(("ask", question))
        said = question.place.before.rpartition(" ")[2].upper()
        if said in {"HANG", "LATER"}:
            return
        while said == "SEIZE":
            ctypes.PyDLL(None).usleep(900_000)  # no other thread runs meanwhile
        self.listener.made(question.uri, Suggestion(question.place, said, 0, ()))
        self.listener.answered(
            question.number, Answer("shown", (Recalled(said, 0),), "stop", ms={"total": 1.0}, model="scripted")
        )

    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        self.calls.append(("noticed", asked_ms, answered))

    def withdraw(self, number: int) -> None:
        self.calls.append(("withdraw", number))

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        self.calls.append(("expect", question, known, unserved))

    def forget(self, uri: str) -> None:
        self.calls.append(("forget", uri))

    def rename(self, old: str, new: str) -> None:
        self.calls.append(("rename", old, new))

    def load(self, reply: Callable[[bool], object]) -> None:
        self.calls.append(("load",))
        reply(True)

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        self.calls.append(("use", settings, dict(folders)))

    def reload(self) -> None:
        self.calls.append(("reload",))

    def enable(self, *, enabled: bool) -> None:
        self.calls.append(("enable", enabled))

    def document_changed(self, path: Path, text: str) -> None:
        self.calls.append(("document_changed", path, text))

    def document_closed(self, path: Path) -> None:
        self.calls.append(("document_closed", path))

    def files_changed(self, paths: Iterable[Path]) -> None:
        self.calls.append(("files_changed", tuple(paths)))

    def facts(self) -> HostFacts:
        return HostFacts(model="scripted", engine="none", budget_ms={"automatic": 500.0}, turn=self.turn, context=True)

    def close(self, wait_s: float) -> None:
        self.calls.append(("close",))
        self.closed.set()


def question(number: int, text: str, uri: str = "file:///w/a.py", offset: int | None = None) -> Question:
    """A question at the end of a text, or at `offset`."""
    path = uri.removeprefix("file://") if uri.startswith("file://") else None
    at = len(text) if offset is None else offset
    request = CompletionRequest(Snapshot(uri, path, "python", number, text), at)
    return Question(number, request, place_of(request), Policy(), time.monotonic() * 1e3, time.perf_counter())
