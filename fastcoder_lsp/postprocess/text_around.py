"""The text around a cursor, cut to a bounded part and lexed once for all rules of post-processing.

`Blocks` are the columns where Python statements may begin: other ones are the interpreter's "unexpected indent" and
"unindent does not match". Comments, empty lines and continuation lines may begin anywhere.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from fastcoder_lsp.syntax import CLOSER_OF, KNOWN, MARKUP, Lexed, code_only, indent, lex, opens_block, width


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks open below a line, by the columns of their statements, ascending; empty before the first statement."""

    columns: tuple[int, ...] = ()
    opened: bool = False  # that line opens another block, whose statements are deeper than all of these

    def allow(self, column: int) -> bool:
        """Whether the next statement may begin at `column`."""
        if not self.columns:
            return True
        return column > self.columns[-1] if self.opened else column in self.columns

    def after(self, column: int, *, opens: bool) -> "Blocks":
        """The blocks below a statement at `column`."""
        outer = self.columns[: bisect_left(self.columns, column)]
        return Blocks((*outer, column), opens)


def blocks_below(code: str, lexed: Lexed, language: str) -> Blocks | None:
    """The blocks open below the last line of `code`; None if that line's statement continues below it."""
    if lexed.quote or lexed.comment or any(_holds(sign, language) for _, sign in lexed.stack):
        return None
    if code.rstrip(" \t\n").endswith("\\" if language == "python" else CONTINUED):
        return None
    blocks = Blocks()
    for _, column in _statements(code, lexed, language):
        blocks = blocks.after(column, opens=False)
    return replace(blocks, opened=bool(blocks.columns) and _opens(code, len(code), language))


def stand(text: str, blocks: Blocks, around: "TextAround") -> bool:
    """Whether the statements of `text`, at the cursor below `blocks`, and the one below are at allowed columns."""
    code, lexed, start = around.near_before + text, around.lexed_with(text), len(around.near_before) - len(around.left)
    starts = [one for one in _statements(code, lexed, around.language) if one[0] >= start]
    ends = [at for at, _ in starts[1:]]
    for (_, column), end in zip(starts, [*ends, len(code)], strict=False):
        if not blocks.allow(column):
            return False
        blocks = blocks.after(column, opens=_opens(code, end, around.language))
    below = around.statement_below
    return below is None or bool(lexed.stack) or blocks.allow(below)


def _holds(sign: str, language: str) -> bool:
    """Whether what stands behind the open bracket `sign` belongs to its statement; a block in braces does not."""
    return sign != "{" or language == "python"


def _statements(code: str, lexed: Lexed, language: str) -> Iterator[tuple[int, int]]:
    """(offset, column) of the lines that begin a statement."""
    inside = sorted([*lexed.spans, *_bracketed(lexed, len(code), language)])
    at = start = reach = 0
    for line in code.split("\n"):
        while at < len(inside) and inside[at][0] < start:
            reach, at = max(reach, inside[at][1]), at + 1
        word = line.lstrip()
        if reach <= start and word and word[0] != "#" and not code.endswith("\\\n", 0, start):
            yield start, width(indent(line))
        start += len(line) + 1


def _bracketed(lexed: Lexed, end: int, language: str) -> Iterable[tuple[int, int]]:
    """The ranges between brackets that hold no block; those still open reach to `end`."""
    stack: list[tuple[int, str]] = []
    for at, sign in lexed.signs:
        if sign in CLOSER_OF:
            stack.append((at, sign))
        elif stack and CLOSER_OF[stack[-1][1]] == sign:
            begin, opener = stack.pop()
            if _holds(opener, language):
                yield begin, at
    yield from ((at, end) for at, sign in stack if _holds(sign, language))


def _opens(code: str, end: int, language: str) -> bool:
    """Whether the last line of `code` before `end` that is no comment opens a block."""
    while True:
        above, _, line = code[:end].rstrip().rpartition("\n")
        if not above or code_only(line, language).strip():
            return opens_block(line, language)
        end = len(above)


