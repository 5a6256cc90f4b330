r"""Where a text ends and what it covers: its end and its beginning, aligned with the text right of the cursor.

A text that ends with what stands there covers that, where the rest of it closes all that it opens: in any language,
the document then balances as before. Else the text right of the cursor begins with *closers* that the editor inserted,
or that stood there, and a text that closes the same brackets, strings or tags covers them. A text that begins a line of
its own keeps its line end. Where it would run into what stands there, nothing fits.
"""

import re

from fastcoder_lsp.postprocess.brackets import ARROW, right_closers
from fastcoder_lsp.postprocess.text_around import TextAround, in_word, wordy
from fastcoder_lsp.syntax import CLOSER_OF, KNOWN, MARKUP, indent, opens_block, width

_STRING = re.compile(r"""(["'`])(?:\\.|(?!\1)[^\\\n])*\1""")
_EMPTY_PAIR = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")
_SIGN = re.compile(r"""[()\[\]{}"'`]""")
_TAG_NAME = re.compile(r"<[\w:.-]+\Z")
_SELECTORS = (".", "?.", "->", "::")  # operators that select a member, and so need a name on their right
_STOPS = ",;:"
_SURE = 12  # a text of several lines repeats so many characters, or all that stands there
_FIRST_WORD = re.compile(r"\s*(\w+|[^\w\s]\W+[^\w\s])")  # or a run of signs, such as `() =>`
_STATEMENT = re.compile(
    r"(?:async|class|const|def|enum|export|fn|func|function|impl|import|interface|let|local|package|private|protected|"
    r"pub|public|return|static|struct|type|use|using|var)\b|[@#]\w"
)
"""Text right of the cursor that begins a line of its own, whatever stands left of it."""


def covered(text: str, around: TextAround) -> int:
    """The number of characters right of the cursor that `text` says itself, and so covers."""
    right, body = around.right.rstrip(), text.rstrip()
    if not right.strip() or not body or keeps_line_end(text, around):
        return 0
    if right in _SELECTORS:
        return _selector(body, right, around)
    if again := _again(body, right, around):
        return again
    if not around.closers.signs:
        return _words(body, right) or _signs(body, right)
    return _closed(body, right, around)


def inserted(text: str, around: TextAround) -> str:
    """`text` for clients that cover nothing: up to the first closer that stands right of the cursor."""
    if not covered(text, around):
        return text
    closes, _ = right_closers(text, around)
    return text[: closes[0][0]].rstrip() if closes else ""


def fit(text: str, around: TextAround) -> str:
    """The shortest text that makes the same document; "" where it would run into what stands right of the cursor."""
    right, body = around.right.rstrip(), text.rstrip()
    if not right.strip() or not body:
        return text
    if keeps_line_end(text, around):
        return _whole_line(text, right, around)
    if wordy(text[0]) and _TAG_NAME.search(around.left) and any(sign.startswith("</") for sign in around.closers.signs):
        return ""  # the closing tag has the shorter name
    if around.closers.signs and not around.closing and not covered(body, around):
        line = body.partition("\n")[0]
        body = line if covered(line, around) == len(right) else body  # what it says below may stand there
    tail = text[len(body) :] if "\n" in body else text[len(body) :].partition("\n")[0]
    said = (right, right.lstrip("!~"))
    stands = any(one.startswith(body) and not in_word(body, one[len(body) :]) for one in said)
    if stands or (not tail and _repeats(body, right, around)):
        return ""
    if "\n" in text[len(body) :] and "\n" not in body and wordy(right[covered(body, around) :][:1]):
        return ""
    if (cut := _before_closers(body, around)) != body:
        body, tail = cut, ""
    shorter = _shortest(body, right, around)
    if shorter != body:
        body, tail = shorter.rstrip(), shorter[len(shorter.rstrip()) :]
    joins = body.strip() and _joins(body, tail, right[covered(body, around) :], around)
    return body + tail if joins else ""


def keeps_line_end(text: str, around: TextAround) -> bool:
    """Whether the model ended a line, and what stands right of the cursor is a line of its own."""
    right = around.right.lstrip()
    if "\n" not in text[len(text.rstrip()) :] or not any(map(str.isalnum, right)):
        return False
    return not around.left.strip() or _STATEMENT.match(right) is not None


def keeps_blank(around: TextAround) -> bool:
    """Whether a blank at the text's end stays before what stands right of the cursor."""
    return bool(around.right[:1].strip()) and around.closing[:1] in {"", "}", '"', "'", "`"}


def _whole_line(text: str, right: str, around: TextAround) -> str:
    body, said = text.rstrip(), right.strip()
    if body.endswith(said) and not in_word(body[: -len(said)], said):
        body = body[: -len(said)].rstrip(" \t")
        return fit(body, around) if body.endswith("\n") else body
    line = (around.left + body).rpartition("\n")[2]
    if opens_block(line, around.language):
        return ""  # it opens a block or a bracket above what stands there
    lines = text[len(body) :].count("\n")
    return body + "\n" * lines + indent(around.left)


def _again(body: str, right: str, around: TextAround) -> int:
    """The length of the longest beginning of `right` that closes something and that `body` ends with.

    What `body` says before that closes all that it opens, so it does not say the closers for itself.
    """
    if around.unclosed:
        return 0
    for length in range(min(len(right), len(body)), 0, -1):
        said, again = body[:-length], right[:length]
        if body.endswith(again) and not (said.startswith(again) or _is_whole(again)) and _is_whole(said):
            return length
    return 0


