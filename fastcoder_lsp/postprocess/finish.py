r"""The model's output, made into the text to insert at the cursor; "" if nothing is worth showing.

Each rule is a function of its own (`overlap`, `indentation`, `balance`, `rubbish`). They are applied until nothing
changes, so finishing is idempotent. Texts have `\n` line ends.
"""

import re
from collections.abc import Callable

from fastcoder_lsp.postprocess.balance import balance
from fastcoder_lsp.postprocess.indentation import indentation
from fastcoder_lsp.postprocess.overlap import overlap
from fastcoder_lsp.postprocess.overwrite import written_over
from fastcoder_lsp.postprocess.rubbish import control_text, fence, repetition, rubbish
from fastcoder_lsp.postprocess.text_around import TextAround

Rule = Callable[[str, TextAround], str]
_RULES: tuple[Rule, ...] = (control_text, fence, repetition, indentation, overlap, balance)
_ROUNDS = 8
_TRAILING = re.compile(r"(?<![^\S\n])[^\S\n]++(?=\n)")


def finish(raw: str, before: str, after: str, language: str) -> str:
    """The text to insert between `before` and `after`.

    It does not repeat the text that follows, is indented like the document, closes its own brackets and no more, has no
    trailing blanks, and is empty rather than rubbish. Idempotent.

    Args:
        raw: the model's output, up to the end that the stop rule found.
        before: the document up to the cursor.
        after: the document from the cursor.
        language: the document's LSP language id.
    """
    return finish_at(raw, TextAround(before, after, language))


def finish_at(raw: str, around: TextAround) -> str:
    """`finish` for a text around the cursor that is already read."""
    text = raw.replace("\r\n", "\n").replace("\r", "\n")
    for _ in range(_ROUNDS):
        finished = _once(text, around)
        if finished == text:
            return text
        text = finished
    return ""


def whole_lines(text: str, before: str) -> str:
    """The showable part of an incomplete `text`, as after a deadline: up to its last complete line.

    A single incomplete line loses its last word, which may be incomplete.
    """
    lines, newline, rest = text.rpartition("\n")
    if newline and (lines.strip() or not before.rpartition("\n")[2].strip()):
        return lines
    return text[: len(text) - len(re.split(r"\W", rest)[-1])].rstrip() if rest else text


def _once(text: str, around: TextAround) -> str:
    for rule in _RULES:
        text = rule(text, around)
    text = _without_trailing_blanks(text, around)
    return "" if rubbish(text, around) else text


def _without_trailing_blanks(text: str, around: TextAround) -> str:
    """`text` without blanks at line ends; before text right of the cursor one blank, or its new line, stays."""
    stripped = _TRAILING.sub("", text).rstrip()
    tail = text[len(text.rstrip()) :]
    _, newline, blanks = tail.rpartition("\n")
    if newline and stripped and around.right.strip() and not written_over(text, around):
        return f"{stripped}\n{blanks}"
    parted = tail.startswith(" ") and around.right[:1].strip() and around.closing[:1] in {"", "}", '"', "'", "`"}
    return stripped + " " if stripped and parted else stripped
