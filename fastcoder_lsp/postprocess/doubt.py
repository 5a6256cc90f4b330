"""Withholding text that the model was unsure of: closers at its end, punctuation alone, longer words.

The rest is a beginning of the model's output, or nothing.
"""

import re

from fastcoder_lsp.core.certainty import Certainty
from fastcoder_lsp.postprocess.balance import last_closers
from fastcoder_lsp.postprocess.text_around import TextAround

SURE = 0.9
"""A closer of the user's bracket is shown at the end of a text only if it was so probable.

Otherwise the user is about as likely to continue inside, and the closer is in the way at every key.
"""
SURE_MARKS = 0.98
"""Punctuation alone, such as `...`, is shown only if it was so probable."""
FEWEST_MARKS = 3
"""Less punctuation alone, such as `:` or `()`, is never shown: accepting it takes a key, too."""
LIKELY_WORD = 0.5
"""A complete word is continued only if the model found that at least as likely as its end."""
OVER_END = 2.0
"""What is added to a word has to be so many times as likely as the word's end, and not only some longer word."""
SURE_WORD = 0.8
"""The same for a name of the file, in code, and for the longer name if the file does not have it."""
_MOST_TYPED = 120
"""Characters of a text whose rests are judged, as the user types along."""
_MOST_MARKS = 40
"""Characters at a text's end that are judged as punctuation, blanks included."""
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

    Such a rest lengthens a word that the model found likelier to end, or is punctuation that is short or unsure.
    """
    inside = (at for word in _WORD.finditer(text[:_MOST_TYPED]) for at in range(word.start() + 1, word.end()))
    marks = range(max(len(text.rstrip()) - _MOST_MARKS, 1), len(text))
    tried = dict.fromkeys((0, *inside, *marks))
    return tuple(at for at in tried if _held_back(text, at, certainty, around))


def _held_back(text: str, at: int, certainty: Certainty, around: TextAround) -> bool:
    rest, typed = text[at:], len(text[:at].encode())
    if not any(map(str.isalnum, rest)):
        few = 0 < len("".join(rest.split())) < FEWEST_MARKS
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
