"""The scheduler: one thread that touches the model, and does the most urgent piece of work first.

What a front asks arrives at its `Seat`, from any thread, and waits in the one inbox. Between any two pieces of work, a
stretch of a prefill or a step, all that has arrived is looked at. `turn` is the whole cycle: what arrived, then a piece
for a question, the seats that have one taking turns, and while there is none, a piece of what nobody waits for. The
state of all seats belongs to this thread: others leave messages. What comes of it is told to the seats' listeners.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic

from fastcoder_lsp.completion.question import Clock, Listener
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import EngineInfo, Progress
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import CHUNK_MS
from fastcoder_lsp.scheduling.model import Loaded, SeatModel, SharedModel, SomeModel, logged
from fastcoder_lsp.scheduling.seat import Seat
from fastcoder_lsp.scheduling.turns import Turns

IDLE_MS = 1000.0
"""After so long without a question the document in view is prepared for the next one."""


def now_ms() -> float:
    """The clock of all fronts of this machine."""
    return time.monotonic() * 1e3


class Scheduler(Generic[SomeModel]):
    """Works for one seat at a time, a piece for each in turn.

    Args:
        load: makes the model ready that all seats share; called in the scheduler's thread, when it is first needed.
        clock: milliseconds.
        idle_ms: after so long without a question of a seat its document in view is prepared for the next one.
    """

    def __init__(self, load: Callable[[Progress], SomeModel], clock: Clock = now_ms, idle_ms: float = IDLE_MS) -> None:
        self._clock, self._idle_ms, self._closing = clock, idle_ms, False
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._arrived: deque[Callable[[], None]] = deque()
        self._model = SharedModel(load, self._progress, clock)
        self._seats = Turns()
        self._heard: set[Seat] = set()
        """Who was told how far the load is that is going on."""
        self._acting: Seat | None = None
        """The seat that is worked for: what goes wrong is its failure, and no other's."""
        self._served: Seat | None = None
        """Whose question had the last piece of work."""

    # From any thread, in the order of arrival ------------------------------------------------------------------------

    def join(self, listener: Listener, make_runtime: Callable[[SomeModel], Runtime], *, enabled: bool = True) -> Seat:
        """A seat for one more front.

        Args:
            listener: told what comes of its questions.
            make_runtime: makes what the front has for itself, of the shared model; called in the scheduler's thread.
            enabled: whether the front wants the model; it is loaded at the first question or by `Seat.load`.
        """
        model = SeatModel(partial(self._make, make_runtime), listener.told, self._clock)
        seat = Seat(
            listener, model, self._post, self._ready, self._changed, self._clock, self._idle_ms, enabled=enabled
        )
        self._inbox.put(partial(self._seats.join, seat))
        return seat

    def refit(self, seat: Seat, make_runtime: Callable[[SomeModel], Runtime]) -> None:
        """Other parts of the same model for a seat, from its next question on."""
        self._post(seat, partial(seat.replace, partial(self._make, make_runtime)))

    def use(self, load: Callable[[Progress], SomeModel]) -> None:
        """Another model, or other settings of it, for all seats from their next questions on."""
        self._inbox.put(partial(self._use, load))

    def close(self) -> None:
        """End within a piece of work, and give the model's memory back."""
        self._closing = True
        self._inbox.put(lambda: None)

    def info(self) -> EngineInfo | None:
        """What engine runs for any of the seats, or None while none does."""
        return next((info for seat in self._seats if (info := seat.info()) is not None), None)

    def turn_of(self) -> Seat | None:
        """The seat whose question is worked on; None where nobody's is."""
        served = self._served
        return served if served is not None and served.slot is not None else None

    # The cycle ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until it is closed."""
        while not self._closing:
            try:
                wait_ms = self.turn()
            except BaseException as error:  # noqa: BLE001 libraries written in Rust raise what is no Exception; the thread goes on
                self._fail(error)
                wait_ms = 0.0
            if wait_ms > 0 and not self._closing:
                with suppress(Empty):
                    self._arrived.append(self._inbox.get(timeout=None if wait_ms == math.inf else wait_ms / 1e3))
        self._unload()
        while not self._inbox.empty() or self._arrived:
            with suppress(BaseException):  # somebody may wait for a reply
                self._receive()

    def turn(self) -> float:
        """Do the most urgent piece of work; returns 0, or for how many milliseconds there will be nothing to do."""
        self._acting = None
        try:
            self._receive()
            for seat in self._seats:
                self._acting = seat
                seat.settle()
            asking = [seat for seat in self._seats if seat.slot is not None]
            if asking:
                self._serve(asking)
            elif expecting := [seat for seat in self._seats if seat.upcoming is not None]:
                self._acting = self._seats.next(expecting)
                self._acting.foresee()
            else:
                return self._work_ahead()
        except Exception as error:  # noqa: BLE001 a bug of ours must not cost the user every later completion
            self._fail(error)
        return 0.0

    def _receive(self) -> None:
        """Take in all that has arrived, in its order."""
        while True:
            with suppress(Empty):
                while True:
                    self._arrived.append(self._inbox.get_nowait())
            if not self._arrived:
                return
            self._arrived.popleft()()

    def _serve(self, asking: list[Seat]) -> None:
        """A piece for one of the seats that have a question."""
        seat = self._acting = self._served = self._seats.next(asking)
        others = [] if self._seats.keeps(seat) else [other for other in asking if other is not seat]
        seat.serve(sum(other.piece_ms() for other in others))

    def _work_ahead(self) -> float:
        """One piece of what nobody waits for; for how long there will be nothing to do, where there is none."""
        idle, wait_ms = list(self._seats), math.inf
        while idle:
            seat = self._acting = self._seats.next(idle)
            idle.remove(seat)
            wait_ms = min(wait_ms, seat.work_ahead())
            if wait_ms <= 0:
                return 0.0
        self._model.tidy()
        return wait_ms

    def _post(self, seat: Seat, call: Callable[[], None]) -> None:
        self._inbox.put(partial(self._act, seat, call))

    def _act(self, seat: Seat, call: Callable[[], None]) -> None:
        """A seat's message; what goes wrong in it, in the middle of another's work perhaps, is that seat's alone."""
        acting, self._acting = self._acting, seat
        try:
            call()
        except Exception as error:  # noqa: BLE001 as in `turn`
            self._fail(error)
        self._acting = acting

    def _fail(self, error: BaseException) -> None:
        """Whoever was worked for is told, if they can be."""
        if self._acting is not None:
            with logged("a front could not be told of a failure"):
                self._acting.fail(error)

    # The model ------------------------------------------------------------------------------------------------------

    def _ready(self, seat: Seat) -> Loaded | None:
        """The model as the seat has it, made ready if need be; from then on runs the time of whoever waits for it."""
        if self._closing:
            return None
        before, shared, started_ms = seat.model.loaded, self._model.loaded, self._clock()
        ready = seat.model.ready()
        self._tell_those_who_heard(seat)
        if ready is not before:
            self._receive()
            long = self._model.loaded is not shared or self._clock() - started_ms > CHUNK_MS
            for other in self._seats:
                if other.slot is not None and (long or other is seat):
                    other.slot.waited_for_model()
        return seat.model.loaded  # perhaps it was exchanged or switched off meanwhile

    def _make(self, make_runtime: Callable[[SomeModel], Runtime]) -> Loaded:
        """The model as one seat has it."""
        first = self._model.loaded is None
        model, pace = self._model.get()
        loaded = Loaded(make_runtime(model), pace)
        if first:
            self._model.settle()
        return loaded

    def _progress(self, share: float, what: str) -> None:
        """Tell everybody who waits for the model how far it is."""
        for seat in self._seats:
            if seat.model.loaded is None and (seat.enabled or seat is self._acting):
                self._heard.add(seat)
                with logged("a listener failed"):
                    seat.model.progress(share, what)

    def _tell_those_who_heard(self, loading: Seat) -> None:
        """Of a load that another seat wanted: it has failed, or theirs is made when they ask."""
        heard, self._heard = self._heard, set()
        failed = loading.model.failed if self._model.loaded is None else None
        for seat in heard - {loading}:
            if not seat.gone and seat.enabled and seat.model.loaded is None:
                with logged("a listener failed"):
                    seat.listener.told(failed or Status("starting"))

    def _use(self, load: Callable[[Progress], SomeModel]) -> None:
        self._unload()
        self._model.replace(load)
        for seat in self._seats:
            self._act(seat, seat.replace)

    def _changed(self, seat: Seat) -> None:
        """A seat has given back what it had; the model goes once nobody wants it, and stays while nobody is there."""
        if seat.gone:
            self._seats.leave(seat)
            self._served = None if self._served is seat else self._served
        there = list(self._seats)
        if there and not any(other.enabled for other in there):
            self._model.unload()
        else:
            self._model.left()

    def _unload(self) -> None:
        """The model goes, and all that it said."""
        for seat in self._seats:
            self._act(seat, seat.unload)
        self._model.unload()
