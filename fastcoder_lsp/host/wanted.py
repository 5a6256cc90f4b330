"""What a client wants of its host by now: what a new one has to be told, and who waits for it.

Owns values alone, and no connection; whoever uses it holds the lock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp.completion.protocol import (
    Ask,
    Command,
    DocumentChanged,
    DocumentClosed,
    Enable,
    Expect,
    Forget,
    Load,
    Noticed,
    Rename,
    Use,
    Withdraw,
)
from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.config import Settings


@dataclass(slots=True)
class Wanted:
    """All of it.

    Attributes:
        settings: of the model.
        folders: of the workspace, with their settings.
        enabled: whether this client needs a model.
        documents: open documents and their texts.
        question: whose answer somebody waits for.
        upcoming: what will be asked next, while somebody waits there for a late text.
        loads: tickets of those who wait for the model.
        ready: whether the model was there: a new host loads it at once.
    """

    settings: Settings
    folders: Mapping[Path, Settings]
    enabled: bool
    documents: dict[Path, str] = field(default_factory=dict)
    question: Question | None = None
    upcoming: Question | None = None
    loads: set[int] = field(default_factory=set)
    ready: bool = False

    def follow(self, command: Command) -> None:  # noqa: C901 a case for each command
        """The client wants this."""
        match command:
            case Ask(question):
                self.question, self.upcoming = question, None
            case Noticed(_, answered) if answered:
                self.upcoming = None
            case Withdraw(number):
                self.take_question(number)
            case Expect(question, _, unserved):
                self.upcoming = question if unserved else None
            case Forget(uri):
                self._forget(uri)
            case Rename(old, new):
                self._rename(old, new)
            case Load(ticket):
                self.loads.add(ticket)
            case Use(settings, folders):
                self.settings, self.folders = settings, dict(folders)
            case Enable(enabled):
                self.enabled = enabled
            case DocumentChanged(path, text):
                self.documents[path] = text
            case DocumentClosed(path):
                self.documents.pop(path, None)

    def commands(self) -> Iterator[Command]:
        """What a host that knows nothing is told."""
        yield Use(self.settings, self.folders)
        if self.enabled != self.settings.enabled:
            yield Enable(self.enabled)
        for path, text in self.documents.items():
            yield DocumentChanged(path, text)
        for ticket in sorted(self.loads):
            yield Load(ticket)
        if self.ready and self.enabled:
            yield Load(0)  # nobody waits for it
        yield from self.questions()

    def questions(self) -> Iterator[Command]:
        """All that somebody waits for."""
        if self.upcoming is not None:
            yield Expect(self.upcoming, known=False, unserved=True)
        if self.question is not None:
            yield Ask(self.question)

    def take_question(self, number: int | None = None) -> Question | None:
        """The open question, which is no longer; None where it has not this number, or there is none."""
        question = self.question
        if question is None or (number is not None and question.number != number):
            return None
        self.question = None
        return question

    def take_load(self, ticket: int) -> bool:
        """Whether somebody waits for the model by this ticket; nobody does any longer."""
        awaited = ticket in self.loads
        self.loads.discard(ticket)
        return awaited

    def take_loads(self) -> tuple[int, ...]:
        """The tickets of all who wait for the model, which the caller answers."""
        loads = tuple(sorted(self.loads))
        self.loads.clear()
        return loads

    def _forget(self, uri: str) -> None:
        if self.question is not None and self.question.uri == uri:
            self.question = None
        if self.upcoming is not None and self.upcoming.uri == uri:
            self.upcoming = None

    def _rename(self, old: str, new: str) -> None:
        if self.question is not None and self.question.uri == old:
            self.question = self.question.renamed(new)
        if self.upcoming is not None and self.upcoming.uri == old:
            self.upcoming = self.upcoming.renamed(new)
