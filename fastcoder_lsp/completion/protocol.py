"""The values that cross between the server and the model: commands down, events up.

The model runs in this process, in one that all editors share, or on a server. The values are the same everywhere; a
process checks the bounds in their types on what it receives. Every command returns at once and raises nothing,
whatever the state of the model. A command's class says where it goes, whether a host is opened for it, which unsent
command it replaces, and which event answers it where no model can; hosts ask the class.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Meta, Struct
from typing_extensions import override

from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Counts
from fastcoder_lsp.core.bounds import MOST_NAMES, Moment, Name, Natural, Short, Whole
from fastcoder_lsp.edits.elsewhere import MOST_FOUND, FileEdits
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from fastcoder_lsp.observe import Cause
from fastcoder_lsp.workspace.document import OpenTexts

Percent: TypeAlias = Annotated[int, Meta(ge=0, le=100)]
Target = Literal["model", "files", "settings"]
"""Where a host passes a command: to the scheduler's client, to the workspace, or to the owner of the settings."""
MOST_PATIENCE_S = 30.0  # longest wait of a search for a folder that is being read
Turn = Literal["", "own", "other"]
"""While a client waits for an answer: whether the scheduler works on its own question or on another client's."""


class Message(Struct, frozen=True, array_like=True, tag=True):
    """Encoded as an array of the class' name and its fields, in their order."""


# Commands -------------------------------------------------------------------------------------------------------------


class CommandMessage(Message, frozen=True):
    """Base of the commands."""

    target: ClassVar[Target] = "model"
    opens_host: ClassVar[bool] = False  # a host is opened for it if there is none

    def key(self) -> Hashable:
        """A newer command replaces an unsent one with the same key; None: it replaces none."""
        return type(self)

    def refused(self, answer: Answer) -> "Event | None":  # noqa: ARG002 the interface
        """The event that answers it where no model can; None for a command that waits for no answer."""
        return None

    def follow_in(self, texts: OpenTexts) -> None:
        """Keep the document's text that it brings. Once in each process: where its commands begin, or arrive."""


class Ask(CommandMessage, frozen=True):
    """The client's newest question of its kind; it replaces any older one. An edit waits for all completions."""

    question: Question | EditQuestion
    opens_host: ClassVar[bool] = True

    @override
    def key(self) -> Hashable:
        return type(self.question)

    @override
    def refused(self, answer: Answer) -> "Event":
        asked = self.question
        return Answered(asked.number, answer if isinstance(asked, Question) else EditAnswer(reason=answer.reason))


class UserActive(CommandMessage, frozen=True):
    """The user asked for, or accepted, what needs no model; `answered`: no client waits at the last place."""

    asked_ms: Moment
    answered: bool


class Withdraw(CommandMessage, frozen=True):
    """The client withdrew a question; the scheduler may keep its generation for the next one."""

    number: Natural

    @override
    def key(self) -> Hashable:
        return "withdraw", self.number


class Expect(CommandMessage, frozen=True):
    """The likely next question; `known`: its answer is cached; `unserved`: a client waits there for a late text."""

    question: Question
    known: bool
    unserved: bool
    opens_host: ClassVar[bool] = True


class Shown(CommandMessage, frozen=True):
    """The client shows the first `length` characters of the text that begins at character `start` of a document."""

    uri: Name
    start: Natural
    length: Natural

    @override
    def key(self) -> Hashable:
        return None


class Forget(CommandMessage, frozen=True):
    """Drop the state of a document."""

    uri: Name

    @override
    def key(self) -> Hashable:
        return None


class Rename(CommandMessage, frozen=True):
    """Rename a document; requests in it stay open."""

    old: Name
    new: Name

    @override
    def key(self) -> Hashable:
        return None


class Load(CommandMessage, frozen=True):
    """Load the model now; `LoadFinished` comes back with the ticket, whatever happens.

    `near`: then also read the folder of this path, for at most some seconds, if prompts may contain its code.
    """

    ticket: Natural
    near: Path | None = None
    opens_host: ClassVar[bool] = True

    @override
    def key(self) -> Hashable:
        return None

    @override
    def refused(self, answer: Answer) -> "Event":
        return LoadFinished(self.ticket, False)


