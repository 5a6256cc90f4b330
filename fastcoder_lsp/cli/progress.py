"""Progress on stderr: a bar on a terminal, otherwise a line at every tenth."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from fastcoder_lsp.core.controls import raw_stream
from fastcoder_lsp.model.downloads import ProgressStep, TransferRate, transfer_text


class ProgressDisplay(Protocol):
    """A display of progress."""

    def advance(self, step: ProgressStep) -> None:
        """Show the progress of a piece of work."""

    def pause(self) -> None:
        """Pause drawing until the next step."""


def shares(shown: ProgressDisplay) -> Callable[[float, str], None]:
    """Show the progress of work that is measured in shares of the whole."""
    return lambda share, what: shown.advance(ProgressStep(what, int(share * 100), 100, in_bytes=False))


@contextmanager
def progress_shown() -> Iterator[ProgressDisplay]:
    """Progress on stderr while the block lasts."""
    shown: ProgressDisplay = _Bar() if sys.stderr.isatty() else _Lines()
    try:
        yield shown
    finally:
        shown.pause()


class _Bar:
    """One bar at a time: in bytes with speed and remaining time, or in percent."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._in_bytes = False

    def advance(self, step: ProgressStep) -> None:
        if self._bar is None or step.in_bytes != self._in_bytes:
            self.pause()
            self._bar, self._in_bytes = self._new(in_bytes=step.in_bytes), step.in_bytes
            self._bar.add_task(step.what, total=step.total)
            self._bar.start()
        task = self._bar.task_ids[0]
        self._bar.update(task, description=step.what, completed=step.done, total=step.total)

    def pause(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _new(self, *, in_bytes: bool) -> Progress:
        transfer = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        counts: tuple[ProgressColumn, ...] = transfer if in_bytes else (TextColumn("{task.percentage:3.0f} %"),)
        return Progress(
            TextColumn("{task.description:24}"), BarColumn(), *counts, console=Console(file=raw_stream(sys.stderr))
        )


class _Lines:
    """A line at every tenth of every piece of work; for a download with its speed and the remaining time."""

    def __init__(self) -> None:
        self._last = ("", -1)
        self._rate = TransferRate()

    def advance(self, step: ProgressStep) -> None:
        percent = 100 * step.done // max(1, step.total)
        rate = self._rate.observe(step.done) if step.in_bytes else 0.0
        if (step.what, percent // 10) == self._last:
            return
        self._last = (step.what, percent // 10)
        amount = f" ({transfer_text(step.done, step.total, rate)})" if step.in_bytes else ""
        print(f"  {percent:3} %  {step.what}{amount}", file=sys.stderr, flush=True)

    def pause(self) -> None:
        """Do nothing: lines need no pause."""
