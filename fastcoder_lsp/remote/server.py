"""The server that the settings name, as one thing to ask: what it is, is found out at the first question.

Owns the connection and what is known of the other side. Lives on one event loop.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from fastcoder_lsp.config import Settings
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.client import NetworkOptions, RemoteClient, Timeouts
from fastcoder_lsp.remote.dialects import AnswerChunk
from fastcoder_lsp.remote.excerpt import Excerpt
from fastcoder_lsp.remote.identity import Identity, identify
from fastcoder_lsp.remote.target import host_of, target_of

_MAX_READ_TIMEOUTS: Final = 4
"""So many silences long may it take to say what it is, however it drips."""


class RemoteServer:
    """What is asked.

    Attributes:
        identity: what it is; None before it was asked.
        host: its name, as far as the settings tell one.
        read_timeout_ms: who has said nothing for so long will not answer.

    Args:
        settings: name it.
        network: leads there.
        timeouts: how long it may be silent.
    """

    def __init__(self, settings: Settings, network: NetworkOptions, timeouts: Timeouts) -> None:
        self._settings, self._network, self._timeouts = settings, network, timeouts
        self._client: RemoteClient | None = None
        self._identification: asyncio.Task[Identity] | None = None
        self.identity: Identity | None = None
        self.host = host_of(settings.remote_url)
        self.read_timeout_ms = 1e3 * timeouts.read_s

    async def identify(self) -> Identity:
        """What it is; whoever else wants to know waits for the same answer.

        Raises:
            RemoteError: it may not be asked, or does not answer.
        """
        if self.identity is not None:
            return self.identity
        if self._identification is None or self._identification.done():
            self._identification = asyncio.get_running_loop().create_task(self._identify())
            self._identification.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._identification)

    async def stream(self, excerpt: Excerpt, variant: int = 0, count: int = 1) -> AsyncGenerator[AnswerChunk, None]:
        """The pieces of an answer, to its end; who stops listening has hung up.

        Raises:
            RemoteError: there is none, or it broke off.
        """
        identity, client = await self.identify(), self._open_client()
        dialect = identity.dialect
        body = dialect.body(excerpt, identity.model, variant, count)
        async with aclosing(client.events(dialect.path, body)) as events:
            async for event in events:
                chunk = dialect.read(event)
                if chunk.failure is not None:
                    raise failures.failed_mid_answer(client.target.host, chunk.failure)
                yield chunk
                if chunk.finish:
                    return
        raise failures.failed("remote-cut", client.target.host)

    def forget(self) -> None:
        """It may be another one by now: it is asked anew."""
        self.identity = None

    async def close(self) -> None:
        """Hang up on it."""
        if self._identification is not None:
            self._identification.cancel()
        if self._client is not None:
            await self._client.close()

    async def _identify(self) -> Identity:
        try:
            async with asyncio.timeout(_MAX_READ_TIMEOUTS * self._timeouts.read_s):
                self.identity = await identify(self._open_client(), self._settings)
        except TimeoutError:
            raise failures.timed_out(self.host) from None
        return self.identity

    def _open_client(self) -> RemoteClient:
        if self._client is None:
            target = target_of(self._settings)
            try:
                self._client = RemoteClient(target, self._network, self._timeouts)
            except (ValueError, ImportError):  # its proxy's address, or a kind of proxy that needs another package
                raise failures.failed("remote-setting", target.host) from None
        return self._client


def _retrieve_error(task: "asyncio.Task[Identity]") -> None:
    """Who asked may be gone: the failure is nobody's then."""
    if not task.cancelled():
        task.exception()
