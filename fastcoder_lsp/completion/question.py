"""Questions and answers as plain values: all that passes between documents on one side and the model on the other.

A question's text already contains the entry that is selected in the editor's popup. `Quiet` has the rules under which
a question is answered only by key: the settings `quiet.*` and `where.*`, and snoozing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import CachedSuffix, CursorContext
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Counts, Reason, StepTrace
from fastcoder_lsp.core.bounds import BudgetMs, Moment, Natural, Short
from fastcoder_lsp.core.chances import FEWEST_SHOWN, LeastChances
from fastcoder_lsp.syntax import Region
from fastcoder_lsp.workspace.paths import path_of

Where = Literal["always", "invoked", "never"]
Show = Literal["sure", "balanced", "eager"]

LIMITS: Mapping[Show, LeastChances] = {
    "eager": LeastChances(),
    "balanced": LeastChances(first=0.85, words=0.65, lines=0.65),
    "sure": LeastChances(first=0.99, words=0.85, lines=0.9),
}
"""How likely a suggestion is right that appears by itself; chosen on replays (docs/calm.md)."""
RESTED = LeastChances(first=0.2, words=0.02, lines=0.2)
"""The same of `balanced` where the user rests, and may wait for a suggestion."""

_RESTING_MS = 700
"""The shortest rest of the mode `resting`: longer than between two keys of a word, and than a glance at the screen."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """The rules for a question; by default there are none."""

    delay_ms: Natural = 0  # how long to rest after a key
    invoked: bool = False  # whether only requests by key are answered
    snoozed: bool = False  # the same, for as long as the user said
    lines: Natural = 0  # the most lines; 0: no limit
    min_characters: Natural = 0  # the fewest characters, without blanks
    deletions: bool = False  # whether nothing comes after a deletion
    show: Show = "eager"  # how sure the model must be
    begun: bool = False  # whether the user types along a shown suggestion, whose rest should not vanish
    rested: bool = False  # whether the user rests at the place
    comments: Where = "always"
    strings: Where = "always"
    prose: Where = "always"
    also_by_key: bool = False
    """Whether all of this holds for a key as well, because the client does not tell it from typing."""

    @property
    def silent(self) -> bool:
        """Whether nothing appears by itself at all."""
        return self.invoked or self.snoozed

    @property
    def limits(self) -> LeastChances:
        """How sure the model must be of what appears."""
        limits = RESTED if self.rested else LIMITS[self.show]
        return replace(limits, first=0.0, begun=True) if self.begun else limits

    @property
    def yields(self) -> bool:
        """Whether more appears once the user rests."""
        return self.show == "balanced" and not self.rested

    @property
    def by_region(self) -> bool:
        """Whether the kind of text around the cursor matters."""
        return {self.comments, self.strings, self.prose} != {"always"}

    def for_key(self) -> "Quiet":
        """The rules that also hold for a request by key: the places without any suggestion."""
        if self.also_by_key:
            return self
        never: dict[str, Any] = {one.name: "never" for one in fields(self) if getattr(self, one.name) == "never"}
        return Quiet(**never)

    def forbids(self, region: Region) -> bool:
        """Whether nothing is suggested in such text."""
        return {"comment": self.comments, "string": self.strings, "prose": self.prose}.get(region, "always") != "always"

    def is_short(self, text: str) -> bool:
        """Whether a text is too short to be worth showing; `eager` shows any, and the rest of a shown one stays."""
        fewest = FEWEST_SHOWN if self.limits.first > 0 else 0
        return len("".join(text.split())) < max(self.min_characters, fewest)


def quiet_of(settings: Settings, *, snoozed: bool = False) -> Quiet:
    """The rules that settings ask for."""
    resting = _RESTING_MS if settings.quiet_mode == "resting" else 0
    where: dict[str, Any] = {name: getattr(settings, f"where_{name}") for name in ("comments", "strings", "prose")}
    return Quiet(
        delay_ms=max(settings.quiet_delay_ms, resting),
        invoked=settings.quiet_mode == "invoked",
        snoozed=snoozed,
        lines=settings.quiet_lines,
        min_characters=settings.quiet_min_characters,
        deletions=settings.quiet_deletions,
        show=settings.quiet_show,
        **where,
    )


Clock = Callable[[], float]  # milliseconds since a moment that all processes of a machine share
MOST_ALTERNATIVES = 3  # candidates of an invoked request that a person still cycles through


@dataclass(frozen=True, slots=True)
class Policy:
    """How a request is treated; by default it gets one whole answer, without a deadline."""

    automatic_ms: BudgetMs = math.inf
    """The budget of a request while typing; 0: chosen from the machine's speed; infinite: none."""
    invoked_ms: BudgetMs = math.inf  # the budget of a request by key
    background_ms: BudgetMs = 0  # the budget of background work after a request
    ahead: bool = True  # whether to work before the next request
    alternatives: Annotated[int, Meta(ge=1, le=16)] = 1
    """The most candidates for an invoked request, the first included."""
    in_words: bool = True  # whether to suggest in the middle of words
    in_secrets: bool = True  # whether to suggest in text that looks like a secret
    rejections: Natural = 0
    quiet: Quiet = field(default_factory=Quiet)  # when suggestions that nobody asked for by key stay away


