"""A host around a `ModelHost` that says what the question tells it to, in this process or in one of its own."""

import ctypes
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
    Message,
    StatusChanged,
    Turn,
)
from fastcoder_lsp.completion.question import Answer, Policy, Question, place_of
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.completion.suggestions import CachedSuffix, Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.edits.values import Edit, EditAnswer, EditQuestion
from fastcoder_lsp.workspace.document import OpenTexts


@dataclass
class Heard:
    answers: dict[int, list[Answer]] = field(default_factory=dict)
    edits: dict[int, EditAnswer] = field(default_factory=dict)
    makes: list[tuple[str, Suggestion]] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    others: list[tuple[object, ...]] = field(default_factory=list)
    at_s: dict[int, float] = field(default_factory=dict)
    news: threading.Condition = field(default_factory=threading.Condition)

    loads: list[bool] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        with self.news:
            match event:
                case Answered(number, EditAnswer() as edit):
                    self.edits[number] = edit
                case Answered(number, Answer() as answer):
                    self.at_s[number] = time.perf_counter()
                    self.answers.setdefault(number, []).append(answer)
                case Made(uri, suggestion):
                    self.makes.append((uri, suggestion))
                case StatusChanged(status):
                    self.statuses.append(status)
                case LoadFinished(_, well):
                    self.loads.append(well)
                case _:
                    self.others.append(said(event))
            self.news.notify_all()

    def wait(self, until: Callable[[], object], seconds: float = 60.0) -> None:
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

    def __init__(
        self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> None:
        self.texts = texts
        self.listener, self.calls = listener, list[tuple[object, ...]]()
        self.calls.append(("open", settings, dict(folders)))
        self.closed = threading.Event()
        self.turn: Turn = ""
        listener(StatusChanged(Status("ready")))

    def send(self, command: Command) -> None:
        match command:
            case Ask(EditQuestion() as edit):
                self.calls.append(("ask", edit))
                if "hang" not in edit.text:
                    changed = Edit(0, len(edit.text), edit.text.upper())
                    self.listener(Answered(edit.number, EditAnswer((changed,), 0.5, "scripted")))
            case Ask(Question() as question):
                self.calls.append(("ask", question))
                self.ask(question)
            case Load(ticket):
                self.calls.append(("load",))
                self.listener(LoadFinished(ticket, True))
            case _:
                self.calls.append(said(command))

    def ask(self, question: Question) -> None:
        word = question.place.before.rpartition(" ")[2].upper()
        if word in {"HANG", "LATER"}:
            return
        while word == "SEIZE":
            ctypes.PyDLL(None).usleep(900_000)  # no other thread runs meanwhile
        if word == "EXHAUST":
            status = failure("The model could not be loaded", MemoryError())
            self.listener(StatusChanged(status))
            self.listener(Answered(question.number, Answer.failed(status)))
            return
        self.listener(Made(question.uri, Suggestion(question.place, word, 0, ())))
        answer = Answer("shown", (CachedSuffix(word, 0),), "stop", ms={"total": 1.0}, model="scripted")
        self.listener(Answered(question.number, answer))

    def facts(self) -> HostFacts:
        return HostFacts(model="scripted", engine="none", budget_ms={"automatic": 500.0}, turn=self.turn, context=True)

    def close(self, wait_s: float) -> None:
        self.calls.append(("close",))
        self.closed.set()


def said(message: Message) -> tuple[object, ...]:
    """A command or an event as a tuple: its name in lower case, and its fields."""
    name = re.sub("(?<!^)(?=[A-Z])", "_", type(message).__name__).lower()
    return (name, *(getattr(message, field) for field in message.__struct_fields__))


def question(number: int, text: str, uri: str = "file:///w/a.py", offset: int | None = None) -> Question:
    """A question at the end of a text, or at `offset`."""
    path = uri.removeprefix("file://") if uri.startswith("file://") else None
    at = len(text) if offset is None else offset
    request = CompletionRequest(Snapshot(uri, path, "python", number, text), at)
    return Question(number, request, place_of(request), Policy(), time.monotonic() * 1e3, time.perf_counter())
