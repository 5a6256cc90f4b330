"""Code of other files that clients give along: what the prompt shows of it (`prompt.context.Context`).

Owns the latest chunks of each document. What a prompt shows stays while the client still gives it: an exchange would
have everything behind it computed anew.
"""

import threading
from collections.abc import Collection

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.http.ask import Extra
from fastcoder_lsp.prompt.context import NOTHING, ContextSnippet, Found


class ExtraChunks:
    """The chunks; told by the event loop's thread, asked by the model's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, tuple[Extra, ...]] = {}

    def give(self, uri: str, extras: tuple[Extra, ...]) -> None:
        """From now on these belong to a document, the best ones last."""
        with self._lock:
            self._of[uri] = extras

    def observe(self, snapshot: Snapshot) -> None:
        """What is edited changes nothing here."""

    def find(self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: Found | None = None) -> Found:  # noqa: ARG002 the interface
        """The client's chunks, the latest first; `kept` while all it has is still among them."""
        with self._lock:
            extras = self._of.get(snapshot.uri, ())
        given = {(extra.name, extra.text) for extra in extras}
        if kept is not None and kept.snippets and all((one.path, one.text) in given for one in kept.snippets):
            return kept
        if not extras:
            return NOTHING
        return Found(
            tuple(ContextSnippet(extra.name, extra.text, score) for score, extra in enumerate(extras) if extra.text)
        )

    def may_show(self, sources: Collection[str]) -> bool:
        """The client gave it to be shown; of files it has not given there is nothing."""
        return not sources
