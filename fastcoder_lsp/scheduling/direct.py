"""Hosts in this process without a workspace: a front's seat, and one front with a scheduler of its own.

What concerns files is nothing to them: for commands and tests that have one model, made by a function.
"""

import threading
from collections.abc import Callable

import psutil

from fastcoder_lsp.completion.protocol import (
    Ask,
    Command,
    Enable,
    Expect,
    Forget,
    HostFacts,
    HostListener,
    Load,
    Loaded,
    Noticed,
    Reload,
    Rename,
    Use,
    Withdraw,
)
from fastcoder_lsp.completion.question import Clock
from fastcoder_lsp.core import Progress, StepCosts
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.client import Client
from fastcoder_lsp.scheduling.model import SomeModel
from fastcoder_lsp.scheduling.scheduler import IDLE_MS, Scheduler, now_ms

LoadRuntime = Callable[[Progress], Runtime]


class Whole:
    """A model that is one front's, and closed with its runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    @property
    def costs(self) -> StepCosts:
        """What its work takes."""
        return self.runtime.costs

    def close(self) -> None:
        """Its runtime has closed it."""


def tell_seat(seat: Client, command: Command, listener: HostListener) -> None:
    """Have a seat do what a command says that concerns neither files nor how the model is loaded."""
    match command:
        case Ask(question):
            seat.ask(question)
        case Noticed(asked_ms, answered):
            seat.noticed(asked_ms, answered=answered)
        case Withdraw(number):
            seat.withdraw(number)
        case Expect(question, known, unserved):
            seat.expect(question, known=known, unserved=unserved)
        case Forget(uri):
            seat.forget(uri)
        case Rename(old, new):
            seat.rename(old, new)
        case Load(ticket):
            seat.load(lambda well: listener(Loaded(ticket, well)))
        case Enable(enabled):
            seat.enable(enabled=enabled)


class SeatHost:
    """`completion.protocol.ModelHost` over a seat.

    Args:
        scheduler: has the model.
        listener: told what comes of it.
        make_runtime: makes this front's part of the model.
        reload: has the model loaded anew: whoever makes it knows by which settings.
        enabled: whether the front wants the model at first.
    """

    def __init__(
        self,
        scheduler: Scheduler[SomeModel],
        listener: HostListener,
        make_runtime: Callable[[SomeModel], Runtime],
        reload: Callable[[], None] = lambda: None,
        *,
        enabled: bool = True,
    ) -> None:
        self._listener, self._reload = listener, reload
        self.seat = scheduler.join(listener, make_runtime, enabled=enabled)

    def send(self, command: Command) -> None:
        """There is no workspace: what concerns files is nothing to it."""
        if isinstance(command, Use | Reload):
            self._reload()
        else:
            tell_seat(self.seat, command, self._listener)

    def facts(self) -> HostFacts:
        """What is known of it."""
        info, budgets, process = self.seat.info(), self.seat.budgets, psutil.Process()
        return HostFacts(
            model=info.model if info else "",
            engine=info.name if info else "",
            budget_ms=budgets.by_kind() if budgets else {},
            resident_bytes=process.memory_info().rss,
            process_id=process.pid,
        )

    def close(self, wait_s: float) -> None:  # noqa: ARG002 as the protocol has it
        """The front is gone."""
        self.seat.leave()


class DirectHost(SeatHost):
    """A host of one front, with a scheduler of its own.

    Args:
        listener: the front.
        load: makes its model ready; `load_runtime` from the next load on.
        enabled: whether the front wants it at first.
        clock: milliseconds.
        idle_ms: see `Scheduler`.
        threaded: False where the caller drives `scheduler` itself, turn by turn.
    """

    def __init__(
        self,
        listener: HostListener,
        load: LoadRuntime,
        *,
        enabled: bool = True,
        clock: Clock = now_ms,
        idle_ms: float = IDLE_MS,
        threaded: bool = True,
    ) -> None:
        self.load_runtime = load
        self.scheduler = Scheduler(lambda progress: Whole(load(progress)), clock, idle_ms)
        super().__init__(
            self.scheduler, listener, lambda whole: whole.runtime, lambda: self._use(self.load_runtime), enabled=enabled
        )
        self._thread = threading.Thread(target=self.scheduler.run, name="fastcoder-scheduler", daemon=True)
        if threaded:
            self._thread.start()

    def close(self, wait_s: float) -> None:
        """The scheduler ends within a piece of work."""
        self.scheduler.close()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _use(self, load: LoadRuntime) -> None:
        self.scheduler.use(lambda progress: Whole(load(progress)))
