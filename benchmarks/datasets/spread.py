"""Taking some of many, evenly spread: the same ones in every run."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def spread(items: Sequence[Item], limit: int | None) -> tuple[Item, ...]:
    """`limit` items evenly spread over all, in their order; all of them without a limit."""
    if limit is None or limit >= len(items):
        return tuple(items)
    return tuple(items[number * len(items) // limit] for number in range(limit))
