"""Where the model lives, as a front sees it: in this process, or in one that all editors of a user share.

Owns the protocol alone. Everything that passes is a plain value, so that it can go to another process; every verb
returns at once and raises nothing, whatever has become of the model. What comes of it is told to a `HostListener`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from fastcoder_lsp.completion.question import Listener, Question
from fastcoder_lsp.config import Settings

Turn = Literal["", "own", "other"]
"""Whose question is worked on while a front waits for an answer: its own, or another front's."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a front knows of the host, as it was told last.

    Attributes:
        model: the model's name; empty while none is loaded.
        engine: the engine's name.
        budget_ms: by kind, of the last question.
        resident_bytes: memory of the host's process.
        process_id: of the host.
        fronts: how many share it.
        shared: whether it is a process of its own.
        asks: the server that questions are sent to; empty: none, nothing leaves the machine.
        turn: whose turn it is, where this front waits for an answer.
        context: whether other files' code goes along with this front's prompts; None before a model says so.
    """

    model: str = ""
    engine: str = ""
    budget_ms: Mapping[str, float] = field(default_factory=dict)
    resident_bytes: int = 0
    process_id: int = 0
    fronts: int = 1
    shared: bool = False
    turn: Turn = ""
    asks: str = ""
    context: bool | None = None

    @property
    def company(self) -> tuple[int, int, Turn, bool | None]:
        """Which process it is, how many share it, whose turn it is, what goes along: what goes with every status."""
        return self.process_id, self.fronts, self.turn, self.context


class HostListener(Listener, Protocol):
    """Told what comes of it all, by a thread of the host's, or of the connection's."""

    def indexing(self, done: int, total: int, *, building: bool) -> None:
        """How far the index of the workspace is: so many files of so many were looked at."""
        ...

    def notice(self, text: str) -> None:
        """What a person should know, once."""
        ...


class ModelHost(Protocol):
    """What a front asks of where the model lives; from any thread, taken in the order of the calls."""

    def ask(self, question: Question) -> None:
        """The newest question of this front; nobody waits for an older one any more."""
        ...

    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """Somebody asked, which needs no model; `answered`: nobody waits at the last place."""
        ...

    def withdraw(self, number: int) -> None:
        """Nobody waits for the answer to a question; what was begun for it may serve the next one."""
        ...

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """What will be asked next; `known`: what follows there is; `unserved`: somebody waits there for a late text."""
        ...

    def forget(self, uri: str) -> None:
        """A document was closed."""
        ...

    def rename(self, old: str, new: str) -> None:
        """A document has another name: whoever waits for an answer in it goes on waiting."""
        ...

    def load(self, reply: Callable[[bool], object]) -> None:
        """Load the model now; `reply` is told whether that went well, whatever happens."""
        ...

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """Other settings of the model, or of the workspace's folders, from the next question on.

        A model is loaded anew only where what it is made from differs. The host reads in these folders what their
        settings allow, and nothing else.
        """
        ...

    def reload(self) -> None:
        """Load the model anew, from the next question on."""
        ...

    def enable(self, *, enabled: bool) -> None:
        """Off: this front needs no model; it is unloaded once no front does."""
        ...

    def document_changed(self, path: Path, text: str) -> None:
        """An open document's text, saved or not; overrides the disk until it is closed."""
        ...

    def document_closed(self, path: Path) -> None:
        """A document was closed: the disk holds again."""
        ...

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Files on the disk that the client has seen change."""
        ...

    def facts(self) -> HostFacts:
        """What was told last."""
        ...

    def close(self, wait_s: float) -> None:
        """This front is done; waits at most so long for its work to end in order."""
        ...


OpenHost = Callable[[HostListener, Settings, Mapping[Path, Settings]], ModelHost]
"""Opens one for a listener, with the settings of the model and of the folders; returns at once."""
