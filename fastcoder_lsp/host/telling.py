"""What a front tells its host, made in the moment and the thread in which it is sent: then all differences are known.

Owns the texts that one host was sent; another host has none of them.
"""

from pathlib import Path

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.host.front_messages import Ask, DocumentChanged, Expect, FolderAt, QuestionAt, Use
from fastcoder_lsp.host.messages import MOST_NAMES, Difference, Message, TextAt, encoded
from fastcoder_lsp.host.texts import SentTexts
from fastcoder_lsp.host.values import TextsAt, question_message, settings_message
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
        message, differences = self._question(question)
        return (*differences, Ask(message))

    def expect(self, question: Question, *, known: bool, unserved: bool) -> tuple[Message, ...]:
        """What will be asked next."""
        message, differences = self._question(question)
        return (*differences, Expect(message, known, unserved))

    def _question(self, question: Question) -> tuple[QuestionAt, list[Difference]]:
        """(the question, what to send before it is spoken of)."""
        snapshot, before = question.request.snapshot, list[Difference]()

        def at(name: str, text: str) -> TextAt:
            there, differences = self.texts.send(name, text)
            before.extend(differences)
            return there

        text = at(snapshot.path or snapshot.uri, snapshot.text)
        neighbours = at(f"{snapshot.uri}\0", "".join(snapshot.neighbours)) if snapshot.neighbours else None
        chunks = at(f"{snapshot.uri}\0\0", "".join(one.text for one in snapshot.extras)) if snapshot.extras else None
        return question_message(question, TextsAt(text, neighbours, chunks)), before
