"""What commands print: control characters are shown and not obeyed, whoever wrote them into a file or a name.

Owns standard output and standard error while a command runs. The few controls of our own go by `erase_line` and
`undrawn`.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from fastcoder_lsp.core.controls import visible

_ERASE = "\r\033[K"


class _Visible:
    """A stream whose text has no controls but tabs and line ends; all else is the stream's."""

    def __init__(self, stream: TextIO) -> None:
        self.undrawn = stream

    def write(self, text: str) -> int:
        self.undrawn.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.undrawn, name)


@contextmanager
def controls_shown() -> Iterator[None]:
    """Within it, what is printed shows its controls."""
    with ExitStack() as streams:
        # A client may have closed either.
        if sys.stdout is not None:
            streams.enter_context(redirect_stdout(cast("TextIO", _Visible(undrawn(sys.stdout)))))
        if sys.stderr is not None:
            streams.enter_context(redirect_stderr(cast("TextIO", _Visible(undrawn(sys.stderr)))))
        yield


def undrawn(stream: TextIO) -> TextIO:
    """The stream itself, for who draws by controls and shows nobody else's text unseen."""
    return stream.undrawn if isinstance(stream, _Visible) else stream


def erase_line() -> None:
    """Begin the terminal's line anew, on standard error."""
    undrawn(sys.stderr).write(_ERASE)
