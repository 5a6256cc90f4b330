"""Sends documents' texts between two processes: the whole text once, then differences from the last one.

Both sides' memories are bounded. A text has a number within a slot; each slot is a document, by the front's name for
it. The host sends places as differences from a text that the front has sent, so that no whole text goes back.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from msgspec import structs

from fastcoder_lsp.completion.protocol import (
    Ask,
    Command,
    DocumentChanged,
    Expect,
    FilesChanged,
    Made,
    Message,
    Use,
)
from fastcoder_lsp.completion.question import Question, place_of
from fastcoder_lsp.completion.suggestions import CursorContext, Suggestion
from fastcoder_lsp.core.bounds import MOST_NAMES
from fastcoder_lsp.core.differences import common_ends
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.host.transport import (
    Difference,
    PlaceRef,
    ProtocolError,
    TextRef,
    UseTables,
    WithPlaces,
    WithTexts,
    decoded,
    encoded,
    settings_table,
    whole_path,
)
from fastcoder_lsp.workspace.paths import path_of

PIECE = 1_000_000
"""Most characters of a difference: a longer text is sent in several, each of which appends to the one before."""
HASHED_EVERY = 16  # texts of a slot from one hash to the next, at most
_HASH_BYTES = 8
_NOWHERE = CursorContext("", "")


class GapError(Exception):
    """The base of a difference is missing: the whole text of `slot` must be sent again."""

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.slot = slot


@dataclass(slots=True)
class _Sent:
    """The texts of one document that were sent; `texts`: number → text, the latest last."""

    slot: int
    number: int = 0
    texts: OrderedDict[int, str] = field(default_factory=OrderedDict)

    def characters(self) -> int:
        return sum(map(len, self.texts.values()))


class SentTexts:
    """The front's side: the texts that the host has, or may still refer to. For any thread.

    At most `documents` are remembered; other documents' texts are sent whole. A document has at most `texts` texts, and
    `characters` apart from its last two.
    """

    def __init__(self, documents: int = 32, texts: int = 32, characters: int = 1_000_000) -> None:
        self._documents, self._texts, self._characters = documents, texts, characters
        self._lock = threading.Lock()
        self._of: OrderedDict[str, _Sent] = OrderedDict()
        self._names: dict[int, str] = {}
        self._slots = 0

    def send(self, name: str, text: str) -> tuple[TextRef, tuple[Difference, ...]]:
        """A reference to `text`, and the differences to send before it; none where `text` was sent last."""
        with self._lock:
            sent = self._fetch(name)
            if sent.texts and next(reversed(sent.texts.values())) == text:
                return TextRef(sent.slot, sent.number), ()
            differences = tuple(self._differences(sent, text))
            while len(sent.texts) > 2 and (len(sent.texts) > self._texts or sent.characters() > self._characters):
                sent.texts.popitem(last=False)
            return TextRef(sent.slot, sent.number), differences

    def place(self, at: PlaceRef) -> CursorContext | None:
        """The place that the host refers to; None if its base text is gone. ProtocolError if there is no such place."""
        with self._lock:
            sent = self._of.get(self._names.get(at.text.slot, ""))
            base = None if sent is None else sent.texts.get(at.text.number)
        if base is None:
            return None
        text = _patched(base, at.head, at.tail, at.middle)
        if at.cursor > len(text):
            raise ProtocolError("a cursor behind the end of its text")
        return CursorContext(text[: at.cursor], text[at.cursor :])

    def again(self, slot: int) -> str | None:
        """Send the next text of a slot as a whole, because the host lost one; its document's name, None if unknown."""
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
        known = bool(sent.texts)
        base = next(reversed(sent.texts.values())) if known else ""
        head, tail = common_ends(base, text)
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
    """The host's side: the last text of each of a front's documents. For the reader thread.

    `documents`: more than a front remembers. `characters` of all; the latest text stays, however large.
    """

    def __init__(self, documents: int = 48, characters: int = 64_000_000) -> None:
        self._documents, self._characters = documents, characters
        self._lock = threading.Lock()
        self._of: OrderedDict[int, tuple[int, str]] = OrderedDict()

    def take(self, difference: Difference) -> None:
        """Apply a difference; GapError if its base is missing or the hash differs, ProtocolError if it is invalid."""
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

    def text(self, at: TextRef) -> str:
        """The text with that number; raises GapError if it is missing."""
        with self._lock:
            number, text = self._of.get(at.slot, (None, ""))
        if number != at.number:
            raise GapError(at.slot)
        return text

    def place(self, slot: int, place: CursorContext) -> PlaceRef | None:
        """A place in a document, relative to its last text; None if there is no text."""
        with self._lock:
            number, base = self._of.get(slot, (None, ""))
        if number is None:
            return None
        text = place.before + place.after
        head, tail = common_ends(base, text)
        middle = encoded(text[head : len(text) - tail])
        return PlaceRef(TextRef(slot, number), head, tail, middle, len(place.before))

    def _held(self) -> int:
        return sum(len(text) for _, text in self._of.values())


def _patched(base: str, head: int, tail: int, middle: bytes) -> str:
    if head + tail > len(base):
        raise ProtocolError("a difference from more text than there is")
    return base[:head] + decoded(middle) + base[len(base) - tail :]


def _hash(text: str, *, hashed: bool) -> bytes:
    return hashlib.blake2b(encoded(text), digest_size=_HASH_BYTES).digest() if hashed else b""


