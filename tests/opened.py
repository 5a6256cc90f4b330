"""Fixtures that open things, as many as a test wants, and close them at its end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

Opened = TypeVar("Opened")


def opening(make: Callable[..., Opened], close: Callable[[Opened], object]) -> Iterator[Callable[..., Opened]]:
    """What a fixture yields: `make`, with `close` called at the end for all that it has made, the latest first."""
    with ExitStack() as ends:

        def new(*arguments: Any, **named: Any) -> Opened:
            made = make(*arguments, **named)
            ends.callback(close, made)
            return made

        yield new
