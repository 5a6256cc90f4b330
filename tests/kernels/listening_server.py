"""`fastcoder-lsp serve` that writes down every function that numba compiles, in whatever thread: a line each, at once.

Its first argument is the file; others go to the server.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from fastcoder_lsp.cli.main import main


class Listener(event.Listener):
    """A line for each function that is compiled."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        types = ", ".join(str(kind)[:200] for kind in event.data["args"])
        self._file.write(f"{function.__module__}.{function.__qualname__}({types}) {threading.current_thread().name}\n")

    def on_end(self, event: Any) -> None:
        """Nothing."""


def probe(number: int) -> int:
    """It is compiled to show that the listener hears."""
    return number + 1


if __name__ == "__main__":
    event.register("numba:compile", Listener(Path(sys.argv[1])))  # type: ignore[no-untyped-call]
    numba.njit()(probe)(1)
    sys.exit(main(["serve", *sys.argv[2:]]))
