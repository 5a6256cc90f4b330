"""Withholding text that the model was unsure of: closers at its end, punctuation alone, longer words.

The rest is a beginning of the model's output, or nothing.
"""

import re

from fastcoder_lsp.core.certainty import Certainty
from fastcoder_lsp.postprocess.balance import last_closers
from fastcoder_lsp.postprocess.text_around import TextAround

SURE = 0.9
"""A closer of the user's bracket is shown at the end of a text only if it was so probable.

Otherwise the user is about as likely to continue inside, and the closer is in the way at every key. The same holds for
punctuation alone: `:`, `()`.
"""
LIKELY_WORD = 0.5
"""A complete word is continued only if the model found that at least as likely as its end."""
_MOST_TYPED = 120
"""Characters of a text whose rests are judged, as the user types along."""
_MOST_MARKS = 8
"""Characters at a text's end that are judged as punctuation."""
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
    """Lengths of beginnings of `text`, 0 included, after which only a manual request shows the rest.

    Such a rest lengthens a word that the model found likelier to end, or is punctuation that it was unsure of.
    """
    if not certainty.rows:
        return ()
    first = text[:_MOST_TYPED]
    inside = (at for word in _WORD.finditer(first) for at in range(word.start() + 1, word.end()))
    marks = range(max(len(text.rstrip()) - _MOST_MARKS, 1), len(text)) if len(first) == len(text) else ()
    tried = dict.fromkeys((0, *inside, *marks))
    return tuple(at for at in tried if _held_back(text, at, certainty, around))


def _held_back(text: str, at: int, certainty: Certainty, around: TextAround) -> bool:
    """Whether only a manual request shows the rest of `text` from `at`."""
    rest, typed = text[at:], len(text[:at].encode())
    if not any(map(str.isalnum, rest)):
        return certainty.of_first(len(text.encode()), typed) < SURE
    begun, added = _WORD_AT_END.search(around.left[-_MOST_TYPED:] + text[:at]), _WORD.match(rest)
    if begun is None or added is None:
        return False
    sure = certainty.of_longer_word(typed, min(len(begun[0].encode()), typed))
    if sure is not None:
        return sure < LIKELY_WORD
    # The model expected another word, and continues the typed one only because it must.
    return not at and _known(begun[0], around) and not _known(begun[0] + added[0], around)


def _known(word: str, around: TextAround) -> bool:
    """Whether `word` occurs near the cursor, except right before it."""
    found = re.compile(rf"\b{re.escape(word)}\b(?!\Z)")
    return any(found.search(side) for side in (around.near_before, around.near_after))
