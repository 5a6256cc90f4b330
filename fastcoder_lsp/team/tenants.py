"""A pool of document sessions for each tenant of one replica: the same one while it asks, until others need the room.

Owns which tenants have one. Two tenants never share a session, nor anything that it has: its document, its host, its
drafter, its chunks of other files. Used by the event loop's thread alone, but for closing.
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
"""The folders of the repositories of these names that are there, with their settings."""
_END_S = 2.0


class Tenants:
    """All of them.

    Args:
        core: the model.
        settings: of every tenant.
        folders: of repositories.
        most: tenants whose sessions are kept.
        sessions: of one tenant: documents at a time.
    """

    def __init__(self, core: TeamCore, settings: Settings, folders: Folders, most: int, sessions: int) -> None:
        self._core, self._settings, self._folders = core, settings, folders
        self._most, self._sessions = most, sessions
        self._of: dict[Tenant, tuple[SessionPool, Mapping[Path, Settings]]] = {}
        """The one that asked last at the end."""

    async def answer(self, tenant: Tenant, ask: InfillRequest, gone: "asyncio.Future[None]") -> Completion:
        """The completion; see `SessionPool.answer`."""
        return await self._pool_of(tenant).answer(ask, gone)

    def asked(self, tenant: Tenant) -> None:
        """It is as if it had asked now, where it has sessions: others give way first."""
        if (known := self._of.pop(tenant, None)) is not None:
            self._of[tenant] = known

    def __len__(self) -> int:
        return len(self._of)

    def close(self, wait_s: float) -> None:
        """Answer what is open, and give everything back."""
        for pool, _ in self._of.values():
            pool.close(wait_s)
        self._of.clear()

    def _pool_of(self, tenant: Tenant) -> SessionPool:
        folders = self._folders(tenant.repositories) if tenant.repositories else {}
        known = self._of.pop(tenant, None)
        if known is not None and known[1] != folders:  # a repository has come, or its tree was exchanged
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

        # A clock decides how far ahead is worked, not a key: what is made ahead for one is taken from all others.
        policy = replace(policy_of(self._settings), background_ms=1.0, ahead=False)
        return SessionPool(open_host, policy, self._settings.completion_max_tokens, self._sessions)

    def _make_room(self) -> None:
        """Of the key that has most, what asked least recently gives way: many workspaces of one push out no other's."""
        while len(self._of) > self._most:
            idle = [tenant for tenant, (pool, _) in list(self._of.items())[:-1] if not pool.busy]
            if not idle:
                return
            has = Counter(tenant.key for tenant in self._of)
            _close_aside(self._of.pop(max(idle, key=lambda tenant: has[tenant.key]))[0])


def _close_aside(pool: SessionPool) -> None:
    """Closing waits for the model's thread; the event loop must not."""
    threading.Thread(target=pool.close, args=(_END_S,), name="fastcoder-team-close", daemon=True).start()
