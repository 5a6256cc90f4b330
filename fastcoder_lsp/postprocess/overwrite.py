"""Signs right of the cursor that a suggestion brings itself: whether it overwrites or precedes them.

Such signs are closers that an editor inserted, and an operator alone, as in `order|.` before `.total()`.
"""

import re

from fastcoder_lsp.postprocess.text_around import NEAR, TextAround, wanted
from fastcoder_lsp.syntax import CLOSER_OF, KNOWN, Lexed, indent, width

_CLOSER = re.compile(r"\"{3}|'{3}|[)\]}\"'`]")
_SELECTORS = (".", "?.", "->", "::")  # operators that select a member, and so need a name on their right


def replaces(text: str, before: str, after: str, language: str = "") -> int:
    """The number of characters of `after`, on the cursor's line, that the suggestion `text` overwrites.

    More than 0 only if nothing but closers is right of the cursor and `text` closes their brackets itself: the editor
    inserted `)` after `(`, and the suggestion continues beyond the parenthesis. Or if nothing but a selector is there,
    and `text` begins with it.
    """
    return written_over(text, TextAround(before, after, language))


def written_over(text: str, around: TextAround) -> int:
    """`replaces` for a text around the cursor that is already read."""
    if not around.closing:
        return _selector(text, around)
    closers = list(_CLOSER.finditer(around.closing))
    count = _doubled(text, around, [closer[0] for closer in closers]) if closers else 0
    if not count:
        return 0
    last = closers[count - 1]
    return last.end() if count < len(closers) or text.rstrip().endswith(last[0]) else len(around.closing)


def _selector(text: str, around: TextAround) -> int:
    """The length of the selector alone right of the cursor that `text` begins with, unless the line below continues it.

    In some languages lines of a chain end with the selector.
    """
    sign = around.right.rstrip()
    if sign not in _SELECTORS or not text.startswith(sign) or around.above.endswith(sign):
        return 0
    below = next(iter(around.below), "")
    return 0 if width(indent(below)) > width(indent(around.left)) else len(sign)


def _doubled(text: str, around: TextAround, closers: list[str]) -> int:
    """The number of first `closers` whose brackets `text` closes itself."""
    head, after = around.head, around.lexed_with(text)
    if around.language not in KNOWN or head.comment or after.quote not in ("", closers[0]):
        return _on_the_line(text, around, closers)
    before_open, after_open = (wanted(lexed.stack, _quote(lexed)) for lexed in (head, after))
    below = [closer.sign for closer in around.closers_below]
    count = len(closers) + len(below) - len(after_open)
    if after_open == closers[count:] + below:
        return count  # the rest and those below close what is open after the text
    fits = list[int]()
    if not around.whole_after:  # brackets far below are unknown, and the nearest ones decide
        counts = range(len(closers) + 1)
        fits = [count for count in counts if all(map(str.__eq__, after_open, closers[count:] + below))]
    count = fits[0] if len(fits) == 1 else _left_over(len(before_open) - len(closers), after_open, closers)
    return count if count <= _closed(before_open, after_open) else 0


def _quote(lexed: Lexed) -> str:
    """The quote of the open string; a template's quote is already on the stack."""
    return "" if lexed.stack and lexed.stack[-1][1] == lexed.quote else lexed.quote


def _on_the_line(text: str, around: TextAround, closers: list[str]) -> int:
    """`_doubled` by the signs of the line alone, as in a comment."""
    before_open, after_open = _plain(around.left[-NEAR:]), _plain(around.left[-NEAR:] + text)
    count = _left_over(0, after_open, closers)
    return count if count <= _closed(before_open, after_open) else 0


def _closed(before_open: list[str], after_open: list[str]) -> int:
    """How many open brackets were closed, lists innermost first; one that was closed and reopened is missed."""
    kept = 0
    for one, other in zip(reversed(before_open), reversed(after_open), strict=False):
        if one != other:
            break
        kept += 1
    return len(before_open) - kept


def _left_over(others: int, after_open: list[str], closers: list[str]) -> int:
    """The number of `closers` with nothing to close; `others`: open brackets that are not theirs."""
    count = max(0, len(closers) - max(0, len(after_open) - others))
    left = closers[count:]
    return count if after_open[: len(left)] == left else len(closers)


def _plain(text: str) -> list[str]:
    stack: list[str] = []
    for sign in text:
        if sign in CLOSER_OF:
            stack.append(CLOSER_OF[sign])
        elif stack and stack[-1] == sign:
            stack.pop()
        elif sign in '"`':
            stack.append(sign)
    return stack[::-1]