class Use(CommandMessage, frozen=True):
    """New settings of the model, or of the workspace's folders, from the next question on.

    The model is reloaded only if settings that it is built from change. The host reads these folders only as far as
    their settings allow.
    """

    settings: Settings
    folders: Mapping[Path, Settings]
    target: ClassVar[Target] = "settings"


class Reload(CommandMessage, frozen=True):
    """Reload the model for the next question."""

    target: ClassVar[Target] = "settings"


class Enable(CommandMessage, frozen=True):
    """False: this client needs no model; the host unloads it once no client needs it."""

    enabled: bool
    target: ClassVar[Target] = "settings"


class DocumentChanged(CommandMessage, frozen=True):
    """An open document's text, saved or not; overrides the disk until it is closed."""

    path: Path
    text: str
    target: ClassVar[Target] = "files"

    @override
    def key(self) -> Hashable:
        return "document", self.path

    @override
    def follow_in(self, texts: OpenTexts) -> None:
        texts.put(self.path, self.text)


class DocumentClosed(CommandMessage, frozen=True):
    """A document was closed: its text on the disk holds again."""

    path: Path
    target: ClassVar[Target] = "files"

    @override
    def key(self) -> Hashable:
        return "document", self.path

    @override
    def follow_in(self, texts: OpenTexts) -> None:
        texts.remove(self.path)


class FilesChanged(CommandMessage, frozen=True):
    """Files on the disk that changed, as the client reports them."""

    paths: Annotated[tuple[Path, ...], Meta(max_length=MOST_NAMES)]
    target: ClassVar[Target] = "files"

    @override
    def key(self) -> Hashable:
        return None


class SearchElsewhere(CommandMessage, frozen=True):
    """Search other files for the edits that a question's changes want there, at `most` files; `FoundElsewhere` answers.

    The question has no text: the host has the open document's. A newer search ends an older one. `patience_s`: how long
    it waits for a folder that is still being read.
    """

    question: EditQuestion
    most: Annotated[int, Meta(ge=1, le=MOST_FOUND)] = MOST_FOUND
    patience_s: Annotated[float, Meta(ge=0, le=MOST_PATIENCE_S)] = 0.0
    target: ClassVar[Target] = "files"
    opens_host: ClassVar[bool] = True

    @override
    def refused(self, answer: Answer) -> "Event":
        return FoundElsewhere(self.question.number, complete=False)


Command: TypeAlias = (
    Ask
    | UserActive
    | Withdraw
    | Expect
    | Shown
    | Forget
    | Rename
    | Load
    | Use
    | Reload
    | Enable
    | DocumentChanged
    | DocumentClosed
    | FilesChanged
    | SearchElsewhere
)


# Events ---------------------------------------------------------------------------------------------------------------


class EventMessage(Message, frozen=True):
    """Base of the events."""

    def key(self) -> Hashable:
        """A newer event replaces an unsent one with the same key; None: it replaces none."""
        return type(self)


class Answered(EventMessage, frozen=True):
    """The answer to the question of this number; numbers are unique over both kinds."""

    number: Natural
    answer: Answer | EditAnswer

    @override
    def key(self) -> Hashable:
        return "answered", self.number


class FoundElsewhere(EventMessage, frozen=True):
    """The edits of other files for the question of this number, the nearest files first.

    `complete`: whether all files were there to be searched; not while a folder is being read.
    """

    number: Natural
    files: Annotated[tuple[FileEdits, ...], Meta(max_length=MOST_FOUND)] = ()
    complete: bool = True


class Grew(EventMessage, frozen=True):
    """The whole lines so far of the answer to the question of this number, which has a raw prompt; they stay."""

    number: Natural
    text: str

    @override
    def key(self) -> Hashable:
        return "grew", self.number


class Made(EventMessage, frozen=True):
    """A suggestion for a document, wherever it fits from now on; `reason`: why it is empty."""

    uri: Name
    suggestion: Suggestion

    @override
    def key(self) -> Hashable:
        return None


