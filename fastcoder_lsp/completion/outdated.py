"""Suggestions that no longer hold, as guesses at what comes: typed past, rejected, or cut by an edit.

Owns the last ones of the last documents, and the arithmetic that finds where in such a text the user is now. What is
found is a draft: wrong ones cost a little speed, never an answer.
"""

from collections import OrderedDict, deque

from fastcoder_lsp.completion.place import Place
from fastcoder_lsp.completion.reuse import Suggestion

_NEAR = 48
"""Characters left of a place by which it is found again after edits elsewhere."""
_FAR = 400
"""Typed characters since a suggestion was made, beyond which it tells nothing about this place."""


class Outdated:
    """The last suggestions of each document, whatever became of them.

    Args:
        documents: how many documents are remembered.
        suggestions: how many suggestions of each.
    """

    def __init__(self, documents: int = 16, suggestions: int = 6) -> None:
        self._documents, self._suggestions = documents, suggestions
        self._of: OrderedDict[str, deque[Suggestion]] = OrderedDict()

    def keep(self, document: str, suggestion: Suggestion) -> None:
        """A suggestion was made, whole or not."""
        if not suggestion.text.strip():
            return
        of = self._of.setdefault(document, deque(maxlen=self._suggestions))
        self._of.move_to_end(document)
        if of and of[0].before == suggestion.before and suggestion.text.startswith(of[0].text):
            of.popleft()  # there is more of it now
        of.appendleft(suggestion)
        while len(self._of) > self._documents:
            self._of.popitem(last=False)

    def expected(self, document: str, place: Place) -> tuple[str, ...]:
        """What may be said at `place` in the light of what was said before, the likeliest first."""
        texts = (rest_after(suggestion, place) for suggestion in self._of.get(document, ()))
        return tuple(dict.fromkeys(text for text in texts if text.strip()))

    def forget(self, document: str) -> None:
        """The document was closed."""
        self._of.pop(document, None)

    def rename(self, old: str, new: str) -> None:
        """The document has another name now."""
        if (of := self._of.pop(old, None)) is not None:
            self._of[new] = of

    def clear(self) -> None:
        """Another model: it would say something else."""
        self._of.clear()


def rest_after(suggestion: Suggestion, place: Place) -> str:
    """What of `suggestion` is still to come at `place`; "" where the two have nothing to do with each other.

    What was typed since is laid along the suggestion: as far as both agree, and then by the last whole piece of it, a
    word or a run of signs, that the suggestion holds too, from where they parted on.
    """
    typed = _typed_since(suggestion, place)
    if typed is None:
        return ""
    shared = _shared(suggestion.text, typed)
    if shared == len(typed):
        return suggestion.text[shared:]
    text, tail = suggestion.text[shared:], typed[shared:]
    for length in range(min(len(tail), len(text)), 0, -1):
        piece = tail[-length:]
        found = text.find(piece)
        if piece.strip() and found >= 0 and _whole_pieces(tail, len(tail) - length, text, found):
            return text[found + length :]
    # Perhaps a name was changed and no more: what came after the name that stood here.
    return text[_word(text) :] if _word(tail) == len(tail) else ""


def _typed_since(suggestion: Suggestion, place: Place) -> str | None:
    """What was typed since it was made; None where its place is not to be found, or is left long since."""
    site = len(suggestion.before)
    if not place.before.startswith(suggestion.before):
        near = suggestion.before[-_NEAR:]
        found = place.before.rfind(near, max(0, len(place.before) - _NEAR - _FAR)) if near else -1
        if found < 0:
            return None
        site = found + len(near)
    typed = place.before[site:]
    return typed if len(typed) <= _FAR else None


def _shared(left: str, right: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _word(text: str) -> int:
    """The length of the word that `text` begins with."""
    return next((i for i, letter in enumerate(text) if not (letter.isalnum() or letter == "_")), len(text))


def _whole_pieces(left: str, at: int, right: str, found: int) -> bool:
    """Whether what begins at both places begins a piece there: no word is cut in two."""
    return _begins(left, at) and _begins(right, found)


def _begins(text: str, at: int) -> bool:
    return at == 0 or not (_word(text[at - 1]) and _word(text[at]))
