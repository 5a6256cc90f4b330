"""One front's KV caches in the shared model, by document.

Owns their names. A cache survives the closing of its document for a while, because editors close and open the same
document when a user goes back and forth between two. The engine decides how many unused caches its memory holds.
"""

from fastcoder_lsp.core import Engine, EngineInfo, Engines

CLOSED_AT_MOST = 8
"""Most closed documents whose caches are kept."""


class Slots:
    """One front's part of the engine.

    Args:
        engines: the model, with a cache for each name.
        front: the front's unique name.
    """

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

    def beside(self, document: str) -> Engine | None:
        """This document's second cache, for its next prompt; None if the engine has no second caches."""
        self._names[document] = None
        return self._engines.beside(self._name(document))

    def exchange(self, document: str) -> None:
        """Replace the document's cache by its second one."""
        self._engines.exchange(self._name(document))

    def swap(self, document: str) -> None:
        """Swap the document's two caches."""
        self._engines.swap(self._name(document))

    def forget(self, document: str) -> tuple[str, ...]:
        """Close the document: free its second cache now, and its first one after some more documents are closed.

        Returns the documents whose caches are freed, so that their prompts can be dropped, too.
        """
        if document not in self._names:
            return (document,)
        if (beside := self._engines.beside(self._name(document))) is not None:
            beside.close()
        self._closed.pop(document, None)
        self._closed[document] = None
        given_up = tuple(self._closed)[:-CLOSED_AT_MOST]
        for one in given_up:
            self._give_up(one)
        return given_up

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
            self._give_up(document)

    def _give_up(self, document: str) -> None:
        self._names.pop(document, None)
        self._closed.pop(document, None)
        self._engines.forget(self._name(document))

    def _name(self, document: str) -> str:
        return f"{self._front}\n{document}"
