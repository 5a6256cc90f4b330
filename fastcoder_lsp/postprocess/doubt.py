"""Withholding text that the model was not sure of: closers at its end, marks alone, longer words.

The rest is a beginning of the model's output, or nothing.
"""

import re

from fastcoder_lsp.core.certainty import Certainty
from fastcoder_lsp.postprocess.balance import last_closers
from fastcoder_lsp.postprocess.text_around import TextAround

SURE = 0.9
"""A closer of the user's bracket is shown at the end of a text if it was so probable: otherwise the user is about as
likely to continue inside, and the closer is in the way at every key."""
LIKELY_MARKS = 0.5
"""The same for a text of marks alone: `:`, `()`."""
LIKELY_WORD = 0.5
"""A word that could be whole is continued if the model found that at least as likely as its end."""
_WORD_AT_END = re.compile(r"\w+\Z")
_WORD = re.compile(r"\w+")


def without_unsure_closers(text: str, certainty: Certainty, around: TextAround) -> str:
    """`text` up to the first of its last closers that the model was not sure of, unless nothing would be left."""
    for at in last_closers(text, around):
        sure = certainty.at(len(text[:at].encode()))
        if sure is not None and sure < SURE:
            return text[:at].rstrip() or text
    return text


def held_back(text: str, certainty: Certainty, around: TextAround) -> bool:
    """Whether `text` is shown only to users who ask for it by a key."""
    if not certainty.rows:
        return False
    if not any(map(str.isalnum, text)):
        return certainty.of_first(len(text.encode())) < LIKELY_MARKS
    begun, added = _WORD_AT_END.search(around.left), _WORD.match(text)
    if begun is None or added is None:
        return False
    sure = certainty.of_longer_word()
    if sure is not None:
        return sure < LIKELY_WORD
    # The model expected another word: it continues the typed one only because it must.
    return _known(begun[0], around) and not _known(begun[0] + added[0], around)


def _known(word: str, around: TextAround) -> bool:
    """Whether `word` occurs near the cursor, other than right before it."""
    found = re.compile(rf"\b{re.escape(word)}\b(?!\Z)")
    return any(found.search(side) for side in (around.near_before, around.near_after))
