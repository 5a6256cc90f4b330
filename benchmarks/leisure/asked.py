"""What was asked at one place, and what all places come to: pure arithmetic."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """One place.

    Attributes:
        path: the file.
        offset: the character that was asked at.
        rest: what the line goes on with.
        text: what the server showed first; "" where that was nothing.
        seconds: until then, or until it was given up.
        rested: what it showed after the rest.
        complete: what `complete` says there.
    """

    path: str
    offset: int
    rest: str
    text: str
    seconds: float
    rested: str
    complete: str

    @property
    def exact(self) -> bool:
        """Whether the first line is what the line goes on with."""
        return first_line(self.text) == self.rest.rstrip()

    @property
    def agrees(self) -> bool:
        """Whether the editor's first line is that of `complete`, nothing being one, too."""
        return first_line(self.rested) == first_line(self.complete)

    def to_json(self) -> dict[str, Any]:
        """The place, for a report."""
        return asdict(self) | {"exact": self.exact, "agrees": self.agrees}


def first_line(text: str) -> str:
    """The first line, without blanks at its end."""
    return text.partition("\n")[0].rstrip()


def summed(places: Sequence[Asked]) -> dict[str, Any]:
    """The figures of at least one place."""
    return {
        "places": len(places),
        "exact": sum(place.exact for place in places),
        "empty": sum(not place.text for place in places),
        "median_s": statistics.median(place.seconds for place in places),
        "parity": sum(place.agrees for place in places) / len(places),
    }