NEAR = 8000  # characters before and after the cursor whose lines are read
FAR = 32_000  # characters before and after the cursor that are read for brackets, about 5 ms each
CONTINUED = (",", "\\", "+", "-", "*", "/", "=", "|", "&", ".", "?", "(", "[", ">")
"""Signs at the end of a line below which its statement may continue at any depth."""
_CLOSER = re.compile(
    r"</[\w:.-]*>|/>|\"{3}|'{3}|''|\*\*|~~|\$\$|[-~]?[%#]\}|[%?]>|-->|\*/|[)\]}>\"'`|$*_]"
)  # signs that editors insert behind the cursor, and that end what was opened left of it
_PAIR = re.compile(r"\(\)|\[\]|\{\}")
SYMMETRIC = frozenset({'"""', "'''", "''", "**", "~~", "$$", '"', "'", "`", "|", "$", "*", "_"})
"""Closers that equal what they close."""
_IN_PROSE = frozenset({"**", "~~", "$$", "$", "*", "_"})
OPENED = {"*/": "/*", "-->": "<!--"}
"""Closers of comments, with what they close."""
_OPEN_ANGLE, _CLOSED_ANGLE = re.compile(r"<(?![\s=<-])|<$"), re.compile(r"(?<![-=\s])>")
_MOST_CLOSERS = 200
_UNINDENTED = re.compile(r"\n(?=[\w@#/])")
_LINE_END = re.compile(r"\n")
_WORD = re.compile(r"\w+")
_CODE_LINE = re.compile(
    r"^[ \t]*(?:def|class|return|import|from|if|for|while|elif|else|try|except|self|with|raise|assert|const|let|var|"
    r"function|export|func|type|package|pub|fn|impl|use|struct|enum|await|async|switch|case|throw|new)\b",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Closers:
    """The closers right of the cursor, up to other text: each sign, and its end in the text right of the cursor."""

    signs: list[str]
    ends: list[int]


class TextAround:
    """A cursor between `before` and `after` in a document of `language`.

    Attributes:
        indentation: one level of indentation where the document shows none; "" if that is unknown.
        closing: the text right of the cursor if it is only closers and blanks, as editors insert them.
        below: the near lines below the cursor's.
        near_before: the part that is read before the cursor, whole lines if possible.
        whole_before: whether that is all; `whole_after`: whether all text after the cursor is read.
    """

    def __init__(self, before: str, after: str, language: str, indentation: str = "") -> None:
        self.language, self.indentation = language, indentation
        self.left = before[before.rfind("\n") + 1 :]  # the cursor's line up to the cursor
        end = after.find("\n")
        self.right = after if end < 0 else after[:end]  # the cursor's line from the cursor
        self.below = [] if end < 0 else _whole_lines(after[end + 1 : end + 1 + NEAR], len(after) - end - 1 <= NEAR)
        self.near_before, self.whole_before = _near_before(before, language)
        self.whole_after = len(after) <= FAR
        self.near_after = after[:FAR]
        self.lexed_with = lru_cache(8)(self._lexed_with)  # of the text and its beginnings, for all rules

    @cached_property
    def closers(self) -> Closers:
        """The closers right of the cursor, up to other text."""
        right, found = self.right[:_MOST_CLOSERS], Closers([], [])
        while True:
            at = found.ends[-1] if found.ends else 0
            at += len(right[at:]) - len(right[at:].lstrip(" \t"))
            sign = _CLOSER.match(right, at)
            if sign is None or not self._closes(sign[0]):
                sign = _PAIR.match(right, at) if found.signs else None
            if sign is None:
                return found
            found.signs.append(sign[0])
            found.ends.append(sign.end())

    def _closes(self, sign: str) -> bool:
        """Whether `sign` closes something that is open at the cursor, as far as its line tells."""
        if sign in _IN_PROSE and self.language not in MARKUP | {"typst", "tex"}:
            return False
        if sign == "''" and "``" in self.left:
            return True
        if sign in SYMMETRIC:
            return sign in (self.head.quote, *(sign for _, sign in self.head.stack)) or self.left.count(sign) % 2 == 1
        if sign in OPENED:
            return sign == self.head.comment or self.left.rfind(OPENED[sign]) > self.left.rfind(sign)
        if sign in {">", "/>"}:
            return len(_OPEN_ANGLE.findall(self.left)) > len(_CLOSED_ANGLE.findall(self.left))
        return True

    @cached_property
    def closing(self) -> str:
        """The text right of the cursor if it is only closers, stops and blanks, as editors insert them."""
        right, ends = self.right.rstrip(), self.closers.ends
        return "" if right[ends[-1] if ends else 0 :].strip(";, \t") else right

    @cached_property
    def _pending(self) -> tuple[list[str], int, bool]:
        """The closers of what is open at the cursor, innermost first; how many of them nothing right or below closes.

        A negative number counts the closers there that close nothing. Last, whether the document is sure of that: the
        brackets balance, or the closer below stands in the column of what it closes.
        """
        head, signs = self.head, self.closers.signs
        quote = "" if head.stack and head.stack[-1][1] == head.quote else head.quote
        if self.language not in KNOWN or head.comment or (quote and (quote not in signs or not self.closing)):
            return [], 0, False
        right = [sign for sign in signs[signs.index(quote) if quote else 0 :] if sign in {quote, *")]}`"}]
        rest = self.near_after[len(self.closing) :]
        below = lex(rest, self.language).closers
        given = [*(right if self.closing else []), *(sign for _, sign in below)]
        stack = [(len(self.near_before), quote)] * bool(quote) + head.stack[::-1]
        opened = [CLOSER_OF.get(sign, sign) for _, sign in stack]
        count = len(opened) - len(given)
        balanced = opened[max(count, 0) :] == given[max(-count, 0) :]
        if self.whole_before and self.whole_after:
            return opened, count * balanced, balanced
        fits = [at for at in range(len(opened)) if all(map(str.__eq__, opened[at:], given))]
        begins = _begun(rest, below[0][0]) if below and not (right and self.closing) else None
        sure = [at for at in fits if begins is not None and begins == indent(_line_at(self.near_before, stack[at][0]))]
        if len(sure) != 1 and balanced and count >= 0:
            return opened, count, False
        fits = sure or fits
        return opened, fits[0] if len(fits) == 1 and (sure or not self.whole_after) else 0, len(sure) == 1

    @cached_property
    def is_balanced(self) -> bool:
        """Whether it is known which closers right of the cursor and below close what is open there."""
        return self._pending[2]

    @cached_property
    def unclosed(self) -> list[str]:
        """The closers, innermost first, of what is open at the cursor and nothing right of it or below closes."""
        return self._pending[0][: max(self._pending[1], 0)]

    @cached_property
    def spare(self) -> int:
        """How many brackets the document closes right of the cursor and below beyond those that are open."""
        return max(-self._pending[1], 0)

    @cached_property
    def opened(self) -> list[str]:
        """The closers of what is open at the cursor, innermost first; empty if they have no meaning there."""
        return self._pending[0]

    @cached_property
    def in_prose(self) -> bool:
        """Whether the cursor is in a language or a comment where quotes begin no strings."""
        return self.language in MARKUP or bool(self.head.comment)

    @cached_property
    def head(self) -> Lexed:
        """The lexical state at the cursor."""
        return lex(self.near_before, self.language)

    def _lexed_with(self, text: str) -> Lexed:
        """The lexical state after `text` at the cursor; offsets are those of `near_before + text`."""
        return lex(self.near_before + text, self.language, self.head.last_line)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words near the cursor, without the one that ends there."""
        words = _WORD.findall(self.near_before)
        if words and self.near_before.endswith(words[-1]):
            words.pop()
        return frozenset(words).union(_WORD.findall(self.near_after))

    @cached_property
    def above(self) -> str:
        """The nearest line above the cursor's that has text, or ""."""
        return next((line for line in reversed(self.near_before[-NEAR:].split("\n")[:-1]) if line.strip()), "")

    @cached_property
    def blocks_above(self) -> Blocks | None:
        """The blocks in which the cursor's line may begin a statement; None if it begins none."""
        if self.language not in KNOWN:
            return None
        return blocks_below(self.near_before[: len(self.near_before) - len(self.left)], self.head, self.language)

    @cached_property
    def statement_below(self) -> int | None:
        """The column of the nearest line below the cursor's with more than a comment."""
        lines = (line for line in self.below if line.strip() and not line.lstrip().startswith("#"))
        return next((width(indent(line)) for line in lines), None)


def _line_at(text: str, at: int) -> str:
    """The line of `text` that holds the offset `at`, up to it."""
    return text[text.rfind("\n", 0, at) + 1 : at + 1]


def _begun(text: str, at: int) -> str | None:
    """The indentation of the line that begins at `at`, if all lines of `text` above it are deeper; else None."""
    _, *lines, blanks = text[:at].split("\n") if "\n" in text[:at] else (text[:at], "x")
    deeper = all(width(indent(line)) > width(blanks) for line in lines if line.strip() and line[0] != "#")
    return blanks if deeper and not blanks.strip() else None


def wordy(char: str) -> bool:
    """Whether `char` may be a part of a word."""
    return char.isalnum() or char == "_"


def in_word(left: str, right: str) -> bool:
    """Whether `left` and `right`, side by side, run into one word."""
    return wordy(left[-1:]) and wordy(right[:1])


def _whole_lines(text: str, complete: bool) -> list[str]:
    lines = text.split("\n")
    return lines if complete or len(lines) == 1 else lines[:-1]


def _near_before(before: str, language: str) -> tuple[str, bool]:
    """The part read before the cursor: all, or whole lines from an unindented one outside of strings on."""
    if len(before) <= FAR:
        return before, True
    near = before[-FAR:]
    start = _UNINDENTED.search(near, 0, FAR // 2) or _LINE_END.search(near)
    if start is None:
        return near[-NEAR:], False
    near = near[start.end() :]
    opened, closed = near.find("/*"), near.find("*/")
    if closed >= 0 and not 0 <= opened < closed:
        near = near[closed + 2 :]
    return _not_in_string(near, language), False


def _not_in_string(near: str, language: str) -> str:
    """`near` from where it is code: if its strings contain the lines that look like code, it began inside a string."""
    strings = [
        (begin, end) for begin, end in lex(near, language).spans if near[begin] in "\"'`" and "\n" in near[begin:end]
    ]
    inside = sum(len(_CODE_LINE.findall(near, begin, end)) for begin, end in strings)
    if not strings or 2 * inside <= len(_CODE_LINE.findall(near)):
        return near
    begin = strings[0][0]
    return near[begin + (3 if near[begin : begin + 3] == near[begin] * 3 else 1) :]
