r"""The showable part of an unfinished output: complete lines that no later text can change.

It is always a beginning of the suggestion for the whole output, so it ends where post-processing might still change the
text: its rules depend on repetition, on the lines below, and on brackets. Texts have `\n` line ends.
"""

from collections.abc import Callable

from fastcoder_lsp.postprocess.balance import goes_on
from fastcoder_lsp.postprocess.finish import finish_at
from fastcoder_lsp.postprocess.overwrite import written_over
from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.syntax import indent

_LINES_TRIED = 6
"""Beginnings that are tried, longest first; each costs a round of post-processing."""
_MORE_LINES = 96
"""More lines than any rule allows a single statement."""
_DEEP = 120
"""A column inside any block."""
_GOING_ON = (
    *("elif ", "else", "elsif ", "elseif ", "except", "finally", "rescue", "ensure", "catch", "case ", "when "),
    *("end", "fi", "done", "esac", "until "),
)
"""First words of lines that belong to the statement above (`syntax.continues_block`, `closes_block`)."""


def useful(said: str, before: str, after: str, language: str, cut: Callable[[str], int | None]) -> str:
    """The longest part of `said` worth showing between `before` and `after`: whole lines, finished; else "".

    `said` is the output so far, in which the stop rule of this place (`decode.stop.StopRule.cut`) has found no end.
    """
    return useful_at(said, TextAround(before, after, language), cut)


def useful_at(said: str, around: TextAround, cut: Callable[[str], int | None]) -> str:
    """`useful` for a text around the cursor that is already read."""
    going_on = _at_worst(said)
    end = len(said)
    for _ in range(_LINES_TRIED):
        end = said.rfind("\n", 0, end)
        if end <= 0:
            return ""
        lines = said[:end].rstrip()
        if not lines or not _stays(lines, around):
            continue
        length = cut(going_on)
        if length is not None and length < len(lines):
            continue
        shown = _finished(lines, around)
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


def _stays(lines: str, around: TextAround) -> bool:
    """Whether post-processing keeps these lines, whatever lines follow."""
    whole = (around.left + lines).split("\n")
    last = whole[-1].strip()
    if last in {line.strip() for line in whole[:-1]}:
        return False  # a loop may begin here
    below = next((line.rstrip() for line in around.below if line.strip()), "")
    return last != below.strip()  # otherwise the rest may repeat the lines below


def _finished(lines: str, around: TextAround) -> str:
    """`lines` after post-processing, if that changed only blanks, or closed blocks that will continue; else ""."""
    shown = finish_at(lines, around)
    if not any(map(str.isalnum, shown)) or written_over(shown, around):
        return ""  # signs alone may become rubbish, and closers may be overwritten
    said, kept = ([line.strip() for line in text.split("\n")] for text in (lines, shown))
    closers = kept[len(said) :]
    if kept[: len(said)] != said or any(closer != "}" for closer in closers):
        return ""
    if _restyled(lines, shown) or _in_string(shown, around):
        return ""
    return "\n".join(shown.split("\n")[: len(said)])


def _in_string(shown: str, around: TextAround) -> bool:
    """Whether a string of several lines is open before or after `shown`, so that its end would change all meaning.

    Or a comment that would include the text right of the cursor: its brackets are not balanced.
    """
    lexed = around.lexed_with(shown)
    return bool(around.head.quote or lexed.quote or lexed.in_template or goes_on(lexed, around))


def _restyled(lines: str, shown: str) -> bool:
    had, has = (["\t" in indent(line) for line in text.split("\n")[1:]] for text in (lines, shown))
    return had != has[: len(had)]
