"""Which part of a text fits a budget of tokens: whole lines next to the cursor. Pure functions."""

from fastcoder_lsp.tokenizer import Tokenizer

_LONGEST = 12
"""Characters a token, at most on average: more text than budget × this is not even looked at."""


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
