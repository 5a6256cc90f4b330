"""What is not worth showing: control tokens spelt out, loops, and text that says nothing new."""

import re

from fastcoder_lsp.postprocess.place import Place

_CONTROL = re.compile(r"<\|[a-z_]+\|>|<(?:fim|file)[_-][a-z]+>|<｜[^｜\n]*｜>|▁<(?:PRE|SUF|MID|EOT)>|\x00|\ufffd")
_SHORTEST_LOOP = 3
"""So many equal runs of lines in a row are a loop."""


def control_text(text: str, place: Place) -> str:
    """`text` up to a control token that the model spelt out, where the document itself does not speak of such."""
    for match in _CONTROL.finditer(text):
        if match[0] not in place.near_before and match[0] not in place.after:
            return text[: match.start()]
    return text


def repetition(text: str, place: Place) -> str:
    """`text` up to the end of the first round of a loop, where the model only repeats itself to the end."""
    lines = (place.left + text).split("\n")
    for period in range(1, len(lines) // _SHORTEST_LOOP + 1):
        tail = lines[len(lines) - period :]
        rounds = 1
        while len(lines) >= period * (rounds + 1) and lines[-period * (rounds + 1) :][:period] == tail:
            rounds += 1
        if rounds >= _SHORTEST_LOOP and "".join(tail).strip(" \t)]};,"):
            return "\n".join(lines[: len(lines) - period * (rounds - 1)])[len(place.left) :]
    return _within_line(text)


def _within_line(text: str) -> str:
    """`text` without a loop inside its last line: eight or more rounds of two or more characters."""
    head, newline, line = text.rpartition("\n")
    if match := re.search(r"(.{2,40}?)\1{7,}.{0,40}$", line):
        unit = match[1]
        if len(set(unit.strip())) > 1:
            return head + newline + line[: match.start()] + unit
    return text


def rubbish(text: str, place: Place) -> bool:
    """Whether `text` says nothing: blanks, signs that are there already, the line below, the line above once more."""
    said = text.strip()
    if not said:
        return True
    right = place.right.strip()
    if right and said == right:
        return True
    below = next((line.strip() for line in place.below if line.strip()), "")
    if not place.left.strip() and said in {below, place.above.strip()} and not _structural(said):
        return True
    return not any(char.isalnum() or char in "_\"'`" for char in said) and not _closes_something(said, place)


def _structural(line: str) -> bool:
    """Whether a line may well stand twice in a row: closers, `end`."""
    return not line.strip(")]};,") or line in {"end", "fi", "done"}


def _closes_something(said: str, place: Place) -> bool:
    """Signs alone are worth showing where they end something: closers, or a mark after text on the line."""
    if not said.strip(")]}>;,"):
        return not place.closing
    return bool(place.left.strip()) and len(said) <= 12 and "\n" not in said
