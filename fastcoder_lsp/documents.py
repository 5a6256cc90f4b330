"""What is remembered of each document: bounded, the document that was used longest ago first out.

Owns which documents are remembered; what is remembered of them is the user's of this module.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Memory = TypeVar("Memory")

DOCUMENTS_AT_MOST = 32


class LatestDocuments(Generic[Memory]):
    """At most one `Memory` a document, put there by its user.

    Args:
        capacity: how many documents are remembered.
    """

    def __init__(self, capacity: int = DOCUMENTS_AT_MOST) -> None:
        self._capacity = capacity
        self._memories: OrderedDict[str, Memory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._memories)

    def __contains__(self, document: str) -> bool:
        return document in self._memories

    def get(self, document: str) -> Memory | None:
        """The memory of `document`, or None; this does not count as a use."""
        return self._memories.get(document)

    def put(self, document: str, memory: Memory) -> None:
        """From now on this is the memory of `document`, which is the most recently used one."""
        self._memories[document] = memory
        self._memories.move_to_end(document)
        while len(self._memories) > self._capacity:
            self._memories.popitem(last=False)

    def forget(self, document: str) -> None:
        """The document is closed."""
        self._memories.pop(document, None)

    def rename(self, old: str, new: str) -> None:
        """The document goes on under another name; a memory already kept under that name is replaced."""
        if old in self._memories and old != new:
            self.put(new, self._memories.pop(old))

    def clear(self) -> None:
        """Forget all documents: nothing that was remembered holds any longer."""
        self._memories.clear()

    def latest(self) -> str | None:
        """The most recently used document."""
        return next(reversed(self._memories), None)

    def values(self) -> tuple[Memory, ...]:
        """All memories, that of the most recently used document last."""
        return tuple(self._memories.values())


class PerDocument(LatestDocuments[Memory]):
    """One `Memory` a document, made when it is first asked for.

    What has no document ("") gets a memory of its own that nobody keeps.

    Args:
        make: makes a memory.
        capacity: how many documents are remembered.
    """

    def __init__(self, make: Callable[[], Memory], capacity: int = DOCUMENTS_AT_MOST) -> None:
        super().__init__(capacity)
        self._make = make

    def fetch(self, document: str) -> Memory:
        """The memory of `document`, now the most recently used one."""
        if not document:
            return self._make()
        memory = self.get(document)
        if memory is None:
            memory = self._make()
        self.put(document, memory)
        return memory
