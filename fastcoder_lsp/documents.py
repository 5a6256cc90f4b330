"""State for each document, bounded: the least recently used document is dropped first.

`Slots` names the KV caches of one client's documents. A cache outlives its document for a while, because editors close
and open a document again when users switch between two. The engine decides by memory how many are kept beside those in
use.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from fastcoder_lsp.core import Engine, EngineInfo, Engines

Memory = TypeVar("Memory")

MAX_DOCUMENTS = 32
MAX_CLOSED = 8  # closed documents whose caches are kept


class LatestDocuments(Generic[Memory]):
    """At most one `Memory` for each of the last `capacity` documents."""

    def __init__(self, capacity: int = MAX_DOCUMENTS) -> None:
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
        """Set the memory of `document`, now the most recently used one."""
        self._memories[document] = memory
        self._memories.move_to_end(document)
        while len(self._memories) > self._capacity:
            self._memories.popitem(last=False)

    def forget(self, document: str) -> None:
        """The document is closed."""
        self._memories.pop(document, None)

    def rename(self, old: str, new: str) -> None:
        """Rename a document; a memory under the new name is replaced."""
        if old in self._memories and old != new:
            self.put(new, self._memories.pop(old))

    def clear(self) -> None:
        """Forget all documents."""
        self._memories.clear()

    def latest(self) -> str | None:
        """The most recently used document."""
        return next(reversed(self._memories), None)

    def values(self) -> tuple[Memory, ...]:
        """All memories, the most recently used document's last."""
        return tuple(self._memories.values())


class PerDocument(LatestDocuments[Memory]):
    """One `Memory` for each document, made on demand; text without a document ("") gets one that is not kept."""

    def __init__(self, make: Callable[[], Memory], capacity: int = MAX_DOCUMENTS) -> None:
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


class Slots:
    """One front's part of the engine; `front` is a unique name."""

    def __init__(self, engines: Engines, front: str = "") -> None:
        self._engines, self._front = engines, front
        self._names: dict[str, None] = {}
        self._closed: dict[str, None] = {}

    @property
    def info(self) -> EngineInfo:
        """Facts of the engine."""
        return self._engines.info

    def of(self, document: str) -> Engine:
        """The engine with this document's cache, the same object every time."""
        self._closed.pop(document, None)
        self._names[document] = None
        return self._engines.slot(self._name(document))

    def second_cache(self, document: str) -> Engine | None:
        """The document's second cache, for its next prompt; None if the engine has no second caches."""
        self._names[document] = None
        return self._engines.second_cache(self._name(document))

    def exchange(self, document: str) -> None:
        """Replace the document's cache by its second one."""
        self._engines.exchange(self._name(document))

    def swap(self, document: str) -> None:
        """Swap the document's two caches."""
        self._engines.swap(self._name(document))

    def forget(self, document: str) -> tuple[str, ...]:
        """Close the document: free its second cache now, and its first one after more documents are closed.

        Returns the documents whose caches are freed, so that their prompts can be dropped too.
        """
        if document not in self._names:
            return (document,)
        if (second := self._engines.second_cache(self._name(document))) is not None:
            second.close()
        self._closed.pop(document, None)
        self._closed[document] = None
        freed = tuple(self._closed)[:-MAX_CLOSED]
        for one in freed:
            self._free(one)
        return freed

    def rename(self, old: str, new: str) -> None:
        """Rename the document and its caches."""
        if old == new or old not in self._names:
            return
        self._engines.rename(self._name(old), self._name(new))
        del self._names[old]
        self._names[new] = None
        self._closed.pop(new, None)
        if old in self._closed:
            del self._closed[old]
            self._closed[new] = None

    def close(self) -> None:
        """Free all caches of this front."""
        for document in tuple(self._names):
            self._free(document)

    def _free(self, document: str) -> None:
        self._names.pop(document, None)
        self._closed.pop(document, None)
        self._engines.forget(self._name(document))

    def _name(self, document: str) -> str:
        return f"{self._front}\n{document}"
