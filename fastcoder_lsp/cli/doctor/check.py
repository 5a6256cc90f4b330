"""One check of `doctor`, and how it is printed. A check that fails itself is a finding."""

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fastcoder_lsp.errors import understood


@dataclass(frozen=True, slots=True)
class Check:
    """A finding. `state`: "ok", "note" (works, worth knowing) or "wrong"; `hint`: what to do about it."""

    name: str
    state: str
    text: str
    hint: str = ""
    details: dict[str, object] = field(default_factory=dict)


def attempt(name: str, look: Callable[[], Check | Iterable[Check]]) -> Iterator[Check]:
    """The findings of a check; an exception is a finding too."""
    try:
        found = look()
        yield from [found] if isinstance(found, Check) else found
    except Exception as error:  # noqa: BLE001 doctor is what people run when something fails
        if os.environ.get("FASTCODER_TRACEBACK"):
            traceback.print_exception(error)
        explained = understood(error)
        yield Check(name, "wrong", explained.message, explained.hint)


def show(check: Check) -> None:
    """A line, and the hint below it."""
    mark = {"ok": "✓", "note": "•", "wrong": "✗"}[check.state]
    first, *others = check.text.split("\n")
    print(f"{mark} {check.name:13} {first}", *(f"{'':16}{line}" for line in others), sep="\n")
    if check.hint:
        print(f"{'':16}→ {check.hint}")
