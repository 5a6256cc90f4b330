"""The columns where Python statements may begin: those of the blocks open above them.

Other columns are what the interpreter calls an unexpected indent, or an unindent that matches no outer level. Comments,
empty lines and continuation lines may begin anywhere.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fastcoder_lsp.syntax import CLOSER_OF, Lexed, indent, width


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks open below a line, by the columns of their statements, ascending; empty before the first statement.

    `opened`: that line opens another block, whose statements are deeper than all of these.
    """

    columns: tuple[int, ...] = ()
    opened: bool = False

    def allow(self, column: int) -> bool:
        """Whether the next statement may begin at `column`."""
        if not self.columns:
            return True
        return column > self.columns[-1] if self.opened else column in self.columns

    def after(self, column: int, *, opens: bool) -> "Blocks":
        """The blocks below a statement at `column`."""
        outer = self.columns[: bisect_left(self.columns, column)]
        return Blocks((*outer, column), opens)


def blocks_below(code: str, lexed: Lexed) -> Blocks | None:
    """The blocks open below the last line of `code`; None if that line's statement continues below it."""
    if lexed.stack or lexed.quote or code.rstrip(" \t\n").endswith("\\"):
        return None
    starts = list(_statements(code, lexed))
    columns: tuple[int, ...] = ()
    for _, column in starts:
        columns = (*columns[: bisect_left(columns, column)], column)
    return Blocks(columns, bool(starts) and _opens(code, lexed, len(code)))


def stand(blocks: Blocks, code: str, lexed: Lexed, start: int, below: int | None) -> bool:
    """Whether statements after `start`, a line's start below `blocks`, and the one `below` are at allowed columns."""
    starts = [one for one in _statements(code, lexed) if one[0] >= start]
    ends = [at for at, _ in starts[1:]]
    for (_, column), end in zip(starts, [*ends, len(code)], strict=False):
        if not blocks.allow(column):
            return False
        blocks = blocks.after(column, opens=_opens(code, lexed, end))
    return below is None or bool(lexed.stack) or blocks.allow(below)


def _statements(code: str, lexed: Lexed) -> Iterator[tuple[int, int]]:
    """(offset, column) of the lines that begin a statement."""
    inside = sorted([*lexed.spans, *_bracketed(lexed, len(code))])
    at = start = reach = 0
    for line in code.split("\n"):
        while at < len(inside) and inside[at][0] < start:
            reach, at = max(reach, inside[at][1]), at + 1
        word = line.lstrip()
        if reach <= start and word and word[0] != "#" and not code.endswith("\\\n", 0, start):
            yield start, width(indent(line))
        start += len(line) + 1


def _bracketed(lexed: Lexed, end: int) -> Iterable[tuple[int, int]]:
    """The ranges between brackets; those still open reach to `end`."""
    stack: list[tuple[int, str]] = []
    for at, sign in lexed.signs:
        if sign in CLOSER_OF:
            stack.append((at, sign))
        elif stack and CLOSER_OF[stack[-1][1]] == sign:
            yield stack.pop()[0], at
    yield from ((at, end) for at, _ in stack)


def _opens(code: str, lexed: Lexed, end: int) -> bool:
    ends = {end_of: begin for begin, end_of in lexed.spans}
    while True:
        end = len(code[:end].rstrip())
        begin = ends.get(end)
        if begin is None:
            return code.endswith(":", 0, end)
        if code[begin] != "#":
            return False
        end = begin
