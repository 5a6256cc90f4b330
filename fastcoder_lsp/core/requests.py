"""A snapshot of a document, a completion request, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from fastcoder_lsp.core.bounds import (
    MOST_DEFINITIONS,
    MOST_EXTRAS,
    MOST_NAMES,
    MOST_YANKS,
    Name,
    Natural,
    Short,
    Whole,
)
from fastcoder_lsp.core.engine import GREEDY, Sampler
from fastcoder_lsp.core.trees import NO_COUNTS, Counts, StepTrace


@dataclass(frozen=True, slots=True)
class Extra:
    """A piece of another file that the client sent; `text` is usually whole lines."""

    name: Name
    text: str


@dataclass(frozen=True, slots=True)
class Definition:
    """The place of a definition that the client sent; `name` may be empty, `path` is absolute, lines count from 0."""

    name: Name
    path: Name
    line: Natural


@dataclass(frozen=True, slots=True)
class Yank:
    """Whole lines that the user copied in a document, as of that moment; `path` is absolute, lines count from 0."""

    path: Name
    line: Natural
    text: Name


@dataclass(frozen=True, slots=True)
class Change:
    """One change that the user made, in whole lines."""

    path: Short  # the file's path below its folder, with forward slashes
    line: Natural  # where `old` begins, in the text before the change
    old: str
    """The lines that it replaced; empty for an insertion. Every line ends in a newline, the file's last one too."""
    new: str  # the lines that it put there; empty for a deletion
    above: str = ""  # up to three lines before it, for diffs; `below`: after it
    below: str = ""
    accepted: bool = False  # whether the user accepted it from a suggestion


@dataclass(frozen=True, slots=True)
class Snapshot:
    r"""An immutable version of a document, for slow work while the user types on."""

    uri: Name
    path: Name | None  # absolute; None for untitled documents
    language: Name  # the LSP language id
    version: Whole  # the client's number of this version
    text: str  # has `\n` line ends only; the front normalises them
    neighbours: Annotated[tuple[str, ...], Meta(max_length=MOST_NAMES)] = ()
    """Texts of the same whole, the nearest last (a notebook's cells above this one)."""
    extras: Annotated[tuple[Extra, ...], Meta(max_length=MOST_EXTRAS)] = ()
    """Pieces of other files from the client, the most promising last."""
    definitions: Annotated[tuple[Definition, ...], Meta(max_length=MOST_DEFINITIONS)] = ()
    """Definitions of names near the cursor, if the client sends them."""
    yanks: Annotated[tuple[Yank, ...], Meta(max_length=MOST_YANKS)] = ()
    """Code copied last in any document, the newest first, if the client sends it."""
    edited: bool = True  # whether the text was changed since the document was opened
    deleted: bool = False  # whether its last change only removed text
    indentation: Short = ""  # one level, a tab or spaces, where the text shows none; "" if that is unknown


@dataclass(frozen=True, slots=True)
class SelectedCompletion:
    """The entry selected in the editor's popup: a suggestion must continue `text`, which replaces start…end."""

    start: Natural
    end: Natural
    text: str


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """A whole prompt that another program built: its control tokens are parsed, and its answer is not cleaned."""

    likely: str  # the probable answer, as a draft
    stops: Annotated[tuple[Name, ...], Meta(max_length=64)]  # the answer ends before the first of these
    max_tokens: Annotated[int, Meta(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request for a completion at `offset`, in characters of the snapshot's text."""

    snapshot: Snapshot
    offset: Natural
    invoked: bool = False  # the user triggered it manually
    selected: SelectedCompletion | None = None  # the entry of the completion menu
    max_tokens: Annotated[int, Meta(ge=1, le=100_000)] | None = None  # None: the model's limit
    exact: bool = False  # whether a text that ends there keeps its only line, though that is incomplete
    raw: RawPrompt | None = None  # the snapshot's text is a whole prompt, and the cursor is at its end
    sampler: Sampler = GREEDY  # a drawn text answers this request alone


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an answer is empty: a code of `completion/reasons.py`, the text for users, and what they can do."""

    code: Short
    text: Short
    hint: Short = ""


@dataclass(frozen=True, slots=True)
class Late:
    """A suggestion that came after its question was answered empty, for another request at `offset`; or why none."""

    uri: str
    version: int
    offset: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One suggestion: `text` replaces start…end of the snapshot, and is empty if there is none."""

    text: str
    start: int
    end: int
    model: str = ""
    engine: str = ""
    counts: Counts = NO_COUNTS  # the model's work for it
    finish: str = ""  # why decoding ended ("stop", "eos", "length", "context", "cancelled", "typed-through", …)
    ms: Mapping[str, float] = field(default_factory=dict)  # milliseconds by span (`observe.SPANS`)
    trace: tuple[StepTrace, ...] = ()  # every step; empty if the model was not used
    others: tuple["Completion", ...] = ()  # more candidates for the same place, the likeliest first
    reason: Reason | None = None  # why the text is empty, if it is
    context: tuple[str, ...] = ()  # the places of other code in the prompt, as PATH:LINE, the nearest to the text last
    ended: str = ""  # of a cached text ("typed-through"), why its decoding ended; "" if it was cut at a deadline
