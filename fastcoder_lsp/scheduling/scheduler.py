"""The scheduler: one thread that owns the model, and does the most urgent piece of work first.

Clients send messages to its one inbox, from any thread. `turn` is the whole cycle: the inbox, then a piece of work (a
slice of a search, a stretch of a prefill, or a step). `choose` says which one; clients take turns. The state of all
clients belongs to this thread.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, Literal, NamedTuple

from fastcoder_lsp.completion.protocol import Command, HostListener, StatusChanged
from fastcoder_lsp.completion.question import Clock
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import EngineInfo, Progress
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import CHUNK_MS
from fastcoder_lsp.scheduling.client import Arrival, Client
from fastcoder_lsp.scheduling.edits import LOADING_MS
from fastcoder_lsp.scheduling.generation import Generation
from fastcoder_lsp.scheduling.model import ClientModel, Loaded, LocalModel, SharedModel, SomeModel, logged

IDLE_MS = 1000.0  # after so long without a question the document in view is prepared for the next one
STEPS_AT_ONCE = 8
"""Steps in a row for a client that lost its KV cache: most of the work must not be computing its prompt again."""


def now_ms() -> float:
    """The clock of all fronts of this machine."""
    return time.monotonic() * 1e3


class ModelChange(NamedTuple, Generic[SomeModel]):
    """A loaded model that replaces another: `take` gives it, or None if it is unwanted; `taken` hears of the end."""

    take: Callable[[], SomeModel | None]
    taken: Callable[[SomeModel], object]


class RoundRobin:
    """Round robin: the clients, the one served last at the end.

    Where more clients work than there are KV caches, each evicts another's, and strict turns would compute the same
    prompts again and again. So a client that lost its cache keeps its turn for some steps.
    """

    def __init__(self) -> None:
        self._clients: list[Client] = []
        self._kept: tuple[Generation, int] | None = None
        """The generation for which the last client keeps its turn, until it has done so many steps."""

    def __iter__(self) -> Iterator[Client]:
        """The clients at this moment, the next one first: they may come and leave during the iteration."""
        kept = [client for client in self._clients[-1:] if self.keeps(client)]
        return iter((*kept, *self._clients[: len(self._clients) - len(kept)]))

    def join(self, client: Client) -> None:
        """Add a client."""
        self._clients.append(client)

    def leave(self, client: Client) -> None:
        """Remove a client."""
        if client in self._clients:
            self._clients.remove(client)

    def take(self, client: Client) -> None:
        """A client has its turn: it goes to the end."""
        if self.keeps(client) or client not in self._clients:
            return
        self._clients.remove(client)
        self._clients.append(client)
        generation, self._kept = client.works_on(), None
        if generation is not None and generation.lost_cache():
            self._kept = generation, generation.counts().steps + STEPS_AT_ONCE

    def keeps(self, client: Client) -> bool:
        """Whether this client keeps its turn, even if others wait."""
        generation = client.works_on()
        if generation is None or self._kept is None or self._kept[0] is not generation:
            return False
        return client is self._clients[-1] and not generation.finished and generation.counts().steps < self._kept[1]


class Piece(NamedTuple):
    """A piece of work, for a client or for all of them. `others` have requests, too, and wait meanwhile."""

    kind: Literal["serve", "hand over", "begin", "finish", "load", "edit", "prepare", "defer"]
    client: Client | None = None
    others: tuple[Client, ...] = ()


def choose(clients: RoundRobin, *, successor: bool) -> Iterator[Piece]:
    """The pieces of work that are due, the most urgent first. `successor`: whether a model is ready to take over.

    A request comes before all else. While there is none, the successor takes over, an expected question is begun, and a
    suggestion is finished. Last come edits, the next prompts, and what the model has put off.
    """
    requests = [client for client in clients if client.request is not None]
    if asking := [client for client in requests if not client.awaits_model]:
        yield Piece("serve", asking[0], tuple(asking[1:]))
        return
    if successor:
        yield Piece("hand over")
    yield from [Piece("begin", client) for client in clients if client.questions.expected is not None]
    yield from [Piece("finish", client) for client in clients if client.finishes][:1]
    yield from [Piece("edit", client) for client in clients if client.edits.wants_turn]
    yield from [Piece("load")] if requests else []
    yield from [Piece("prepare", client) for client in clients]
    yield Piece("defer")


class Scheduler(Generic[SomeModel]):
    """Runs the model for all clients, one piece of work for each in turn.

    `load` loads the model that all clients share, in the scheduler's thread, when it is first needed. `clock` is in
    milliseconds. `idle_ms` after a client's last question its document in view is prepared for the next one. `cpu`: the
    CPU seconds of this thread and the engine's, so far.
    """

    def __init__(
        self,
        load: Callable[[Progress], SomeModel],
        clock: Clock = now_ms,
        idle_ms: float = IDLE_MS,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock, self._idle_ms, self._cpu, self._closing = clock, idle_ms, cpu, False
        self._inbox: SimpleQueue[Arrival] = SimpleQueue()
        self._arrived: deque[Arrival] = deque()
        self._model = SharedModel(load, self._progress, clock)
        self._clients = RoundRobin()
        self._heard: set[Client] = set()  # the clients that were told of the current load's progress
        self._acting: Client | None = None  # the client being served: an error is its failure, and no other client's
        self._served: Client | None = None  # the client whose question had the last piece of work
        self._successor: Callable[[], None] | None = None
        """Puts another model in place of this one, once no client waits for an answer."""

    # From any thread, in the order of arrival ------------------------------------------------------------------------

    def join(self, emit: HostListener, make_runtime: Callable[[SomeModel], Runtime], *, enabled: bool = True) -> Client:
        """Add a client, which receives events by `emit`.

        `make_runtime` makes the client's part of the shared model, in the scheduler's thread. `enabled`: the client
        wants the model, which is loaded at the first question or by `Client.load`.
        """
        make = partial(self._make, make_runtime)
        return self.add(emit, ClientModel(make, lambda status: emit(StatusChanged(status)), self._clock), enabled)

    def add(self, emit: HostListener, model: ClientModel, enabled: bool = True) -> Client:
        """Add a client with a model of its own, for example a server."""
        client = Client(
            emit, model, self._inbox.put, self._ready, self._changed, self._clock, self._idle_ms, enabled=enabled
        )
        self._inbox.put(Arrival(None, partial(self._clients.join, client)))
        return client

    def refit(self, client: Client, make_runtime: Callable[[SomeModel], Runtime]) -> None:
        """Replace a client's part of the same model, from its next question on."""
        self._inbox.put(Arrival(client, partial(client.replace, partial(self._make, make_runtime))))

    def use(self, load: Callable[[Progress], SomeModel]) -> None:
        """Replace the model, or its settings, for all clients from their next questions on."""
        self._inbox.put(Arrival(None, partial(self._use, load)))

    def succeed(self, load: Callable[[Progress], SomeModel], change: ModelChange[SomeModel] | None = None) -> None:
        """Replace the model as soon as no client waits for an answer.

        `load` loads the new model, now unless there is a `change`, and whenever it was unloaded.
        """
        self._inbox.put(Arrival(None, partial(setattr, self, "_successor", partial(self._take_over, load, change))))

    def close(self) -> None:
        """End within a piece of work, and free the model's memory."""
        self._closing = True
        self.wake()

    def wake(self) -> None:
        """Wake the scheduler: a generation received what it waited for."""
        self._inbox.put(Arrival(None, lambda: None))

    def info(self) -> EngineInfo | None:
        """The engine that runs for any of the clients; None while none does."""
        return next((info for client in self._clients if (info := client.info()) is not None), None)

    def turn_of(self) -> Client | None:
        """The client whose request is being served, if any."""
        served = self._served
        return served if served is not None and served.request is not None else None

    # The cycle ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until closed."""
        while not self._closing:
            try:
                wait_ms = self.turn()
            except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions; the thread must survive
                self._fail(error)
                wait_ms = 0.0
            if wait_ms > 0 and not self._closing:
                with suppress(Empty):
                    self._arrived.append(self._inbox.get(timeout=None if wait_ms == math.inf else wait_ms / 1e3))
        self._unload()
        while not self._inbox.empty() or self._arrived:
            with suppress(BaseException):  # a caller may wait for a reply
                self._receive()

    def turn(self) -> float:
        """Do the most urgent piece of work; returns 0, or how many milliseconds to wait."""
        self._acting, wait_ms = None, math.inf
        try:
            self._receive()
            for client in self._clients:
                self._acting = client
                client.take_prompt()
            for piece in choose(self._clients, successor=self._successor is not None):
                began_s = self._cpu()
                wait_ms = min(wait_ms, self._run(piece, idle=wait_ms == math.inf))
                if piece.client is not None:
                    piece.client.spent(self._cpu() - began_s, edit=piece.kind == "edit")
                if wait_ms <= 0:
                    break
        except Exception as error:  # noqa: BLE001 a bug of ours must not cost the user every later completion
            self._fail(error)
            return 0.0
        return wait_ms

    def _receive(self) -> None:
        while True:
            with suppress(Empty):
                while True:
                    self._arrived.append(self._inbox.get_nowait())
            if not self._arrived:
                return
            client, what = self._arrived.popleft()
            if client is None:
                assert callable(what), "commands have a client"
                what()
            else:
                self._act(client, what)

    def _run(self, piece: Piece, *, idle: bool) -> float:
        """Do a piece of work; returns 0, or how many milliseconds to wait. `idle`: no more urgent work is to come."""
        if (client := piece.client) is not None:
            self._acting = client
            self._clients.take(client)
        match piece:
            case Piece("serve", Client() as client, others):
                self._served, others = client, () if self._clients.keeps(client) else others
                wait_ms = client.serve(sum(other.piece_ms() for other in others))
                return 0.0 if others else wait_ms
            case Piece("hand over"):
                return self._hand_over()
            case Piece("begin", Client() as client):
                return client.prefetch()
            case Piece("edit", Client() as client):
                return client.serve_edit()
            case Piece("load"):  # in another thread
                return LOADING_MS
            case Piece("finish" | "prepare", Client() as client):
                return client.work_ahead()
        self._model.tidy()
        return 0.0 if self._model.prepare() or (idle and self._model.measure()) else math.inf

    def _hand_over(self) -> float:
        take_over, self._successor = self._successor, None
        assert take_over is not None, "a successor is ready"
        take_over()
        return 0.0

    def _act(self, client: Client, what: Command | Callable[[], None]) -> None:
        """Run a client's command or call; its failure is that client's alone, even while another is served."""
        acting, self._acting = self._acting, client
        try:
            if callable(what):
                what()
            else:
                client.handle(what)
        except Exception as error:  # noqa: BLE001 as in `turn`
            self._fail(error)
        self._acting = acting

    def _fail(self, error: BaseException) -> None:
        if self._acting is not None:
            with logged("a front could not be told of a failure"):
                self._acting.fail(error)

    # The model ------------------------------------------------------------------------------------------------------

    def _ready(self, client: Client) -> Loaded | None:
        """The client's part of the model, loaded if need be; budgets of waiting requests begin after that."""
        if self._closing:
            return None
        before, shared, started_ms = client.model.loaded, self._model.loaded, self._clock()
        ready = client.model.ready()
        self._tell_those_who_heard(client)
        if ready is not before:
            self._receive()
            long = self._model.loaded is not shared or self._clock() - started_ms > CHUNK_MS
            for other in self._clients:
                if other.request is not None and (long or other is client):
                    other.request.waited_for_model()
        return client.model.loaded  # it may have been replaced or switched off meanwhile

    def _make(self, make_runtime: Callable[[SomeModel], Runtime]) -> LocalModel:
        first = self._model.loaded is None
        model, latency = self._model.get()
        loaded = LocalModel(make_runtime(model), latency)
        if first:
            self._model.freeze_objects()
        return loaded

    def _progress(self, share: float, what: str) -> None:
        """Report the progress of loading to the clients that wait for the model."""
        for client in self._clients:
            if client.model.loaded is None and (client.enabled or client is self._acting):
                self._heard.add(client)
                with logged("a listener failed"):
                    client.model.progress(share, what)

    def _tell_those_who_heard(self, loading: Client) -> None:
        """End the report of a load that another client wanted: it failed, or theirs is loaded when they ask."""
        heard, self._heard = self._heard, set()
        failed = loading.model.failed if self._model.loaded is None else None
        for client in heard - {loading}:
            if not client.gone and client.enabled and client.model.loaded is None:
                with logged("a listener failed"):
                    client.emit(StatusChanged(failed or Status("starting")))

    def _take_over(self, load: Callable[[Progress], SomeModel], change: ModelChange[SomeModel] | None) -> None:
        """Put a new model in place of this one, for the clients that had one at once."""
        model = change.take() if change is not None else None
        if change is not None and model is None:
            return
        serving = [client for client in self._clients if client.model.loaded is not None]
        self._use(load)
        if model is not None:
            self._model.put(model)
        for client in serving:
            self._acting = client
            if client.enabled:
                self._ready(client)
        if change is not None and model is not None:
            self._model.freeze_objects()
            change.taken(model)

    def _use(self, load: Callable[[Progress], SomeModel]) -> None:
        self._unload()
        self._successor = None
        self._model.replace(load)
        for client in self._clients:
            self._act(client, client.replace)

    def _changed(self, client: Client) -> None:
        """A client freed its part: unload the model once no client wants it; keep it while there is no client."""
        if client.gone:
            self._clients.leave(client)
            self._served = None if self._served is client else self._served
        there = list(self._clients)
        if there and not any(other.enabled for other in there):
            self._model.unload()
        else:
            self._model.left()

    def _unload(self) -> None:
        for client in self._clients:
            self._act(client, client.unload)
        self._model.unload()
