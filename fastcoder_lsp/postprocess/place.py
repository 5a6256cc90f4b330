"""The text around a cursor, cut the ways that post-processing looks at it."""

import re
from dataclasses import dataclass

NEAR = 8000
"""Characters before and after the cursor that are looked at for brackets; a function and its class, as a rule."""
_UNINDENTED = re.compile(r"\n(?=\w)")
_LINE_END = re.compile(r"\n")
CLOSERS = ")]}>\"'`;,"


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor between `before` and `after` in a document of `language`."""

    before: str
    after: str
    language: str

    @property
    def left(self) -> str:
        """The cursor's line up to the cursor."""
        return self.before.rpartition("\n")[2]

    @property
    def right(self) -> str:
        """The cursor's line from the cursor."""
        return self.after.partition("\n")[0]

    @property
    def near_before(self) -> str:
        """Whole lines before the cursor, from an unindented one on where there is one."""
        if len(self.before) <= NEAR:
            return self.before
        near = self.before[-NEAR:]
        start = _UNINDENTED.search(near) or _LINE_END.search(near)
        return near[start.end() :] if start else near

    @property
    def above(self) -> str:
        """The nearest line above the cursor's that has text, or ""."""
        return next((line for line in reversed(self.before[-NEAR:].split("\n")[:-1]) if line.strip()), "")

    @property
    def below(self) -> list[str]:
        """The lines under the cursor's."""
        return self.after[:NEAR].split("\n")[1:]

    @property
    def closing(self) -> str:
        """What stands right of the cursor, if it is nothing but closers and blanks, as editors put it there."""
        right = self.right.rstrip()
        return right if right and not right.strip(CLOSERS + " \t") else ""
