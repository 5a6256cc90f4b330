"""Long work as a generator that yields between small parts of it, so that its caller can serve others meanwhile."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Pieces: TypeAlias = Generator[None, None, T]
"""Work that yields every few milliseconds, and returns its result."""


def at_once(work: Pieces[T]) -> T:
    """Do all of the work now; returns its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def ready(result: T) -> Pieces[T]:
    """A result that takes no work."""
    yield from ()
    return result
