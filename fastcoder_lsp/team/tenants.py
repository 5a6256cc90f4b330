"""A pool of document sessions for each tenant of a replica, kept until others need the room.

Owns the tenants' pools. Two tenants never share a session or any part of it: document, host, drafter, chunks of other
files. Used by the event loop's thread alone, except for closing.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fastcoder_lsp.completion.protocol import HostListener, ModelHost
from fastcoder_lsp.completion.question import policy_of
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion
from fastcoder_lsp.http.infill import InfillRequest
from fastcoder_lsp.http.sessions import SessionPool
from fastcoder_lsp.team.host import TeamCore
from fastcoder_lsp.team.places import place_of
from fastcoder_lsp.team.values import Tenant

Folders = Callable[[tuple[str, ...]], Mapping[Path, Settings]]
"""Gives the folders of the available repositories with these names, with their settings."""
_END_S = 2.0


class Tenants:
    """The pools of all tenants.

    Args:
        core: the model server.
        settings: the settings of every tenant.
        folders: gives the folders of repositories.
        most: most tenants with a pool.
        sessions: most sessions of one tenant.
    """

    def __init__(self, core: TeamCore, settings: Settings, folders: Folders, most: int, sessions: int) -> None:
        self._core, self._settings, self._folders = core, settings, folders
        self._most, self._sessions = most, sessions
        self._of: dict[Tenant, tuple[SessionPool, Mapping[Path, Settings]]] = {}
        """The most recently used tenant is last."""

    async def answer(self, tenant: Tenant, ask: InfillRequest, gone: "asyncio.Future[None]") -> Completion:
        """Answer a tenant's request; see `SessionPool.answer`."""
        return await self._pool_of(tenant).answer(ask, gone)

    def asked(self, tenant: Tenant) -> None:
        """Mark a tenant's pool, if it has one, as most recently used."""
        if (known := self._of.pop(tenant, None)) is not None:
            self._of[tenant] = known

    def __len__(self) -> int:
        return len(self._of)

    def close(self, wait_s: float) -> None:
        """Answer open requests, and free everything."""
        for pool, _ in self._of.values():
            pool.close(wait_s)
        self._of.clear()

    def _pool_of(self, tenant: Tenant) -> SessionPool:
        folders = self._folders(tenant.repositories) if tenant.repositories else {}
        known = self._of.pop(tenant, None)
        if known is not None and known[1] != folders:  # a repository was added or updated
            if known[0].busy:
                folders = known[1]  # at its next pause
            else:
                _close_aside(known[0])
                known = None
        pool = known[0] if known else self._new(tenant, folders)
        self._of[tenant] = pool, folders
        self._make_room()
        return pool

    def _new(self, tenant: Tenant, folders: Mapping[Path, Settings]) -> SessionPool:
        name = place_of(tenant.key, tenant.workspace)

        def open_host(listener: HostListener) -> ModelHost:
            return self._core.open_for(name, listener, folders)

        # A time limit bounds prefetching, because one tenant's prefetching takes time from all others.
        policy = replace(policy_of(self._settings), background_ms=1.0, ahead=False)
        return SessionPool(open_host, policy, self._settings.completion_max_tokens, self._sessions)

    def _make_room(self) -> None:
        """Evict the least recently used pool of the key with most pools, so that no key evicts another's."""
        while len(self._of) > self._most:
            idle = [tenant for tenant, (pool, _) in list(self._of.items())[:-1] if not pool.busy]
            if not idle:
                return
            has = Counter(tenant.key for tenant in self._of)
            _close_aside(self._of.pop(max(idle, key=lambda tenant: has[tenant.key]))[0])


def _close_aside(pool: SessionPool) -> None:
    """Close a pool in a thread: it waits for the model's thread, and the event loop must not."""
    threading.Thread(target=pool.close, args=(_END_S,), name="fastcoder-team-close", daemon=True).start()
