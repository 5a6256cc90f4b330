"""What a command says on stderr while a model is loaded: a line that changes, or, where lines are kept, a line each.

A model that is there within a second is not spoken of where nobody watches: what ends soon leaves nothing behind.
"""

import sys
import threading
from types import TracebackType
from typing import Final, Self

from fastcoder_lsp.cli.terminal import erase_line

SILENT_S: Final = 1.0
"""Nobody is to wait longer without a word."""


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
