"""What crosses between the server and the model: commands down, events up.

The model may live in this process, in one that all editors share, or on a server. The values are the same everywhere;
the bounds in their types are checked where they come from another process. Every command returns at once and raises
nothing, whatever has become of the model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias

from msgspec import Meta, Struct

from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Counts
from fastcoder_lsp.core.bounds import MOST_NAMES, Moment, Name, Natural, Short, Whole
from fastcoder_lsp.workspace.open_texts import OpenTexts

Turn = Literal["", "own", "other"]
"""Whose question is worked on while a client waits for an answer: its own, or another client's."""


class Message(Struct, frozen=True, array_like=True, tag=True):
    """Encoded as an array of the class' name and the fields in their order."""


# Commands -------------------------------------------------------------------------------------------------------------


class Ask(Message, frozen=True):
    """The client's newest question; nobody waits for an older one any more."""

    question: Question


class Noticed(Message, frozen=True):
    """A request was answered without the model; `answered`: nobody waits at the last place."""

    asked_ms: Moment
    answered: bool


class Withdraw(Message, frozen=True):
    """Nobody waits for the answer to a question; what was begun for it may serve the next one."""

    number: Natural


class Expect(Message, frozen=True):
    """What will be asked next; `known`: what follows there is; `unserved`: somebody waits there for a late text."""

    question: Question
    known: bool
    unserved: bool


class Forget(Message, frozen=True):
    """Drop what is kept for a document."""

    uri: Name


class Rename(Message, frozen=True):
    """A document has another name: whoever waits for an answer in it goes on waiting."""

    old: Name
    new: Name


class Load(Message, frozen=True):
    """Load the model now; `LoadFinished` comes back with the ticket, whatever happens."""

    ticket: Natural


class Use(Message, frozen=True):
    """Other settings of the model, or of the workspace's folders, from the next question on.

    The model is loaded anew only where what it is made from differs. The host reads in these folders what their
    settings allow, and nothing else.
    """

    settings: Settings
    folders: Mapping[Path, Settings]


class Reload(Message, frozen=True):
    """Load the model anew, from the next question on."""


class Enable(Message, frozen=True):
    """Off: this client needs no model; it is unloaded once no client does."""

    enabled: bool


class DocumentChanged(Message, frozen=True):
    """An open document's text, saved or not; overrides the disk until it is closed."""

    path: Path
    text: str


class DocumentClosed(Message, frozen=True):
    """A document was closed: the disk holds again."""

    path: Path


class FilesChanged(Message, frozen=True):
    """Files on the disk that the client has seen change."""

    paths: Annotated[tuple[Path, ...], Meta(max_length=MOST_NAMES)]


Command: TypeAlias = (
    Ask
    | Noticed
    | Withdraw
    | Expect
    | Forget
    | Rename
    | Load
    | Use
    | Reload
    | Enable
    | DocumentChanged
    | DocumentClosed
    | FilesChanged
)


# Events ---------------------------------------------------------------------------------------------------------------


class Answered(Message, frozen=True):
    """The question of this number has its answer."""

    number: Natural
    answer: Answer


class Made(Message, frozen=True):
    """This is suggested in a document from now on, wherever it fits; with a reason, why nothing is."""

    uri: Name
    suggestion: Suggestion


class Forgotten(Message, frozen=True):
    """What was made for a document holds no more; None: for any."""

    uri: Name | None


class Counted(Message, frozen=True):
    """A field of `Statistics` grows by so many."""

    what: Short
    by: Whole


class Worked(Message, frozen=True):
    """The model did this work."""

    counts: Counts


class StatusChanged(Message, frozen=True):
    """The state of the worker has changed."""

    status: Status


class Indexing(Message, frozen=True):
    """So many files of the workspace were looked at; `building`: for the first time."""

    done: Natural
    total: Natural
    building: bool


class Notice(Message, frozen=True):
    """What a person should know, once."""

    text: Short


class LoadFinished(Message, frozen=True):
    """The reply to `Load`: whether the model is there."""

    ticket: Natural
    well: bool


Event: TypeAlias = Answered | Made | Forgotten | Counted | Worked | StatusChanged | Indexing | Notice | LoadFinished


# Hosts ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a client knows of the host, as it was told last.

    Attributes:
        model: the model's name; empty while none is loaded.
        engine: the engine's name.
        budget_ms: by kind, of the last question.
        resident_bytes: memory of the host's process.
        process_id: of the host.
        fronts: how many clients share it.
        shared: whether it is a process of its own.
        asks: the server that questions are sent to; empty: none, nothing leaves the machine.
        turn: whose turn it is, where this client waits for an answer.
        context: whether other files' code goes along with this client's prompts; None before a model says so.
    """

    model: Short = ""
    engine: Short = ""
    budget_ms: Mapping[str, float] = field(default_factory=dict)
    resident_bytes: Natural = 0
    process_id: Natural = 0
    fronts: Natural = 1
    shared: bool = False
    turn: Turn = ""
    asks: str = ""
    context: bool | None = None

    @property
    def company(self) -> tuple[int, int, Turn, bool | None]:
        """What goes with every status: which process it is, how many share it, whose turn it is, what goes along."""
        return self.process_id, self.fronts, self.turn, self.context


class ModelHost(Protocol):
    """Where the model lives, as one client sees it; for any thread."""

    def send(self, command: Command) -> None:
        """Have this done; commands are taken in the order of the calls."""
        ...

    def facts(self) -> HostFacts:
        """What was told last."""
        ...

    def close(self, wait_s: float) -> None:
        """The client is done; waits at most so long for its work to end in order."""
        ...


HostListener: TypeAlias = Callable[[Event], None]
"""Told what comes of it all, by a thread of the host's, or of the connection's."""
OpenHost = Callable[[HostListener, Settings, Mapping[Path, Settings], OpenTexts], ModelHost]
"""Opens a host for a listener, with the settings of the model and of the folders, and the open documents; returns at
once. The host is not told what is open already, and puts the texts that it is told into the same place."""
