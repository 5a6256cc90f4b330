"""The user's repeated change, made at other places of the document: next edits without a model.

A replacement of tokens that the user made in two changes, the last one among them, is proposed where the line is like
one of those that they changed; `bench edits --replay` measures how much must be alike. The work is bounded, since a
client may send any text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fastcoder_lsp.core import Change
from fastcoder_lsp.edits.minimal import NEAR_LINES, line_hunks
from fastcoder_lsp.edits.values import Edit, EditQuestion
from fastcoder_lsp.syntax import lex

SOURCE: Final = "analogy"  # the source of an `EditAnswer` with these edits
LIKENESS: Final = 5
"""Points that a place needs: one for each token beside the replacement that is also beside one of the user's."""
BARE_LIKENESS: Final = 7  # the same where no word is replaced: insertions, and changes of punctuation
_MOST_BESIDE: Final = 6  # tokens on a side that give points
_WHOLE_SIDE: Final = 2  # more points for a side of the line that is the same as a whole
_MOST_CHANGES: Final = 16  # latest changes that are compared
_MOST_LINES: Final = 64  # changed lines of them that are compared
_MOST_DIFFERENT: Final = 60  # tokens, old and new, between the common ends of a line: with more it is another line
_MOST_TEXT: Final = 1_000_000  # characters of a document
_MOST_PLACES: Final = 1_000  # occurrences of the old tokens that are looked at
_MOST_LINE: Final = 1_000  # characters on each side of a place that are compared
_TOKEN: Final = re.compile(r"\w+|[^\S\n]+|[^\w\s]|\n")
_WORD: Final = re.compile(r"[^\W\d]\w")


class MadePlace(NamedTuple):
    """A place of a replacement in line `line` of `path` as it is now, with the line's tokens on both sides."""

    change: int
    path: str
    line: int
    left: tuple[str, ...]
    right: tuple[str, ...]

    def likeness(self, left: Sequence[str], right: Sequence[str]) -> int:
        """How like the line of another place is, whose tokens are `left` and `right`."""
        return _alike(self.left[::-1], left[::-1]) + _alike(self.right, right)


@dataclass(frozen=True, slots=True)
class RepeatedChange:
    """The tokens `old` became `new` at `examples`."""

    old: str
    new: str
    examples: tuple[MadePlace, ...]


def analogous(question: EditQuestion) -> tuple[Edit, ...]:
    """The user's repeated changes near the cursor, without overlaps; empty where no place is certain enough."""
    if len(question.text) > _MOST_TEXT:
        return ()
    found = [edit for one in repeated(question.history) for edit in places(question, one)]
    if not found:
        return ()
    nearest = min(found, key=lambda edit: abs(edit.start - question.offset)).start
    near, end = list[Edit](), 0
    for edit in sorted(found, key=lambda edit: (edit.start, edit.end)):
        between = question.text.count("\n", *sorted((edit.start, nearest)))
        if edit.start >= end and between <= NEAR_LINES:
            near.append(edit)
            end = edit.end + 1
    return tuple(near)


def repeated(history: Sequence[Change]) -> list[RepeatedChange]:
    """The replacements that the last change of `history` made, and an earlier one, too."""
    examples: dict[tuple[str, str], list[MadePlace]] = {}
    lines = 0
    for number in range(len(history) - 1, max(len(history) - 1 - _MOST_CHANGES, -1), -1):
        for line, old, new in _changed_lines(history, number):
            lines += 1
            if lines > _MOST_LINES:
                break
            for before, after, left, right in _replaced(old, new):
                if number == len(history) - 1 or (before, after) in examples:
                    example = MadePlace(number, history[number].path, line, left, right)
                    examples.setdefault((before, after), []).append(example)
    return [
        RepeatedChange(old, new, tuple(of))
        for (old, new), of in examples.items()
        if len({one.change for one in of}) > 1
    ]


def places(question: EditQuestion, replacement: RepeatedChange) -> list[Edit]:
    """Where else the question's text wants the replacement, in its order.

    A place that the user passed over, between two that they changed, is left out; so is one in a string or comment,
    unless one that they changed is in one, too.
    """
    text, old = question.text, replacement.old
    needed = LIKENESS if _WORD.search(old) else BARE_LIKENESS
    own = [one for one in replacement.examples if one.path == question.path]
    first, last = (min(one.line for one in own), max(one.line for one in own)) if own else (1, 0)
    found = list[int]()
    line, counted = 0, 0
    for at in _occurrences(text, replacement):
        line, counted = line + text.count("\n", counted, at), at
        left, right = _beside(text, at, at + len(old))
        if not first <= line <= last and any(one.likeness(left, right) >= needed for one in replacement.examples):
            found.append(at)
    if not found:
        return []
    spans = lex(text, question.language).spans
    if not any(_quoted(text, spans, one) for one in own):
        found = [at for at in found if not _in_span(spans, at)]
    return [Edit(at, at + len(old), replacement.new) for at in found]


