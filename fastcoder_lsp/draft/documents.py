"""What a drafter remembers of each document: bounded, least recently used first out.

Owns which documents are remembered; what is remembered of them is the drafter's.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Memory = TypeVar("Memory")

DOCUMENTS_AT_MOST = 32


class PerDocument(Generic[Memory]):
    """One `Memory` a document, made by `make` when it is first asked for.

    A decode without a document ("") gets a state of its own that nobody keeps.
    """

    def __init__(self, make: Callable[[], Memory], capacity: int = DOCUMENTS_AT_MOST) -> None:
        self._make = make
        self._capacity = capacity
        self._states: OrderedDict[str, Memory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def fetch(self, document: str) -> Memory:
        """The state of `document`, now the most recently used one."""
        if not document:
            return self._make()
        state = self._states.get(document)
        if state is None:
            state = self._states[document] = self._make()
            if len(self._states) > self._capacity:
                self._states.popitem(last=False)
        self._states.move_to_end(document)
        return state

    def forget(self, document: str) -> None:
        """The document is closed."""
        self._states.pop(document, None)

    def rename(self, old: str, new: str) -> None:
        """The document goes on under another name; a state already kept under that name is replaced."""
        state = self._states.pop(old, None)
        if state is not None:
            self._states[new] = state
            self._states.move_to_end(new)
