"""Questions for edits, from any thread: answers are remembered for as long as their text is the document's."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from msgspec import structs

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.protocol import Ask, Command, FoundElsewhere, SearchElsewhere
from fastcoder_lsp.completion.waiting import NewestQuestion, Waiting, resolve
from fastcoder_lsp.core import Reason
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion

_REMEMBERED: Final = 16  # answers that are remembered


class EditService:
    """Turns questions for edits into answers, one at a time, the latest first.

    The lock and the numbers of questions are the completion service's.
    """

    def __init__(
        self, send: Callable[[Command], object], lock: "threading.RLock", next_number: Callable[[], int]
    ) -> None:
        self._send, self._lock, self._next_number = send, lock, next_number
        self._newest = NewestQuestion[EditQuestion, EditAnswer](send)
        self._known: OrderedDict[EditQuestion, EditAnswer] = OrderedDict()
        self._searches: dict[int, Future[FoundElsewhere]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a question waits for its answer."""
        return self._newest.waiting is not None

    def submit(self, question: EditQuestion) -> "Future[EditAnswer]":
        """Ask for an edit; an earlier open question is answered empty at once.

        The question's number is set here. Cancelling the future ends its work within a piece. The same question gets
        the same answer: while it is open, and later.
        """
        with self._lock:
            future: Future[EditAnswer] = Future()
            same, waiting = _same(question), self._newest.waiting
            if (known := self._known.get(same)) is not None:
                self.supersede(reasons.superseded())
                self._known.move_to_end(same)
                future.set_result(known)
            elif waiting is not None and _same(waiting.question) == same and waiting.wanted():
                waiting.join(future)
            else:
                self.supersede(reasons.superseded())
                question = structs.replace(question, number=self._next_number())
                self._newest.waiting = Waiting(question, [future])
                self._send(Ask(question))
            future.add_done_callback(self._withdraw_unwanted)
            return future

    def search(self, question: EditQuestion, most: int, patience_s: float = 0.0) -> "Future[FoundElsewhere]":
        """Search other files, at `most`, for the edits that a question's changes want; an earlier search ends empty.

        The question's number is set here, and its text is the open document's. `patience_s`: see `SearchElsewhere`.
        """
        with self._lock:
            future: Future[FoundElsewhere] = Future()
            for earlier in tuple(self._searches):
                self.found(FoundElsewhere(earlier, complete=False))
            number = self._next_number()
            self._searches[number] = future
            self._send(SearchElsewhere(structs.replace(question, number=number, text=""), most, patience_s))
            return future

    def found(self, result: FoundElsewhere) -> None:
        """Take the result of a search."""
        with self._lock:
            future = self._searches.pop(result.number, None)
        if future is not None:
            resolve(future, result)

    def supersede(self, reason: Reason) -> None:
        """Answer the open question empty, for `reason`."""
        with self._lock:
            if (waiting := self._newest.withdraw()) is not None:
                waiting.answer(EditAnswer(reason=reason))

    def forget(self, uri: str | None = None) -> None:
        """Drop the state of a document; None: of every document."""
        with self._lock:
            if uri is None:
                self.supersede(reasons.superseded())
            else:
                self.changed(uri)
            self._known = OrderedDict((of, answer) for of, answer in self._known.items() if uri not in {None, of.uri})

    def changed(self, uri: str) -> None:
        """A document changed: an edit of its text before is of no use any more."""
        with self._lock:
            if self._newest.is_about(uri):
                self.supersede(reasons.changed())

    def focus(self, uri: str) -> None:
        """The user looks at this document: a question about another one is withdrawn."""
        with self._lock:
            if not self._newest.is_about(uri):
                self.supersede(reasons.cancelled(invoked=False))

    def answered(self, number: int, answer: EditAnswer) -> None:
        """Take the answer to the question of this number; ignore one to another question, or a second one."""
        with self._lock:
            if (waiting := self._newest.close(number)) is None:
                return
            if answer.edits or (answer.reason is not None and answer.reason.code == reasons.no_edit().code):
                self._known[_same(waiting.question)] = answer
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
            waiting.answer(answer)

    def _withdraw_unwanted(self, future: "Future[EditAnswer]") -> None:
        with self._lock:
            if future.cancelled():
                self._newest.withdraw(unwanted=True)


def _same(question: EditQuestion) -> EditQuestion:
    return structs.replace(question, number=0, version=0, invoked=False)
