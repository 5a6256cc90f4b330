"""What commands print: control characters are shown and not obeyed, whoever wrote them into a file or a name.

Owns standard output and standard error while a command runs. The few controls of our own go by `erase_line` and
`undrawn`.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO, cast

from fastcoder_lsp.core.controls import VisibleStream, undrawn

_ERASE = "\r\033[K"


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
