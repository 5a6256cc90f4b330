"""Texts that are in the way: marks alone, and letters that make a finished word longer.

Pure: judged by what stands before the cursor and what is typed next.
"""

from benchmarks.keystroke.records import Flaw


def flaw_of(shown: str, before: str, coming: str) -> Flaw:
    """What is in the way of a person who has typed `before`, sees `shown` and will type `coming`; "" where nothing is.

    Marks that come next are "marks", any others "wrong marks". A word is finished where none of its letters come next.
    """
    if not any(map(str.isalnum, shown)):
        return "marks" if coming.startswith(shown.rstrip()) else "wrong marks"
    if _in_word(before[-1:]) and _in_word(shown[:1]) and not _in_word(coming[:1]):
        return "longer word"
    return ""


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
