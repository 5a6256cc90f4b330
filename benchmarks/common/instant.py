"""A host whose model takes no time, and a front that asks it: what is left is the wire.

The host answers each question at once, and says when it had it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fastcoder_lsp.completion.host import HostFacts, HostListener
from fastcoder_lsp.completion.question import Answer, Policy, Question, place_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Recalled, Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Counts, Snapshot

TAKEN = "taken"
"""The span that holds when the host had the question, in milliseconds of `time.perf_counter`."""


class InstantHost:
    """Answers every question with the same line (`completion.host.ModelHost`)."""

    def __init__(self, listener: HostListener, _settings: Settings, _folders: Mapping[Path, Settings]) -> None:
        self._listener = listener

    def ask(self, question: Question) -> None:
        """Answer."""
        taken = time.perf_counter() * 1e3
        said = "return a suggestion of usual length"
        self._listener.made(question.uri, Suggestion(question.place, said))
        self._listener.answered(question.number, Answer("shown", (Recalled(said, 0),), "stop", ms={TAKEN: taken}))

    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """Nothing to do."""

    def withdraw(self, number: int) -> None:
        """Nothing to do."""

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """Nothing to do."""

    def forget(self, uri: str) -> None:
        """Nothing to do."""

    def rename(self, old: str, new: str) -> None:
        """Nothing to do."""

    def load(self, reply: Callable[[bool], object]) -> None:
        """It is there."""
        reply(True)

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """Nothing to do."""

    def reload(self) -> None:
        """Nothing to do."""

    def enable(self, *, enabled: bool) -> None:
        """Nothing to do."""

    def document_changed(self, path: Path, text: str) -> None:
        """Nothing to do."""

    def document_closed(self, path: Path) -> None:
        """Nothing to do."""

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Nothing to do."""

    def facts(self) -> HostFacts:
        """Nothing is known."""
        return HostFacts()

    def close(self, wait_s: float) -> None:
        """Nothing to do."""


class Instant:
    """What the fronts of a process with such a host share (`host.process.Shared`)."""

    open = InstantHost

    def probe(self, reply: Callable[[], object]) -> None:
        """It always works."""
        reply()

    def close(self, wait_s: float) -> None:
        """Nothing to do."""


class Asker:
    """One front that asks and waits for the answer (`completion.host.HostListener`)."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._answer = (0, 0.0, 0.0)

    def question(self, number: int, text: str, offset: int) -> Question:
        """A question at a place of a document."""
        request = CompletionRequest(Snapshot("file:///work/a.py", "/work/a.py", "python", number, text), offset)
        now = time.perf_counter()
        return Question(number, request, place_of(request), Policy(), time.monotonic() * 1e3, now)

    def wait(self, number: int, seconds: float) -> tuple[float, float] | None:
        """(when the host had the question, when its answer was told), in ms; None where none came in time."""
        until = time.monotonic() + seconds
        while self._answer[0] != number:
            if not self._came.wait(until - time.monotonic()):
                return None
            self._came.clear()
        return self._answer[1:]

    def answered(self, number: int, answer: Answer) -> None:
        """The answer."""
        if TAKEN in answer.ms:  # else the host is not there yet
            self._answer = (number, answer.ms[TAKEN], time.perf_counter() * 1e3)
        self._came.set()

    def made(self, uri: str, suggestion: Suggestion) -> None:
        """Nothing to do."""

    def forgotten(self, uri: str | None) -> None:
        """Nothing to do."""

    def counted(self, what: str, by: int) -> None:
        """Nothing to do."""

    def worked(self, counts: Counts) -> None:
        """Nothing to do."""

    def told(self, status: Status) -> None:
        """Nothing to do."""

    def indexing(self, done: int, total: int, *, building: bool) -> None:
        """Nothing to do."""

    def notice(self, text: str) -> None:
        """Nothing to do."""
