"""One replica: a model, its tenants, and what is told of both. Knows nothing of Ray; `deployments` puts it there.

Owns loading before the first request, the wait for an answer, and what "can answer" means.
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
"""Documents of one tenant that a replica works on at a time, by turns."""
PROBE_S = 10.0
"""The model's thread is stuck when it finds no moment between two pieces of work in this time."""
_END_S = 5.0


class RuntimeFactory(Protocol):
    """What a model is made by; `fastcoder_lsp.runtime.load` is one."""

    load_model: LoadModel
    make_runtime: MakeRuntime


class TeamReplica:
    """One host of the model.

    Args:
        config: of the server.
        name: no other replica has it.
        folders: of the repositories that are there.
        model: the module whose `load_model` and `make_runtime` are used.
        version: replicas of another one are to be replaced.

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
        """What `call` asks. Whoever waits no more cancels the task, and the work ends within a step."""
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
        """What it was asked of late."""
        return ReplicaCalls(self.name, self.version, self._recent.calls(time.monotonic()))

    async def read(self, calls: Iterable[tuple[float, Call]], seconds: float) -> int:
        """Answer `calls` to nobody, as many as it begins in so many seconds: their prompts are in KV caches then.

        They come with their ages, the latest first, and stay as old as they are. What would push out one that was
        asked later, for want of room or because it is taken for the same document, is not read. Returns how many were.
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
        """See that it can answer: the model is there, and its thread goes on.

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
        """Give everything back."""
        self._tenants.close(_END_S)
        self._own.shutdown(_END_S)
        self._core.close(_END_S)


def no_folders(_: tuple[str, ...]) -> dict[Path, Settings]:
    """Of no repositories."""
    return {}
