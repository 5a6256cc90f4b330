"""Anchors: what of a document's prompt stays as it is while a person types.

The KV cache keeps the longest common token prefix of two prompts. In the order prefix, suffix, middle every keystroke
would move the prefix's end, and all after it would be computed anew. So the prefix ends at an *anchor*, a few lines
above the cursor or at its line's start, the suffix is the one seen when the anchor was set, and what was typed since
stands after the middle mark, where it only grows. Owns the decision whether an anchor still holds, and where the next
one goes; knows nothing of tokens but their number.
"""

from dataclasses import dataclass

from fastcoder_lsp.prompt.context import NOTHING, Found
from fastcoder_lsp.tokenizer import Tokenizer

_LONGEST = 12
"""Upper bound of the mean number of characters a token: text beyond budget × this is not looked at."""
CLOSERS = frozenset(")]}>\"'`;,")
"""What editors put right of the cursor by themselves."""


@dataclass(frozen=True, slots=True)
class Told:
    """Code of other files as a prompt shows it, or will.

    Attributes:
        tokens: of it; empty: none goes along.
        found: what is in `tokens`.
        looked: whether it was looked for; not yet, where a document's first prompt was in a hurry.
    """

    tokens: tuple[int, ...]
    found: Found
    looked: bool = True


UNTOLD = Told((), NOTHING, looked=False)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The parts of one document's prompt that stay fixed.

    Attributes:
        start: where the prefix begins in the text.
        at: where it ends: what stands between this and the cursor goes after the middle mark.
        prefix: was `text[start:at]`.
        suffix: what the text right of the cursor began with, after the closers that an editor may have put there, which
            are never shown.
        whole: whether `suffix` went to the end of the text.
        length: characters of the text last seen.
        prefix_tokens: the tokens of `prefix`.
        suffix_tokens: the tokens of `suffix`.
        told: code of other files.
        short: whether the window is smaller than it may be, because somebody waited for it.
    """

    start: int
    at: int
    prefix: str
    suffix: str
    whole: bool
    length: int
    prefix_tokens: tuple[int, ...]
    suffix_tokens: tuple[int, ...]
    told: Told
    short: bool = False


def holds(anchor: Anchor, text: str, offset: int) -> int | None:
    """By how much the anchor's offsets have moved in `text` with the cursor at `offset`; None where it is void.

    It moves with edits above the window. It is void when the text of its prefix or suffix changed, or the cursor left
    the part between them.
    """
    for shift in (0, len(text) - anchor.length):
        at, start = anchor.at + shift, anchor.start + shift
        if (
            start >= 0
            and at <= offset
            and text[start:at] == anchor.prefix
            and _suffix_holds(anchor, text[offset : offset + len(anchor.suffix) + 400])
        ):
            return shift
    return None


def _suffix_holds(anchor: Anchor, after: str) -> bool:
    """Whether `after` is the suffix seen before, but for closers and line ends that an editor put before it."""
    rest = after[closers(after) :]
    surplus = len(rest) - len(rest.lstrip("".join(CLOSERS) + " \t\n"))
    for skipped in range(min(surplus, 64) + 1):
        if anchor.whole and rest[skipped:].rstrip() == anchor.suffix.rstrip():
            return True
        if not anchor.whole and rest.startswith(anchor.suffix, skipped):
            return True
    return False


def closers(after: str) -> int:
    """How many characters right of the cursor are closers up to the end of its line; 0 where other text is there."""
    end = after.find("\n")
    line = after if end < 0 else after[:end]
    return len(line) if all(char in CLOSERS or char.isspace() for char in line) else 0


def place(text: str, offset: int, lines_above: int, longest: int) -> int:
    """Where the next anchor goes: the start of the cursor's line, or of one up to `lines_above` over it.

    At most half of the lines above are left out of the prefix, and at most `longest` characters before the cursor:
    inside a line that is longer the anchor stands at a blank where there is one.
    """
    start = text.rfind("\n", 0, offset) + 1
    if offset - start <= longest:
        for _ in range(min(lines_above, text.count("\n", 0, start) // 2)):
            above = text.rfind("\n", 0, max(start - 1, 0)) + 1
            if offset - above > longest:
                break
            start = above
        return start
    blank = text.rfind(" ", start, offset - longest // 4)
    return blank if blank > start else offset - longest // 4


def prefix_start(tokenizer: Tokenizer, before: str, budget: int) -> int:
    """Offset in `before` from which its rest is at most about `budget` tokens; the start of a line where possible."""
    low = max(0, len(before) - budget * _LONGEST)
    lines = _lines(before[low:])
    left = budget
    start = len(before)
    for line, ids in zip(reversed(lines), reversed(tokenizer.encode_many(lines)), strict=True):
        left -= len(ids)
        if left < 0:
            break
        start -= len(line)
    if start == len(before) and lines:
        return len(before) - len(_last_tokens(tokenizer, lines[-1], budget))
    return start


def suffix_end(tokenizer: Tokenizer, after: str, budget: int) -> int:
    """Offset in `after` up to which it is at most about `budget` tokens; the end of a line where possible."""
    lines = _lines(after[: budget * _LONGEST])
    left, end = budget, 0
    for line, ids in zip(lines, tokenizer.encode_many(lines), strict=True):
        left -= len(ids)
        if left < 0:
            break
        end += len(line)
    if not end and lines:
        return len(_first_tokens(tokenizer, lines[0], budget))
    return end


def _lines(text: str) -> list[str]:
    r"""Lines with their `\n`; other characters that `str.splitlines` splits at end none."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _last_tokens(tokenizer: Tokenizer, line: str, budget: int) -> str:
    """An end of one overlong line that fits."""
    while len(tokenizer.encode(line)) > budget and len(line) > 1:
        line = line[len(line) // 4 + 1 :]
    return line


def _first_tokens(tokenizer: Tokenizer, line: str, budget: int) -> str:
    """A beginning of one overlong line that fits."""
    while len(tokenizer.encode(line)) > budget and len(line) > 1:
        line = line[: len(line) * 3 // 4]
    return line
