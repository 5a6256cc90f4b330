"""Documents' texts between two processes: the whole text once, then what differs from the last one.

Owns both sides' memories, bounded, and the arithmetic. A text is a number within a slot; slots are documents, by
whatever name the front gives them. What comes back from the host is a place, told as a difference from a text that the
front has sent, so that no whole text goes back.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from fastcoder_lsp.completion.suggestions import Place
from fastcoder_lsp.core.differences import common_end, first_difference
from fastcoder_lsp.host.messages import Difference, PlaceAt, ProtocolError, TextAt, decoded, encoded

PIECE = 1_000_000
"""Characters of one difference at most: a longer text goes in several, each of which adds to the one before."""
HASHED_EVERY = 16
"""Texts of a slot between two with a hash, at most."""
_HASH_BYTES = 8


class GapError(Exception):
    """A difference from a text that is not here: the whole text is to be sent again. `slot`: whose."""

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.slot = slot


@dataclass(slots=True)
class _Sent:
    """What the other side was sent of one document; `texts`: number → text, the latest last."""

    slot: int
    number: int = 0
    texts: OrderedDict[int, str] = field(default_factory=OrderedDict)

    def characters(self) -> int:
        return sum(map(len, self.texts.values()))


class SentTexts:
    """The front's side: what the host has, and what it may still speak of. For any thread.

    Args:
        documents: how many documents are remembered; a text of any other goes as a whole.
        texts: how many texts of each, unless they are large.
        characters: of the texts of one document, but for its last two.
    """

    def __init__(self, documents: int = 32, texts: int = 32, characters: int = 1_000_000) -> None:
        self._documents, self._texts, self._characters = documents, texts, characters
        self._lock = threading.Lock()
        self._of: OrderedDict[str, _Sent] = OrderedDict()
        self._names: dict[int, str] = {}
        self._slots = 0

    def send(self, name: str, text: str) -> tuple[TextAt, tuple[Difference, ...]]:
        """What to send so that the host has `text`, and how to speak of it; nothing where it is what was sent last."""
        with self._lock:
            sent = self._fetch(name)
            if sent.texts and next(reversed(sent.texts.values())) == text:
                return TextAt(sent.slot, sent.number), ()
            differences = tuple(self._differences(sent, text))
            while len(sent.texts) > 2 and (len(sent.texts) > self._texts or sent.characters() > self._characters):
                sent.texts.popitem(last=False)
            return TextAt(sent.slot, sent.number), differences

    def place(self, at: PlaceAt) -> Place | None:
        """The place that the host speaks of; None where the text that it tells it by is gone.

        Raises:
            ProtocolError: there is no such place in that text.
        """
        with self._lock:
            sent = self._of.get(self._names.get(at.text.slot, ""))
            base = None if sent is None else sent.texts.get(at.text.number)
        if base is None:
            return None
        text = _patched(base, at.head, at.tail, at.middle)
        if at.cursor > len(text):
            raise ProtocolError("a cursor behind the end of its text")
        return Place(text[: at.cursor], text[at.cursor :])

    def again(self, slot: int) -> str | None:
        """The host has lost a text: its document's name, whose next text goes as a whole; None where it is unknown."""
        with self._lock:
            name = self._names.pop(slot, None)
            if name is not None:
                del self._of[name]
            return name

    def _fetch(self, name: str) -> _Sent:
        sent = self._of.get(name)
        if sent is None:
            self._slots += 1
            sent = self._of[name] = _Sent(self._slots)
            self._names[sent.slot] = name
            while len(self._of) > self._documents:
                _, oldest = self._of.popitem(last=False)
                del self._names[oldest.slot]
        self._of.move_to_end(name)
        return sent

    def _differences(self, sent: _Sent, text: str) -> Iterator[Difference]:
        """What leads from the last text to `text`, whose number becomes the slot's."""
        known = bool(sent.texts)
        base = next(reversed(sent.texts.values())) if known else ""
        head = first_difference(base, text)
        tail = common_end(base, text, min(len(base), len(text)) - head)
        middle = text[head : len(text) - tail]
        pieces = [middle[start : start + PIECE] for start in range(0, len(middle), PIECE)] or [""]
        for piece in pieces:
            last, sent.number = sent.number, sent.number + 1
            base = base[:head] + piece + base[len(base) - tail :]
            hashed = not known or sent.number % HASHED_EVERY == 0 or len(pieces) > 1
            yield Difference(
                sent.slot, sent.number, last if known else None, head, tail, encoded(piece), _hash(base, hashed=hashed)
            )
            head, known = head + len(piece), True
        sent.texts[sent.number] = base


class KeptTexts:
    """The host's side: the last text of each of a front's documents. For the thread that reads what the front sends.

    Args:
        documents: how many documents, at most: more than a front remembers.
        characters: of all of them; the one that came last stays, however large.
    """

    def __init__(self, documents: int = 48, characters: int = 64_000_000) -> None:
        self._documents, self._characters = documents, characters
        self._lock = threading.Lock()
        self._of: OrderedDict[int, tuple[int, str]] = OrderedDict()

    def take(self, difference: Difference) -> None:
        """A text came.

        Raises:
            GapError: it differs from one that is not here, or is not what the front says it is.
            ProtocolError: it is nonsense.
        """
        with self._lock:
            number, base = self._of.get(difference.slot, (None, ""))
            if difference.base is None:
                base = ""
            elif difference.base != number:
                raise GapError(difference.slot)
            text = _patched(base, difference.head, difference.tail, difference.middle)
            if difference.hash and _hash(text, hashed=True) != difference.hash:
                self._of.pop(difference.slot, None)
                raise GapError(difference.slot)
            self._of[difference.slot] = (difference.number, text)
            self._of.move_to_end(difference.slot)
            while len(self._of) > 1 and (len(self._of) > self._documents or self._held() > self._characters):
                self._of.popitem(last=False)

    def text(self, at: TextAt) -> str:
        """The text of that number.

        Raises:
            GapError: it is not here.
        """
        with self._lock:
            number, text = self._of.get(at.slot, (None, ""))
        if number != at.number:
            raise GapError(at.slot)
        return text

    def place(self, slot: int, place: Place) -> PlaceAt | None:
        """A place in a document, told by the last text of it; None where there is none."""
        with self._lock:
            number, base = self._of.get(slot, (None, ""))
        if number is None:
            return None
        text = place.before + place.after
        head = first_difference(base, text)
        tail = common_end(base, text, min(len(base), len(text)) - head)
        middle = encoded(text[head : len(text) - tail])
        return PlaceAt(TextAt(slot, number), head, tail, middle, len(place.before))

    def _held(self) -> int:
        return sum(len(text) for _, text in self._of.values())


def _patched(base: str, head: int, tail: int, middle: bytes) -> str:
    """`base` with all but so much of its head and tail replaced.

    Raises:
        ProtocolError: it has no such parts.
    """
    if head + tail > len(base):
        raise ProtocolError("a difference from more text than there is")
    return base[:head] + decoded(middle) + base[len(base) - tail :]


def _hash(text: str, *, hashed: bool) -> bytes:
    return hashlib.blake2b(encoded(text), digest_size=_HASH_BYTES).digest() if hashed else b""
