"""What a host says to its fronts, and to the command line."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from fastcoder_lsp.completion.host import Turn
from fastcoder_lsp.core import Counts, TracedToken
from fastcoder_lsp.host.messages import Message, Name, Natural, Part, PlaceAt, Short, Whole


class Welcome(Message, frozen=True):
    """The first word of the host."""

    protocol: Natural
    build: Short
    process_id: Natural


class ReasonAt(Part, frozen=True):
    """`core.Reason`."""

    code: Short
    text: Short
    hint: Short


class CandidateAt(Part, frozen=True):
    """`completion.suggestions.Recalled`."""

    text: bytes
    replaces: Natural


class StepAt(Part, frozen=True):
    """`core.StepTrace`: what was `said`, and then its tree, but for what was drawn by chance."""

    said: tuple[TracedToken, ...]
    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    pending: Natural
    sources: tuple[str, ...]
    matches: tuple[int, ...]
    pieces: tuple[bytes, ...]
    path: tuple[int, ...]


class Answered(Message, frozen=True):
    """`HostListener.answered`."""

    number: Natural
    outcome: Short
    candidates: list[CandidateAt]
    finish: Short
    reason: ReasonAt | None
    counts: Counts
    ms: dict[str, float]
    model: Short
    engine: Short
    trace: tuple[StepAt, ...]
    context: tuple[Short, ...] = ()


class WorkAt(Part, frozen=True):
    """`completion.suggestions.Work`."""

    counts: Counts
    trace: tuple[StepAt, ...]
    context: tuple[Short, ...] = ()


class SuggestionAt(Part, frozen=True):
    """`completion.suggestions.Suggestion`; no place: that of the first. `work`, `reason`: of the first alone."""

    place: PlaceAt | None
    text: bytes
    replaces: Natural
    work: WorkAt | None = None
    reason: ReasonAt | None = None
    interim: bool = False


class Made(Message, frozen=True):
    """`HostListener.made`."""

    uri: Name
    suggestion: SuggestionAt
    others: list[SuggestionAt] | None


class Forgotten(Message, frozen=True):
    """`HostListener.forgotten`."""

    uri: Name | None


class Counted(Message, frozen=True):
    """`HostListener.counted`."""

    what: Short
    by: Whole


class Worked(Message, frozen=True):
    """`HostListener.worked`."""

    counts: Counts


class Told(Message, frozen=True):
    """`HostListener.told`."""

    state: Short
    percent: Annotated[int, Meta(ge=0, le=100)] | None
    message: Short
    hint: Short


class Indexing(Message, frozen=True):
    """`HostListener.indexing`."""

    done: Natural
    total: Natural
    building: bool


class Notice(Message, frozen=True):
    """`HostListener.notice`."""

    text: Short


class Facts(Message, frozen=True):
    """`completion.host.HostFacts`, but for what the front knows itself."""

    model: Short
    engine: Short
    budget_ms: dict[str, float]
    resident_bytes: Natural
    process_id: Natural
    fronts: Natural
    turn: Turn
    context: bool | None


class Loaded(Message, frozen=True):
    """The reply to `Load`."""

    ticket: Natural
    well: bool


class Again(Message, frozen=True):
    """A text of this slot is missing: its document's whole text is to be sent, and whatever spoke of it."""

    slot: Natural


class Pong(Message, frozen=True):
    """The reply to `Ping`."""


class FrontAt(Part, frozen=True):
    """A front, as `fastcoder-lsp host status` tells it.

    `asking`: whether it waits for an answer; `turn`: whether its question is worked on now.
    """

    process_id: Natural
    folders: list[Name]
    asking: bool
    connected_s: float
    turn: bool = False


class Fronts(Message, frozen=True):
    """The reply to `AskFronts`. `nice`: how little urgent it is, where the system did not let it be otherwise."""

    process_id: Natural
    build: Short
    model: Short
    engine: Short
    resident_bytes: Natural
    running_s: float
    fronts: list[FrontAt]
    nice: Natural = 0


FromHost: TypeAlias = (
    Welcome
    | Answered
    | Made
    | Forgotten
    | Counted
    | Worked
    | Told
    | Indexing
    | Notice
    | Facts
    | Loaded
    | Again
    | Pong
    | Fronts
)
