"""What the fronts of a host's process share: made when the first one comes, for the greeting needs none of it."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from fastcoder_lsp.completion.host import HostListener, ModelHost
from fastcoder_lsp.completion.question import Answer
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Counts

if TYPE_CHECKING:
    from fastcoder_lsp.host.local import Core
    from fastcoder_lsp.scheduling.seat import Seat


class SharedModel:
    """One model, as `host.local` has it, behind a door (`process.Shared`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._core: Core | None = None
        self._seat: Seat | None = None

    def open(self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings]) -> ModelHost:
        """A front's place (`completion.host.OpenHost`)."""
        with self._lock:
            if self._core is None:
                # Seconds of importing; who connects is greeted before.
                from fastcoder_lsp.host.local import Core  # noqa: PLC0415
                from fastcoder_lsp.runtime.load import load_model, make_runtime  # noqa: PLC0415

                self._core = Core(load_model, make_runtime, settings, cache_folder())
                self._seat = self._core.scheduler.join(_Nobody(), _nothing, enabled=False)
            core = self._core
        return core.open(listener, settings, folders)

    def probe(self, reply: Callable[[], object]) -> None:
        """Have the worker call `reply` between two pieces of work; returns at once."""
        if self._seat is None:
            reply()
        else:
            self._seat.post(self._seat, lambda: _call(reply))

    def close(self, wait_s: float) -> None:
        """End in order; waits at most so long."""
        if self._core is not None:
            self._core.close(wait_s)


def _nothing(_: object) -> NoReturn:
    raise AssertionError("a seat that is off needs no model")


def _call(reply: Callable[[], object]) -> None:
    reply()


class _Nobody:
    """Hears nothing: the seat through which the worker is asked whether it still works has no front."""

    def answered(self, number: int, answer: Answer) -> None: ...

    def made(self, uri: str, suggestion: Suggestion) -> None: ...

    def forgotten(self, uri: str | None) -> None: ...

    def counted(self, what: str, by: int) -> None: ...

    def worked(self, counts: Counts) -> None: ...

    def told(self, status: Status) -> None: ...
