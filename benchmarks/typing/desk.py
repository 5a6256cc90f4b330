"""One person at one model in reckoned time, who types a part of a history with some settings."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.keystroke.subset import Subset
from benchmarks.sharing.person import Person
from benchmarks.sharing.reckoned import Clock, ReckonedEngines
from benchmarks.typing.history_disk import DiskContext, HistoryDisk
from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.prompt import Context
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler

MakeRuntime = Callable[[Model, Context], Runtime]
"""What one person has of the model, given where code of other files is found."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What typing a part came to.

    Attributes:
        keys: of the part, with no accept.
        saved: those of them that an accept brought in.
        asked, shown: requests, and those that were answered by text before the next key.
        computed: prompt tokens, exchanges of snippets and work ahead included.
        steps, emitted: forward passes after the prompts, and the tokens that came of them.
        waits_ms: from a key to the text that was shown for it, of each, to a tenth of a millisecond.
    """

    keys: int
    saved: int
    asked: int
    shown: int
    computed: int
    steps: int
    emitted: int
    waits_ms: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """The numbers, for a report."""
        return asdict(self)


class Desk:
    """Where parts are typed: a model that is loaded, and how fast it is said to be.

    Args:
        model: does the work, and is not closed.
        costs: of the work, whatever it takes here.
        policy: what the editor asks for.
        speed: keys a second.
        seed: of the rhythm.
    """

    def __init__(self, model: Model, costs: StepCosts, policy: Policy, *, speed: float, seed: int) -> None:
        self._model, self._costs, self._policy, self._speed, self._seed = model, costs, policy, speed, seed

    def type(self, part: Subset, files: dict[str, str], make: MakeRuntime) -> Typed:
        """Type `part` into `files`, the tree before it.

        Args:
            part: of a history.
            files: path → text; not changed.
            make: see `MakeRuntime`.
        """
        clock = Clock()
        engines = ReckonedEngines(self._model.engines, clock, self._costs)
        scheduler: Scheduler[Model] = Scheduler(
            lambda _: replace(self._model, engines=engines, costs=self._costs), clock.now
        )
        with TemporaryDirectory(prefix="fastcoder-typing-") as folder:
            disk = HistoryDisk(Path(folder).resolve(), files)
            context = DiskContext(disk, lambda: clock.ms / 1e3)

            def open_host(listener: HostListener) -> SchedulerHost:
                return SchedulerHost(scheduler, listener, lambda shared: make(shared, context))

            person = Person(
                open_host,
                part,
                disk,
                self._policy,
                clock.now,
                engines.computed.total,
                speed=self._speed,
                seed=self._seed,
            )
            loaded = person.load()
            while not loaded.done():
                scheduler.turn()
            person.due_ms = clock.ms
            _type(person, scheduler, clock)
        account = person.account
        return Typed(
            account.typed + account.saved,
            account.saved,
            account.asked,
            account.shown,
            engines.computed.total(),
            engines.steps,
            engines.emitted,
            tuple(round(wait_ms, 1) for wait_ms in account.waited_ms),
        )


def _type(person: Person, scheduler: Scheduler[Model], clock: Clock) -> None:
    """Keys when they are due, and between them what the scheduler finds to do."""
    typing = True
    while typing:
        if clock.ms >= person.due_ms:
            typing = person.press()
        elif (wait_ms := scheduler.turn()) > 0:
            clock.ms = min(person.due_ms, clock.ms + wait_ms)
    while scheduler.turn() <= 0:  # they leave
        pass
