"""Safe output on the terminal, and progress while a command loads.

Control characters from files and names are shown, not obeyed; the program's own go through `erase_line` and
`raw_stream`.
"""

import errno
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO, cast

from fastcoder_lsp.core.controls import VisibleStream, raw_stream
from fastcoder_lsp.errors import ResourceError

_ERASE = "\r\033[K"
SILENT_S: Final = 1.0  # report progress after this much silence
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


@contextmanager
def controls_shown() -> Iterator[None]:
    """While open, printed text shows its control characters."""
    with ExitStack() as streams:
        # a client may have closed either
        if sys.stdout is not None:
            streams.enter_context(redirect_stdout(cast("TextIO", VisibleStream(raw_stream(sys.stdout)))))
        if sys.stderr is not None:
            streams.enter_context(redirect_stderr(cast("TextIO", VisibleStream(raw_stream(sys.stderr)))))
        yield


def erase_line() -> None:
    """Erase the terminal's current line, on standard error."""
    raw_stream(sys.stderr).write(_ERASE)


def keep_log_quiet() -> None:
    """Keep log messages off the terminal, unless FASTCODER_TRACEBACK is set."""
    if not os.environ.get("FASTCODER_TRACEBACK"):
        logging.getLogger().addHandler(logging.NullHandler())


class Loading:
    """Prints the current activity, or `what` after a second without one; a context, after which it is silent."""

    def __init__(self, what: str) -> None:
        self._what, self._said = what, ""
        self._watched = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._timer = threading.Timer(SILENT_S, self._break_silence)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if not self._watched:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def __call__(self, percent: int | None, message: str) -> None:
        """Report the progress of an activity in percent; an empty text: no activity."""
        if self._watched:
            erase_line()
            print(f"{message} {percent or 0} %" if message else "", end="", file=sys.stderr, flush=True)
        elif not message:
            self._end()
        else:
            with self._lock:
                self._what = message
                if self._said:
                    self._say()

    def _break_silence(self) -> None:
        with self._lock:
            if not self._timer.finished.is_set():
                self._say()

    def _say(self) -> None:
        if self._what != self._said:
            self._said = self._what
            print(f"{self._what} …", file=sys.stderr, flush=True)

    def _end(self) -> None:
        with self._lock:
            self._timer.cancel()
            self._said = ""


@contextmanager
def on_disk(what: str, folder: Path) -> Iterator[None]:
    """Turn the system's errors about a folder's disk into ResourceError."""
    try:
        yield
    except BrokenPipeError:  # not a disk: the reader of our output has gone
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        hint = (
            "Free some space on that disk. No partial files were left there."
            if error.errno in _FULL
            else "Make it writable for you, or set FASTCODER_CACHE to another folder."
        )
        raise ResourceError(f"cannot store {what} in {folder}: {reason}", hint) from error
