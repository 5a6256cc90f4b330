"""Closers that an editor put right of the cursor: whether a suggestion writes over them or stands before them."""

from fastcoder_lsp.postprocess.place import Place
from fastcoder_lsp.syntax import CLOSER_OF, scan


def replaces(text: str, before: str, after: str, language: str = "") -> int:
    """How many characters of `after`, on the cursor's line, the suggestion `text` stands instead of.

    Not 0 only where nothing but closers is right of the cursor and `text` itself closes what they would: the editor
    typed `)` after `(`, and the suggestion goes on beyond the parenthesis.
    """
    place = Place(before, after, language)
    closing = place.closing
    if not closing or not text.strip():
        return 0
    return 0 if fits(place.near_before + text, closing, language) else len(closing)


def fits(text: str, closing: str, language: str) -> bool:
    """Whether each closer of `closing` closes something that `text` leaves open, in order."""
    state = scan(text, language)
    wanted = state.quote + "".join(CLOSER_OF[sign] for _, sign in reversed(state.openers))
    at = 0
    for sign in closing:
        if sign in ";, \t>":
            continue
        if at < len(wanted) and wanted[at] == sign:
            at += 1
        else:
            return False
    return True
