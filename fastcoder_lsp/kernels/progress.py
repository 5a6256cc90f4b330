"""How far compiling is: told at every function that numba has finished, in whatever thread."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

Tell = Callable[[float, str], None]


class Compiled(event.Listener):
    """Counts functions that are compiled; what is loaded from the disk is none of them."""

    def __init__(self, tell: Tell, what: str, expected: int) -> None:
        self._tell, self._what, self._expected = tell, what, expected
        self.count = 0

    def on_start(self, event: Any) -> None:  # noqa: ARG002 the interface
        """numba tells of an event that begins."""
        self._say()

    def on_end(self, event: Any) -> None:  # noqa: ARG002 the interface
        """numba tells of an event that ends."""
        self.count += 1
        self._say()

    def _say(self) -> None:
        self._tell(min(0.99, self.count / self._expected), self._what)


@contextmanager
def compiling(tell: Tell, what: str, expected: int) -> Iterator[Compiled]:
    """Tell how far it is while the block compiles; nothing where it has nothing to compile.

    Args:
        tell: told the share done, and `what`.
        what: is being made.
        expected: functions, inner ones included, that an empty cache has compiled.
    """
    listener = Compiled(tell, what, expected)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield listener
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
