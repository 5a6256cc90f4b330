"""The life of the model: loaded when first needed, unloaded when switched off, tried again after a failure.

Owns the runtime and what is told of it. Runs in the service's worker.
"""

import gc
import logging
from collections.abc import Callable

from fastcoder_lsp.completion.budget import Pace
from fastcoder_lsp.completion.runtime import Runtime
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.task import Clock
from fastcoder_lsp.core import EngineInfo, Progress
from fastcoder_lsp.errors import FastcoderError

logger = logging.getLogger(__name__)

LoadRuntime = Callable[[Progress], Runtime]
RETRY_MS = 5000.0
"""A model that could not be loaded is not tried again sooner: its cause has to be cured first."""


class Host:
    """The model, if there is one.

    Args:
        load: makes the model ready.
        on_status: told every change of state.
        clock: milliseconds.
    """

    def __init__(self, load: LoadRuntime, on_status: Callable[[Status], None], clock: Clock) -> None:
        self._load, self._on_status, self._clock = load, on_status, clock
        self._failed_at: float | None = None
        self.runtime: Runtime | None = None
        self.pace: Pace | None = None
        self.ready_since = 0.0

    @property
    def info(self) -> EngineInfo | None:
        """What runs, if anything."""
        runtime = self.runtime
        return runtime.engine.info if runtime else None

    def ready(self) -> Runtime | None:
        """The runtime, loaded now if need be; None where that fails (the status says why)."""
        if self.runtime is not None:
            return self.runtime
        if self._failed_at is not None and self._clock() - self._failed_at < RETRY_MS:
            return None
        self.tell(Status("loading", percent=0))
        try:
            runtime = self._load(lambda share, what: self.tell(Status("loading", int(share * 100), what)))
        except FastcoderError as error:
            self._failed_at = self._clock()
            self.tell(Status("error", message=error.message, hint=error.hint))
            return None
        # What lives as long as the model is not to be looked through again: a full collection of it holds all threads
        # for 150 ms, most of a keystroke's budget.
        gc.collect()
        gc.freeze()
        self.runtime, self.pace, self.ready_since = runtime, Pace(runtime.costs), self._clock()
        self.tell(Status("ready"))
        return runtime

    def replace(self, load: LoadRuntime) -> None:
        """Another model, or other settings of it, once this one is unloaded."""
        self._load, self._failed_at = load, None

    def unload(self) -> None:
        """Give the model's memory back."""
        if self.runtime is not None:
            self.runtime.close()
            self.runtime = self.pace = None
            gc.unfreeze()
            gc.collect()

    def tell(self, status: Status) -> None:
        """Let the listener know."""
        try:
            self._on_status(status)
        except Exception:  # whoever listens must not stop the worker
            logger.exception("a status listener failed")
