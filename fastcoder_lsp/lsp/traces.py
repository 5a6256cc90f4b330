"""The trace of the latest completion of each document, for a client that shows where its tokens came from.

Owns which are kept; the trace itself is made by the loop.
"""

from fastcoder_lsp.core import Completion
from fastcoder_lsp.documents import LatestDocuments

_DOCUMENTS = 8


class Traces:
    """The latest completions that the model was asked for, of the last documents."""

    def __init__(self) -> None:
        self._latest: LatestDocuments[Completion] = LatestDocuments(_DOCUMENTS)

    def keep(self, uri: str, completion: Completion) -> None:
        """A completion came; the rest of one that was typed along leaves the trace of the whole."""
        latest = self._latest.get(uri)
        if completion.trace and (latest is None or latest.trace != completion.trace):
            self._latest.put(uri, completion)

    def latest(self, uri: str) -> Completion | None:
        """The latest one of a document."""
        return self._latest.get(uri)

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._latest.forget(uri)