def _is_whole(text: str) -> bool:
    """Whether all brackets and quotes in `text` have a partner there, whatever its language."""
    rest = _STRING.sub("", text)
    while (shorter := _EMPTY_PAIR.sub("", rest)) != rest:
        rest = shorter
    return not _SIGN.search(rest)


def _words(body: str, right: str) -> int:
    """The length of the beginning of `right`, with a word in it, that `body` ends with."""
    least = min(len(right), _SURE if "\n" in body else 1)
    for length in range(min(len(right), len(body)), least - 1, -1):
        shared = right[:length]
        again = body.endswith(shared) and not right.startswith(shared, length)  # of like entries one may be missing
        if not again or not any(map(str.isalnum, shared)):
            continue
        if not in_word(body[:-length], shared) or len(_first_word(shared)) > 1:
            return length
    whole = right.strip()
    again = body.startswith(whole) and not body[len(whole) :].strip(")]}>; ")
    return len(right) if again else 0


def _signs(body: str, right: str) -> int:
    """The length of the beginning of `right` without a word that `body` ends with."""
    if right.strip("*/-=+<>&#~!.\"'` \t") and not any(map(str.isalnum, right)) and body.endswith(right.strip()):
        return len(right)
    return len(indent(right)) + 1 if body[-1] in ",;" and right.lstrip().startswith(body[-1]) else 0


def _closed(body: str, right: str, around: TextAround) -> int:
    """The end of the last closer right of the cursor that `body` closes itself, and of what it repeats behind that."""
    signs, closer_ends = around.closers.signs, [0, *around.closers.ends]
    closes, count = right_closers(body, around)
    ends = [end for _, end in closes]
    if not ends:
        return 0
    behind = right[closer_ends[-1] :]
    if behind.strip(f"{_STOPS} \t"):
        length = _words(body, behind) if len(ends) == len(signs) else 0
        return closer_ends[-1] + length if length else closer_ends[count] if ends[-1] == len(body) else 0
    if behind.strip() and body[-1] in (*_STOPS, "{"):
        return len(right)
    return closer_ends[count]


def _before_closers(body: str, around: TextAround) -> str:
    """`body` up to the first closer that stands right of the cursor, if other text stands behind it."""
    if "\n" in body or covered(body, around):
        return body
    closes, lasting = right_closers(body, around)
    return body[: closes[0][0]].rstrip() if lasting else body


def _shortest(body: str, right: str, around: TextAround) -> str:
    """The shortest beginning of `body` that makes the same document."""
    covers = covered(body, around)
    for length in range(min(covers, len(body)), 0, -1):
        if body[-length:] != right[covers - length : covers]:
            continue
        shorter = body[:-length]
        stays = keeps_blank(around) and "\n" not in body and covers <= max(around.closers.ends, default=covers)
        if shorter[-1:].isspace() and not stays:
            continue
        part = length < covers or covers < len(right)
        own = part and all(end <= len(shorter) for _, end in right_closers(body, around)[0])  # it opened that, too
        if not shorter.strip() or (not own and covered(shorter, around) == covers - length):
            return shorter
    return body


def _repeats(body: str, right: str, around: TextAround) -> bool:
    """Whether `body` begins with what stands right of the cursor, and says nothing new before it."""
    said = right.strip()
    if "\n" in body or not any(map(str.isalnum, said)) or covered(body, around):
        return False
    first = _first_word(said)
    ends = (wordy(body[-1]) or body[-1] in f")]}}\"'`;>{said[-1]}") and not ARROW.search(body[-2:])
    return bool(first) and _first_word(body) == first and ends


def _joins(body: str, tail: str, right: str, around: TextAround) -> bool:
    """Whether `right` may stand directly behind `body`."""
    if around.closing or "\n" in body or not any(map(str.isalnum, right)):
        return True  # a text of several lines is cut where a line of its own would end
    begins = not around.left.strip() and (wordy(right[0]) or _STATEMENT.match(right))
    if begins and not tail.strip("\n") and body[-1] not in "([{,.=+-*/%&|<!~:$@#\\\"'`":
        return False
    if tail or not wordy(right[0]):
        return True
    if wordy(body[-1]):
        return wordy(around.left[-1:]) and all(map(wordy, body))
    plain = around.language in KNOWN - MARKUP and not around.head.quote and not around.head.comment
    if plain and body[-1] == ":" and opens_block(around.left + body, around.language):
        return False
    return not (plain and body[-1] in ")]}" and not (body[0] in CLOSER_OF and CLOSER_OF[body[0]] == body[-1]))


def _selector(body: str, right: str, around: TextAround) -> int:
    """The length of the selector alone right of the cursor that `body` begins with, unless a line below continues it.

    In some languages lines of a chain end with the selector.
    """
    if not body.startswith(right) or around.above.endswith(right):
        return 0
    below = next(iter(around.below), "")
    return 0 if width(indent(below)) > width(indent(around.left)) else len(right)


def _first_word(text: str) -> str:
    found = _FIRST_WORD.match(text)
    return found[1] if found else ""
