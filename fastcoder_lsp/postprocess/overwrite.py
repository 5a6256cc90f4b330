"""Closers that an editor put right of the cursor: whether a suggestion writes over them or stands before them."""

from fastcoder_lsp.postprocess.text_around import NEAR, TextAround, wanted
from fastcoder_lsp.syntax import KNOWN, Lexed

_PASSIVE = ";, \t>"
"""Signs among closers that close nothing."""
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def replaces(text: str, before: str, after: str, language: str = "") -> int:
    """How many characters of `after`, on the cursor's line, the suggestion `text` stands instead of.

    Not 0 only where nothing but closers is right of the cursor and `text` itself closes what they would: the editor
    typed `)` after `(`, and the suggestion goes on beyond the parenthesis.
    """
    return written_over(text, TextAround(before, after, language))


def written_over(text: str, around: TextAround) -> int:
    """What `replaces` gives, for a text around the cursor that is read already."""
    closing = around.closing
    if not closing or not text.strip():
        return 0
    closers = _closers(closing, around.head.quote)
    if not closers:
        return 0
    count = _doubled(text, around, [sign for _, sign in closers])
    if not count:
        return 0
    end, sign = closers[count - 1]
    end += len(sign)
    if count < len(closers) or not closing[end:].strip():
        return end if count < len(closers) else len(closing)
    return end if text.rstrip().endswith(sign) else len(closing)


def _closers(closing: str, quote: str) -> list[tuple[int, str]]:
    """(offset, sign) of what closes in `closing`; the quotes of an open string of several signs are one."""
    if len(quote) > 1 and closing.startswith(quote):
        return [(0, quote), *_closers_at(closing, len(quote))]
    return _closers_at(closing, 0)


def _closers_at(closing: str, start: int) -> list[tuple[int, str]]:
    return [(at, sign) for at, sign in enumerate(closing) if at >= start and sign not in _PASSIVE]


def _doubled(text: str, around: TextAround, closers: list[str]) -> int:
    """How many of `closers`, the first ones, close what `text` closes itself."""
    head, after = around.head, around.lexed_with(text)
    if around.language not in KNOWN or head.comment or after.comment or after.quote not in ("", closers[0]):
        return _on_the_line(text, around, closers)
    before_open, after_open = (wanted(lexed.stack, _quote(lexed)) for lexed in (head, after))
    count = _fitting(after_open, closers, around)
    if count is not None:
        return count
    if head.quote and closers[0] != head.quote:
        return _on_the_line(text, around, closers)
    line = len(around.near_before) - len(around.left)
    own = sum(at >= line for at, _ in head.stack) + bool(_quote(head))
    count = _left_over(len(before_open) - max(len(closers), own), after_open, closers)
    return count if count <= _closed(before_open, after_open) else 0


def _fitting(after_open: list[str], closers: list[str], around: TextAround) -> int | None:
    """How many of `closers` go so that the others and those below close what is open after the text; None: unclear.

    Where not all of the document is read, what is open far above or closed far below is not known, and the nearest
    have to tell.
    """
    below = [closer.sign for closer in around.closers_below]
    count = len(closers) + len(below) - len(after_open)
    if 0 <= count <= len(closers) and after_open == closers[count:] + below:
        return count
    if around.whole_before and around.whole_after:
        return None
    fits = [count for count in range(len(closers) + 1) if _agree(after_open, closers[count:] + below)]
    return fits[0] if len(fits) == 1 else None


def _agree(wanted_signs: list[str], signs: list[str]) -> bool:
    """Whether both begin alike, as far as both go."""
    return bool(wanted_signs and signs) and all(map(str.__eq__, wanted_signs, signs))


def _closed(before_open: list[str], after_open: list[str]) -> int:
    """How much of what was open is closed; both innermost first. What is opened anew alike is not seen."""
    kept = 0
    for one, other in zip(reversed(before_open), reversed(after_open), strict=False):
        if one != other:
            break
        kept += 1
    return len(before_open) - kept


def _quote(lexed: Lexed) -> str:
    """The quote of the open string; that of a template is on the stack already."""
    return "" if lexed.stack and lexed.stack[-1][1] == lexed.quote else lexed.quote


def _on_the_line(text: str, around: TextAround, closers: list[str]) -> int:
    """The same by the signs of the line alone, as in a comment."""
    left = around.left[-NEAR:]
    before_open, after_open = _plain(left), _plain(left + text)
    last = _plain((left + text).rpartition("\n")[2][-NEAR:]) if "\n" in text else []
    count = _left_over(0, last or after_open, closers)
    return count if count <= _closed(before_open, after_open) else 0


def _left_over(others: int, after_open: list[str], closers: list[str]) -> int:
    """How many of `closers` have nothing to close; `others`: of what is open, so much is not theirs."""
    count = min(len(closers), max(0, len(closers) - max(0, len(after_open) - max(0, others))))
    left = closers[count:]
    return count if after_open[: len(left)] == left else len(closers)


def _plain(text: str) -> list[str]:
    """What would close all that is open in `text`, read as signs only."""
    stack: list[str] = []
    for sign in text:
        if sign in _PAIRS:
            stack.append(_PAIRS[sign])
        elif stack and stack[-1] == sign:
            stack.pop()
        elif sign in '"`':
            stack.append(sign)
    return stack[::-1]
