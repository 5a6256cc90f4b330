"""Watching on macOS by FSEvents; reports that the system dropped events, which watchdog ignores.

When too much happens at once, the system only says that a folder must be scanned, or that it dropped events. (Apple:
File System Events Programming Guide, "Processing Events".)
"""

from typing import Any, Final

from typing_extensions import override
from watchdog.observers.api import BaseObserver
from watchdog.observers.fsevents import FSEventsEmitter

from fastcoder_lsp.workspace.watch_problems import WatchProblems

LOST: Final = 0x1 | 0x2 | 0x4 | 0x40 | 0x80
"""MustScanSubDirs, UserDropped, KernelDropped; Mount and Unmount change the disk below the folder (FSEvents.h)."""


class Observer(BaseObserver):
    """Watches folders; `problems` records lost events."""

    def __init__(self, problems: WatchProblems) -> None:
        super().__init__(_Emitter, problems=problems)


class _Emitter(FSEventsEmitter):
    def __init__(self, *arguments: Any, problems: WatchProblems, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._problems = problems

    @override
    def events_callback(self, paths: list[bytes], inodes: list[int], flags: list[int], ids: list[int]) -> None:
        if any(flag & LOST for flag in flags):
            self._problems.lost = True
        super().events_callback(paths, inodes, flags, ids)

    @override
    def queue_events(self, timeout: float, events: list[Any]) -> None:  # type: ignore[override]
        # If watchdog fails at one event, it logs that and loses the later ones.
        try:
            super().queue_events(timeout, events)
        except Exception:  # raised again; everything is scanned
            self._problems.lost = True
            raise
