"""The server that the settings name, identified at the first question.

Owns the connection. Lives on one event loop.
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
"""Identification may take so many read timeouts, however slowly bytes arrive."""


class RemoteServer:
    """One server.

    Attributes:
        identity: its dialect and model; None until it is identified.
        host: its name for the user.
        read_timeout_ms: a server that sends nothing for this long does not answer.
    """

    def __init__(self, settings: Settings, network: NetworkOptions, timeouts: Timeouts) -> None:
        self._settings, self._network, self._timeouts = settings, network, timeouts
        self._client: RemoteClient | None = None
        self._identification: asyncio.Task[Identity] | None = None
        self.identity: Identity | None = None
        self.host = host_of(settings.remote_url)
        self.read_timeout_ms = 1e3 * timeouts.read_s

    async def identify(self) -> Identity:
        """Identify the server; concurrent callers wait for the same result.

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
        """Yield the chunks of an answer, to its end; closing the generator cancels the request.

        Raises:
            RemoteError: the server did not answer, or broke off.
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
        """Identify the server again at the next question: another one may listen there now."""
        self.identity = None

    async def close(self) -> None:
        """Disconnect."""
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
            except (ValueError, ImportError):  # the proxy's address is invalid, or its scheme needs another package
                raise failures.failed("remote-setting", target.host) from None
        return self._client


def _retrieve_error(task: "asyncio.Task[Identity]") -> None:
    """Retrieve the exception, which asyncio would log if no caller waits any more."""
    if not task.cancelled():
        task.exception()
