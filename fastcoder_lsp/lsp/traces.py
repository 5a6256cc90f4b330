"""The trace of the latest completion of each document, for a client that shows where its tokens came from.

Owns which are kept; the trace itself is made by the loop.
"""

from collections import OrderedDict

from fastcoder_lsp.core import Completion

_DOCUMENTS = 8


class Traces:
    """The latest completions that the model was asked for, of the last documents."""

    def __init__(self) -> None:
        self._latest: OrderedDict[str, Completion] = OrderedDict()

    def keep(self, uri: str, completion: Completion) -> None:
        """A completion came; one that needed no model leaves the trace of the one before."""
        if not completion.trace:
            return
        self._latest[uri] = completion
        self._latest.move_to_end(uri)
        while len(self._latest) > _DOCUMENTS:
            self._latest.popitem(last=False)

    def latest(self, uri: str) -> Completion | None:
        """The latest one of a document."""
        return self._latest.get(uri)

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._latest.pop(uri, None)
