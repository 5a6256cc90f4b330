"""Removing text that is not worth showing: spelt-out control tokens, loops, and text that adds nothing."""

import re

from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.syntax import KNOWN

_CONTROL = re.compile(
    r"<\|[a-z_]+\|>|<(?:fim_(?:prefix|middle|suffix|pad)|file_sep)>|<｜[^｜\n]*｜>|▁<(?:PRE|SUF|MID|EOT)>|\x00|\ufffd"
)
_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*$", re.MULTILINE)
_SHORTEST_LOOP = 3
"""Equal runs of lines in a row that make a loop."""
_ROUNDS, _LONGEST_ROUND = 8, 40
"""Equal pieces in a row at the end of a line that make a loop, and the longest piece."""


def control_text(text: str, around: TextAround) -> str:
    """`text` up to a spelt-out control token, unless the document itself mentions it."""
    for match in _CONTROL.finditer(text):
        if match[0] not in around.near_before and match[0] not in around.near_after:
            return text[: match.start()]
    return text


def fence(text: str, around: TextAround) -> str:
    """`text` up to a Markdown fence, in languages and places where that has no meaning."""
    if around.language not in KNOWN:
        return text
    for match in _FENCE.finditer(text):
        lexed = around.lexed_with(text[: match.start()])
        begins = match.start() or not around.left.strip()
        if begins and not (lexed.quote or lexed.comment or lexed.in_template):
            return text[: match.start()]
    return text


def repetition(text: str, around: TextAround) -> str:
    """`text` up to the end of the first round of a loop that goes on to its end."""
    lines = (around.left + text).split("\n")
    for period in range(1, len(lines) // _SHORTEST_LOOP + 1):
        tail = lines[len(lines) - period :]
        rounds = 1
        while len(lines) >= period * (rounds + 1) and lines[-period * (rounds + 1) :][:period] == tail:
            rounds += 1
        if rounds >= _SHORTEST_LOOP and "".join(tail).strip(" \t)]};,"):
            return "\n".join(lines[: len(lines) - period * (rounds - 1)])[len(around.left) :]
    return _within_line(text)


def _within_line(text: str) -> str:
    """`text` without a loop at the end of its last line: eight or more rounds of two or more characters."""
    start = text.rfind("\n") + 1
    for length in range(2, min(_LONGEST_ROUND, (len(text) - start) // _ROUNDS) + 1):
        unit = text[-length:]
        rounds = 1
        while text.endswith(unit, start, len(text) - rounds * length):
            rounds += 1
        if rounds >= _ROUNDS and len(set(unit.strip())) > 1:
            # The loop may end in the middle of a round, so rounds are counted from the start of the first one.
            first = len(text) - rounds * length
            while first > start and text[first - 1] == text[first - 1 + length]:
                first -= 1
            return text[: first + length]
    return text


def rubbish(text: str, around: TextAround) -> bool:
    """Whether `text` adds nothing: blanks, the rest of the line, or the line below or above once more."""
    said = text.strip()
    if not said:
        return True
    right = around.right.strip()
    if right and said == right:
        return True
    below = next((line.strip() for line in around.below if line.strip()), "")
    return not around.left.strip() and said in {below, around.above.strip()} and not _structural(said)


def _structural(line: str) -> bool:
    """Whether a line may well occur twice in a row: signs alone, `end`."""
    return not any(map(str.isalnum, line)) or line in {"end", "fi", "done", "esac", "endif"}
