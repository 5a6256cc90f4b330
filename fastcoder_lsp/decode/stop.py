r"""Stop rules: a completion ends with its line, statement or block, depending on the code around the cursor.

A rule is a pure function of the generated text, and monotone: once it returns a length, later text never changes it.
Every rule ends a text before a control character (`core.controls`), and before the line of one that is in a word.
Texts have `\n` line ends.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from fastcoder_lsp import syntax
from fastcoder_lsp.core.controls import Control, first_control
from fastcoder_lsp.syntax import MARKUP, indent, lex, width

BODY_LINES = 24  # most lines of a body that the line above opens: about a screenful
PARAGRAPH_LINES = 8  # most lines that continue a block: as many as people read before they accept
_OVERLONG = 3  # a single statement may be longer than the limit by this factor before it is cut after any line
_NEAR = 8000  # characters read on each side of the cursor, so that a rule costs the same in any file and on any line
_LINE_ENDS = re.compile(r"\n(?:[ \t]*\n){2}|\n(?:[ \t]*\n)?(?=[ \t]*[^\s])")  # and at most two empty lines
_NUMBERS = re.compile(r"(?:-?\d[\w.]*[ \t]*,\s*){15}-?\d(?P<last>[\w.]*)[ \t]*(?=,)")
"""As many numbers in a row as a person enters before the next pause; models count without end."""
_CLASS = re.compile(r"\s*(?:\w+\s+)*(?:class|struct|enum|interface|trait|impl|record|object|protocol|module)\b")
_CLOSING_TAG = re.compile(r"</[\w:.-]*>")
_LEAVES = re.compile(r"^\s*(return|raise|break|continue|throw|pass)\b")


class StopRule(Protocol):
    """Decides where a growing text ends."""

    def cut(self, text: str) -> int | None:
        """The length of `text` to keep, once its end is known; else None."""

    def follow(self) -> Callable[[str], int | None]:
        """`cut` for one text that grows from call to call; reads no line twice."""


@dataclass(frozen=True, slots=True)
class LineRule:
    """The rest of the line, and its line end if the model says one; `left`: the line up to the cursor.

    At the beginning of a line, empty lines below belong to it: the text then stands above the one right of the cursor.
    """

    left: str
    language: str

    def cut(self, text: str) -> int | None:
        """The length of the text up to its first line end or control character, once it is known."""
        line = text.partition("\n")[0]
        control = _control(text, 0, self.left, self.language)
        if control is not None and control.at <= len(line):
            return 0 if control.in_word else _cut_short(self.left, line[: control.at], self.language)
        if self.within:
            return len(line) + 1 if len(line) < len(text) else None
        end = _LINE_ENDS.match(text, len(line))
        return end and end.end()

    @property
    def within(self) -> bool:
        """Whether the cursor is within a line, not at its beginning."""
        return bool(self.left.strip())

    def follow(self) -> Callable[[str], int | None]:
        """See `StopRule`."""
        return self.cut


@dataclass(frozen=True, slots=True)
class BlockRule:
    """A statement with the block that it opens, the body of a block, or a block's next lines."""

    head: str  # the text from the start of the statement's line to the cursor, whose brackets count
    floor: int | None
    """Columns of the line that opened the block: lines indented no further are outside; None: not known yet."""
    goes_on: bool  # without a floor, whether the statement's own block goes on after it, at most to an empty line
    below: str  # the next line with text under the cursor; the completion ends before repeating it
    lines: int  # most lines
    language: str

    def cut(self, text: str) -> int | None:
        """The length up to the last line of the block, once a line follows that does not belong to it."""
        return self.follow()(text)

    def follow(self) -> Callable[[str], int | None]:
        """See `StopRule`."""
        opener = self.head.partition("\n")[0]
        bracketed = bool(lex(self.head, self.language).openers)
        return _BlockScan(self, self.floor, bracketed, self.floor is not None and _CLASS.match(opener) is not None).go