def policy_of(settings: Settings, *, on_battery: bool = False, snoozed: bool = False) -> Policy:
    """The policy that settings ask for, on this machine and at this moment."""
    return Policy(
        automatic_ms=settings.budget_automatic_ms,
        invoked_ms=settings.budget_invoked_ms,
        background_ms=settings.budget_background_ms,
        ahead=settings.power == "normal" or (settings.power == "auto" and not on_battery),
        alternatives=MOST_ALTERNATIVES,
        in_words=settings.where_middle_of_word,
        in_secrets=settings.where_secrets,
        rejections=settings.where_rejections,
        quiet=quiet_of(settings, snoozed=snoozed),
    )


class Question(Struct, frozen=True, tag_field="kind", tag="completion"):
    """A request on its way to the model; the other kind of question is `edits.values.EditQuestion`."""

    number: Natural  # counts questions of both kinds; later ones have higher numbers
    request: CompletionRequest
    place: CursorContext
    policy: Policy
    asked_ms: Moment  # its time on the service's clock
    opened_s: Moment  # its time on the clock of `observe.Spans`
    again: bool = False
    """Whether it asks by key once more where an interim text is shown: it waits for the whole prompt's text."""

    @property
    def uri(self) -> str:
        """The URI of the document."""
        return self.request.snapshot.uri

    @property
    def hurried(self) -> bool:
        """Whether the client types on while it waits: the request is not by key, and has a deadline."""
        return not self.request.invoked and self.request.snapshot.edited and math.isfinite(self.policy.automatic_ms)

    @property
    def candidates(self) -> int:
        """How many candidates are wanted."""
        return self.policy.alternatives if self.request.invoked else 1

    def under(self, quiet: Quiet) -> "Question":
        """The same question under other rules."""
        return structs.replace(self, policy=replace(self.policy, quiet=quiet))

    def asks(self, request: CompletionRequest) -> bool:
        """Whether `request` asks the same: a popup and ghost text at one place."""
        a, b = self.request.snapshot, request.snapshot
        same_text = a.uri == b.uri and a.version == b.version and a.text == b.text
        return same_text and replace(self.request, snapshot=b) == request

    def is_at(self, other: "Question") -> bool:
        """Whether both ask about the same place."""
        return self.uri == other.uri and self.place == other.place

    def renamed(self, uri: str) -> "Question":
        """The same question under the document's new name."""
        path = path_of(uri)
        snapshot = replace(self.request.snapshot, uri=uri, path=None if path is None else str(path))
        return structs.replace(self, request=replace(self.request, snapshot=snapshot))


class Answer(Struct, frozen=True, tag_field="kind", tag="completion"):
    """The model's answer to a question."""

    outcome: Short  # a field of `Statistics`: "shown", "empty" or "failed"
    candidates: tuple[CachedSuffix, ...]
    """Texts for the question's place, the likeliest first; none where nothing is worth showing."""
    finish: Short  # see `core.Completion.finish`
    reason: Reason | None = None  # why it is empty
    counts: Counts = Counts()
    ms: Mapping[str, float] = msgspec.field(default_factory=dict)  # milliseconds by span; empty without the model
    model: Short = ""
    engine: Short = ""
    trace: tuple[StepTrace, ...] = ()
    context: tuple[Short, ...] = ()

    @classmethod
    def failed(cls, status: Status | None) -> "Answer":
        """The answer to a failed question; `status` says why it failed."""
        return cls("failed", (), "error", reasons.failed(status or Status("error")))

    def to(self, request: CompletionRequest) -> Completion:
        """The completion for `request`."""
        return replace(
            answering(request, self.candidates, self.finish, self.ms)
            if self.candidates
            else nothing(request, self.finish, self.reason, self.ms),
            model=self.model,
            engine=self.engine,
            counts=self.counts,
            trace=self.trace,
            context=self.context,
        )


def place_of(request: CompletionRequest) -> CursorContext:
    """The text around the cursor of `request`."""
    text, selected = request.snapshot.text, request.selected
    if selected is None:
        return CursorContext(text[: request.offset], text[request.offset :])
    return CursorContext(text[: selected.start] + selected.text, text[selected.end :])


def nothing(
    request: CompletionRequest, finish: str, reason: Reason | None, ms: Mapping[str, float] | None = None
) -> Completion:
    """The empty answer; `finish` says why to programs, `reason` to people."""
    return Completion("", request.offset, request.offset, finish=finish, ms=ms or {}, reason=reason)


def answering(
    request: CompletionRequest, candidates: Sequence[CachedSuffix], finish: str, ms: Mapping[str, float]
) -> Completion:
    """The answer that inserts the first of `candidates`, the others beside it; replaces a selected popup entry."""
    first, *others = (_inserting(request, candidate, finish) for candidate in candidates)
    return replace(first, others=tuple(others), ms=ms)


def _inserting(request: CompletionRequest, candidate: CachedSuffix, finish: str) -> Completion:
    start, end, head = request.offset, request.offset, ""
    if request.selected is not None:
        start, end, head = request.selected.start, request.selected.end, request.selected.text
    return Completion(head + candidate.text, start, end + candidate.replaces, finish=finish, ended=candidate.finish)
