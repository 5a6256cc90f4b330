"""Where one more item belongs in a list that people keep in some order."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

SortKey = Callable[[Any], tuple[Any, ...]]
Item = TypeVar("Item")

_MOST_ITEMS: Final = 1_000


def disorder(items: Sequence[Item], key: SortKey) -> int:
    """How many neighbours are not in the order of a key."""
    found = [key(item) for item in items]
    return sum(after < before for before, after in itertools.pairwise(found))


def best_key(lists: Sequence[Sequence[Item]], keys: Sequence[SortKey]) -> SortKey:
    """The key with the fewest neighbours in disorder; the first of equals."""
    return min(keys, key=lambda key: sum(disorder(items, key) for items in lists))


def best_place(new: Item, old: Sequence[Item], key: SortKey) -> int:
    """The place of `new` among `old` with the fewest items on the wrong side; the last of equals."""
    old = old[:_MOST_ITEMS]
    own, found = key(new), [key(item) for item in old]
    wrong = sum(one < own for one in found)
    best, place = wrong, 0
    for number, one in enumerate(found):
        wrong += (one > own) - (one < own)
        if wrong <= best:
            best, place = wrong, number + 1
    return place
