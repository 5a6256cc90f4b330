"""A connection whose client may be slow, but not for ever: uvicorn's, with a time for what precedes a request.

Owns that no connection stays because of bytes that come to no request: a head letter by letter, the rest of a body that
was refused, or nothing at all; nor because of answers that nobody reads, which keep a connection that was closed. And
that requests sent ahead of their answers wait at the client. uvicorn ends a connection alone that is silent after an
answer, and reads on at each request, however much waits already.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_S = 10.0
"""How long the head of a request may take to arrive, from the connection or from the first byte after an answer."""
READ_S = 30.0
"""How long what the system takes no more of may wait for its reader."""
MOST_CONNECTIONS = 256
"""At a time, whether anything was asked by them or not."""
MOST_AHEAD = 65_536
"""Bytes of further requests that are kept while one is worked on: no more is read before there are fewer."""

logger = logging.getLogger(__name__)


class _Flow(FlowControl):
    """uvicorn's, which does not read on while so much waits already.

    Args:
        transport: is read.
        full: whether no more may be read.
    """

    def __init__(self, transport: asyncio.Transport, full: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._full = full

    def resume_reading(self) -> None:
        if not self._full():
            super().resume_reading()


class Connection(H11Protocol):
    """A connection that ends when no request begins in time, or no answer is read."""

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: D102 asyncio's
        transport.set_write_buffer_limits(0)  # `pause_writing` is called for whatever has to wait
        super().connection_made(transport)
        # What is behind the request that is worked on; a body's part is taken out of it at once.
        self.flow = _Flow(transport, lambda: len(self.conn.trailing_data[0]) > MOST_AHEAD)
        if len(self.connections) > MOST_CONNECTIONS:
            logger.warning("more than %d connections", MOST_CONNECTIONS)
            transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:  # noqa: D102 asyncio's
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102 asyncio's
        self._unwatch()
        self._was_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:  # noqa: D102 asyncio's
        super().pause_writing()
        self._unread = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:  # noqa: D102 asyncio's
        self._was_read()
        super().resume_writing()

    def _watch(self) -> None:
        """While no request is worked on, the time runs; what comes does not set it back."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type says that there is always one
        if cycle is not None and not cycle.response_complete:
            self._unwatch()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_S, self.transport.close)

    def _unwatch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
