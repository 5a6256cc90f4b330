"""Documents that were closed a moment ago: dropped soon, unless they turn out to have been renamed.

Owns how long that is waited for. Lives on the event loop's thread.
"""

import asyncio
from collections.abc import Callable

RENAME_GRACE_S = 1.0
"""A document that is closed and opened again under another name within this time, with the same text, was renamed."""


class ClosedDocuments:
    """What was closed and is not dropped yet.

    Args:
        loop: the event loop.
        drop: drops what is kept for a document.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, drop: Callable[[str], None]) -> None:
        self._loop, self._drop = loop, drop
        self._waiting: dict[str, tuple[str, asyncio.TimerHandle]] = {}

    def closed(self, uri: str, text: str) -> None:
        """A document with this text was closed: it is dropped after the grace."""
        self._waiting[uri] = text, self._loop.call_later(RENAME_GRACE_S, self._over, uri)

    def opened(self, uri: str, text: str) -> str | None:
        """A document was opened: the closed one that it goes on with, which is dropped no more; None where it is new.

        That is the one of the same name, or else the first one of the same text.
        """
        same_text = (old for old, (old_text, _) in self._waiting.items() if old_text == text)
        old = uri if uri in self._waiting else next(same_text, None)
        if old is not None:
            self.keep(old)
        return old

    def keep(self, uri: str) -> None:
        """This one, if it was closed, is dropped no more."""
        waiting = self._waiting.pop(uri, None)
        if waiting is not None:
            waiting[1].cancel()

    def stop(self) -> None:
        """The session ends: nothing is dropped any more."""
        for _, timer in self._waiting.values():
            timer.cancel()

    def _over(self, uri: str) -> None:
        del self._waiting[uri]
        self._drop(uri)
