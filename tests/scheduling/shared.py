"""Several fronts over one scheduler in simulated time: what they ask, and a model with a KV cache for each document."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import (
    CacheLost,
    Completion,
    DraftTree,
    EngineInfo,
    Prefilled,
    Progress,
    ShouldStop,
    Tokens,
    Verified,
)
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.completion.listening import Heard
from tests.completion.simulated import COSTS, URI, AtCursor, Clock, NextLetter, SimulatedEngine, TurnByTurn
from tests.completion.toys import Letters, ToyPrompts, toy_runtime
from tests.fake_engine import Allowed


def bytes_of(before: str) -> tuple[int, ...]:
    return (1, *before.encode())


class Caches:
    """`core.Engines` in simulated time, with as many KV caches as are allowed.

    `engines`: by name. `fails`: a name's steps that go wrong.
    """

    def __init__(self, clock: Clock, letter: NextLetter, most: int) -> None:
        self.info = EngineInfo("simulated", "simulated", "made here", "none", 256, 100_000, 64)
        self.engines: dict[str, Slot] = {}
        self.spare: dict[str, Slot] = {}
        self.fails: set[str] = set()
        self.closed = False
        self._clock, self._letter, self._most = clock, letter, most

    def slot(self, name: str) -> "Slot":
        if name not in self.engines:
            self.engines[name] = Slot(self._clock, self._letter, self)
        return self.engines[name]

    def second_cache(self, name: str) -> "Slot":
        return self.spare.setdefault(name, Slot(self._clock, self._letter, self))

    def exchange(self, name: str) -> None:
        self.forget_first(name)
        self.engines[name] = self.spare.pop(name)

    def swap(self, name: str) -> None:
        self.engines[name], self.spare[name] = self.second_cache(name), self.slot(name)

    def used(self, slot: "Slot") -> None:
        named = [(name, other) for name, other in self.engines.items() if other is slot]
        for name, other in named:
            del self.engines[name]
            self.engines[name] = other
        held = [other for other in self.engines.values() if other.holds() and other is not slot]
        for other in held[: max(0, len(held) - self._most + 1)]:
            other.give_up()

    def failing(self, slot: "Slot") -> bool:
        return any(other is slot for name, other in self.engines.items() if name in self.fails)

    def forget(self, name: str) -> None:
        self.forget_first(name)
        if name in self.spare:
            self.spare.pop(name).give_up()

    def forget_first(self, name: str) -> None:
        if name in self.engines:
            self.engines.pop(name).give_up()

    def rename(self, old: str, new: str) -> None:
        if old in self.engines:
            self.forget(new)
            for engines in (self.engines, self.spare):
                if old in engines:
                    engines[new] = engines.pop(old)

    def close(self) -> None:
        self.closed = True
        for engine in self.engines.values():
            engine.give_up()

    def prefilled(self) -> int:
        return sum(engine.prefilled for engine in self.engines.values())


class Slot(SimulatedEngine):
    def __init__(self, clock: Clock, letter: NextLetter, caches: Caches) -> None:
        super().__init__(clock, letter)
        self._caches, self._lost = caches, False

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        assert not self._caches.closed, "the model is gone"
        self._lost = False
        done = super().prefill(tokens, should_stop)
        self._caches.used(self)
        return done

    def _step(self, tree: DraftTree, allowed: Allowed, top_k: int) -> Verified:
        assert not self._caches.closed, "the model is gone"
        if self._lost:
            raise CacheLost
        if self._caches.failing(self):
            raise ZeroDivisionError
        self._caches.used(self)
        return super()._step(tree, allowed, top_k)

    def holds(self) -> bool:
        return bool(self._cache)

    def give_up(self) -> None:
        self._cache.clear()
        self._lost = True

    def close(self) -> None:
        self.give_up()


class SharingHost(SchedulerHost):
    """One front's host; what it loads, all have."""

    def __init__(self, shared: "Shared", front: "Front", listener: HostListener) -> None:
        def make(model: Model) -> Runtime:
            if front.failure is not None:
                raise front.failure
            return toy_runtime(model, front.prompts, front.name, max_tokens=200)

        super().__init__(
            shared.scheduler, listener, make, lambda: shared.scheduler.use(shared.load), enabled=front.enabled
        )


@dataclass
class Front(AtCursor):
    """One person's editor.

    `asked`: all requests. `answers`: how often each was answered. `failure`: why its part of the model cannot be made.
    `prompts`: its builder of prompts.
    """

    shared: "Shared"
    name: str
    policy: Policy
    enabled: bool = True
    failure: Exception | None = None
    prompts: ToyPrompts = field(default_factory=lambda: ToyPrompts(bytes_of))
    statuses: list[Status] = field(default_factory=list)
    asked: list[tuple[str, float, "Future[Completion]"]] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    after: str = "\n"
    version: int = 0
    service: CompletionService = field(init=False)
    host: SharingHost = field(init=False)

    def __post_init__(self) -> None:
        def open_host(listener: HostListener) -> SharingHost:
            self.host = SharingHost(self.shared, self, listener)
            return self.host

        self.service = CompletionService(open_host, Heard(self.statuses), enabled=self.enabled, clock=self.shared.clock)

    def ask(self, before: str, uri: str = URI, *, invoked: bool = False) -> "Future[Completion]":
        number = len(self.asked)
        future = self.service.submit(self.request(before, uri, invoked=invoked), self.policy)
        future.add_done_callback(lambda _: self.answers.update({number: self.answers.get(number, 0) + 1}))
        self.asked.append((before, self.shared.clock.ms, future))
        return future

    def engine(self, uri: str = URI) -> Slot:
        return self.shared.caches.slot(f"{self.name}\n{uri}")


class Shared(TurnByTurn):
    """One model with `most` KV caches for all fronts, a scheduler that the test drives, and the clock."""

    def __init__(self, letter: NextLetter, *, load_ms: float = 0.0, most: int = 100) -> None:
        self.clock = Clock()
        self._letter, self._load_ms, self._most = letter, load_ms, most
        self.caches = Caches(self.clock, letter, most)
        self.loads = 0
        self.failure: Exception | None = None
        self.while_loading: Callable[[], object] = lambda: None
        self.scheduler = Scheduler[Model](self.load, self.clock, cpu=lambda: self.clock.ms / 1e3)
        self.fronts: list[Front] = []

    def load(self, progress: Progress) -> Model:
        progress(0.5, "weights")
        self.clock.ms += self._load_ms
        self.loads += 1
        self.while_loading()
        if self.failure is not None:
            raise self.failure
        self.caches = Caches(self.clock, self._letter, self._most)
        return Model(self.caches, Letters(), COSTS)

    def open(self, policy: Policy, *, enabled: bool = True, failure: Exception | None = None) -> Front:
        front = Front(self, f"front-{len(self.fronts)}", policy, enabled, failure)
        self.fronts.append(front)
        return front


def alone(letter: NextLetter, before: str, policy: Policy | None = None) -> Completion:
    """What a front by itself is answered."""
    shared = Shared(letter)
    future = shared.open(policy or Policy()).ask(before)
    shared.work(until=future.done)
    return future.result(0)
