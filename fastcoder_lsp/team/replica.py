"""One replica: a model, and a pool of document sessions for each tenant. Knows nothing of Ray.

Two tenants never share a session, nor anything that belongs to one: its document, host, drafter or other files. A pool
lives until other tenants need the room. Only the event loop's thread uses the pools, except to close them.
"""

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from fastcoder_lsp.completion.protocol import HostListener, ModelHost
from fastcoder_lsp.completion.question import policy_of
from fastcoder_lsp.completion.service import CompletionService, ServiceListener
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Completion
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.host.local import LoadModel, LocalHost, MakeRuntime
from fastcoder_lsp.http.app import ANSWER_S
from fastcoder_lsp.http.infill import InfillRequest, answer_of
from fastcoder_lsp.http.responses import RequestError
from fastcoder_lsp.http.sessions import DisconnectedError, SessionPool, is_same_document
from fastcoder_lsp.team.calls import Call, RecentCalls, ReplicaAnswer, ReplicaCalls, ReplicaRefusal, Tenant, place_of
from fastcoder_lsp.team.configuration import TeamConfig
from fastcoder_lsp.team.host import TeamCore

SESSIONS = 4  # most documents of one tenant that a replica works on at a time, in turns
PROBE_S = 10.0  # the model's thread counts as stuck if a piece of work takes this long
_END_S = 5.0
Folders = Callable[[tuple[str, ...]], Mapping[Path, Settings]]
"""Gives the folders of the available repositories with these names, with their settings."""
_POOL_END_S = 2.0


class Tenants:
    """The pools of all tenants: at most `most`, with at most `sessions` sessions each."""

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
    threading.Thread(target=pool.close, args=(_POOL_END_S,), name="fastcoder-team-close", daemon=True).start()


class RuntimeFactory(Protocol):
    """A module that loads a model and makes runtimes, as `fastcoder_lsp.runtime.load` does."""

    load_model: LoadModel
    make_runtime: MakeRuntime


class TeamReplica(ServiceListener):
    """One replica of the model, with a unique `name`; raises FastcoderError if the model cannot be loaded.

    `model`: the module whose `load_model` and `make_runtime` are used. Replicas with another `version` will be
    replaced.
    """

    def __init__(
        self,
        config: TeamConfig,
        name: str,
        folders: Folders,
        model: str = "fastcoder_lsp.runtime.load",
        version: str = "",
    ) -> None:
        self.name, self.version, self.state = name, version, Status("starting")
        self._recent = RecentCalls()
        settings = config.settings()
        parts: RuntimeFactory = import_module(model)
        self._core = TeamCore(parts.load_model, parts.make_runtime, settings, cache_folder())
        self._most_tenants = config.replicas.tenants
        self._tenants = Tenants(self._core, settings, folders, self._most_tenants, SESSIONS)
        self._own = CompletionService(self._open, self)
        if not self._own.preload().result():
            status = self.state
            self.close()
            raise ResourceError(status.message or "the model could not be loaded", status.hint)
        self._probed: float = time.monotonic()
        self._probing = False

    def _open(self, listener: HostListener) -> LocalHost:
        self._host = self._core.open(listener, self._core.settings, {})
        return self._host

    @override
    def status(self, status: Status) -> None:
        self.state = status

    async def answer(self, call: Call) -> ReplicaAnswer | ReplicaRefusal:
        """Answer a call. A client that hangs up cancels the task, and the work ends within one decoding step."""
        answer = await self._answer(call)
        if isinstance(answer, ReplicaAnswer):
            self._recent.keep(call, time.monotonic())
        return answer

    async def _answer(self, call: Call) -> ReplicaAnswer | ReplicaRefusal:
        begun = time.monotonic()
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_S):
                completion = await self._tenants.answer(call.tenant, call.ask, gone)
        except TimeoutError:
            return ReplicaRefusal(504, f"no answer within {ANSWER_S:.0f} s")
        except RequestError as error:
            return ReplicaRefusal(error.code, error.message)
        except DisconnectedError:
            return ReplicaRefusal(499, "the client disconnected")
        return ReplicaAnswer(answer_of(call.ask, completion), self.name, 1e3 * (time.monotonic() - begun))

    def held(self) -> ReplicaCalls:
        """The recent calls."""
        return ReplicaCalls(self.name, self.version, self._recent.calls(time.monotonic()))

    async def read(self, calls: Iterable[tuple[float, Call]], seconds: float) -> int:
        """Answer `calls` and drop the answers, to fill the KV caches; begins no more after `seconds`. Returns how many.

        They come with their ages, the latest first, and keep their ages. A call is skipped if it would evict a later
        one, for lack of room or because it counts as the same document.
        """
        begun, done = time.monotonic(), list[tuple[float, Call]]()
        read = defaultdict[Tenant, list[InfillRequest]](list)
        for age_s, call in calls:
            if time.monotonic() >= begun + seconds:
                break
            later = read.get(call.tenant, ())
            if len({*read, call.tenant}) > self._most_tenants or len(later) >= SESSIONS:
                continue
            if any(is_same_document(call.ask, other) for other in later):
                continue
            read[call.tenant].append(call.ask)
            if isinstance(await self._answer(call), ReplicaAnswer):
                done.append((age_s, call))
        for age_s, call in reversed(done):
            self._recent.keep(call, begun - age_s)
            self._tenants.asked(call.tenant)
        return len(done)

    def check(self) -> None:
        """Raise FastcoderError unless the model is loaded, and its thread is not stuck."""
        if self.state.state == "error":
            raise ResourceError(self.state.message, self.state.hint)
        if time.monotonic() - self._probed > PROBE_S and self._probing:
            raise ResourceError(f"the model's thread did not respond for {PROBE_S:.0f} s")
        if not self._probing:
            self._probing, self._probed = True, time.monotonic()
            self._core.probe(self._alive)

    def _alive(self) -> None:
        self._probing, self._probed = False, time.monotonic()

    def close(self) -> None:
        """Free everything."""
        self._tenants.close(_END_S)
        self._own.shutdown(_END_S)
        self._core.close(_END_S)
