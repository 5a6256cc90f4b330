"""The questions of one front that are open: what a front tells a new host, and what the scheduler works on."""

from dataclasses import dataclass

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.edits.values import EditQuestion


@dataclass(slots=True)
class OpenQuestions:
    """A front's open questions.

    Attributes:
        question: the newest question, until it is answered or withdrawn.
        edit: the same, for an edit.
        expected: the likely next question, until the scheduler has begun it or another one is asked.
        unserved: the place where a client waits for a late text.
    """

    question: Question | None = None
    edit: EditQuestion | None = None
    expected: protocol.Expect | None = None
    unserved: Question | None = None

    def apply(self, command: protocol.Command) -> None:
        """Follow a command; those that concern no question change nothing."""
        match command:
            case protocol.Ask(question):
                self.question, self.expected, self.unserved = question, None, None
            case protocol.Noticed(_, answered) if answered:
                self.unserved = None
            case protocol.Withdraw(number):
                self.take_question(number)
            case protocol.AskEdit(edit):
                self.edit = edit
            case protocol.WithdrawEdit(number):
                self.take_edit(number)
            case protocol.Expect(question, known, unserved):
                self.expected = command
                if unserved or known:
                    self.unserved = question if unserved else None
            case protocol.Forget(uri):
                self._forget(uri)
            case protocol.Rename(old, new):
                self._rename(old, new)

    def take_question(self, number: int | None = None) -> Question | None:
        """Close and return the question; None if there is none, or if it has another number."""
        question = self.question
        if question is None or (number is not None and question.number != number):
            return None
        self.question = None
        return question

    def take_edit(self, number: int | None = None) -> EditQuestion | None:
        """The same of the question for an edit."""
        edit = self.edit
        if edit is None or (number is not None and edit.number != number):
            return None
        self.edit = None
        return edit

    def take_expected(self) -> protocol.Expect | None:
        """The expected question, which is begun now."""
        expected, self.expected = self.expected, None
        return expected

    def clear(self) -> None:
        """Close all."""
        self.question = self.edit = self.expected = self.unserved = None

    def _forget(self, uri: str) -> None:
        if self.expected is not None and self.expected.question.uri == uri:
            self.expected = None
        if self.unserved is not None and self.unserved.uri == uri:
            self.unserved = None

    def _rename(self, old: str, new: str) -> None:
        if self.question is not None and self.question.uri == old:
            self.question = self.question.renamed(new)
        if self.expected is not None and self.expected.question.uri == old:
            renamed = self.expected.question.renamed(new)
            self.expected = protocol.Expect(renamed, self.expected.known, self.expected.unserved)
        if self.unserved is not None and self.unserved.uri == old:
            self.unserved = None  # nothing is prepared there any more
