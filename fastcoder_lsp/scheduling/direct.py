"""Hosts in this process without a workspace: a front's seat, and one front with a scheduler of its own.

What concerns files is nothing to them: for commands and tests that have one model, made by a function.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

from fastcoder_lsp.completion.host import HostFacts, HostListener
from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Progress, StepCosts
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.client import Client
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


class SeatHost:
    """`completion.host.ModelHost` over a seat.

    Args:
        seat: the front's.
        reload: has the model loaded anew.
    """

    def __init__(self, seat: Client, reload: Callable[[], None]) -> None:
        self.seat, self._reload = seat, reload

    def ask(self, question: Question) -> None:
        """The newest question."""
        self.seat.ask(question)

    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """Somebody asked, which needs no model."""
        self.seat.noticed(asked_ms, answered=answered)

    def withdraw(self, number: int) -> None:
        """Nobody waits for the answer to a question."""
        self.seat.withdraw(number)

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """What will be asked next."""
        self.seat.expect(question, known=known, unserved=unserved)

    def forget(self, uri: str) -> None:
        """A document was closed."""
        self.seat.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """A document has another name."""
        self.seat.rename(old, new)

    def load(self, reply: Callable[[bool], object]) -> None:
        """Load the model now."""
        self.seat.load(reply)

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:  # noqa: ARG002 as the protocol has it
        """Load the model anew: whoever makes it knows by which settings."""
        self._reload()

    def reload(self) -> None:
        """Load the model anew."""
        self._reload()

    def enable(self, *, enabled: bool) -> None:
        """Off unloads the model."""
        self.seat.enable(enabled=enabled)

    def document_changed(self, path: Path, text: str) -> None:
        """No workspace."""

    def document_closed(self, path: Path) -> None:
        """No workspace."""

    def files_changed(self, paths: Iterable[Path]) -> None:
        """No workspace."""

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
        seat = self.scheduler.join(listener, lambda whole: whole.runtime, enabled=enabled)
        super().__init__(seat, lambda: self._use(self.load_runtime))
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
