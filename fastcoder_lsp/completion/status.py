"""The service's reports about itself: plain values for a status bar and a statistics panel."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from fastcoder_lsp.core.bounds import Short
from fastcoder_lsp.errors import FAULT_HINT, FastcoderError, MemoryShortError, understood

logger = logging.getLogger(__name__)

State = Literal["starting", "loading", "ready", "thinking", "off", "error"]
_LONGEST = 300  # how many characters of an exception's text a status shows
_HINT = "The server tries again. To find the cause, read the log or run `fastcoder-lsp doctor`."


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the service."""

    state: State
    percent: Annotated[int, Meta(ge=0, le=100)] | None = None
    message: Short = ""
    hint: Short = ""
    exhausted: bool = False  # this process has no memory left; another one may have


def failure(what: str, error: BaseException) -> Status:
    """The status for an exception: its own text, or, for an unexpected one (logged), that `what` failed."""
    if isinstance(error, FastcoderError):
        return Status("error", message=error.message, hint=error.hint)
    logger.error(what, exc_info=error)
    known = understood(error)
    if known.hint != FAULT_HINT:
        return Status("error", None, f"{what}: {known.message}", known.hint, isinstance(known, MemoryShortError))
    said = " ".join(str(error).split())
    kind = type(error).__name__
    told = f"{kind}: {said}" if said else kind
    return Status("error", message=f"{what}: {told[:_LONGEST]}", hint=_HINT)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts since the start, and times.

    `requests` is the sum of `shown`, `empty`, `typed_through`, `superseded`, `cancelled`, `failed` and those that are
    still open. `steps`, `tokens`, `accepted_drafts`, `prefilled`, `reused` and `prefill_ms` count all work.
    """

    model: str = ""
    engine: str = ""
    requests: int = 0
    shown: int = 0
    empty: int = 0
    typed_through: int = 0  # answered by the rest of an earlier suggestion
    superseded: int = 0  # replaced by a newer request
    cancelled: int = 0  # withdrawn by the client
    failed: int = 0
    steps: int = 0
    tokens: int = 0
    accepted_drafts: int = 0
    prefilled: int = 0
    reused: int = 0  # prompt tokens found in the KV cache
    prefill_ms: float = 0.0
    budgeted: int = 0  # shown answers that the budget cut short
    budgeted_empty: int = 0  # empty answers that had no whole line at their deadline
    adopted: int = 0  # requests that continued a running generation
    background: int = 0  # generations finished in the background
    ahead: int = 0  # prompts and completions made before a request
    alternatives: int = 0  # candidates beside the first
    resident_bytes: int = 0  # memory of the model's process
    suppressed: Mapping[str, int] = field(default_factory=dict)
    """Empty answers by the rule that suppressed a suggestion."""
    budget_ms: Mapping[str, float] = field(default_factory=dict)
    """The budgets of requests by kind ("automatic", "invoked", "background"), once known."""
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds of the scheduler's work for this client, by `observe.Cause`."""
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)  # `accepted_drafts` by draft source
    ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # span → {p50, p95}
