"""Hosts in this process without a workspace: one for a client of a scheduler, one with a scheduler of its own.

They ignore commands about files: programs and tests use them with a single model that a function makes.
"""

import threading
from collections.abc import Callable

import psutil

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.question import Clock
from fastcoder_lsp.core import Progress, StepCosts
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.client import Arrival
from fastcoder_lsp.scheduling.model import SomeModel
from fastcoder_lsp.scheduling.scheduler import IDLE_MS, Scheduler, now_ms

LoadRuntime = Callable[[Progress], Runtime]


class SingleClientModel:
    """A model that belongs to one client, and closes with its runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    @property
    def costs(self) -> StepCosts:
        """The costs of its work."""
        return self.runtime.costs

    def close(self) -> None:
        """Do nothing: its runtime has closed it."""


class SchedulerHost:
    """`completion.protocol.ModelHost` over a client of a scheduler, whose part of the model `make_runtime` makes."""

    def __init__(
        self,
        scheduler: Scheduler[SomeModel],
        listener: protocol.HostListener,
        make_runtime: Callable[[SomeModel], Runtime],
        reload: Callable[[], None] = lambda: None,
        *,
        enabled: bool = True,
    ) -> None:
        self._reload = reload
        self.client = scheduler.join(listener, make_runtime, enabled=enabled)

    def send(self, command: protocol.Command) -> None:
        """Pass the command on; ignore commands about files, since there is no workspace."""
        if command.target == "model":
            self.client.inbox(Arrival(self.client, command))
        elif isinstance(command, protocol.Enable):
            self.client.switch(enabled=command.enabled)
        elif command.target == "settings":
            self._reload()

    def facts(self) -> protocol.HostFacts:
        """The host's state."""
        info, budgets, process = self.client.info(), self.client.budgets, psutil.Process()
        return protocol.HostFacts(
            model=info.model if info else "",
            engine=info.name if info else "",
            budget_ms=budgets.by_kind() if budgets else {},
            resident_bytes=process.memory_info().rss,
            process_id=process.pid,
        )

    def close(self, wait_s: float) -> None:  # noqa: ARG002 as the protocol has it
        """Disconnect the client."""
        self.client.leave()


class DirectHost(SchedulerHost):
    """A host of one client, with a scheduler of its own.

    `load` makes the model ready; `load_runtime` replaces it from the next load on. `clock` is in milliseconds. Without
    `threaded` the caller drives `scheduler` itself, turn by turn.
    """

    def __init__(
        self,
        listener: protocol.HostListener,
        load: LoadRuntime,
        *,
        enabled: bool = True,
        clock: Clock = now_ms,
        idle_ms: float = IDLE_MS,
        threaded: bool = True,
    ) -> None:
        self.load_runtime = load
        self.scheduler = Scheduler(lambda progress: SingleClientModel(load(progress)), clock, idle_ms)
        super().__init__(
            self.scheduler, listener, lambda whole: whole.runtime, lambda: self._use(self.load_runtime), enabled=enabled
        )
        self._thread = threading.Thread(target=self.scheduler.run, name="fastcoder-scheduler", daemon=True)
        if threaded:
            self._thread.start()

    def close(self, wait_s: float) -> None:
        """Stop the scheduler within a piece of work."""
        self.scheduler.close()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _use(self, load: LoadRuntime) -> None:
        self.scheduler.use(lambda progress: SingleClientModel(load(progress)))
