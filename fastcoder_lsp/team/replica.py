"""One replica: a model and its tenants. Knows nothing of Ray; `deployments` runs it there.

Owns loading before the first request, the wait for an answer, and the health check.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Protocol

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.host.local import LoadModel, LocalHost, MakeRuntime
from fastcoder_lsp.http.app import ANSWER_S
from fastcoder_lsp.http.infill import InfillRequest, said
from fastcoder_lsp.http.responses import RequestError
from fastcoder_lsp.http.sessions import HungUpError, is_same_document
from fastcoder_lsp.team.configuration import TeamConfig
from fastcoder_lsp.team.host import TeamCore
from fastcoder_lsp.team.recent import RecentCalls, ReplicaCalls
from fastcoder_lsp.team.tenants import Folders, Tenants
from fastcoder_lsp.team.values import Call, ReplicaAnswer, ReplicaRefusal, Tenant

SESSIONS = 4
"""Most documents of one tenant that a replica works on at a time, in turns."""
PROBE_S = 10.0
"""The model's thread counts as stuck if a piece of work takes this long."""
_END_S = 5.0


class RuntimeFactory(Protocol):
    """A module that loads a model and makes runtimes, as `fastcoder_lsp.runtime.load` does."""

    load_model: LoadModel
    make_runtime: MakeRuntime


class TeamReplica:
    """One replica of the model.

    Args:
        config: the server's configuration.
        name: the replica's unique name.
        folders: gives the folders of available repositories.
        model: the module whose `load_model` and `make_runtime` are used.
        version: replicas with another version will be replaced.

    Raises:
        FastcoderError: the model cannot be loaded.
    """

    def __init__(
        self,
        config: TeamConfig,
        name: str,
        folders: Folders,
        model: str = "fastcoder_lsp.runtime.load",
        version: str = "",
    ) -> None:
        self.name, self.version, self.status = name, version, Status("starting")
        self._recent = RecentCalls()
        settings = config.settings()
        parts: RuntimeFactory = import_module(model)
        self._core = TeamCore(parts.load_model, parts.make_runtime, settings, cache_folder())
        self._most_tenants = config.replicas.tenants
        self._tenants = Tenants(self._core, settings, folders, self._most_tenants, SESSIONS)
        self._own = CompletionService(self._open, self._told)
        if not self._own.preload().result():
            status = self.status
            self.close()
            raise ResourceError(status.message or "the model could not be loaded", status.hint)
        self._probed: float = time.monotonic()
        self._probing = False

    def _open(self, listener: HostListener) -> LocalHost:
        self._host = self._core.open(listener, self._core.settings, {})
        return self._host

    def _told(self, status: Status) -> None:
        self.status = status

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
        except HungUpError:
            return ReplicaRefusal(499, "the client disconnected")
        return ReplicaAnswer(said(call.ask, completion), self.name, 1e3 * (time.monotonic() - begun))

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
        """Check that the replica can answer: the model is loaded, and its thread is not stuck.

        Raises:
            FastcoderError: it cannot.
        """
        if self.status.state == "error":
            raise ResourceError(self.status.message, self.status.hint)
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


def no_folders(_: tuple[str, ...]) -> dict[Path, Settings]:
    """The folders of no repositories."""
    return {}
