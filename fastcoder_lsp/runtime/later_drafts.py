"""Drafts of a first start: a first answer needs the forward pass alone, so the rest is compiled once it is there.

Until then the default drafter drafts nothing: the text is the same, and slower. A second process at low priority fills
the folder of machine code. It begins when the model has decoded a text and has nothing to do.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, StepCosts, Verified
from fastcoder_lsp.draft.base import Drafter, Specification
from fastcoder_lsp.draft.pricing import Forecast
from fastcoder_lsp.runtime.compile_ahead import CompileAhead, load_drafts

logger = logging.getLogger(__name__)


class LaterDrafts:
    """Compiles the drafter and the index once, after the first text; for any thread.

    Args:
        make_ready: compiles and loads them; takes as long as that takes.
        end: ends that early, from another thread.
    """

    def __init__(self, make_ready: Callable[[], object], end: Callable[[], object]) -> None:
        self._make_ready, self._end = make_ready, end
        self._lock = threading.Lock()
        self._wanted = self._begun = self._closed = self.ready = False
        self._calls: list[Callable[[], object]] = []

    @classmethod
    def in_second_process(cls) -> "LaterDrafts":
        """Compiled by a second process; what it leaves out is compiled in a thread."""
        ahead = CompileAhead()

        def make_ready() -> None:
            ahead.begin(aside=True)
            ahead.wait(lambda _share, _what: None)
            load_drafts()

        return cls(make_ready, ahead.end)

    def want(self) -> None:
        """A text is decoded: there may be more to draft."""
        self._wanted = True

    def begin(self) -> None:
        """Begin, where a text has been decoded; returns at once."""
        if self._wanted and not self._begun and not self._closed:
            self._begun = True
            threading.Thread(target=self._run, name="fastcoder-drafts", daemon=True).start()

    def call(self, call: Callable[[], object]) -> None:
        """Call a function once drafts are ready, in any thread; now if they are, never after `close`."""
        with self._lock:
            if not self.ready:
                if not self._closed:
                    self._calls.append(call)
                return
        call()

    def close(self) -> None:
        """The model is unloaded."""
        with self._lock:
            self._closed = True
            self._calls.clear()
        self._end()

    def _run(self) -> None:
        try:
            self._make_ready()
        except Exception:
            logger.exception("the drafter cannot be compiled: this process drafts nothing")
            return
        with self._lock:
            self.ready = not self._closed
            calls, self._calls = self._calls, []
        for call in calls:
            try:
                call()
            except Exception:
                logger.exception("a listener failed")


class WaitingDrafter(Drafter):
    """Drafts nothing until `later` is ready; from the next decode on it is the drafter that `make` makes."""

    def __init__(self, specification: Specification[Any], later: LaterDrafts, make: Callable[[], Drafter]) -> None:
        super().__init__(specification)
        self._later, self._make = later, make
        self._made: Drafter | None = None

    @override
    def begin(self, context: DraftContext) -> None:
        self._later.want()
        if self._made is None and self._later.ready:
            self._made = self._make()
            self.traits = self._made.traits
        if self._made is not None:
            self._made.begin(context)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        return NO_DRAFT if self._made is None else self._made.propose(context, nodes)

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        if self._made is not None:
            self._made.observe(tree, verified)

    @override
    def forget(self, document: str) -> None:
        if self._made is not None:
            self._made.forget(document)

    @override
    def rename(self, old: str, new: str) -> None:
        if self._made is not None:
            self._made.rename(old, new)

    @override
    def keep(self) -> None:
        if self._made is not None:
            self._made.keep()

    @override
    def forecast(self, costs: StepCosts | None) -> Forecast | None:
        return None if self._made is None else self._made.forecast(costs)

    @override
    def figures(self) -> Mapping[str, float]:
        return {} if self._made is None else self._made.figures()
