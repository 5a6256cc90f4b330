"""Watching on macOS by FSEvents, reporting what watchdog hides: that the system dropped events.

When too much happens at once, the system only says that a folder must be scanned, or that it dropped events. Watchdog
ignores that; this module records it in `Gaps`. (Apple: File System Events Programming Guide, "Processing Events".)
"""

from typing import Any, Final

from typing_extensions import override
from watchdog.observers.api import BaseObserver
from watchdog.observers.fsevents import FSEventsEmitter

from fastcoder_lsp.workspace.gaps import Gaps

LOST: Final = 0x1 | 0x2 | 0x4 | 0x40 | 0x80
"""MustScanSubDirs, UserDropped, KernelDropped; Mount, Unmount: another disk is below the folder, or is no more
(FSEvents.h, kFSEventStreamEventFlag…)."""


class Observer(BaseObserver):
    """Watches folders by FSEvents.

    Args:
        gaps: records lost events.
    """

    def __init__(self, gaps: Gaps) -> None:
        super().__init__(_Emitter, gaps=gaps)


class _Emitter(FSEventsEmitter):
    """Records in `Gaps` what watchdog hides."""

    def __init__(self, *arguments: Any, gaps: Gaps, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._gaps = gaps

    @override
    def events_callback(self, paths: list[bytes], inodes: list[int], flags: list[int], ids: list[int]) -> None:
        if any(flag & LOST for flag in flags):
            self._gaps.lost = True
        super().events_callback(paths, inodes, flags, ids)

    @override
    def queue_events(self, timeout: float, events: list[Any]) -> None:  # type: ignore[override]
        # If watchdog fails at one event, it logs that and loses the events behind it.
        try:
            super().queue_events(timeout, events)
        except Exception:  # whatever watchdog fails at: it is raised again, and everything is scanned
            self._gaps.lost = True
            raise