@dataclass(slots=True)
class _BlockScan:
    """One pass over the lines of a text; `kept` is the length up to the last line that belongs to the completion."""

    rule: BlockRule
    floor: int | None
    bracketed: bool  # the block was opened by a bracket of the statement, so the bracket's end is its end
    in_class: bool  # whether the block's statements are members
    start: int = 0  # the beginning of the first incomplete line, of which no state is kept
    waits: bool = False
    kept: int = 0
    count: int = 0
    base: int | None = None  # the indentation of the body's first line, in columns
    unit: int = 0  # the length up to the last line of the body before the one that its latest statement begins with
    ends_before: bool = False  # whether the block ends before the next definition at its own depth
    lead: int | None = None  # the length up to the comments and decorators that the last lines are, if they are
    blank: bool = False
    last: str = ""
    repeated: int = 0
    """How often in a row the last line was repeated; `unrepeated`: the length up to its first occurrence."""
    unrepeated: int = 0

    def go(self, text: str) -> int | None:
        rule = self.rule
        control, numbers = _control(text, self.start, rule.head, rule.language), _NUMBERS.search(text)
        if numbers is not None and (control is None or numbers.end() <= control.at):
            end = self._lines(text[: numbers.end()])
            return numbers.end("last") if end is None else end
        end = self._lines(text if control is None else text[: control.at])
        if end is None and control is not None:
            return self.kept if control.in_word else _cut_short(rule.head, text[: control.at], rule.language)
        return end

    def _lines(self, text: str) -> int | None:
        self.waits = False
        for line in text[self.start :].split("\n"):
            end = self.start + len(line)
            length = self.take(text, self.start, end)
            if length is not None or self.waits:
                return length
            self.start = end + 1
        return None

    def take(self, text: str, start: int, end: int) -> int | None:
        """Scan the line `text[start:end]`; returns the length to keep if the end is known, else sets `waits`."""
        whole = end < len(text)
        line = text[start:end] if start else self._first_line(text[:end])
        open_before = start > 0 and not lex(self.rule.head + text[: start - 1], self.rule.language).complete
        if start and self._closed_below(line):
            return self.kept
        if start and not open_before:
            outside = self._outside(line, whole=whole)
            if outside:
                return self.kept
            self.waits = outside is None
        if not whole or self.waits:
            self.waits = True
            return None
        if not line.strip():
            return self._take_blank(open_before=open_before, first=not start)
        return self._take_line(line, text[:end], end)

    def _first_line(self, said: str) -> str:
        """The cursor's line with `said`, which repeats the line's blanks unless it goes deeper for a block."""
        left = self.rule.head.rpartition("\n")[2]
        repeats = self.floor is None and not left.strip() and indent(said) == left
        return said if repeats else left + said

    def _closed_below(self, line: str) -> bool:
        """Whether `line` begins with the block's own end, which already follows the cursor."""
        sign = line.strip()[:1]
        return (
            bool(sign)
            and sign in ")]}"
            and self.rule.below.strip()[:1] == sign
            and self.floor == width(indent(line)) == width(indent(self.rule.below))
            and not self.rule.goes_on
        )

    def _outside(self, line: str, *, whole: bool) -> bool | None:
        """Whether a line is outside the completion; None while too little of it is known."""
        word, rule = line.strip(), self.rule
        if not word:
            return False
        if whole and word == rule.below.strip() and not _trivial(word):
            return True
        columns = width(indent(line))
        if self.floor is None or columns > self.floor:
            return False
        if not whole and (word.isidentifier() or word == "<" or syntax.closes_block(word)):
            return None
        own = columns == self.floor and not rule.goes_on
        return not (own and (syntax.continues_block(word) or syntax.closes_block(word)))

    def _take_blank(self, *, open_before: bool, first: bool) -> int | None:
        twice, self.blank = self.blank, True
        if first or open_before or not self.count:
            return None
        return self.kept if twice or self.rule.goes_on else None

    def _take_line(self, line: str, so_far: str, end: int) -> int | None:
        rule, self.blank = self.rule, False
        columns = width(indent(line))
        if self._loops(line, end):
            return self.unrepeated
        if (length := self._next_statement(line, so_far[: self.kept])) is not None:
            return length
        self.kept, self.count = end, self.count + 1
        if self.count >= rule.lines and self.unit:
            return self.unit
        if self.count >= _OVERLONG * rule.lines:
            return end
        if not lex(rule.head + so_far, rule.language).complete:
            self.bracketed = self.bracketed or self.floor is None
            return None
        if self.floor is None:
            return self._first_floor(line, so_far, end)
        if rule.goes_on:
            return end if columns == self.floor + 1 and _LEAVES.match(line) else None
        if self.bracketed:
            self.bracketed = False
            return None if syntax.opens_block(line, rule.language) else end
        closed = columns == self.floor and syntax.closes_block(line)
        return end if closed or (columns == self.base and _LEAVES.match(line)) else None

    def _next_statement(self, line: str, above: str) -> int | None:
        """The length up to a statement of the body that begins its second definition at `line`."""
        columns = width(indent(line))
        if columns == self.base and self._begins_statement(line, above):
            self.unit = self.kept
        if self.base is None and self.floor is not None and columns > self.floor:
            self.base = columns
        if columns != self.base:
            return None
        if syntax.is_comment(line, self.rule.language):
            self.lead = self.kept if self.lead is None else self.lead
            return None
        start, self.lead = self.kept if self.lead is None else self.lead, None
        defines = syntax.defines(line, self.rule.language)
        again = self.ends_before and defines
        self.ends_before = self.ends_before or defines or self.in_class
        return start if again else None

    def _begins_statement(self, line: str, above: str) -> bool:
        """Whether the statement above `line` is over where `line` stands at the body's own depth."""
        if self.rule.language in MARKUP and syntax.open_tags(above):
            return False
        return not (syntax.closes_block(line) or syntax.continues_block(line))

    def _loops(self, line: str, end: int) -> bool:
        if _trivial(line.strip()) or line.strip() != self.last:
            self.last, self.repeated, self.unrepeated = line.strip(), 0, end
            return False
        self.repeated += 1
        return self.repeated == 2

    def _first_floor(self, line: str, so_far: str, end: int) -> int | None:
        """Handle the statement's whole first line: it is the completion, opens a block, or continues one."""
        rule, self.bracketed = self.rule, False
        if not rule.head.strip() and syntax.is_comment(line, rule.language):
            return None
        statement = _first_with_text(self._first_line(so_far).split("\n"))
        columns = width(indent(statement))
        if rule.goes_on and columns:
            self.floor, self.base = columns - 1, columns
            self.ends_before = syntax.defines(statement, rule.language)
            return end if _LEAVES.match(line) else None
        if syntax.opens_block(line, rule.language):
            self.floor, self.in_class = columns, _CLASS.match(line) is not None
            return None
        return end


