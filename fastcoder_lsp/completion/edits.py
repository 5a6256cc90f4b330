"""Questions for edits: the server's half, from any thread.

The host answers a question once, never, or late; every request is answered exactly once, and no caller waits for the
model. The newest question replaces an older one. Answers are remembered for as long as their text is the document's.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Final

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.protocol import AskEdit, Command, WithdrawEdit
from fastcoder_lsp.completion.question import settle
from fastcoder_lsp.core import Reason
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion

_REMEMBERED: Final = 16  # answers that are remembered


class EditService:
    """Turns questions for edits into answers, one at a time, the latest first; `lock` is the completion service's."""

    def __init__(self, send: Callable[[Command], object], lock: "threading.RLock", clock: Callable[[], float]) -> None:
        self._send, self._lock, self._clock = send, lock, clock
        self._number = 0
        self._waiting: tuple[EditQuestion, list[Future[EditAnswer]]] | None = None
        self._known: OrderedDict[EditQuestion, EditAnswer] = OrderedDict()

    @property
    def is_open(self) -> bool:
        """Whether a question waits for its answer."""
        return self._waiting is not None

    def submit(self, question: EditQuestion) -> "Future[EditAnswer]":
        """Ask for an edit; an earlier open question is answered empty at once.

        The question's number and time are set here. Cancelling the future ends its work within a piece. The same
        question gets the same answer: while it is open, and later.
        """
        with self._lock:
            future: Future[EditAnswer] = Future()
            same, waiting = _same(question), self._waiting
            if (known := self._known.get(same)) is not None:
                self.supersede(reasons.superseded())
                self._known.move_to_end(same)
                future.set_result(known)
            elif waiting is not None and _same(waiting[0]) == same and not all(one.done() for one in waiting[1]):
                waiting[1].append(future)
            else:
                self.supersede(reasons.superseded())
                self._number += 1
                question = replace(question, number=self._number, asked_ms=self._clock())
                self._waiting = question, [future]
                self._send(AskEdit(question))
            future.add_done_callback(self._withdraw_unwanted)
            return future

    def supersede(self, reason: Reason) -> None:
        """Answer the open question empty, for `reason`."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                self._send(WithdrawEdit(waiting[0].number))
                for future in waiting[1]:
                    settle(future, EditAnswer(reason=reason))

    def forget(self, uri: str | None = None) -> None:
        """Drop the state of a document; None: of every document."""
        with self._lock:
            if self._waiting is not None and uri in {None, self._waiting[0].uri}:
                self.supersede(reasons.changed() if uri is not None else reasons.superseded())
            self._known = OrderedDict((of, answer) for of, answer in self._known.items() if uri not in {None, of.uri})

    def changed(self, uri: str) -> None:
        """A document changed: an edit of its text before is of no use any more."""
        with self._lock:
            if self._waiting is not None and self._waiting[0].uri == uri:
                self.supersede(reasons.changed())

    def focus(self, uri: str) -> None:
        """The user looks at this document: a question about another one is withdrawn."""
        with self._lock:
            if self._waiting is not None and self._waiting[0].uri != uri:
                self.supersede(reasons.cancelled(invoked=False))

    def answered(self, number: int, answer: EditAnswer) -> None:
        """Take the answer to the question of this number; ignore one to another question, or a second one."""
        with self._lock:
            waiting = self._waiting
            if waiting is None or waiting[0].number != number:
                return
            self._waiting = None
            if answer.edits or (answer.reason is not None and answer.reason.code == reasons.no_edit().code):
                self._known[_same(waiting[0])] = answer
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
            for future in waiting[1]:
                settle(future, answer)

    def _withdraw_unwanted(self, future: "Future[EditAnswer]") -> None:
        with self._lock:
            waiting = self._waiting
            if future.cancelled() and waiting is not None and all(one.done() for one in waiting[1]):
                self._waiting = None
                self._send(WithdrawEdit(waiting[0].number))


def _same(question: EditQuestion) -> EditQuestion:
    return replace(question, number=0, asked_ms=0.0, version=0, invoked=False)
