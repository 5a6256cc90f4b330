"""What a front wants of its host by now: what a new one has to be told, and who waits for it.

Owns values alone, and no connection; whoever uses it holds the lock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.config import Settings

Reply = Callable[[bool], object]


@dataclass(slots=True)
class Wanted:
    """All of it.

    Attributes:
        settings: of the model.
        folders: of the workspace, with their settings.
        enabled: whether this front needs a model.
        documents: open documents and their texts.
        question: whose answer somebody waits for.
        upcoming: what will be asked next, while somebody waits there for a late text.
        loads: who waits for the model, by ticket.
        ready: whether the model was there: a new host loads it at once.
    """

    settings: Settings
    folders: Mapping[Path, Settings]
    enabled: bool
    documents: dict[Path, str] = field(default_factory=dict)
    question: Question | None = None
    upcoming: Question | None = None
    loads: dict[int, Reply] = field(default_factory=dict)
    ready: bool = False
    _tickets: int = 0

    def ticket(self, reply: Reply) -> int:
        """Somebody waits for the model."""
        self._tickets += 1
        self.loads[self._tickets] = reply
        return self._tickets

    def take_question(self, number: int | None = None) -> Question | None:
        """The open question, which is no longer; None where it has not this number, or there is none."""
        question = self.question
        if question is None or (number is not None and question.number != number):
            return None
        self.question = None
        return question

    def take_loads(self) -> tuple[Reply, ...]:
        """All who wait for the model, who are told by the caller."""
        loads = tuple(self.loads.values())
        self.loads.clear()
        return loads

    def forget(self, uri: str) -> None:
        """A document was closed."""
        if self.question is not None and self.question.uri == uri:
            self.question = None
        if self.upcoming is not None and self.upcoming.uri == uri:
            self.upcoming = None

    def rename(self, old: str, new: str) -> None:
        """A document has another name."""
        if self.question is not None and self.question.uri == old:
            self.question = self.question.renamed(new)
        if self.upcoming is not None and self.upcoming.uri == old:
            self.upcoming = self.upcoming.renamed(new)
