"""Parts of texts whose size a repository or a client chooses, for work that others wait for.

Modules that run on the event loop or on the model's thread split and search a whole document only through these
functions, whose time depends on the limits; `tests/core/test_bounded.py` finds the places.
"""

from typing import Final

NEAR: Final = 30_000  # characters on each side of a place


def near(text: str, at: int, reach: int = NEAR) -> tuple[int, str]:
    """The whole lines within `reach` characters of a place, and where they begin; a cut line is left out."""
    begin, end = max(at - reach, 0), min(at + reach, len(text))
    begin = text.find("\n", begin, at) + 1 or at if begin else 0
    end = text.rfind("\n", at, end) if end < len(text) else end
    return begin, text[begin : max(end, begin)]


def line_above(text: str, at: int, lines: int) -> int:
    """Where the line begins that is `lines` above the one that holds `at`."""
    start = text.rfind("\n", 0, at) + 1
    for _ in range(lines):
        if not start:
            break
        start = text.rfind("\n", 0, start - 1) + 1
    return start


def number_of_line(text: str, at: int) -> int:
    """The number of the line that holds `at`, from 0: one fast pass, half a millisecond a megabyte."""
    return text.count("\n", 0, at)
