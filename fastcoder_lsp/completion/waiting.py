"""The requests that wait for an answer, and the newest question of a kind: asked, withdrawn and closed here.

The host answers a question once, never, or late; every request is answered exactly once.
"""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastcoder_lsp.completion.protocol import Command, Withdraw
from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.edits.values import EditQuestion

Asked = TypeVar("Asked", Question, EditQuestion)
Value = TypeVar("Value")


def resolve(future: "Future[Value]", value: Value) -> bool:
    """Resolve a future; returns whether it still waited."""
    try:
        future.set_result(value)
    except InvalidStateError:
        return False
    return True


@dataclass(slots=True)
class Waiting(Generic[Asked, Value]):
    """A question and the futures that wait for its answer."""

    question: Asked
    futures: "list[Future[Value]]"

    def join(self, future: "Future[Value]") -> None:
        """Add a request for the same question; a cancelled one is removed."""
        self.futures = [*(other for other in self.futures if not other.done()), future]

    def wanted(self) -> bool:
        """Whether any future still waits for the answer."""
        return not all(future.done() for future in self.futures)

    def answer(self, value: Value) -> int:
        """Give the answer to every future that still waits; returns how many."""
        told = 0
        for future in self.futures:
            told += resolve(future, value)
        return told


class NewestQuestion(Generic[Asked, Value]):
    """The newest question of one kind, while it is open, with the requests that wait for it (`waiting`)."""

    def __init__(self, send: Callable[[Command], object]) -> None:
        self._send = send
        self.waiting: Waiting[Asked, Value] | None = None

    def is_about(self, uri: str) -> bool:
        """Whether it is open, and about this document."""
        return self.waiting is not None and self.waiting.question.uri == uri

    def close(self, number: int) -> Waiting[Asked, Value] | None:
        """Close the question of this number, for the caller to answer; None if another one or none is open."""
        waiting = self.waiting
        if waiting is None or waiting.question.number != number:
            return None
        self.waiting = None
        return waiting

    def withdraw(self, *, unwanted: bool = False) -> Waiting[Asked, Value] | None:
        """The same of any question, whose work ends. `unwanted`: only if all requests for it were cancelled."""
        waiting = self.waiting
        if waiting is None or (unwanted and waiting.wanted()):
            return None
        self.waiting = None
        self._send(Withdraw(waiting.question.number))
        return waiting
