r"""What can be shown of a text that the model has not finished: whole lines that no later text will take back.

Owns the choice where such a beginning ends. It is always a beginning of what the whole text would be shown as, so it is
shorter wherever post-processing might still change it: the rules there look at repetition, at the lines below, and at
brackets. Texts have `\n` line ends.
"""

from collections.abc import Callable

from fastcoder_lsp.postprocess.balance import goes_on
from fastcoder_lsp.postprocess.finish import finish_at
from fastcoder_lsp.postprocess.overwrite import written_over
from fastcoder_lsp.postprocess.text_around import TextAround
from fastcoder_lsp.syntax import indent

_LINES_TRIED = 6
"""Beginnings that are tried, from the longest on: each costs a round of post-processing."""
_MORE_LINES = 96
"""More than any rule lets a single statement grow by."""
_DEEP = 120
"""Columns: inside of any block."""
_GOING_ON = (
    *("elif ", "else", "elsif ", "elseif ", "except", "finally", "rescue", "ensure", "catch", "case ", "when "),
    *("end", "fi", "done", "esac", "until "),
)
"""Words that a line may begin with that belongs to the statement above (`syntax.continues_block`, `closes_block`)."""


def useful(said: str, before: str, after: str, language: str, cut: Callable[[str], int | None]) -> str:
    """The longest part of `said` worth showing between `before` and `after`: whole lines, finished; else "".

    Args:
        said: what the model has said so far, up to no end that the stop rule knows.
        before: the document up to the cursor.
        after: the document from the cursor.
        language: the document's LSP language id.
        cut: the stop rule of this place (`decode.stop.StopRule.cut`).
    """
    return useful_at(said, TextAround(before, after, language), cut)


def useful_at(said: str, around: TextAround, cut: Callable[[str], int | None]) -> str:
    """What `useful` gives, for a text around the cursor that is read already."""
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
    """`said`, its last statement going on for so long that a rule that cuts before long statements would do so."""
    whole, _, begun = said.rpartition("\n")
    endless = "\n".join(f"{' ' * _DEEP}more_{number} +" for number in range(_MORE_LINES)) + "\n"
    word = begun.strip()
    # What is no more than begun may still turn out to go on with the statement above.
    if not word or any(keyword.startswith(word) for keyword in _GOING_ON):
        return f"{whole}\n{endless}"
    return f"{said}_\n{endless}"


def _stays(lines: str, around: TextAround) -> bool:
    """Whether these lines stay as they are, whatever post-processing thinks of lines that follow."""
    whole = (around.left + lines).split("\n")
    last = whole[-1].strip()
    if last in {line.strip() for line in whole[:-1]}:
        return False  # perhaps a loop begins
    below = next((line.rstrip() for line in around.below if line.strip()), "")
    return last != below.strip()  # else perhaps all that follows is what stands below


def _finished(lines: str, around: TextAround) -> str:
    """`lines` after post-processing, where that changed no more than blanks, or closed blocks that are to go on."""
    shown = finish_at(lines, around)
    if not any(map(str.isalnum, shown)) or written_over(shown, around):
        return ""  # signs alone may turn out to be rubbish, and closers to be written over
    said, kept = ([line.strip() for line in text.split("\n")] for text in (lines, shown))
    closers = kept[len(said) :]
    if kept[: len(said)] != said or any(closer != "}" for closer in closers):
        return ""
    if _restyled(lines, shown) or _in_string(shown, around):
        return ""
    return "\n".join(shown.split("\n")[: len(said)])


def _in_string(shown: str, around: TextAround) -> bool:
    """Whether a string of several lines is open before or after `shown`: its end would change what all else means.

    Or a comment that what stands right of the cursor would be a part of: its brackets are not balanced.
    """
    lexed = around.lexed_with(shown)
    return bool(around.head.quote or lexed.quote or lexed.in_template or goes_on(lexed, around))


def _restyled(lines: str, shown: str) -> bool:
    """Whether blanks became tabs, or tabs blanks, which hangs on the lines to come."""
    had, has = (["\t" in indent(line) for line in text.split("\n")[1:]] for text in (lines, shown))
    return had != has[: len(had)]
