"""A document at a moment, a question about it, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from fastcoder_lsp.core.bounds import MOST_DEFINITIONS, MOST_EXTRAS, MOST_NAMES, MOST_YANKS, Name, Natural, Short, Whole
from fastcoder_lsp.core.trees import NO_COUNTS, Counts, StepTrace


@dataclass(frozen=True, slots=True)
class Extra:
    """A piece of another file that the client gave along.

    Attributes:
        name: its file's.
        text: whole lines, as a rule.
    """

    name: Name
    text: str


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a name is defined, as the client was told by other servers: a place alone, its text is ours to read.

    Attributes:
        name: the name; empty where the client did not say it.
        path: its file's absolute path.
        line: where it is defined there, from 0.
    """

    name: Name
    path: Name
    line: Natural


@dataclass(frozen=True, slots=True)
class Yank:
    """Lines that somebody copied in a document, as they stood in it then.

    Attributes:
        path: its file's absolute path.
        line: the first one there, from 0.
        text: whole lines.
    """

    path: Name
    line: Natural
    text: Name


@dataclass(frozen=True, slots=True)
class Snapshot:
    r"""One version of one document, never changing: what slow work reads while the user types on.

    Attributes:
        uri: the document's URI.
        path: its absolute path; None for untitled documents.
        language: its LSP language id.
        version: the client's number of this version.
        text: has `\n` line ends only; the front normalises them.
        neighbours: texts that belong to the same whole, the nearest last (a notebook's cells above this one).
        extras: what the client gave along of other files; the last ones promise most.
        definitions: of names near the cursor, where the client says that.
        yanks: what was copied last in any document, the newest first, where the client says that.
        edited: whether its text was changed since it was opened.
    """

    uri: Name
    path: Name | None
    language: Name
    version: Whole
    text: str
    neighbours: Annotated[tuple[str, ...], Meta(max_length=MOST_NAMES)] = ()
    extras: Annotated[tuple[Extra, ...], Meta(max_length=MOST_EXTRAS)] = ()
    definitions: Annotated[tuple[Definition, ...], Meta(max_length=MOST_DEFINITIONS)] = ()
    yanks: Annotated[tuple[Yank, ...], Meta(max_length=MOST_YANKS)] = ()
    edited: bool = True


@dataclass(frozen=True, slots=True)
class SelectedCompletion:
    """The entry selected in the editor's popup: a suggestion must continue `text`, which replaces start…end."""

    start: Natural
    end: Natural
    text: str


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One question to the service: what comes at `offset` of this snapshot?

    Attributes:
        snapshot: the document.
        offset: the cursor, in characters of the snapshot's text.
        invoked: whether the user asked by a key.
        selected: the entry of the completion menu that is selected.
        max_tokens: the longest answer; None for the model's own limit.
    """

    snapshot: Snapshot
    offset: Natural
    invoked: bool = False
    selected: SelectedCompletion | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=100_000)] | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why nothing is shown at a place. The codes, and who is the reason, stand in `completion/reasons.py`.

    Attributes:
        code: for programs.
        text: for people.
        hint: what to do about it.
    """

    code: Short
    text: Short
    hint: Short = ""


@dataclass(frozen=True, slots=True)
class Late:
    """A suggestion made after its question had to be answered empty: who asks again at `offset` gets it now.

    `reason`: why there is none, once that is known.
    """

    uri: str
    version: int
    offset: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One suggestion.

    Attributes:
        text: replaces start…end of the snapshot; empty where nothing is worth showing.
        start: the first character that it replaces.
        end: the character behind the last one that it replaces.
        model: the model's name.
        engine: the engine's name.
        counts: the work that was done for it.
        finish: why decoding ended ("stop", "eos", "length", "context", "cancelled", "typed-through", …).
        ms: milliseconds by span (`observe.SPANS`).
        trace: every step; empty where no model was asked.
        others: more candidates for the same place, the likeliest first.
        reason: why the text is empty, where it is.
        context: the places of other code that the prompt showed, as PATH:LINE, the nearest to the text last.
    """

    text: str
    start: int
    end: int
    model: str = ""
    engine: str = ""
    counts: Counts = NO_COUNTS
    finish: str = ""
    ms: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[StepTrace, ...] = ()
    others: tuple["Completion", ...] = ()
    reason: Reason | None = None
    context: tuple[str, ...] = ()
