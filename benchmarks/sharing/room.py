"""People and one model, in reckoned time: keys when they are due, and between them what the scheduler finds to do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.keystroke.subset import Subset
from benchmarks.sharing.person import Account, Person
from benchmarks.sharing.reckoned import Clock, ReckonedEngines
from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler

MakeRuntime = Callable[[Model, str], Runtime]
"""What one person has of the model, by their name."""


@dataclass(frozen=True, slots=True)
class Text:
    """What somebody types: runs of a history, and the tree before it."""

    name: str
    subset: Subset
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class Hand:
    """How people type, and what their editors ask for: keys a second, the seed of the rhythm, the policy."""

    speed: float
    seed: int
    policy: Policy


def type_at_once(model: Model, make: MakeRuntime, texts: Sequence[Text], costs: StepCosts, hand: Hand) -> list[Account]:
    """What each comes to who types one of `texts`, all of them beginning at once at a model that is loaded.

    Args:
        model: does the work, and is not closed.
        make: see `MakeRuntime`.
        texts: one a person.
        costs: of the work, whatever it takes here.
        hand: of all of them.
    """
    clock = Clock()
    engines = ReckonedEngines(model.engines, clock, costs)
    scheduler: Scheduler[Model] = Scheduler(lambda _: replace(model, engines=engines, costs=costs), clock.now)

    def sit(number: int, text: Text) -> Person:
        name = f"{len(texts)}-{number}"

        def open_host(listener: HostListener) -> SchedulerHost:
            return SchedulerHost(scheduler, listener, lambda shared: make(shared, name))

        def computed() -> int:
            return sum(count for slot, count in engines.computed.items() if slot.partition("\n")[0] == name)

        return Person(
            open_host,
            text.subset,
            dict(text.files),
            hand.policy,
            clock.now,
            computed,
            speed=hand.speed,
            seed=hand.seed + number,
        )

    people = [sit(number, text) for number, text in enumerate(texts)]
    loads = [person.load() for person in people]
    while not all(load.done() for load in loads):
        scheduler.turn()
    for person in people:
        person.due_ms = clock.ms
    _type(people, scheduler, clock)
    return [person.account for person in people]


def _type(people: list[Person], scheduler: Scheduler[Model], clock: Clock) -> None:
    typing = list(people)
    while typing:
        nearest = min(typing, key=lambda person: person.due_ms)
        if clock.ms >= nearest.due_ms:
            if not nearest.press():
                typing.remove(nearest)
        elif (wait_ms := scheduler.turn()) > 0:
            clock.ms = min(nearest.due_ms, clock.ms + wait_ms)
    while scheduler.turn() <= 0:  # they leave
        pass
