"""A host whose model takes no time, and a front that asks it: what is left is the wire.

The host answers each question at once, and says when it had it.
"""

import threading
import time
from collections.abc import Callable

from fastcoder_lsp.completion.protocol import (
    Answered,
    Ask,
    Command,
    Event,
    HostFacts,
    HostListener,
    Load,
    LoadFinished,
    Made,
)
from fastcoder_lsp.completion.question import Answer, Policy, Question, place_of
from fastcoder_lsp.completion.suggestions import Recalled, Suggestion
from fastcoder_lsp.core import CompletionRequest, Snapshot

TAKEN = "taken"
"""The span that holds when the host had the question, in milliseconds of `time.perf_counter`."""


class InstantHost:
    """Answers every question with the same line (`completion.protocol.ModelHost`)."""

    def __init__(self, listener: HostListener, *_: object) -> None:
        self._listener = listener

    def send(self, command: Command) -> None:
        """Answer."""
        match command:
            case Ask(question):
                taken = time.perf_counter() * 1e3
                text = "return a suggestion of usual length"
                self._listener(Made(question.uri, Suggestion(question.place, text)))
                answer = Answer("shown", (Recalled(text, 0),), "stop", ms={TAKEN: taken})
                self._listener(Answered(question.number, answer))
            case Load(ticket):
                self._listener(LoadFinished(ticket, True))

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
    """One front that asks and waits for the answer (`completion.protocol.HostListener`)."""

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

    def on(self, event: Event) -> None:
        """Keep the answer."""
        if isinstance(event, Answered):
            if TAKEN in event.answer.ms:  # else the host is not there yet
                self._answer = (event.number, event.answer.ms[TAKEN], time.perf_counter() * 1e3)
            self._came.set()
