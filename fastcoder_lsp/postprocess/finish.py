r"""The model's output, made into the text to insert at the cursor; "" if nothing is worth showing.

Each rule is a function of its own (`fit`, `indentation`, `balance`, `rubbish`). They are applied until nothing
changes, so finishing is idempotent. Texts have `\n` line ends.
"""

import re
from collections.abc import Callable
from itertools import takewhile
from typing import Literal

from fastcoder_lsp.postprocess.brackets import balance
from fastcoder_lsp.postprocess.fit import covered, fit, keeps_blank, keeps_line_end
from fastcoder_lsp.postprocess.indentation import indentation
from fastcoder_lsp.postprocess.rubbish import (
    comment_before_code,
    control_text,
    fence,
    is_distinctive,
    repetition,
    rubbish,
    without_header,
)
from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.syntax import COLON_BLOCKS, indent, width

_BELOW = 3  # lines of a block that is recognised below
_BRANCH = re.compile(r"\s*(?:\}\s*)?(else|except|finally|rescue|ensure|catch)\b(?!\s+if\b)")
_KIND = re.compile(r"\b[A-Z]\w*")  # the exceptions of a handler
_OPENED_STRING = re.compile(r"[A-Za-z]{0,2}[\"'`]+")
_SURE = 12  # characters of the string below that are hardly said by chance
_DATA = frozenset({"css", "json", "jsonc", "less", "scss", "sql", "toml", "xml", "yaml"})
"""Languages whose texts are rows of like entries."""


def lines_below(text: str, around: TextAround) -> str:
    """`text` up to the line from which it equals the lines below the cursor, or begins their branch of a statement.

    Lines that equal those below only for a while are kept, because code repeats itself. On an empty line, a few
    distinctive lines are enough, except in data, where entries often differ by a name only: there, a text may leave the
    entry and begin another one.
    """
    below = [line.rstrip() for line in around.below if line.strip()]
    lines = text.split("\n")
    string_below = _OPENED_STRING.sub("", below[0].strip(), count=1) if below and around.head.quote else ""
    if len(string_below) >= _SURE and lines[0].endswith(string_below):
        return lines[0].removesuffix(string_below)  # the string goes on below
    if around.right.strip() and not around.closing:
        return text
    said = [index for index, line in enumerate(lines) if line.strip()]
    whole = [(around.left + line if not index else line).rstrip() for index, line in enumerate(lines)]
    for at, index in enumerate(said):
        if not index and around.left.strip():
            continue
        run = 0
        while run < min(len(said) - at, len(below)) and whole[said[at + run]] == below[run]:
            run += 1
        ends = at + run == len(said) or (run > 1 and run == len(below))
        if ends or _is_branch_of(whole[index:], below) or (not at and _begins(whole, run, below, around)):
            left = "\n".join(lines[:index])
            return without_header(left, around) if around.language in COLON_BLOCKS else left
    return text


def _is_branch_of(lines: list[str], below: list[str]) -> bool:
    """Whether `lines` begin a branch of the statement that goes on `below` with one that has no place beside it."""
    own, column = _BRANCH.match(lines[0]), width(indent(lines[0]))
    other = own and _BRANCH.match(next((line for line in below if width(indent(line)) <= column), ""))
    if own is None or other is None or own[1] != other[1] or width(indent(other.string)) != column:
        return False
    if any(line and width(indent(line)) <= column and not _BRANCH.match(line) for line in lines[1:]):
        return False  # the branch below belongs to a later statement
    kinds = [set(_KIND.findall(branch.string[branch.end() :])) for branch in (own, other)]
    return not all(kinds) or bool(kinds[0] & kinds[1])


def _begins(lines: list[str], run: int, below: list[str], around: TextAround) -> bool:
    """Whether the first `run` of `lines` are all of the distinctive block right `below`."""
    block = list(takewhile(lambda line: any(map(str.isalnum, line)), below[:_BELOW]))
    leaves = any(width(indent(line)) < width(indent(block[0])) for line in lines if line and block)
    return run >= len(block) and is_distinctive(block) and not (leaves and around.language in _DATA)


_TRAILING = re.compile(r"(?<![^\S\n])[^\S\n]++(?=\n)")


def whole_lines(text: str, before: str) -> str:
    """An incomplete `text` up to its last complete line; a single incomplete line loses its last word."""
    lines, newline, rest = text.rpartition("\n")
    if newline and (lines.strip() or not before.rpartition("\n")[2].strip()):
        return lines
    return text[: len(text) - len(re.split(r"\W", rest)[-1])].rstrip() if rest else text


def _without_trailing_blanks(text: str, around: TextAround) -> str:
    """`text` without blanks at line ends; before text right of the cursor one blank, or its line end, stays."""
    body = _TRAILING.sub("", text)
    if keeps_line_end(body, around):
        return body
    stripped, tail = body.rstrip(), text[len(text.rstrip()) :]
    _, newline, blanks = tail.rpartition("\n")
    if newline and "\n" in stripped and around.right.strip() and not covered(stripped, around):
        return f"{stripped}\n{blanks}"
    return stripped + " " if stripped and tail.startswith(" ") and keeps_blank(around) else stripped


def _worth_showing(text: str, around: TextAround) -> str:
    return "" if rubbish(text, around) else text


Rule = Literal[
    "comment", "control", "fence", "repetition", "indentation", "right", "below", "brackets", "blanks", "nothing", ""
]
"""Why nothing of a text is left; "" if something is."""
_RULES: tuple[tuple[Rule, Callable[[str, TextAround], str]], ...] = (
    ("control", control_text),
    ("fence", fence),
    ("comment", comment_before_code),
    ("repetition", repetition),
    ("below", lines_below),
    ("indentation", indentation),
    ("right", fit),
    ("brackets", balance),
    ("blanks", _without_trailing_blanks),
    ("nothing", _worth_showing),
)
_ROUNDS = 8


def finish(raw: str, around: TextAround) -> str:
    """The text to insert at the cursor.

    It does not repeat the text that follows, is indented like the document, closes its own brackets and no more, has no
    trailing blanks, and is empty rather than rubbish. Idempotent. `raw`: the model's output, up to the end that the
    stop rule found.
    """
    return _finished(raw, around)[0]


def dropped_by(raw: str, around: TextAround) -> Rule:
    """The rule that leaves nothing of `raw`."""
    return _finished(raw, around)[1]


def _finished(raw: str, around: TextAround) -> tuple[str, Rule]:
    text = raw.replace("\r\n", "\n").replace("\r", "\n")
    for _ in range(_ROUNDS):
        last = text
        for name, rule in _RULES:
            text = rule(text, around)
            if not text.strip():
                return "", name
        if text == last:
            return text, ""
    return "", "nothing"
