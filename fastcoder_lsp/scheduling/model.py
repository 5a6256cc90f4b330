"""The life of the model: loaded when first needed, unloaded when switched off, tried again after a failure.

Owns the runtime and what is told of it. Whatever goes wrong in it is a status, never an exception. Runs in the
scheduler's thread.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.core import Progress
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import Clock, Pace

logger = logging.getLogger(__name__)

LoadRuntime = Callable[[Progress], Runtime]
RETRY_MS = 5000.0
"""A model that could not be loaded is not tried again sooner: its cause has to be cured first."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that is there: its parts, and what their work takes."""

    runtime: Runtime
    pace: Pace


class LazyModel:
    """A model that is loaded when it is first needed.

    `loaded`: that. `failed`: why there is none, where loading it went wrong.

    Args:
        load: makes the model ready.
        on_status: told every change of state.
        clock: milliseconds.
    """

    def __init__(self, load: LoadRuntime, on_status: Callable[[Status], None], clock: Clock) -> None:
        self._load, self._tell, self._clock = load, on_status, clock
        self._failed_ms = 0.0
        self.failed: Status | None = None
        self.loaded: Loaded | None = None

    def ready(self) -> Loaded | None:
        """The model, loaded now if need be; None where that fails (`failed` and the status say why)."""
        if self.loaded is None and not self._failed_of_late():
            self._tell(Status("loading", percent=0))
            try:
                runtime = self._load(lambda share, what: self._tell(Status("loading", int(share * 100), what)))
                self._settle(Loaded(runtime, Pace(runtime.costs, self._clock)))
            except BaseException as error:  # noqa: BLE001 libraries written in Rust raise what is no Exception
                self.unload()
                self._fail(failure("The model could not be loaded", error))
        return self.loaded

    def replace(self, load: LoadRuntime) -> None:
        """Another model, or other settings of it, once this one is unloaded."""
        self._load, self.failed = load, None

    def forget(self, uri: str) -> None:
        """A document was closed; who waits for an answer in another one is not to suffer from what goes wrong."""
        if self.loaded is not None:
            with logged("a document could not be forgotten"):
                self.loaded.runtime.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """A document has another name."""
        if self.loaded is not None:
            with logged("a document could not be renamed"):
                self.loaded.runtime.rename(old, new)

    def unload(self) -> None:
        """Give the model's memory back."""
        loaded, self.loaded = self.loaded, None
        if loaded is None:
            return
        with logged("the model could not be closed in order"):  # what could not be kept is learnt again
            loaded.runtime.close()
        gc.unfreeze()
        gc.collect()

    def _settle(self, loaded: Loaded) -> None:
        # What lives as long as the model is not to be looked through again: a full collection of it holds all threads
        # for 150 ms, most of a keystroke's budget.
        gc.collect()
        gc.freeze()
        self.loaded, self.failed = loaded, None
        self._tell(Status("ready"))

    def _fail(self, status: Status) -> None:
        self.failed, self._failed_ms = status, self._clock()
        self._tell(status)

    def _failed_of_late(self) -> bool:
        # A clock that was put back does not put it off.
        return self.failed is not None and 0 <= self._clock() - self._failed_ms < RETRY_MS


@contextmanager
def logged(what: str) -> Iterator[None]:
    """What goes wrong inside is in the log, and no more comes of it."""
    try:
        yield
    except BaseException:  # libraries written in Rust raise what is no Exception
        logger.exception(what)
