"""What a replay writes down: every request of a session, and the server's work.

Values only; `figures` makes sense of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["shown", "empty", "cancelled"]
Flaw = Literal["", "marks", "wrong marks", "longer word"]
"""What is wrong with a text that is shown: see `flaws`."""
TYPED_THROUGH = "typed-through"
"""How the server names an answer that it gave without the model."""


@dataclass(frozen=True, slots=True)
class KeyPosition:
    """Before key `key` of the typed run `run`, everything before it being there."""

    run: int
    key: int


@dataclass(frozen=True, slots=True)
class Request:
    """One automatic request and what became of it.

    Attributes:
        place: where; None while the text is not what the history has (a wrong rest is not deleted yet).
        through: whether the key before it was the next character of the suggestion then shown.
        outcome: what became of it.
        ms: until the answer; of a cancelled one, its age then.
        finish: why decoding ended, as the server told of its answer, and so the rest.
        parts: span → ms.
        steps: forward passes.
        tokens: tokens of the output.
        prefilled: prompt tokens that were computed.
        flaw: of the text that is shown.
    """

    place: KeyPosition | None
    through: bool
    outcome: Outcome
    ms: float
    finish: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0
    tokens: int = 0
    prefilled: int = 0
    flaw: Flaw = ""

    @property
    def by_model(self) -> bool:
        """Whether it shows text that the model made for it, or for the one before."""
        return self.outcome == "shown" and self.finish != TYPED_THROUGH


@dataclass(frozen=True, slots=True)
class ServerWork:
    """The server's counts, from its start or between two moments; `mechanisms`: name → count."""

    steps: int = 0
    tokens: int = 0
    prefilled: int = 0
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    mechanisms: Mapping[str, int] = field(default_factory=dict)

    def since(self, before: "ServerWork") -> "ServerWork":
        """What was done after `before`."""
        return ServerWork(
            self.steps - before.steps,
            self.tokens - before.tokens,
            self.prefilled - before.prefilled,
            _less(self.accepted_by_source, before.accepted_by_source),
            _less(self.mechanisms, before.mechanisms),
        )


@dataclass(frozen=True, slots=True)
class Played:
    """One session: a drafter at a speed.

    Attributes:
        requests: all requests.
        work: the server's after each request.
        typed: keys that were typed.
        saved: keys that accepts made unnecessary.
        accepts: times that Tab was pressed.
        budget_ms: what an automatic request had.
        cpu_s: the server's processor time while typing.
        wall_s: the time by the clock while typing.
        memory_bytes: the server's resident memory at the end.
        server: what the server says of itself.
    """

    requests: tuple[Request, ...]
    work: tuple[ServerWork, ...]
    typed: int
    saved: int
    accepts: int
    budget_ms: float
    cpu_s: float
    wall_s: float
    memory_bytes: int
    server: Mapping[str, Any] = field(default_factory=dict)


def read_server_work(stats: Mapping[str, Any]) -> ServerWork:
    """The counts of a `fastcoder/stats` answer."""
    requests = stats["requests"]
    told = {
        name: requests[name]
        for name in ("adopted", "background", "ahead", "budgeted", "budgeted_empty", "alternatives")
    }
    suppressed = sum(stats.get("suppressed", {}).values())
    return ServerWork(
        requests["steps"],
        requests["tokens"],
        requests["prefilled"],
        stats["accepted_by_source"],
        told | {"suppressed": suppressed},
    )


def _less(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in now.items()}
