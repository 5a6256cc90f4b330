"""What the fronts of a host's process share: made when the first one comes, for the greeting needs none of it."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.completion.protocol import HostListener, ModelHost
from fastcoder_lsp.config import Settings, cache_folder

if TYPE_CHECKING:
    from fastcoder_lsp.host.local import Core


class SharedModel:
    """One model, as `host.local` has it, behind a door (`process.Shared`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._core: Core | None = None

    def open(self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings]) -> ModelHost:
        """A front's place (`completion.protocol.OpenHost`)."""
        with self._lock:
            if self._core is None:
                # Seconds of importing; who connects is greeted before.
                from fastcoder_lsp.host.local import Core  # noqa: PLC0415
                from fastcoder_lsp.runtime.load import load_model, make_runtime  # noqa: PLC0415

                self._core = Core(load_model, make_runtime, settings, cache_folder())
            core = self._core
        return core.open(listener, settings, folders)

    def probe(self, reply: Callable[[], object]) -> None:
        """Have the worker call `reply` between two pieces of work; returns at once."""
        if self._core is None:
            reply()
        else:
            self._core.probe(reply)

    def close(self, wait_s: float) -> None:
        """End in order; waits at most so long."""
        if self._core is not None:
            self._core.close(wait_s)
