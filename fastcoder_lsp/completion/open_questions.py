"""The questions of one front that are open: what a front tells a new host, and what the scheduler works on."""

from dataclasses import dataclass

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.edits.values import EditQuestion


@dataclass(slots=True)
class OpenQuestions:
    """A front's open questions, one of each kind.

    Attributes:
        completion: the newest question for a completion, until it is answered or withdrawn.
        edit: the same, for an edit.
        expected: the likely next question, until the scheduler has begun it or another one is asked.
        unserved: the place where a client waits for a late text.
    """

    completion: Question | None = None
    edit: EditQuestion | None = None
    expected: protocol.Expect | None = None
    unserved: Question | None = None

    def asked(self) -> list[Question | EditQuestion]:
        """The open questions, the most urgent first."""
        return [one for one in (self.completion, self.edit) if one is not None]

    def has(self, number: int) -> bool:
        """Whether the question of this number is open."""
        return any(one.number == number for one in self.asked())

    def apply(self, command: protocol.Command) -> None:
        """Follow a command; those that concern no question change nothing."""
        match command:
            case protocol.Ask(EditQuestion() as edit):
                self.edit = edit
            case protocol.Ask(Question() as question):
                self.completion, self.expected, self.unserved = question, None, None
            case protocol.UserActive(_, answered) if answered:
                self.unserved = None
            case protocol.Withdraw(number):
                self.close(number)
            case protocol.Expect(question, known, unserved):
                self.expected = command
                if unserved or known:
                    self.unserved = question if unserved else None
            case protocol.Forget(uri):
                self._forget(uri)
            case protocol.Rename(old, new):
                self._rename(old, new)

    def close(self, number: int) -> bool:
        """Close the question of this number; returns whether it was open."""
        was_open = self.has(number)
        if self.completion is not None and self.completion.number == number:
            self.completion = None
        if self.edit is not None and self.edit.number == number:
            self.edit = None
        return was_open

    def take_expected(self) -> protocol.Expect | None:
        """The expected question, which is begun now."""
        expected, self.expected = self.expected, None
        return expected

    def clear(self) -> None:
        """Close all."""
        self.completion = self.edit = self.expected = self.unserved = None

    def _forget(self, uri: str) -> None:
        if self.expected is not None and self.expected.question.uri == uri:
            self.expected = None
        if self.unserved is not None and self.unserved.uri == uri:
            self.unserved = None

    def _rename(self, old: str, new: str) -> None:
        if self.completion is not None and self.completion.uri == old:
            self.completion = self.completion.renamed(new)
        if self.expected is not None and self.expected.question.uri == old:
            renamed = self.expected.question.renamed(new)
            self.expected = protocol.Expect(renamed, self.expected.known, self.expected.unserved)
        if self.unserved is not None and self.unserved.uri == old:
            self.unserved = None  # nothing is prepared there any more
