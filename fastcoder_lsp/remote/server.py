"""The server that the settings name, as one thing to ask: what it is, is found out at the first question.

Owns the connection and what is known of the other side. Lives on one event loop.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from fastcoder_lsp.config import Settings
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.client import NetworkOptions, RemoteClient, TimeOuts
from fastcoder_lsp.remote.dialects import AnswerChunk
from fastcoder_lsp.remote.excerpt import Excerpt
from fastcoder_lsp.remote.identity import Identity, identify
from fastcoder_lsp.remote.target import host_of, target_of

_MEETING: Final = 4
"""So many silences long may it take to say what it is, however it drips."""


class RemoteServer:
    """What is asked.

    Attributes:
        identity: what it is; None before it was asked.
        host: its name, as far as the settings tell one.
        silent_ms: who has said nothing for so long will not answer.

    Args:
        settings: name it.
        way: leads there.
        time_outs: how long it may be silent.
    """

    def __init__(self, settings: Settings, way: NetworkOptions, time_outs: TimeOuts) -> None:
        self._settings, self._way, self._time_outs = settings, way, time_outs
        self._client: RemoteClient | None = None
        self._meeting: asyncio.Task[Identity] | None = None
        self.identity: Identity | None = None
        self.host = host_of(settings.remote_url)
        self.silent_ms = 1e3 * time_outs.read_s

    async def meet(self) -> Identity:
        """What it is; whoever else wants to know waits for the same answer.

        Raises:
            RemoteError: it may not be asked, or does not answer.
        """
        if self.identity is not None:
            return self.identity
        if self._meeting is None or self._meeting.done():
            self._meeting = asyncio.get_running_loop().create_task(self._meet())
            self._meeting.add_done_callback(_looked_at)
        return await asyncio.shield(self._meeting)

    async def say(self, excerpt: Excerpt, variant: int = 0, wanted: int = 1) -> AsyncGenerator[AnswerChunk, None]:
        """The pieces of an answer, to its end; who stops listening has hung up.

        Raises:
            RemoteError: there is none, or it broke off.
        """
        identity, client = await self.meet(), self._opened()
        dialect = identity.dialect
        body = dialect.body(excerpt, identity.model, variant, wanted)
        async with aclosing(client.events(dialect.path, body)) as events:
            async for event in events:
                heard = dialect.read(event)
                if heard.failure is not None:
                    raise failures.failed_within(client.target.host, heard.failure)
                yield heard
                if heard.finish:
                    return
        raise failures.failed("remote-cut", client.target.host)

    def forget(self) -> None:
        """It may be another one by now: it is asked anew."""
        self.identity = None

    async def close(self) -> None:
        """Hang up on it."""
        if self._meeting is not None:
            self._meeting.cancel()
        if self._client is not None:
            await self._client.close()

    async def _meet(self) -> Identity:
        try:
            async with asyncio.timeout(_MEETING * self._time_outs.read_s):
                self.identity = await identify(self._opened(), self._settings)
        except TimeoutError:
            raise failures.slow(self.host) from None
        return self.identity

    def _opened(self) -> RemoteClient:
        if self._client is None:
            target = target_of(self._settings)
            try:
                self._client = RemoteClient(target, self._way, self._time_outs)
            except (ValueError, ImportError):  # its proxy's address, or a kind of proxy that needs another package
                raise failures.failed("remote-setting", target.host) from None
        return self._client


def _looked_at(meeting: "asyncio.Task[Identity]") -> None:
    """Who asked may be gone: the failure is nobody's then."""
    if not meeting.cancelled():
        meeting.exception()
