r"""The showable part of an output: complete lines that no later text can change, and nothing that is too unsure.

The part of an unfinished output is always a beginning of the suggestion for the whole, so it ends where post-processing
might still change the text: its rules depend on repetition, on the lines below, and on brackets. The model may also be
unsure of closers at the end, of punctuation alone and of longer words; the rest is shown. Texts have `\n` line ends.
"""

import re
from collections.abc import Callable

from fastcoder_lsp.core.certainty import Certainty
from fastcoder_lsp.core.chances import FEWEST_SHOWN
from fastcoder_lsp.postprocess.brackets import goes_on, last_closers
from fastcoder_lsp.postprocess.finish import finish
from fastcoder_lsp.postprocess.fit import covered
from fastcoder_lsp.postprocess.rubbish import without_header
from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.syntax import indent, is_comment

_LINES_TRIED = 6  # beginnings that are tried, longest first; each costs a round of post-processing
_MORE_LINES = 96  # more lines than any rule allows a single statement
_DEEP = 120  # a column inside any block
_GOING_ON = (
    *("elif ", "else", "elsif ", "elseif ", "except", "finally", "rescue", "ensure", "catch", "case ", "when "),
    *("end", "fi", "done", "esac", "until "),
)
"""First words of lines that belong to the statement above (`syntax.continues_block`, `closes_block`)."""


def useful(said: str, around: TextAround, cut: Callable[[str], int | None]) -> str:
    """The longest part of `said` worth showing at the cursor: whole lines, finished; else "".

    `said` is the output so far, in which the stop rule of this place (`decode.stop.StopRule.cut`) has found no end.
    """
    going_on, end = _at_worst(said), len(said)
    for _ in range(_LINES_TRIED):
        end = said.rfind("\n", 0, end)
        if end <= 0:
            return ""
        lines = said[:end].rstrip()
        if without_header(lines, around) != lines:
            continue
        length = cut(going_on)
        if length is not None and length < len(lines):
            continue
        shown = _kept(lines, around)
        if shown:
            return shown
    return ""


def _at_worst(said: str) -> str:
    """`said` with a last statement so long that a rule that cuts before long statements applies."""
    whole, _, begun = said.rpartition("\n")
    endless = "\n".join(f"{' ' * _DEEP}more_{number} +" for number in range(_MORE_LINES)) + "\n"
    word = begun.strip()
    # An incomplete word may turn out to continue the statement above.
    if not word or any(keyword.startswith(word) for keyword in _GOING_ON):
        return f"{whole}\n{endless}"
    return f"{said}_\n{endless}"


def _kept(lines: str, around: TextAround) -> str:
    """`lines` after post-processing, if it keeps them whatever lines follow; else ""."""
    *above, last = (line.strip() for line in (around.left + lines).split("\n"))
    shown = finish(lines, around)
    # A loop may begin at a line that repeats another, signs alone may become rubbish, and closers may be overwritten.
    if last in above or not any(map(str.isalnum, shown)) or covered(shown, around):
        return ""
    # Only blanks may change; the closers that it adds stay away, because the text goes on.
    said, kept = ([("\t" in indent(line), line.strip()) for line in text.split("\n")] for text in (lines, shown))
    if kept[: len(said)] != said or any(closer != "}" for _, closer in kept[len(said) :]):
        return ""
    # The end of a string changes all meaning, and so does a comment that includes the text right of the cursor.
    lexed = around.lexed_with(shown)
    if around.head.quote or lexed.quote or lexed.in_template or goes_on(lexed, around):
        return ""
    return "\n".join(shown.split("\n")[: len(said)])


SURE = 0.9
"""A closer of the user's bracket ends a text only if so probable: else the user is as likely to go on inside."""
SURE_MARKS = 0.98  # punctuation alone, such as `...`, is shown only if it was so probable
LIKELY_WORD = 0.5  # a complete word is continued only if the model found that at least as likely as its end
SURE_COMMENT = 0.9  # a comment that the user has not begun, behind a finished line
OVER_END = 2.0  # an addition to a word must be so many times as likely as the word's end
SURE_WORD = 0.8  # the same for a name of the file, in code, and for the longer name if the file does not have it
_MOST_TYPED = 120  # characters of a text whose rests are judged, as the user types along
_MOST_MARKS = 40  # characters at a text's end that are judged as punctuation, blanks included
_NO_COMMENTS = ("@", '"', "'")  # which `is_comment` counts as one
_WORD_AT_END = re.compile(r"\w+\Z")
_WORD = re.compile(r"\w+")


def without_unsure_closers(text: str, certainty: Certainty, around: TextAround) -> str:
    """`text` up to the first of its last closers that the model was unsure of, unless nothing would be left."""
    for at in last_closers(text, around):
        sure = certainty.at(len(text[:at].encode()))
        if sure is not None and sure < SURE:
            return text[:at].rstrip() or text
    return text


def unsure_at(text: str, certainty: Certainty, around: TextAround) -> tuple[int, ...]:
    """Lengths of beginnings of `text`, after which only a manual request shows the unsure rest."""
    inside = (at for word in _WORD.finditer(text[:_MOST_TYPED]) for at in range(word.start() + 1, word.end()))
    marks = range(max(len(text.rstrip()) - _MOST_MARKS, 1), len(text))
    tried = dict.fromkeys((0, *inside, *marks))
    return tuple(at for at in tried if _held_back(text, at, certainty, around))


def _held_back(text: str, at: int, certainty: Certainty, around: TextAround) -> bool:
    rest, typed = text[at:], len(text[:at].encode())
    if not at and certainty.rows and _begins_comment(text, around):
        return certainty.of_first(1 + len(text.encode()) - len(text.lstrip().encode())) < SURE_COMMENT
    if not any(map(str.isalnum, rest)):
        few = 0 < len("".join(rest.split())) < FEWEST_SHOWN
        return few or certainty.of_first(len(text.encode()), typed) < SURE_MARKS
    if not certainty.rows:
        return False
    begun, added = _WORD_AT_END.search(around.left[-_MOST_TYPED:] + text[:at]), _WORD.match(rest)
    if begun is None or added is None:
        return False
    sure = certainty.of_longer_word(typed, min(len(begun[0].encode()), typed))
    is_whole, is_new = begun[0] in around.words, begun[0] + added[0] not in around.words
    if sure is None and not at:
        # The model expected another word, and continues the typed one only because it must.
        return is_whole and is_new
    is_whole = is_whole and not (around.head.comment or around.head.quote)  # in prose, words begin words
    exact = certainty.of_first(typed + len(added[0].encode()), typed)
    if sure is not None and exact < OVER_END * (1 - sure):
        return True
    if is_whole and is_new:
        sure = exact if sure is None else min(sure, exact)
    return sure is not None and sure < (SURE_WORD if is_whole else LIKELY_WORD)


def _begins_comment(text: str, around: TextAround) -> bool:
    """Whether `text` is a comment behind code that the user has not begun."""
    head = around.head
    if not around.left.strip() or head.comment or head.quote or not around.lexed_with(text).comment:
        return False
    return is_comment(text, around.language) and not text.lstrip().startswith(_NO_COMMENTS)
