"""Signs right of the cursor that a suggestion brings itself: whether it overwrites or precedes them.

Such signs are closers that an editor inserted, and an operator alone, as in `order|.` before `.total()`.
"""

from fastcoder_lsp.postprocess.text_around import NEAR, TextAround, wanted
from fastcoder_lsp.syntax import KNOWN, Lexed, indent, width

_PASSIVE = ";, \t>"  # characters among closers that close nothing
_PAIRS = {"(": ")", "[": "]", "{": "}"}
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
    closing = around.closing
    if not closing or not text.strip():
        return _selector(text, around)
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


def _selector(text: str, around: TextAround) -> int:
    """The length of the selector alone right of the cursor that `text` begins with, unless the line below continues it.

    In some languages lines of a chain end with the selector.
    """
    sign = around.right.rstrip()
    if sign not in _SELECTORS or not text.startswith(sign) or around.above.rstrip().endswith(sign):
        return 0
    below = next((line for line in around.below if line.strip()), "")
    return 0 if width(indent(below)) > width(indent(around.left)) else len(sign)


def _closers(closing: str, quote: str) -> list[tuple[int, str]]:
    """(offset, sign) of each closer in `closing`; the quotes of an open string with several quotes are one."""
    if len(quote) > 1 and closing.startswith(quote):
        return [(0, quote), *_closers_at(closing, len(quote))]
    return _closers_at(closing, 0)


def _closers_at(closing: str, start: int) -> list[tuple[int, str]]:
    return [(at, sign) for at, sign in enumerate(closing) if at >= start and sign not in _PASSIVE]


def _doubled(text: str, around: TextAround, closers: list[str]) -> int:
    """The number of first `closers` whose brackets `text` closes itself."""
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
    """The number of `closers` to drop so that the rest and those below close the brackets open after the text.

    None: unclear. If a part of the document is not read, brackets far above or below are unknown, and the nearest ones
    decide.
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
    return bool(wanted_signs and signs) and all(map(str.__eq__, wanted_signs, signs))


def _closed(before_open: list[str], after_open: list[str]) -> int:
    """How many open brackets were closed, lists innermost first; one that was closed and reopened is missed."""
    kept = 0
    for one, other in zip(reversed(before_open), reversed(after_open), strict=False):
        if one != other:
            break
        kept += 1
    return len(before_open) - kept


def _quote(lexed: Lexed) -> str:
    """The quote of the open string; a template's quote is already on the stack."""
    return "" if lexed.stack and lexed.stack[-1][1] == lexed.quote else lexed.quote


def _on_the_line(text: str, around: TextAround, closers: list[str]) -> int:
    """`_doubled` by the signs of the line alone, as in a comment."""
    left = around.left[-NEAR:]
    before_open, after_open = _plain(left), _plain(left + text)
    last = _plain((left + text).rpartition("\n")[2][-NEAR:]) if "\n" in text else []
    count = _left_over(0, last or after_open, closers)
    return count if count <= _closed(before_open, after_open) else 0


def _left_over(others: int, after_open: list[str], closers: list[str]) -> int:
    """The number of `closers` with nothing to close; `others`: open brackets that are not theirs."""
    count = min(len(closers), max(0, len(closers) - max(0, len(after_open) - max(0, others))))
    left = closers[count:]
    return count if after_open[: len(left)] == left else len(closers)


def _plain(text: str) -> list[str]:
    stack: list[str] = []
    for sign in text:
        if sign in _PAIRS:
            stack.append(_PAIRS[sign])
        elif stack and stack[-1] == sign:
            stack.pop()
        elif sign in '"`':
            stack.append(sign)
    return stack[::-1]
