"""Places where a suggestion would be in the way: each rule with a setting.

Owns the rules and what they remember; what looks like a secret is judged by `workspace/secret_lines`. Pure but for
`Rejections`, which follows what becomes of the suggestions.
"""

import re
from typing import Literal

from fastcoder_lsp.completion.place import Place

Rule = Literal["middle_of_word", "rejections", "secret"]

_AT_REST_MS = 20_000.0
"""A rejection that is older counts no more."""
_WORD_TAKEN = re.compile(r"\w\W")


def in_word(place: Place) -> bool:
    """Whether the cursor stands in a word that goes on to its right."""
    return _wordy(place.before[-1:]) and _wordy(place.after[:1])


class Rejections:
    """How many suggestions in a row were not taken: shown while typing, and then something else was typed.

    Once there were too many, a line gets one suggestion, until one is taken, a key asks for one, or some time passes.
    """

    def __init__(self) -> None:
        self._streak = 0
        self._shown: tuple[str, Place, str] | None = None
        self._rejected_in: tuple[str, int] | None = None
        self._rejected_ms = 0.0

    def shown(self, document: str, place: Place, text: str) -> None:
        """This was shown; what is left of what was shown before does not count again."""
        if self._shown is None or not self._shown[2].endswith(text):
            self._shown = document, place, text

    def taken(self) -> None:
        """A suggestion was taken, or one was asked for."""
        self._streak, self._shown = 0, None

    def asked(self, document: str, place: Place, now_ms: float) -> None:
        """The next question tells what became of the last suggestion."""
        if abs(now_ms - self._rejected_ms) > _AT_REST_MS:  # either way: a clock may be put back
            self._streak = 0
        if self._shown is None:
            return
        where, then, text = self._shown
        typed = place.before[len(then.before) :] if place.before.startswith(then.before) else None
        if where == document and typed is not None and text.startswith(typed):
            if _WORD_TAKEN.search(typed) or typed == text:
                self.taken()
            return
        self._shown = None
        self._streak += 1
        self._rejected_in, self._rejected_ms = _line(document, place), now_ms

    def too_many(self, document: str, place: Place, most: int) -> bool:
        """Whether this line has had its suggestion, `most` in a row having been rejected; 0: never too many."""
        return 0 < most <= self._streak and self._rejected_in == _line(document, place)


def _line(document: str, place: Place) -> tuple[str, int]:
    return document, place.before.rfind("\n")


def _wordy(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