class Forgotten(EventMessage, frozen=True):
    """The suggestions for a document are outdated; None: for every document."""

    uri: Name | None

    @override
    def key(self) -> Hashable:
        return "forgotten", self.uri


class Counted(EventMessage, frozen=True):
    """A field of `Statistics` grows by this amount."""

    what: Short
    by: Whole

    @override
    def key(self) -> Hashable:
        return None


class Worked(EventMessage, frozen=True):
    """The model did this work; `cpu_s` below zero moves to another cause."""

    counts: Counts
    cpu_s: Mapping[Cause, float] = {}

    @override
    def key(self) -> Hashable:
        return None


class StatusChanged(EventMessage, frozen=True):
    """The state of the worker changed."""

    status: Status


class Indexing(EventMessage, frozen=True):
    """Progress of indexing the workspace, in files; `building`: for the first time."""

    done: Natural
    total: Natural
    building: bool


class Notice(EventMessage, frozen=True):
    """A message for the user, shown once."""

    text: Short

    @override
    def key(self) -> Hashable:
        return "notice", self.text


class Succession(EventMessage, frozen=True):
    """A smaller model, `answering`, while a larger one, `following`, is made ready; empty once it has, or cannot.

    `what`: the stage, in words; `percent` of it, where it is known.
    """

    answering: Short = ""
    following: Short = ""
    what: Short = ""
    percent: Percent | None = None

    @property
    def text(self) -> str:
        """Which model answers, and until when; empty where no other follows."""
        if not self.following:
            return ""
        share = "" if self.percent is None else f", {self.percent} %"
        return f"{self.answering} answers until {self.following} is ready ({self.what}{share})"


class EditModelChanged(EventMessage, frozen=True):
    """The state of the edit model: the progress while it loads, and how that ended."""

    status: Status


class LoadFinished(EventMessage, frozen=True):
    """The reply to `Load`: whether the model is loaded."""

    ticket: Natural
    well: bool

    @override
    def key(self) -> Hashable:
        return None


Event: TypeAlias = (
    Answered
    | FoundElsewhere
    | Grew
    | Made
    | Forgotten
    | Counted
    | Worked
    | StatusChanged
    | Indexing
    | Notice
    | Succession
    | EditModelChanged
    | LoadFinished
)


# Hosts ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The host's state, as it last reported it to a client."""

    model: Short = ""  # empty while none is loaded
    engine: Short = ""
    budget_ms: Mapping[str, float] = field(default_factory=dict)  # the last question's budgets by kind
    resident_bytes: Natural = 0
    process_id: Natural = 0
    fronts: Natural = 1  # how many clients share it
    shared: bool = False  # whether it is a process of its own
    index_cpu_s: float = 0.0  # CPU seconds of all folders' reading and indexing
    turn: Turn = ""  # whose question the scheduler works on, while this client waits for an answer
    asks: str = ""  # the server that questions are sent to; empty: nothing leaves the machine
    context: bool | None = None  # whether prompts of this client hold other files' code; None before a model reports it
    succession: Short = ""  # which model answers until a larger one is ready, in words; empty where none follows

    @property
    def company(self) -> tuple[int, int, Turn, bool | None, str]:
        """The part of every status that describes the host: process, clients, whose turn it is, context, model."""
        return self.process_id, self.fronts, self.turn, self.context, self.model


class ModelHost(Protocol):
    """The model's host, as one client sees it; thread-safe."""

    def send(self, command: Command) -> None:
        """Send a command; the host runs commands in the order of the calls."""

    def facts(self) -> HostFacts:
        """The latest report."""

    def close(self, wait_s: float) -> None:
        """Disconnect; waits at most this long for an orderly end."""


HostListener: TypeAlias = Callable[[Event], None]
"""Receives the host's events, on a thread of the host or of the connection."""
OpenHost = Callable[[HostListener, Settings, Mapping[Path, Settings], OpenTexts], ModelHost]
"""Opens a host for a listener, with the settings of the model and of the folders, and the store of open documents;
returns at once. The host reads that store; the sender follows each command in it before sending the command
(`CommandMessage.follow_in`)."""
