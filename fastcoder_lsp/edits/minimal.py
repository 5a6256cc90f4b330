"""The smallest edits that turn a region into its new text, and patches of whole lines.

Lines are compared by Myers' algorithm ("An O(ND) Difference Algorithm and Its Variations", 1986, section 4), with a
limit on D so that hostile texts cost little. Two patches of one file, the second in the text after the first, can be
composed without that text, which is how the history finds undone changes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fastcoder_lsp.core.differences import common_ends, whole_lines
from fastcoder_lsp.edits.values import MOST_EDITS, Edit

Hunk = tuple[int, int, int, int]
"""Items `[a, b)` of the old sequence become items `[c, d)` of the new one: `(a, b, c, d)`."""

MOST_DIFFERENCES = 128
"""Lines inserted and deleted together, beyond which one hunk covers everything between the common ends."""
GAP = 2  # hunks with at most so many unchanged lines between them are one edit


def line_hunks(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """The differences of two sequences of lines, in order; at least one unchanged line lies between two of them.

    With more than `MOST_DIFFERENCES` differences there is one hunk. Takes `O(ND)` comparisons, D ≤ `MOST_DIFFERENCES`.
    """
    head = _common(old, new, min(len(old), len(new)))
    tail = _common(old[::-1], new[::-1], min(len(old), len(new)) - head)
    kept = _matches(old[head : len(old) - tail], new[head : len(new) - tail])
    if kept is None:
        return [(head, len(old) - tail, head, len(new) - tail)]
    hunks, a, c = list[Hunk](), head, head
    for i, j in (*((head + i, head + j) for i, j in kept), (len(old) - tail, len(new) - tail)):
        if (a, c) != (i, j):
            hunks.append((a, i, c, j))
        a, c = i + 1, j + 1
    return hunks


def minimal(text: str, start: int, end: int, new: str) -> tuple[Edit, ...]:
    r"""The edits of `text` that turn the characters from `start` to `end` into `new`.

    An edit covers a group of changed lines, at most `GAP` unchanged ones apart, without the characters that its two
    sides have in common at their ends. It never splits a changed word, or `\r\n`. Equal arguments give equal edits.
    At most `MOST_EDITS`: the last one then covers the rest.
    """
    old_lines, new_lines = whole_lines(text[start:end]), whole_lines(new)
    edits, at, last = list[Edit](), start, 0
    for a, b, c, d in _grouped(line_hunks(old_lines, new_lines)):
        at += sum(map(len, old_lines[last:a]))
        changed, last = "".join(old_lines[a:b]), b
        edits.append(_trimmed(at, changed, "".join(new_lines[c:d])))
        at += len(changed)
    return tuple(edits)


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text after `edits`, which are in its order and do not overlap."""
    pieces, at = list[str](), 0
    for edit in edits:
        pieces += (text[at : edit.start], edit.text)
        at = edit.end
    return "".join((*pieces, text[at:]))


def _common(old: Sequence[str], new: Sequence[str], most: int) -> int:
    return next((at for at in range(most) if old[at] != new[at]), most)


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]] | None:
    """The pairs of equal lines on a shortest path from old to new; None beyond `MOST_DIFFERENCES`."""
    reached, trace = {1: 0}, list[dict[int, int]]()
    for differences in range(MOST_DIFFERENCES + 1):
        trace.append(reached)
        reached = dict(reached)
        for k in range(-differences, differences + 1, 2):
            down = k == -differences or (k != differences and reached[k - 1] < reached[k + 1])
            i = reached[k + 1] if down else reached[k - 1] + 1
            while i < len(old) and i - k < len(new) and old[i] == new[i - k]:
                i += 1
            reached[k] = i
            if i >= len(old) and i - k >= len(new):
                return _path(trace, len(old), len(new))
    return None


def _path(trace: Sequence[dict[int, int]], i: int, j: int) -> list[tuple[int, int]]:
    """The pairs on the path to `(i, j)`, in order."""
    pairs = list[tuple[int, int]]()
    for differences in range(len(trace) - 1, -1, -1):
        reached, k = trace[differences], i - j
        down = k == -differences or (k != differences and reached[k - 1] < reached[k + 1])
        before = k + 1 if down else k - 1
        from_i = reached[before]
        first = from_i if down else from_i + 1
        while i > first:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        i, j = from_i, from_i - before
    return pairs[::-1]


def _grouped(hunks: Sequence[Hunk]) -> list[Hunk]:
    groups = list[Hunk]()
    for a, b, c, d in hunks:
        if groups and (a - groups[-1][1] <= GAP or len(groups) == MOST_EDITS):
            groups[-1] = (groups[-1][0], b, groups[-1][2], d)
        else:
            groups.append((a, b, c, d))
    return groups


def _trimmed(at: int, old: str, new: str) -> Edit:
    head, tail = common_ends(old, new)
    if head + tail < min(len(old), len(new)):  # a replacement: whole words
        inner = (old[head], old[-1 - tail], new[head], new[-1 - tail])
        if any(map(_in_word, (inner[0], inner[2]))):
            while head and _in_word(old[head - 1]):
                head -= 1
        if any(map(_in_word, (inner[1], inner[3]))):
            while tail and _in_word(old[len(old) - tail]):
                tail -= 1
    if head and old[head - 1] == "\r" and "\n" in (old[head : head + 1], new[head : head + 1]):
        head -= 1
    if tail and old[len(old) - tail] == "\n" and "\r" in (old[len(old) - tail - 1], new[len(new) - tail - 1]):
        tail -= 1
    return Edit(at + head, at + len(old) - tail, new[head : len(new) - tail])


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


NEAR_LINES: Final = 8  # changes with at most so many unchanged lines between them belong together (Zed, cursortab)


class Patch(NamedTuple):
    """From line `line` on, the lines `old` become `new`; lines have no ends."""

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    def trimmed(self) -> "Patch":
        """Without the lines that both sides begin or end with."""
        line, old, new = self
        first = _common(old, new, min(len(old), len(new)))
        last = _common(old[::-1], new[::-1], min(len(old), len(new)) - first)
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
            low, (*between[:own], *self.old, *between[own_end:]), (*between[:later], *then.new, *between[later_end:])
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
