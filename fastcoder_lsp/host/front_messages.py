"""What a front says to its host, and the command line."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from fastcoder_lsp.host.messages import (
    MOST_DEFINITIONS,
    MOST_EXTRAS,
    MOST_NAMES,
    MOST_YANKS,
    Difference,
    Message,
    Name,
    Natural,
    Part,
    Short,
    Table,
    TextAt,
    Whole,
)


class Hello(Message, frozen=True):
    """The first word of whoever connects; `role`: "front", or "control" for the command line."""

    protocol: Natural
    build: Short
    process_id: Natural
    role: Short


class SelectedAt(Part, frozen=True):
    """`core.SelectedCompletion`."""

    start: Natural
    end: Natural
    text: bytes


class PolicyAt(Part, frozen=True):
    """`completion.question.Policy`."""

    automatic_ms: float
    invoked_ms: float
    background_ms: float
    ahead: bool
    alternatives: Annotated[int, Meta(ge=1, le=16)]
    in_words: bool
    in_secrets: bool
    rejections: Natural


class ExtraAt(Part, frozen=True):
    """`core.Extra`; `length`: of its text."""

    name: Name
    length: Natural


class DefinitionAt(Part, frozen=True):
    """`core.Definition`."""

    name: Name
    path: Name
    line: Natural


class YankAt(Part, frozen=True):
    """`core.Yank`; a text as long as a name may be."""

    path: Name
    line: Natural
    text: Name


class QuestionAt(Part, frozen=True):
    """`completion.question.Question`; `cells`: lengths of the neighbours, which are one text, as the extras' are."""

    number: Natural
    uri: Name
    path: Name | None
    language: Name
    version: Whole
    text: TextAt
    neighbours: TextAt | None
    cells: Annotated[list[Natural], Meta(max_length=MOST_NAMES)]
    chunks: TextAt | None
    extras: Annotated[list[ExtraAt], Meta(max_length=MOST_EXTRAS)]
    definitions: Annotated[list[DefinitionAt], Meta(max_length=MOST_DEFINITIONS)]
    yanks: Annotated[list[YankAt], Meta(max_length=MOST_YANKS)]
    edited: bool
    offset: Natural
    invoked: bool
    selected: SelectedAt | None
    max_tokens: Annotated[int, Meta(ge=1, le=100_000)] | None
    policy: PolicyAt
    asked_ms: float
    opened_s: float


class FolderAt(Part, frozen=True):
    """A folder of the workspace, and the settings that hold in it."""

    path: Name
    settings: Table


class Use(Message, frozen=True):
    """`ModelHost.use`; a front's first word after the greeting."""

    settings: Table
    folders: Annotated[list[FolderAt], Meta(max_length=MOST_NAMES)]


class Ask(Message, frozen=True):
    """`ModelHost.ask`."""

    question: QuestionAt


class Expect(Message, frozen=True):
    """`ModelHost.expect`."""

    question: QuestionAt
    known: bool
    unserved: bool


class Noticed(Message, frozen=True):
    """`ModelHost.noticed`."""

    asked_ms: float
    answered: bool


class Withdraw(Message, frozen=True):
    """`ModelHost.withdraw`."""

    number: Natural


class Forget(Message, frozen=True):
    """`ModelHost.forget`."""

    uri: Name


class Rename(Message, frozen=True):
    """`ModelHost.rename`."""

    old: Name
    new: Name


class Load(Message, frozen=True):
    """`ModelHost.load`; `ticket` comes back with `Loaded`."""

    ticket: Natural


class Reload(Message, frozen=True):
    """`ModelHost.reload`."""


class Enable(Message, frozen=True):
    """`ModelHost.enable`."""

    enabled: bool


class DocumentChanged(Message, frozen=True):
    """`ModelHost.document_changed`."""

    path: Name
    text: TextAt


class DocumentClosed(Message, frozen=True):
    """`ModelHost.document_closed`."""

    path: Name


class FilesChanged(Message, frozen=True):
    """`ModelHost.files_changed`."""

    paths: Annotated[list[Name], Meta(max_length=MOST_NAMES)]


class Ping(Message, frozen=True):
    """Is anybody there? Answered by the thread that reads, whatever the model does."""


class AskFronts(Message, frozen=True):
    """From the command line: who is there?"""


class Stop(Message, frozen=True):
    """From the command line: end."""


FromFront: TypeAlias = (
    Hello
    | Difference
    | Use
    | Ask
    | Expect
    | Noticed
    | Withdraw
    | Forget
    | Rename
    | Load
    | Reload
    | Enable
    | DocumentChanged
    | DocumentClosed
    | FilesChanged
    | Ping
    | AskFronts
    | Stop
)
