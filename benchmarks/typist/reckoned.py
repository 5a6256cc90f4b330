"""A person who types at a model in reckoned time: an engine's work moves a clock by its time on an idle machine.

So the figures are the same on a busy machine. The engine's tokens are its own. The person's service is in this process;
keys are pressed when they are due, and between them the scheduler does what it finds to do.
"""

from collections.abc import Callable, Collection, MutableMapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from typing_extensions import override

from benchmarks.datasets.histories import RecordedEdit, Step, apply
from benchmarks.harness import WrappedEngine, WrappedEngines
from benchmarks.typist import KeyPosition, Subset, Typist
from benchmarks.typist.ceiling import Tree
from fastcoder_lsp.client.client import Ghost, ReceivedSuggestion
from fastcoder_lsp.completion.protocol import HostListener
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.completion.service import CompletionService, ServiceListener
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import (
    Completion,
    CompletionRequest,
    DraftTree,
    Engine,
    Engines,
    Late,
    Pieces,
    Prefilled,
    ShouldStop,
    Snapshot,
    StepCosts,
    Tokens,
    Verified,
)
from fastcoder_lsp.prompt import Context, PromptContext
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.runtime.parts import Model, Runtime
from fastcoder_lsp.scheduling.direct import SchedulerHost
from fastcoder_lsp.scheduling.scheduler import Scheduler
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules

_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
MACHINES = {
    "vnni": StepCosts(_WIDTHS, (22.1, 22.1, 24.7, 30.2, 41.4, 62.2, 105.4), 506 / 512),
    "avx2": StepCosts(_WIDTHS, (17.0, 17.0, 26.2, 38.6, 71.2, 132.0, 243.0), 1306 / 512),
    "avx2-int4": StepCosts(_WIDTHS, (11.2, 11.2, 14.7, 21.2, 39.9, 76.6, 143.4), 797 / 512),
}
"""Of the default model on two cores: docs/benchmarks.md, *What a step costs*; one row takes no more than two, as
`runtime.costs.smoothed` has it: `LatencyEstimator` reckons with nothing that it cannot believe."""
_LOOKED_S = 600.0


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def now(self) -> float:
        return self.ms


class ReckonedEngines(WrappedEngines):
    """A model's engines, whose work takes reckoned time; `computed`: prompt tokens, of all slots."""

    def __init__(self, engines: Engines, clock: Clock, costs: StepCosts) -> None:
        super().__init__(engines, lambda engine, _: _Reckoned(engine, self))
        self.clock, self.costs = clock, costs
        self.computed = self.steps = self.emitted = 0

    @override
    def close(self) -> None:
        """The model is used on by others."""


class _Reckoned(WrappedEngine):
    def __init__(self, engine: Engine, of: ReckonedEngines) -> None:
        super().__init__(engine)
        self._of = of

    @override
    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        done = super().prefill(tokens, should_stop)
        self._of.clock.ms += done.computed * self._of.costs.prefill_ms
        self._of.computed += done.computed
        return done

    @override
    def step(self, tree: DraftTree, *more: Any, **named: Any) -> Verified:
        verified = super().step(tree, *more, **named)
        self._of.clock.ms += self._of.costs.step_ms(len(tree))
        self._of.steps += 1
        self._of.emitted += len(verified.emitted)
        return verified


@dataclass(slots=True)
class TypingTotals:
    """The totals of a typing.

    Attributes:
        shown: requests that were answered by text before the next key.
        waited_ms: from each key to the text that was shown before the next one.
    """

    asked: int = 0
    shown: int = 0
    waited_ms: list[float] = field(default_factory=list)
    typed: int = 0
    saved: int = 0


MakeRuntime = Callable[[Model, Clock], Runtime]
"""Makes the runtime over a model."""


@dataclass(frozen=True, slots=True)
class TypingWorkload:
    """A history to type into `files`, the tree before it."""

    subset: Subset
    files: MutableMapping[str, str]
    make: MakeRuntime


@dataclass(frozen=True, slots=True)
class TypingEnvironment:
    """A loaded model to type at, whose work has the reckoned `costs`."""

    model: Model
    costs: StepCosts
    policy: Policy
    speed: float
    seed: int

    def type(
        self, text: TypingWorkload, on_key: Callable[[int], object] = lambda _: None
    ) -> tuple[TypingTotals, ReckonedEngines]:
        """Type a text: the totals, and the model's work."""
        clock = Clock()
        engines = ReckonedEngines(self.model.engines, clock, self.costs)
        ours = replace(self.model, engines=engines, costs=self.costs)
        scheduler: Scheduler[Model] = Scheduler(lambda _: ours, clock.now)
        person = Person(self, scheduler, clock, text, on_key)
        loaded = person.load()
        while not loaded.done():
            scheduler.turn()
        person.due_ms = clock.ms
        while True:
            if clock.ms >= person.due_ms:
                if not person.press():
                    break
            elif (wait_ms := scheduler.turn()) > 0:
                clock.ms = min(person.due_ms, clock.ms + wait_ms)
        while scheduler.turn() <= 0:  # the person leaves
            pass
        return person.account, engines


