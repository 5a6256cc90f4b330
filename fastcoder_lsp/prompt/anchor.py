"""Anchors: the parts of a document's prompt that stay fixed while the user types; and token healing at its end.

The KV cache keeps the longest common token prefix of two prompts. In the order prefix, suffix, middle every keystroke
would move the prefix's end and invalidate everything after it. So the prefix ends at an *anchor*, a few lines above the
cursor or at its line's start, the suffix is the one seen when the anchor was set, and text typed since then follows the
middle mark, where it only grows.

A prompt that ends inside a word ends in tokens that the model never saw there. So it ends before the word, and the
first generated tokens must spell its typed part.
"""

from dataclasses import dataclass

import numpy as np

from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.core.differences import whole_lines
from fastcoder_lsp.prompt.context import NOTHING, PromptContext
from fastcoder_lsp.tokenizer import Tokenizer, printable

_MAX_TOKEN_CHARACTERS = 12  # an upper bound of the mean characters a token: text beyond budget × this is not read
CLOSERS = frozenset(")]}>\"'`;,")  # characters that editors insert right of the cursor


@dataclass(frozen=True, slots=True)
class EncodedContext:
    """Code of other files in a prompt; `searched` is False if a hurried first prompt left the search for later."""

    tokens: tuple[int, ...]
    found: PromptContext
    searched: bool = True


NO_CONTEXT_YET = EncodedContext((), NOTHING, searched=False)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The parts of one document's prompt that stay fixed."""

    start: int  # where the prefix begins in the text
    at: int  # where it ends; the text from here to the cursor follows the middle mark
    prefix: str  # `text[start:at]` when the anchor was set
    suffix: str  # the text right of the cursor then, without the closers there, which an editor may have inserted
    whole: bool  # whether `suffix` reached the end of the text
    length: int  # characters of the text last seen
    prefix_tokens: tuple[int, ...]
    suffix_tokens: tuple[int, ...]
    context: EncodedContext
    short: bool = False  # whether the window is smaller than allowed, because a request waited for it


def shift_of(anchor: Anchor, text: str, offset: int) -> int | None:
    """The shift of the anchor's offsets in `text` with the cursor at `offset`; None if the anchor is void.

    Edits above the window shift it. It is void if the text of its prefix or suffix has changed, or the cursor has left
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
    """Whether `after` is the earlier suffix, except closers and line ends that an editor inserted."""
    rest = after[closers(after) :]
    surplus = len(rest) - len(rest.lstrip("".join(CLOSERS) + " \t\n"))
    for skipped in range(min(surplus, 64) + 1):
        if anchor.whole and rest[skipped:].rstrip() == anchor.suffix.rstrip():
            return True
        if not anchor.whole and rest.startswith(anchor.suffix, skipped):
            return True
    return False


def closers(after: str) -> int:
    """The characters right of the cursor if all up to the line's end are closers or blanks; else 0."""
    end = after.find("\n")
    line = after if end < 0 else after[:end]
    return len(line) if all(char in CLOSERS or char.isspace() for char in line) else 0


def place(text: str, offset: int, lines_above: int, longest: int) -> int:
    """The offset of the next anchor: the start of the cursor's line, or of one up to `lines_above` above it.

    The prefix lacks at most half of the lines above, and at most `longest` characters before the cursor. In a longer
    line the anchor is at a blank if there is one.
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
    """The offset in `before` from which the rest has at most about `budget` tokens; a line's start if possible."""
    low = max(0, len(before) - budget * _MAX_TOKEN_CHARACTERS)
    lines = whole_lines(before[low:])
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
    """The offset in `after` up to which the text has at most about `budget` tokens; a line's end if possible."""
    lines = whole_lines(after[: budget * _MAX_TOKEN_CHARACTERS])
    left, end = budget, 0
    for line, ids in zip(lines, tokenizer.encode_many(lines), strict=True):
        left -= len(ids)
        if left < 0:
            break
        end += len(line)
    if not end and lines:
        return len(_first_tokens(tokenizer, lines[0], budget))
    return end


def _last_tokens(tokenizer: Tokenizer, line: str, budget: int) -> str:
    while len(tokenizer.encode(line)) > budget and len(line) > 1:
        line = line[len(line) // 4 + 1 :]
    return line


def _first_tokens(tokenizer: Tokenizer, line: str, budget: int) -> str:
    while len(tokenizer.encode(line)) > budget and len(line) > 1:
        line = line[: len(line) * 3 // 4]
    return line


MAX_HEALED_BYTES = 48  # the last bytes of a half-typed word, which are healed; each healed token costs a forward pass
_MAX_SEARCHED = 400  # characters that are searched for the start of a word


def heal_start(tokenizer: Tokenizer, text: str) -> int:
    """The end of a prompt that continues `text`: before the word, run of signs or run of blanks at its end.

    The end of `text` if nothing needs healing, such as after a newline that the tokenizer separates from the
    indentation.
    """
    tail = text[-_MAX_SEARCHED:]
    skipped = len(text) - len(tail)
    if not tail:
        return skipped
    if tail.endswith("\n"):
        start = tokenizer.last_word(tail + "  ")
        start = min(len(tail), start)
    else:
        start = tokenizer.last_word(tail)
    word = tail[start:]
    while len(printable(word).encode()) > MAX_HEALED_BYTES:
        word = word[len(word) // 2 :]
    if not tokenizer.can_spell(printable(word).encode()):
        return len(text)
    return len(text) - len(word)


def allowed(tokenizer: Tokenizer, remaining: bytes) -> Int64s:
    """The ids that agree with `remaining`, ascending: their bytes start with it, or it starts with their bytes.

    Empty only if the vocabulary cannot spell `remaining`, which `heal_start` rules out. ~20 µs after a first call.
    """
    longer = tokenizer.starting_with(remaining)
    shorter = [token for end in range(1, len(remaining)) for token in tokenizer.exactly(remaining[:end])]
    if not shorter:
        return longer
    return np.union1d(longer, np.array(shorter, np.int64))
