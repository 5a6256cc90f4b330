"""Code of other files that clients give along: what the prompt shows of it (`prompt.context.Context`).

Owns the latest chunks of each document. What a prompt shows stays while the client still gives it: an exchange would
have everything behind it computed anew.
"""

import threading
from collections.abc import Collection

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.http.ask import Extra
from fastcoder_lsp.prompt.context import NOTHING, ContextSnippet, Found

_LONGEST = 50_000
"""Characters of a chunk: what is longer has no place in any prompt, and would be read by the model's thread in vain."""
_MOST, _CHARACTERS = 256, 200_000
"""Chunks of a document, and their characters together: many times what a prompt has room for."""


class ExtraChunks:
    """The chunks; told by the event loop's thread, asked by the model's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, tuple[Extra, ...]] = {}

    def give(self, uri: str, extras: tuple[Extra, ...]) -> None:
        """From now on these belong to a document, the best ones last."""
        kept = _within_bounds(extras)
        with self._lock:
            self._of[uri] = kept

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


def _within_bounds(extras: tuple[Extra, ...]) -> tuple[Extra, ...]:
    """The last ones that are not too long, in their order."""
    kept, room = list[Extra](), _CHARACTERS
    for extra in reversed(extras):
        length = len(extra.name) + len(extra.text)
        if length > _LONGEST:
            continue
        room -= length
        if room < 0 or len(kept) == _MOST:
            break
        kept.append(extra)
    return tuple(reversed(kept))