class MessageBuilder:
    """Makes the messages for one host at the moment they are sent: only then are the differences known."""

    def __init__(self) -> None:
        self.texts = SentTexts()

    def messages(self, command: Command) -> Iterator[Message]:
        """The messages of a command."""
        match command:
            case Ask(EditQuestion() as edit):
                path = path_of(edit.uri)
                sent, differences = self.texts.send(edit.uri if path is None else str(path), edit.text)
                yield from differences
                yield WithTexts(Ask(structs.replace(edit, text="")), sent)
            case Ask(Question() as question) | Expect(question):
                yield from self._question(command, question)
            case DocumentChanged(path, text):
                sent, differences = self.texts.send(str(path), text)
                yield from differences
                yield WithTexts(DocumentChanged(path, ""), sent)
            case Use(settings, folders):
                named = list(folders.items())[:MOST_NAMES]
                yield UseTables(settings_table(settings), {str(path): settings_table(one) for path, one in named})
            case FilesChanged(paths):
                for start in range(0, len(paths), MOST_NAMES):
                    yield FilesChanged(paths[start : start + MOST_NAMES])
            case _:
                yield command

    def made(self, message: WithPlaces) -> Made | None:
        """The suggestion with its places; None if its text is gone. ProtocolError if there is no such place."""
        first, others = message.made.suggestion, message.made.suggestion.others
        if len(message.places) != 1 + len(others or ()) or any(one.others is not None for one in others or ()):
            raise ProtocolError("places that are not the suggestions'")
        at, *more = message.places
        here = None if at is None else self.texts.place(at)
        if here is None:
            return None
        if others is not None:
            places = [here if place is None else self.texts.place(place) for place in more]
            pairs = zip(others, places, strict=True)
            others = tuple(replace(one, place=there) for one, there in pairs if there is not None)
        return Made(message.made.uri, replace(first, place=here, others=others))

    def _question(self, command: Ask | Expect, question: Question) -> Iterator[Message]:
        snapshot = question.request.snapshot

        def joined(name: str, texts: Iterable[str]) -> tuple[TextRef | None, tuple[Difference, ...], tuple[int, ...]]:
            lengths = tuple(map(len, texts))
            return (*self.texts.send(name, "".join(texts)), lengths) if lengths else (None, (), ())

        text, before = self.texts.send(snapshot.path or snapshot.uri, snapshot.text)
        neighbours, more, cells = joined(f"{snapshot.uri}\0", snapshot.neighbours)
        chunks, most, lengths = joined(f"{snapshot.uri}\0\0", [extra.text for extra in snapshot.extras])
        yield from (*before, *more, *most)
        extras = tuple(replace(extra, text="") for extra in snapshot.extras)
        bare = replace(snapshot, text="", neighbours=(), extras=extras)
        stripped = structs.replace(question, request=replace(question.request, snapshot=bare), place=_NOWHERE)
        sent = Ask(stripped) if isinstance(command, Ask) else Expect(stripped, command.known, command.unserved)
        yield WithTexts(sent, text, neighbours, cells, chunks, lengths)


def with_texts(message: WithTexts, texts: KeptTexts) -> Ask | Expect | DocumentChanged:
    """The command with its texts; GapError if one is missing, ProtocolError for a wrong cursor or length."""
    command, text = message.command, texts.text(message.text)
    if isinstance(command, DocumentChanged):
        return DocumentChanged(command.path, text)
    question = command.question
    if isinstance(question, EditQuestion):
        if question.offset > len(text):
            raise ProtocolError("a question about no place in its text")
        return Ask(structs.replace(question, text=text))
    request, snapshot, selected = question.request, question.request.snapshot, question.request.selected
    neighbours = "" if message.neighbours is None else texts.text(message.neighbours)
    chunks = "" if message.chunks is None else texts.text(message.chunks)
    if request.offset > len(text) or (selected is not None and not selected.start <= selected.end <= len(text)):
        raise ProtocolError("a question about no place in its text")
    if sum(message.cells) != len(neighbours):
        raise ProtocolError("cells that are not its neighbours")
    if sum(message.lengths) != len(chunks) or len(message.lengths) != len(snapshot.extras):
        raise ProtocolError("extras that are not its chunks")
    paths = [snapshot.path, *(one.path for one in snapshot.definitions), *(one.path for one in snapshot.yanks)]
    for path in paths:
        if path is not None:
            whole_path(path)
    whole = replace(
        snapshot,
        text=text,
        neighbours=_cut(neighbours, message.cells),
        extras=tuple(
            replace(extra, text=chunk)
            for extra, chunk in zip(snapshot.extras, _cut(chunks, message.lengths), strict=True)
        ),
    )
    request = replace(request, snapshot=whole)
    question = structs.replace(question, request=request, place=place_of(request))
    return Ask(question) if isinstance(command, Ask) else Expect(question, command.known, command.unserved)


def with_places(made: Made, slot: int, texts: KeptTexts) -> WithPlaces | None:
    """The message of a suggestion; None if its document's text is no longer known to both sides."""
    suggestion = made.suggestion
    here = texts.place(slot, suggestion.place)
    if here is None:
        return None
    others, places = suggestion.others, list[PlaceRef | None]([here])
    if others is not None:
        places += [None if one.place == suggestion.place else texts.place(slot, one.place) for one in others]
        others = tuple(Suggestion(_NOWHERE, one.text, one.replaces, finish=one.finish) for one in others)
    return WithPlaces(Made(made.uri, replace(suggestion, place=_NOWHERE, others=others)), tuple(places))


def _cut(text: str, lengths: Iterable[int]) -> tuple[str, ...]:
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return tuple(text[start:end] for start, end in pairwise(ends))
