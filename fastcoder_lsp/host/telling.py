"""What a front tells its host, made in the moment and the thread in which it is sent: then all differences are known.

Owns the texts that one host was sent; another host has none of them.
"""

from pathlib import Path

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.host.front_messages import Ask, DocumentChanged, Expect, FolderAt, Use
from fastcoder_lsp.host.messages import MOST_NAMES, Message, TextAt, encoded
from fastcoder_lsp.host.texts import SentTexts
from fastcoder_lsp.host.values import question_message, settings_message
from fastcoder_lsp.host.wanted import Wanted


class Telling:
    """For one host.

    Attributes:
        texts: that it was sent.

    Args:
        wanted: what holds by the time something is sent.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.texts = SentTexts()
        self._wanted = wanted

    def use(self) -> tuple[Message, ...]:
        """The settings that hold."""
        folders = tuple(self._wanted.folders.items())
        told = [FolderAt(encoded(str(path)), settings_message(settings)) for path, settings in folders]
        return (Use(settings_message(self._wanted.settings), told[:MOST_NAMES]),)

    def document(self, path: Path) -> tuple[Message, ...]:
        """The text of an open document; nothing where it is open no longer."""
        text = self._wanted.documents.get(path)
        if text is None:
            return ()
        at, differences = self.texts.send(str(path), text)
        return (*differences, DocumentChanged(encoded(str(path)), at))

    def ask(self, question: Question) -> tuple[Message, ...]:
        """A question; nothing where it was answered or withdrawn before it was sent."""
        if self._wanted.question is None or self._wanted.question.number != question.number:
            return ()
        text, neighbours, differences = self._snapshot(question.request.snapshot)
        return (*differences, Ask(question_message(question, text, neighbours)))

    def expect(self, question: Question, *, known: bool, unserved: bool) -> tuple[Message, ...]:
        """What will be asked next."""
        text, neighbours, differences = self._snapshot(question.request.snapshot)
        return (*differences, Expect(question_message(question, text, neighbours), known, unserved))

    def _snapshot(self, snapshot: Snapshot) -> tuple[TextAt, TextAt | None, tuple[Message, ...]]:
        """(its text, its neighbours', what to send before either is spoken of)."""
        text, differences = self.texts.send(snapshot.path or snapshot.uri, snapshot.text)
        if not snapshot.neighbours:
            return text, None, differences
        neighbours, more = self.texts.send(f"{snapshot.uri}\0", "".join(snapshot.neighbours))
        return text, neighbours, (*differences, *more)
