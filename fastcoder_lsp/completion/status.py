"""What the service tells about itself: plain values for a status bar and a statistics panel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["starting", "loading", "ready", "thinking", "off", "error"]


@dataclass(frozen=True, slots=True)
class Status:
    """What the service is doing; `percent` while loading; `message` and `hint` say what is wrong and what to do."""

    state: State
    percent: int | None = None
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts since the start, and times.

    `requests` = `shown` + `empty` + `typed_through` + `superseded` + `cancelled` + `failed` + those still open.
    `accepted_by_source`: `accepted_drafts` by who guessed them. `ms`: span → {p50, p95}; `resident_bytes`: memory of
    this process.
    """

    model: str = ""
    engine: str = ""
    requests: int = 0
    shown: int = 0
    empty: int = 0
    typed_through: int = 0
    superseded: int = 0
    cancelled: int = 0
    failed: int = 0
    steps: int = 0
    tokens: int = 0
    accepted_drafts: int = 0
    prefilled: int = 0
    reused: int = 0
    resident_bytes: int = 0
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
