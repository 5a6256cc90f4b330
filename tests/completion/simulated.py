"""A service in simulated time: an engine whose work moves a clock, and a worker that the test drives turn by turn.

The model is a function of the last letters, so that it says the same wherever a text came from: who types along what it
says is told the rest of it. A letter is a token.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import typing_extensions

from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import (
    Completion,
    CompletionRequest,
    DraftContext,
    DraftTree,
    Late,
    Progress,
    Snapshot,
    StepCosts,
    Tokens,
)
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.direct import DirectHost, LoadRuntime
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.completion.listening import Heard
from tests.completion.toys import Letters, ToyPrompts, toy_runtime
from tests.fake_engine import END, FakeEngine, Ranked

URI = "file:///a.py"
STEP_MS, ROW_MS, TOKEN_MS = 19.0, 1.0, 0.5
COSTS = StepCosts((1, 64), (STEP_MS + ROW_MS, STEP_MS + 64 * ROW_MS), TOKEN_MS)
NextLetter = Callable[[str], str]
"""The text so far → the letter that follows, "" at the end."""


def script(says: str, start: str) -> NextLetter:
    """A model that says `says` after the last `start`, whatever part of it is typed already."""

    def letter(text: str) -> str:
        said = text.rpartition(start)[2]
        return says[len(said) : len(said) + 1] if says.startswith(said) else "?" if len(said) < 60 else ""

    return letter


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms

    def passes(self, ms: float) -> None:
        self.ms += ms


def _undisturbed(ms: float) -> float:
    return ms


class SimulatedEngine(FakeEngine):
    """Takes what its `costs` say, changed by `takes`; `likely` gives the letters that may follow, the best first."""

    def __init__(self, clock: Clock, letter: NextLetter) -> None:
        super().__init__(vocabulary=256, context=100_000, chunk=100_000, name="simulated")
        self._clock, self._letter, self.costs = clock, letter, COSTS
        self.pieces: list[float] = []
        """When each piece of work ended."""
        self.takes: Callable[[float], float] = _undisturbed
        self.likely: Callable[[str], Mapping[str, float]] | None = None

    def works(self, rows: int, *, prefill: bool) -> None:
        self._pass(self.costs.prompt_ms(rows) if prefill else self.costs.step_ms(rows))

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        letter = self._letter(bytes(tokens[1:]).decode())
        return ord(letter) if letter else END

    def ranked(self, tree: DraftTree, top_k: int) -> Ranked | None:
        if self.likely is None:
            return None
        [*_, text] = self.texts(tree)
        likely = dict(list(self.likely(bytes(text[1:]).decode()).items())[:top_k])
        ids_NK, logits_NK = np.zeros((len(tree), len(likely)), np.int64), np.zeros((len(tree), len(likely)), np.float32)
        ids_NK[:] = [ord(one) for one in likely]
        logits_NK[:] = np.log(list(likely.values()))
        return ids_NK, logits_NK

    def _pass(self, ms: float) -> None:
        self._clock.ms += self.takes(ms)
        self.pieces.append(self._clock.ms)


class ListeningDrafter(NoDrafter):
    def __init__(self) -> None:
        super().__init__()
        self.expected: list[tuple[str, ...]] = []

    def begin(self, context: DraftContext) -> None:
        self.expected.append(tuple(bytes(tokens).decode() for tokens in context.outdated))


class TurnByTurn:
    """A scheduler in simulated time, driven turn by turn."""

    clock: Clock
    scheduler: Scheduler[Any]

    def work(self, *, pieces: int = 20_000, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(pieces):
            if until() or self.scheduler.turn() > 0:
                return

    def rest(self, ms: float) -> None:
        """So much time passes, the scheduler doing in it what it finds."""
        end = self.clock.ms + ms
        while self.clock.ms < end:
            wait = self.scheduler.turn()
            if wait > 0:
                self.clock.ms = min(end, self.clock.ms + wait, max(self.ring(), self.clock.ms))
        self.ring()

    def ring(self) -> float:
        """Call what is due by now; returns when the next call is due."""
        return math.inf


class AtCursor:
    """Who asks at one cursor of a document, with text `after` it."""

    after: str
    version: int

    def request(self, before: str, uri: str = URI, *, invoked: bool = False) -> CompletionRequest:
        self.version += 1
        snapshot = Snapshot(uri, None, "python", self.version, before + self.after)
        return CompletionRequest(snapshot, len(before), invoked=invoked)


class Simulation(TurnByTurn, AtCursor):
    """A person at one cursor, with text `after` it, and the service that answers with the model `letter`.

    The model is loaded within `load_ms`; `costs` are those that the scheduler believes in. `late` and `empty` keep what
    the service tells without being asked.
    """

    def __init__(
        self, letter: NextLetter, policy: Policy, after: str = "\n", load_ms: float = 0.0, costs: StepCosts = COSTS
    ) -> None:
        self.clock = Clock()
        self.engine = SimulatedEngine(self.clock, letter)
        self.drafter = ListeningDrafter()
        self.prompts = ToyPrompts(lambda before: (1, *before.encode()))
        self.policy, self.after, self._load_ms, self._costs = policy, after, load_ms, costs
        self.late: list[tuple[Late, float]] = []
        self.empty: list[str] = []
        self.statuses: list[Status] = []
        self.failure: BaseException | None = None
        self.while_loading: Callable[[], object] = lambda: None
        self.service = CompletionService(
            self.open_host,
            _Listener(self),
            clock=self.clock,
            call_later=lambda seconds, call: self.timers.append((self.clock.ms + seconds * 1e3, call)),
        )
        self.version = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    @typing_extensions.override
    def ring(self) -> float:
        due = [call for at, call in self.timers if at <= self.clock.ms]
        self.timers = [(at, call) for at, call in self.timers if at > self.clock.ms]
        for call in due:
            call()
        return self.clock.ms if due else min((at for at, _ in self.timers), default=math.inf)

    def take_late(self, late: Late) -> None:
        if late.reason is not None:
            self.empty.append(late.reason.code)
        else:
            self.late.append((late, self.clock.ms))

    def open_host(self, listener: HostListener) -> DirectHost:
        """Where the model lives: here, and the test is the clock and the thread."""
        self.host = DirectHost(listener, self.load, clock=self.clock, threaded=False)
        self.scheduler = self.host.scheduler
        return self.host

    def reload(self, load: LoadRuntime | None = None) -> None:
        """Another model from the next request on, or the same anew."""
        self.host.load_runtime = load or self.load
        self.service.reload()

    def ask(self, before: str, *, invoked: bool = False, uri: str = URI) -> "Future[Completion]":
        return self.service.submit(self.request(before, invoked=invoked, uri=uri), self.policy)

    def answer(self, before: str, **more: Any) -> Completion:
        future = self.ask(before, **more)
        self.work(until=future.done)
        return future.result(0)

    def load(self, progress: Progress) -> Runtime:
        progress(0.5, "weights")
        self.clock.ms += self._load_ms
        self.while_loading()
        if self.failure is not None:
            raise self.failure
        engines = OneSlot(self.engine)
        model = Model(engines, Letters(), self._costs)
        return toy_runtime(model, self.prompts, drafter=self.drafter, max_tokens=200, closing=engines.close)


class _Listener(Heard):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.statuses)
        self._simulation = simulation

    @typing_extensions.override
    def late(self, late: Late) -> None:
        self._simulation.take_late(late)


def threaded(
    load: LoadRuntime,
    *,
    enabled: bool = True,
    idle_s: float = 1.0,
) -> CompletionService:
    """A service whose model has a thread of its own."""
    open_host = partial(DirectHost, load=load, enabled=enabled, idle_ms=idle_s * 1e3)
    return CompletionService(open_host, enabled=enabled)


def plain(letter: NextLetter, before: str, after: str = "\n") -> str:
    """What is shown after `before` to a request by key without a deadline, which no rule holds back."""
    return Simulation(letter, Policy(), after).answer(before, invoked=True).text