def stop_rule(before: str, after: str, language: str) -> StopRule:
    """The rule for a cursor between `before` and `after` in a document of `language` (an LSP language id).

    With text right of the cursor, other than closers, complete the rest of the line. At the end of a line that opens a
    block, and on an empty line under one, complete the block. At the end of another line, complete the statement, and
    if nothing follows in its block, also the block's next lines; the same holds on an empty line inside a block.
    """
    left = before[max(before.rfind("\n") + 1, len(before) - _NEAR) :]
    right = _CLOSING_TAG.sub("", after[:_NEAR].partition("\n")[0])
    if right.strip(" \t)]}>\"'`;,") or (left.strip() and _in_comment(left, language)):
        return LineRule(left, language)
    below = _first_with_text(after[:_NEAR].split("\n")[1:])
    above = _first_with_text(reversed(before[-_NEAR:].split("\n")[:-1]))
    opener, head = (left, left) if left.strip() else (above, f"{above}\n{left}")
    if syntax.opens_block(opener, language):
        floor = width(indent(opener))
        if not (below and width(indent(below)) > floor):
            return BlockRule(head, floor, goes_on=False, below=below, lines=BODY_LINES, language=language)
        if left.strip():
            return LineRule(left, language)
    columns = width(indent(left)) if left.strip() else max(width(left), width(indent(above)))
    goes_on = columns > 0 and (not left.strip() or not below or width(indent(below)) < columns)
    lines = PARAGRAPH_LINES if goes_on else BODY_LINES
    return BlockRule(left, None, goes_on=goes_on, below=below, lines=lines, language=language)


def _control(text: str, start: int, head: str, language: str) -> Control | None:
    return first_control(text, start, head, hyphens=language in MARKUP)


def _cut_short(head: str, text: str, language: str) -> int:
    """The length of `text`, which a control character ends, without a comment's bare marks at its end."""
    return max(len(syntax.without_bare_comment(head + text, language)) - len(head), 0)


def _in_comment(left: str, language: str) -> bool:
    return len(syntax.code_only(left, language)) < len(left.rstrip()) and syntax.is_comment(left, language)


def _trivial(line: str) -> bool:
    """Whether a line is so common in any file that its repetition means nothing."""
    return len(line) < 4 or syntax.closes_block(line)


def _first_with_text(lines: Iterable[str]) -> str:
    return next((line for line in lines if line.strip()), "")
