"""The text around a cursor, cut to a bounded part and lexed once for all rules of post-processing."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fastcoder_lsp.syntax import CLOSER_OF, KNOWN, MARKUP, Lexed, indent, lex, width

NEAR = 8000  # characters before and after the cursor whose lines are read
FAR = 32_000  # characters before and after the cursor that are read for brackets, about 5 ms each
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
_WORD = re.compile(r"\w+")


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
        self.near_before, self.whole_before = _near_before(before)
        self.whole_after = len(after) <= FAR
        self.near_after = after[:FAR]
        self.lexed_with = lru_cache(8)(self._lexed_with)  # of the text and its beginnings, for all rules

    @cached_property
    def closers(self) -> Closers:
        """The closers right of the cursor, up to other text."""
        right, found = self.right[:_MOST_CLOSERS], Closers([], [])
        quote = self.head.quote
        closer = re.compile(f"{re.escape(quote)}|{_CLOSER.pattern}") if len(quote) > 1 else _CLOSER
        while True:
            at = found.ends[-1] if found.ends else 0
            at += len(right[at:]) - len(right[at:].lstrip(" \t"))
            sign = closer.match(right, at)
            if sign is None or not self._closes(sign[0]):
                sign = _PAIR.match(right, at) if found.signs else None
            if sign is None:
                return found
            found.signs.append(sign[0])
            found.ends.append(sign.end())

    def _closes(self, sign: str) -> bool:
        """Whether `sign` closes something that is open at the cursor, as far as its line tells."""
        if sign == self.head.quote:
            return True
        if sign in _IN_PROSE and self.language not in MARKUP | {"typst", "tex"}:
            return False
        if sign == "''" and "``" in self.left:
            return True
        if sign in SYMMETRIC:
            return sign in (sign for _, sign in self.head.stack) or self.left.count(sign) % 2 == 1
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
        head, signs, quote = self.head, self.closers.signs, self.head.quote
        if self.language not in KNOWN or head.comment or head.in_template:
            return [], 0, False
        if quote and (quote not in signs or not self.closing):
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
        if len(sure) == 1:
            return opened, sure[0], True
        return opened, count if balanced and count >= 0 else 0, False

    @cached_property
    def is_balanced(self) -> bool:
        """Whether it is known which closers right of the cursor and below close what is open there."""
        return self._pending[2]

    def leaves_string_open(self, text: str) -> bool:
        """Whether a string is open at the document's end with `text` at the cursor."""
        return bool(lex(self.near_before + text + self.near_after, self.language).quote)

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


def _near_before(before: str) -> tuple[str, bool]:
    """The part read before the cursor: all, or whole lines from an unindented one on."""
    if len(before) <= FAR:
        return before, True
    near = before[-FAR:]
    start = _UNINDENTED.search(near, 0, FAR // 2)
    return near[start.end() if start else near.find("\n") + 1 :], False
