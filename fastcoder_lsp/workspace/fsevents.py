"""macOS' way of watching, with what watchdog does not tell: that the system dropped events.

Owns the one place where FSEvents' events come in. Where too much happens at once the system says of a folder only that
it is to be looked through, or that it has forgotten what happened; watchdog passes that over, and here somebody is told
(`Gaps`). (Apple: File System Events Programming Guide, "Processing Events".)
"""

from typing import Any, Final

from watchdog.observers.api import BaseObserver
from watchdog.observers.fsevents import FSEventsEmitter

from fastcoder_lsp.workspace.gaps import Gaps

LOST: Final = 0x1 | 0x2 | 0x4 | 0x40 | 0x80
"""MustScanSubDirs, UserDropped, KernelDropped; Mount, Unmount: another disk is below the folder, or is no more
(FSEvents.h, kFSEventStreamEventFlag…)."""


class Observer(BaseObserver):
    """Watches folders by FSEvents.

    Args:
        gaps: told what is not.
    """

    def __init__(self, gaps: Gaps) -> None:
        super().__init__(_Emitter, gaps=gaps)


class _Emitter(FSEventsEmitter):
    """Tells `Gaps` what watchdog keeps to itself."""

    def __init__(self, *arguments: Any, gaps: Gaps, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._gaps = gaps

    def events_callback(self, paths: list[bytes], inodes: list[int], flags: list[int], ids: list[int]) -> None:
        """What the system says at once."""
        if any(flag & LOST for flag in flags):
            self._gaps.lost = True
        super().events_callback(paths, inodes, flags, ids)

    def queue_events(self, timeout: float, events: list[Any]) -> None:  # type: ignore[override]
        """Hand them on; those behind one that watchdog stumbles over are lost, which it only writes down."""
        try:
            super().queue_events(timeout, events)
        except Exception:  # whatever watchdog stumbles over: it goes up, and all is looked at anew
            self._gaps.lost = True
            raise
