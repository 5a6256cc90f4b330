"""What commands say on the terminal: nothing that it obeys, and where they are while they load.

Owns standard output and standard error while a command runs. Control characters are shown and not obeyed, whoever wrote
them into a file or a name; the few of our own go by `erase_line` and `undrawn`. What went wrong is one line; its
traceback is printed only where FASTCODER_TRACEBACK asks for it.
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

from fastcoder_lsp.core.controls import VisibleStream, undrawn
from fastcoder_lsp.errors import ResourceError

_ERASE = "\r\033[K"
SILENT_S: Final = 1.0
"""Nobody is to wait longer without a word."""
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


@contextmanager
def controls_shown() -> Iterator[None]:
    """Within it, what is printed shows its controls."""
    with ExitStack() as streams:
        # A client may have closed either.
        if sys.stdout is not None:
            streams.enter_context(redirect_stdout(cast("TextIO", VisibleStream(undrawn(sys.stdout)))))
        if sys.stderr is not None:
            streams.enter_context(redirect_stderr(cast("TextIO", VisibleStream(undrawn(sys.stderr)))))
        yield


def erase_line() -> None:
    """Begin the terminal's line anew, on standard error."""
    undrawn(sys.stderr).write(_ERASE)


def keep_log_quiet() -> None:
    """Keep what is logged off the terminal, unless FASTCODER_TRACEBACK asks for it."""
    if not os.environ.get("FASTCODER_TRACEBACK"):
        logging.getLogger().addHandler(logging.NullHandler())


class Loading:
    """Told what is being done; a context, at whose end nothing more is said.

    Args:
        what: is said where nothing was told within a second.
    """

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
        """So many percent of this are done; an empty text: nothing is being done any longer."""
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
    """Turn what the system says of a folder's disk into words for a person.

    Raises:
        ResourceError: instead of an OSError.
    """
    try:
        yield
    except BrokenPipeError:  # that is no disk, but who read what we print
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        hint = (
            "Free some space on that disk. No partial files were left there."
            if error.errno in _FULL
            else "Make it writable for you, or set FASTCODER_CACHE to another folder."
        )
        raise ResourceError(f"cannot store {what} in {folder}: {reason}", hint) from error
