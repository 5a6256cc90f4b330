"""The KV caches that one front's documents have of the model that all fronts share.

Owns their names. What was computed of a document outlives its closing for a while: editors close and open the same one
when people go back and forth between two. How many are kept beside those in use is the engine's matter, by memory.
"""

from fastcoder_lsp.core import Engine, EngineInfo, Engines

CLOSED_AT_MOST = 8
"""Documents that were closed last, whose caches may still serve."""


class Slots:
    """One front's part of the engine.

    Args:
        engines: the model, with a cache a name.
        front: the front's name; no other front has it.
    """

    def __init__(self, engines: Engines, front: str = "") -> None:
        self._engines, self._front = engines, front
        self._names: dict[str, None] = {}
        self._closed: dict[str, None] = {}

    @property
    def info(self) -> EngineInfo:
        """What engine it is."""
        return self._engines.info

    def of(self, document: str) -> Engine:
        """The engine with the cache of this document, the same one every time."""
        self._closed.pop(document, None)
        self._names[document] = None
        return self._engines.slot(self._name(document))

    def beside(self, document: str) -> Engine | None:
        """A second cache of this document, for its next prompt; None where the engine has none."""
        self._names[document] = None
        return self._engines.beside(self._name(document))

    def exchange(self, document: str) -> None:
        """The second cache takes the first one's place."""
        self._engines.exchange(self._name(document))

    def swap(self, document: str) -> None:
        """The two caches of this document exchange their places."""
        self._engines.swap(self._name(document))

    def forget(self, document: str) -> tuple[str, ...]:
        """The document was closed; its cache is given up when some more are, the second one at once.

        Returns those whose caches are given up by now: what their prompts were is of no use any more.
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
        """The document goes on under another name, and so does its cache."""
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
        """Give up all that this front has."""
        for document in tuple(self._names):
            self._give_up(document)

    def _give_up(self, document: str) -> None:
        self._names.pop(document, None)
        self._closed.pop(document, None)
        self._engines.forget(self._name(document))

    def _name(self, document: str) -> str:
        return f"{self._front}\n{document}"
