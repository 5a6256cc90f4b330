"""Brackets and quotes: a suggestion closes what it opens, and nothing that is closed below already.

A closer is removed only if the brackets of the whole document count one too many, or the same closer follows below at
the same depth. If the document is longer than the part that is read, or does not balance by itself, the text stays
unchanged.
"""

from dataclasses import dataclass

from fastcoder_lsp.postprocess.fit import covered
from fastcoder_lsp.postprocess.text_around import Closer, TextAround, left_open, wanted
from fastcoder_lsp.syntax import CLOSER_OF, KNOWN, SCRIPT, Lexed, Quote, indent, lexis_of, width

_ENDS = ")]};,: \t\n"  # characters that may follow the last word of a text
Stack = list[tuple[int, str]]


def balance(text: str, around: TextAround) -> str:
    """`text`, cut before a surplus closer, and with closers added for its brackets that nothing below closes."""
    if around.language not in KNOWN:
        return text
    lexed = around.lexed_with(text)
    if (
        goes_on(lexed, around)
        or lexed.in_template
        or around.head.in_template
        or (lexed.quote and not _ends_here(lexed.quote, around))
    ):
        return text
    walk = _BracketScan.over(text, lexed, around)
    if walk.impossible is not None:
        return text[: walk.impossible]
    below, whole = _below(text, around), around.near_before + text
    if (surplus := _surplus(walk, below, whole, around)) is not None:
        return text[:surplus]
    return text + _closed(whole, _missing(walk, below, whole, around), lexed.quote)


def last_closers(text: str, around: TextAround) -> list[int]:
    """Offsets of the closers at the end of `text` that close brackets opened left of the cursor."""
    end = len(text.rstrip(_ENDS))
    if around.language not in KNOWN or end == len(text):
        return []
    return [at for at, _ in _BracketScan.over(text, around.lexed_with(text), around).closes if at >= end]


@dataclass(frozen=True, slots=True)
class _BracketScan:
    """The brackets of a suggestion, in order."""

    open: Stack  # the brackets open at its end
    own: int  # how many of these the suggestion opened
    closes: list[tuple[int, Stack]]
    """(offset, brackets open before it) of closers of a bracket open at the cursor or its successor (`} else {`)."""
    impossible: int | None = None  # the offset of a closer without a bracket; None if there is none

    @classmethod
    def over(cls, text: str, lexed: Lexed, around: TextAround) -> "_BracketScan":
        start, stack = len(around.near_before), list(around.head.openers)
        closes: list[tuple[int, Stack]] = []
        outer, replacing = len(stack), set[int]()
        for at, sign in lexed.signs:
            if at < start:
                continue
            if sign in CLOSER_OF:
                stack.append((at, sign))
                if closes and "\n" not in text[closes[-1][0] : at - start]:
                    replacing.add(at)
            elif stack and CLOSER_OF[stack[-1][1]] == sign:
                if len(stack) <= outer or stack[-1][0] in replacing:
                    closes.append((at - start, list(stack)))
                    outer = min(outer, len(stack) - 1)
                stack.pop()
            elif around.whole_before or len(stack) > outer:
                return cls(stack, 0, closes, at - start)
            else:
                return cls(stack, 0, [])
        return cls(stack, len(stack) - outer, closes)


def _below(text: str, around: TextAround) -> list[Closer]:
    over = covered(text, around)
    right = zip(around.closers.signs, around.closers.ends, strict=True) if around.closing else ()
    kept = [sign for sign, end in right if end > over and sign in CLOSER_OF.values()]
    return [Closer(sign, 0, None) for sign in kept] + around.closers_below


def _surplus(walk: _BracketScan, below: list[Closer], whole: str, around: TextAround) -> int | None:
    """The offset of the first closer that is certainly surplus."""
    signs = [closer.sign for closer in below]
    if around.whole_before and around.whole_after:
        if left_open(wanted(walk.open), signs) is not None:
            return None
        for at, stack in reversed(walk.closes):
            if wanted(stack) == signs:
                return at
    if not below or below[0].column is None or (walk.own and CLOSER_OF[walk.open[-1][1]] == below[0].sign):
        return None
    if _closed_by(walk.open, below[0], whole):
        return None
    found = [at for at, stack in walk.closes if _closed_by(stack, below[0], whole)]
    return found[-1] if found and around.goes_deeper_until(below[0]) else None


def _missing(walk: _BracketScan, below: list[Closer], whole: str, around: TextAround) -> Stack:
    """The brackets that the suggestion opened and nothing below closes, innermost last."""
    is_whole, total = around.whole_before and around.whole_after, len(walk.open)
    missing = left_open(wanted(walk.open), [closer.sign for closer in below]) if is_whole else None
    if missing is None:
        rests = (walk.open[: total - count] for count in range(walk.own + 1)) if below else ()
        missing = next((total - len(rest) for rest in rests if _closed_by(rest, below[0], whole)), 0)
    return walk.open[total - min(missing, walk.own) :]


def _closed_by(stack: Stack, closer: Closer, whole: str) -> bool:
    if not stack or CLOSER_OF[stack[-1][1]] != closer.sign:
        return False
    at = stack[-1][0]
    return closer.column is not None and width(indent(whole[whole.rfind("\n", 0, at) + 1 : at + 1])) == closer.column


def goes_on(lexed: Lexed, around: TextAround) -> bool:
    """Whether the text after the suggestion, whose end is `lexed`, is in a comment."""
    return bool(lexed.comment) and (lexed.comment != "\n" or bool(around.right.strip()))


def _ends_here(quote: str, around: TextAround) -> bool:
    """Whether the string open after the suggestion must end with its line, and nothing else ends it."""
    if around.right.strip() or around.head.quote or (quote == "'" and around.language in SCRIPT):
        return False
    return lexis_of(around.language).quotes.get(quote) is Quote.LINE


def _closed(text: str, openers: Stack, quote: str) -> str:
    """The closers of `openers` after `text`: on its last line, or each on its own line, as it was opened."""
    added, last = quote, -1
    for at, sign in reversed(openers):
        start = text.rfind("\n", 0, at) + 1
        line = text[start:].partition("\n")[0]
        below = start + len(line) < len(text) and start != last
        added += (f"\n{indent(line)}" if below else "") + CLOSER_OF[sign]
        last = start
    return added