class _Lates(ServiceListener):
    def __init__(self, take: Callable[[Late], object]) -> None:
        self._take = take

    def late(self, late: Late) -> None:
        self._take(late)


class Person(Typist):
    """Asks again when told of a late suggestion; `due_ms`: when the next key is pressed."""

    def __init__(
        self,
        room: TypingEnvironment,
        scheduler: Scheduler[Model],
        clock: Clock,
        text: TypingWorkload,
        on_key: Callable[[int], object],
    ) -> None:
        super().__init__(speed=room.speed, seed=room.seed, on_key=on_key)
        self.account, self.due_ms = TypingTotals(), 0.0
        self._files, self._policy, self._clock = text.files, room.policy, clock

        def open_host(listener: HostListener) -> SchedulerHost:
            return SchedulerHost(scheduler, listener, lambda model: text.make(model, clock))

        self._service = CompletionService(open_host, _Lates(self._late), clock=clock.now)
        self._keys = self.keys(text.subset)
        self._version = 0
        self._asking: Future[Completion] | None = None
        self._asked_ms = 0.0

    def load(self) -> "Future[bool]":
        return self._service.preload()

    def press(self) -> bool:
        """The next key, which is due; whether there is one after it."""
        wait_s = next(self._keys, None)
        if wait_s is None:
            self.account.typed, self.account.saved = self.typed, self.saved
            self._service.shutdown(0.0)
            return False
        self.due_ms += wait_s * 1e3
        return True

    @override
    def text(self) -> str:
        return self._files[self.path]

    @override
    def take(self, step: Step) -> None:
        apply(self._files, step)

    @override
    def edit(self, delete: int, text: str) -> None:
        apply(self._files, RecordedEdit(self.path, self.cursor, delete, text, typed=True))
        self._version += 1

    @override
    def tell_accepted(self, ghost: Ghost) -> None:
        self._service.accepted(self._request(), self._policy)

    @override
    def ask(self, place: KeyPosition | None, *, through: bool) -> None:
        self.account.asked += 1
        self._asked_ms = self.due_ms
        self._send()

    @override
    def cancel(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()

    def _request(self) -> CompletionRequest:
        path = PurePosixPath("/", self.path)
        snapshot = Snapshot(f"file://{path}", str(path), language_of(path), self._version, self.text())
        return CompletionRequest(snapshot, self.cursor)

    def _send(self) -> None:
        late_ms = max(0.0, self._clock.ms - self.due_ms)  # the model was at work when the key came
        self._asking = asking = self._service.submit(self._request(), self._policy, late_ms)
        asking.add_done_callback(partial(self._answered, self._version))

    def _answered(self, version: int, answer: "Future[Completion]") -> None:
        if answer.cancelled() or version != self._version or answer is not self._asking:
            return
        completion = answer.result()
        self.ghost = None
        if completion.text:
            self.account.shown += 1
            self.account.waited_ms.append(self._clock.ms - self._asked_ms)
            made = ReceivedSuggestion(completion.text, completion.start, completion.end)
            self.ghost = Ghost(completion.text, completion.end - completion.start, made)

    def _late(self, late: Late) -> None:
        if late.version == self._version:
            self._send()


class DiskContext(Context):
    """Code of a history's files for prompts of documents that are named from its root.

    `now_s`: reckoned seconds, by which the folder is looked through again.
    """

    def __init__(self, disk: Tree, now_s: Callable[[], float]) -> None:
        folder = ReadableFolder(disk.root, ReadingRules((disk.root,), Settings()))
        self._root = disk.root
        self._context = RepositoryContext(lambda _path: folder, disk.open_texts, _LOOKED_S, now_s)

    @override
    def observe(self, snapshot: Snapshot) -> None:
        self._context.observe(self._placed(snapshot))

    @override
    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> Pieces[PromptContext]:
        return self._context.find(self._placed(snapshot), offset, shown, kept)

    @override
    def may_show(self, sources: Collection[str]) -> bool:
        return self._context.may_show(sources)

    def _placed(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, path=f"{self._root}/{(snapshot.path or '').lstrip('/')}")
