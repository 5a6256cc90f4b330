"""What one side has to tell the other and has not sent yet: small, however long the other side reads nothing.

Owns that whoever tells never waits, and that of each kind only the newest is kept where that says it all: the text of
a document, a question, a status. Knows no message.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias, TypeVar

from fastcoder_lsp.completion.protocol import Message

Maker: TypeAlias = Callable[[], Iterable[Message]]
"""Makes messages at the moment they are sent, in the thread that sends: what a text differs from is known then."""
Sum = TypeVar("Sum")

MOST = 4096
"""Things to tell; who has not read as many is taken for gone."""


class Outbox:
    """For any number of threads that tell, and one that sends."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._makers: dict[Hashable, Maker] = {}
        self._unnamed = 0
        self._closed = False

    def put(self, *messages: Message, key: Hashable = None) -> None:
        """Tell this; `key`: it takes the place of what has this key and is not sent yet."""
        self.make(lambda: messages, key)

    def make(self, maker: Maker, key: Hashable = None) -> None:
        """Tell what `maker` makes, once it is sent."""
        with self._news:
            if key is None:
                self._unnamed += 1
                key = self._unnamed
            self._makers.pop(key, None)  # the newest goes last: it may speak of what was told in between
            self._makers[key] = maker
            if len(self._makers) > MOST:
                self._closed = True
            self._news.notify()

    def drop(self, key: Hashable) -> bool:
        """Take back what is not sent yet; whether there was something."""
        with self._news:
            return self._makers.pop(key, None) is not None

    def take(self) -> list[Maker] | None:
        """All there is to send; waits until there is something. None: closed, or more than anybody reads."""
        with self._news:
            self._news.wait_for(lambda: self._makers or self._closed)
            if self._closed and (not self._makers or len(self._makers) > MOST):
                return None
            makers = list(self._makers.values())
            self._makers.clear()
            return makers

    def close(self) -> None:
        """Nothing more comes; what is there may still be sent."""
        with self._news:
            self._closed = True
            self._news.notify()