def _changed_lines(history: Sequence[Change], number: int) -> Iterator[tuple[int, str, str]]:
    """(line in the file as it is now, old, new) of the changed lines; several lines where their numbers differ."""
    change = history[number]
    now = change.line
    for later in history[number + 1 :]:
        if later.path == change.path and later.line <= now:
            now = max(now + later.new.count("\n") - later.old.count("\n"), 0)
    old, new = change.old.splitlines(keepends=True), change.new.splitlines(keepends=True)
    for a, b, c, d in line_hunks(old, new):
        if b - a == d - c:
            yield from ((now + line, old[a - c + line], new[line]) for line in range(c, d))
        elif a < b and c < d:
            yield now + c, "".join(old[a:b]), "".join(new[c:d])


def _replaced(old: str, new: str) -> Iterator[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """(old, new, tokens left of it, tokens right of it) of each replacement in a line."""
    tokens, after = _TOKEN.findall(old), _TOKEN.findall(new)
    hunks = line_hunks(tokens, after)
    if not hunks or hunks[-1][1] - hunks[0][0] + hunks[-1][3] - hunks[0][2] > _MOST_DIFFERENT:
        return
    if len({(*tokens[a:b], "→", *after[c:d]) for a, b, c, d in hunks}) > 1:  # parts of one replacement
        hunks = [(hunks[0][0], hunks[-1][1], hunks[0][2], hunks[-1][3])]
    for a, b, c, d in hunks:
        before, then = "".join(tokens[a:b]), "".join(after[c:d])
        if "\n" not in before + then and (before + then).strip():
            left, right = tokens[:a], tokens[b:]
            if "\n" in left:
                left = left[len(left) - left[::-1].index("\n") :]
            yield before, then, tuple(left), tuple(right[: right.index("\n")] if "\n" in right else right)


def _occurrences(text: str, replacement: RepeatedChange) -> Iterator[int]:
    old, new = replacement.old, replacement.new
    ends = {("", "")}
    if not _WORD.search(old):  # punctuation, or an insertion: with a token on each side
        ends = {("".join(one.left[-1:]), "".join(one.right[:1])) for one in replacement.examples}
    anchors = "|".join(
        f"(?<={re.escape(before)}){_whole(re.escape(old), old)}(?={re.escape(after)})" for before, after in sorted(ends)
    )
    inside = [found.start() for found in re.finditer(f"(?={re.escape(old)})", new)]
    for number, found in enumerate(re.finditer(anchors, text)):
        at = found.start()
        if number >= _MOST_PLACES:
            return
        if not any(at >= before and text.startswith(new, at - before) for before in inside if new):
            yield at


def _whole(pattern: str, old: str) -> str:
    head = r"(?<!\w)" if old[:1].isalnum() or old[:1] == "_" else ""
    tail = r"(?!\w)" if old[-1:].isalnum() or old[-1:] == "_" else ""
    return f"{head}{pattern}{tail}"


def _beside(text: str, start: int, end: int) -> tuple[list[str], list[str]]:
    """The tokens of a line on the two sides of a place."""
    first = max(text.rfind("\n", 0, start) + 1, start - _MOST_LINE)
    last = text.find("\n", end, end + _MOST_LINE)
    last = last if last >= 0 else min(end + _MOST_LINE, len(text))
    return _TOKEN.findall(text[first:start]), _TOKEN.findall(text[end:last])


def _alike(side: Sequence[str], other: Sequence[str]) -> int:
    most = min(len(side), len(other))
    same = next((at for at in range(most) if side[at] != other[at]), most)
    points = sum(not token.isspace() for token in side[:same])
    return min(points, _MOST_BESIDE) + (_WHOLE_SIDE if same == len(side) == len(other) else 0)


def _quoted(text: str, spans: Iterable[tuple[int, int]], example: MadePlace) -> bool:
    at = -1
    for _ in range(example.line):
        at = text.find("\n", at + 1)
    return _in_span(spans, at + 1 + sum(map(len, example.left)))


def _in_span(spans: Iterable[tuple[int, int]], at: int) -> bool:
    return any(start <= at < end for start, end in spans)
