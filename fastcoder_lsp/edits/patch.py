"""Patches of whole lines: the difference that a change made, or an edit would make.

Two patches of one file, the second in the text after the first, can be composed without that text, which is how the
history finds undone changes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fastcoder_lsp.edits.values import Edit

NEAR_LINES: Final = 8
"""Changes with at most so many unchanged lines between them belong together (Zed, cursortab)."""


class Patch(NamedTuple):
    """From line `line` on, the lines `old` become `new`; lines have no ends."""

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    def trimmed(self) -> "Patch":
        """Without the lines that both sides begin or end with."""
        line, old, new = self
        most = min(len(old), len(new))
        first = next((number for number in range(most) if old[number] != new[number]), most)
        most -= first
        last = next((number for number in range(most) if old[-1 - number] != new[-1 - number]), most)
        return Patch(line + first, old[first : len(old) - last], new[first : len(new) - last])

    def meets(self, then: "Patch") -> bool:
        """Whether `then`, which follows, changes lines that this one wrote, or a place that it emptied."""
        low, high = max(self.line, then.line), min(self.line + len(self.new), then.line + len(then.old))
        return low < high or (low == high and not (self.new and then.old))

    def followed_by(self, then: "Patch") -> "Patch | None":
        """Both as one patch, not trimmed; None if they lie apart, or if other changes came between them."""
        low = min(self.line, then.line)
        own, later = self.line - low, then.line - low
        own_end, later_end = own + len(self.new), later + len(then.old)
        if max(own, later) > min(own_end, later_end):
            return None
        # The text between them: what this one wrote, and what `then` found.
        ours, theirs = self.new[max(later_end - own, 0) :], then.old[max(own_end - later, 0) :]
        between = (*self.new, *theirs) if own <= later else (*then.old, *ours)
        if between[own:own_end] != self.new or between[later:later_end] != then.old:
            return None
        return Patch(
            low,
            (*between[:own], *self.old, *between[own_end:]),
            (*between[:later], *then.new, *between[later_end:]),
        )

    def size(self) -> int:
        """Characters of both sides, with line ends."""
        return sum(map(len, self.old)) + sum(map(len, self.new)) + len(self.old) + len(self.new)

    def without(self, earlier: "Patch") -> "Patch":
        """This patch of another place, in the text before `earlier`."""
        return self._replace(line=max(self.line - earlier.grows, 0)) if earlier.line <= self.line else self

    @property
    def grows(self) -> int:
        """Lines that it adds."""
        return len(self.new) - len(self.old)

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing, once trimmed."""
        return not self.old and not self.new


def patches_of(text: str, edits: Sequence[Edit]) -> tuple[Patch, ...]:
    """The edits of `text`, in order and without overlaps, as patches in its lines; edits of one line are together."""
    groups: list[list[Edit]] = []
    stop = -1
    for edit in edits:
        if edit.start > stop:
            groups.append([])
        groups[-1].append(edit)
        end = text.find("\n", edit.end)
        stop = end if end >= 0 else len(text)
    return tuple(patch for group in groups if not (patch := _patch(text, group)).is_empty)


def _patch(text: str, edits: Sequence[Edit]) -> Patch:
    at = text.rfind("\n", 0, edits[0].start) + 1
    stop = text.find("\n", edits[-1].end)
    stop = stop if stop >= 0 else len(text)
    old, pieces, line = text[at:stop], [], text.count("\n", 0, at)
    for edit in edits:
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    new = "".join(pieces) + text[at:stop]
    return Patch(line, tuple(old.split("\n")), tuple(new.split("\n"))).trimmed()
