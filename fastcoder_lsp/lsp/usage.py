"""Counts a session's use for `fastcoder-lsp report`, and writes the counts now and then.

A thread writes, so that no disk delays the editor. Counts that could not be written are tried again with the next ones.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fastcoder_lsp.usage import CountKey, UsageStore, language_name, today, wait_class

logger = logging.getLogger(__name__)

WRITE_S: Final = 60.0
KEPT_S: Final = 60.0
"""An accepted text that stands in the document after this time was kept."""
_MOST_JUDGED: Final = 256
"""Accepted texts that wait for their judgement."""
_BEFORE: Final = 40
"""Characters before an accepted text by which it is found again."""


class UsageCounter:
    """The counts of a session, on the event loop's thread; `text_of`: a document's text, or None once closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: UsageStore,
        enabled: Callable[[], bool],
        text_of: Callable[[str], str | None],
    ) -> None:
        self._loop, self._store, self._enabled, self._text_of = loop, store, enabled, text_of
        self._counts: Counter[CountKey] = Counter()
        self._writer = ThreadPoolExecutor(1, "fastcoder-usage")
        self._timer: asyncio.TimerHandle | None = None
        self._judgements: set[asyncio.TimerHandle] = set()
        self._failed = False

    def shown(self, language: str, source: str, wait_ms: float) -> None:
        """A suggestion was shown after so long a wait; `source` as in `CountKey`."""
        self._count(language, source, "shown")
        self._count(language, source, wait_class(wait_ms))

    def edit_shown(self, language: str) -> None:
        """The editor shows a next edit."""
        self._count(language, "edit", "shown")

    def accepted(self, uri: str, language: str, source: str, start: int, text: str) -> None:
        """`text` at `start` was accepted; after a minute it counts as kept if it still stands there."""
        self._count(language, source, "accepted")
        now = self._text_of(uri)
        if now is None or not self._enabled() or len(self._judgements) >= _MOST_JUDGED:
            return
        expected = now[max(start - _BEFORE, 0) : start] + text

        def judge() -> None:
            self._judgements.discard(handle)
            later = self._text_of(uri)
            if later is not None:
                self._count(language, source, "judged")
                if expected in later:
                    self._count(language, source, "kept")

        handle = self._loop.call_later(KEPT_S, judge)
        self._judgements.add(handle)

    def characters(self, language: str, source: str, number: int) -> None:
        """Accepting inserted so many characters."""
        self._count(language, source, "characters", number)

    def close(self) -> None:
        """Write what is left."""
        for handle in (*self._judgements, *filter(None, (self._timer,))):
            handle.cancel()
        self._write()
        self._writer.shutdown(wait=True)

    def _count(self, language: str, source: str, what: str, number: int = 1) -> None:
        if not self._enabled():
            return
        self._counts[CountKey(today().isoformat(), language_name(language), source, what)] += number
        if self._timer is None:
            self._timer = self._loop.call_later(WRITE_S, self._write)

    def _write(self) -> None:
        self._timer = None
        counts, self._counts = self._counts, Counter()
        if counts and self._enabled():
            self._writer.submit(self._add, counts)

    def _add(self, counts: "Counter[CountKey]") -> None:
        try:
            self._store.add(counts, today())
            self._failed = False
        except (OSError, sqlite3.Error) as error:
            if not self._failed:
                logger.warning("the counts for `fastcoder-lsp report` could not be written: %s", error)
            self._failed = True
            with contextlib.suppress(RuntimeError):  # the session has ended
                self._loop.call_soon_threadsafe(self._counts.update, counts)
