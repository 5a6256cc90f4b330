"""Where a part of a suggestion may end, if the rest of it is too unsure to be shown."""

import re
from collections.abc import Callable
from itertools import accumulate

from fastcoder_lsp.core.certainty import wordy
from fastcoder_lsp.postprocess.finish import finish
from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.syntax import CLOSER_OF, opens_block

_ENDS = frozenset(")]};\"'`>")
_ARROW = re.compile(r"[-=\s]>\Z")  # or a comparison
_OPERATOR = re.compile(r"\b(?:and|as|from|in|is|lambda|new|not|of|or)\Z")
_IN_NUMBER = re.compile(r"(?<=\d)\.(?=\d)")
_OPEN_FIELD = re.compile(r"\{[^}\"'`\n]*\Z")  # of a template or format: the lexer takes it for the string's text


def may_end(text: str, around: TextAround) -> Callable[[int], bool]:
    """Whether a part of `text` may end at an offset.

    It ends with a name, a whole number or a closer, with its own brackets, strings and fields of strings closed. A
    header that begins a line has a body. Lines after the first are whole.
    """
    start, lexed = len(around.near_before), around.lexed_with(text)
    signs = [(at - start, 1 if sign in CLOSER_OF else -1) for at, sign in lexed.signs if at >= start]
    opened = list(accumulate((step for _, step in signs), lambda own, step: max(0, own + step), initial=0))
    spans = [(begin - start, end - start) for begin, end in lexed.spans if begin >= start]
    prose = bool(around.head.comment or around.head.quote)
    whole_from = text.find("\n", len(text) - len(text.lstrip()))  # leading blank lines are none
    headers, at = list[tuple[int, int]](), 0
    for number, line in enumerate(text.split("\n")):
        whole = line if number else around.left + line
        if (number or not around.left.strip()) and opens_block(whole, around.language):
            headers.append((at, at + len(line)))
        at += len(line) + 1

    def allowed(end: int) -> bool:
        if not (wordy(text[end - 1].encode()) or text[end - 1] in _ENDS):
            return False
        if 0 <= whole_from < end < len(text.rstrip()) and text[end] != "\n":
            return False
        if _ARROW.search(text, 0, end) or (not prose and _OPERATOR.search(text, 0, end)):
            return False
        if _IN_NUMBER.match(text, end) or _OPEN_FIELD.search(text, 0, end):
            return False
        own = opened[sum(at < end for at, _ in signs)]
        inside = any(begin < end < stop for begin, stop in spans) or any(begin < end <= stop for begin, stop in headers)
        return not own and not inside

    return allowed


def begun_line(said: str, around: TextAround) -> str:
    """The beginning `said` of a line that goes on, post-processed; "" where that depends on how the line ends.

    A line of its own may turn out to be a header or to repeat another one; text right of the cursor, or below in the
    same string, may turn out to be said again.
    """
    if not around.left.strip() or around.head.quote or (around.right.strip() and not around.closing):
        return ""
    text = finish(said, around)
    return text if text.lstrip() == said.lstrip() else ""
