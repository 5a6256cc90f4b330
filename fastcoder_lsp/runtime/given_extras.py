"""Code of other files that the client itself gives along: what the prompt shows of it (`prompt.context.Context`).

Owns no chunk: they come with each snapshot. What a prompt shows stays while the client still gives it: an exchange
would have everything behind it computed anew.
"""

from collections.abc import Collection

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt.context import NO_CONTEXT, Context, ContextSnippet, Found


class GivenExtras:
    """What the client gives, and where it gives nothing, what somebody else finds.

    Args:
        otherwise: finds it.
    """

    def __init__(self, otherwise: Context = NO_CONTEXT) -> None:
        self._otherwise = otherwise

    def observe(self, snapshot: Snapshot) -> None:
        """What is edited matters to who looks for code himself."""
        if not snapshot.extras:
            self._otherwise.observe(snapshot)

    def find(self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: Found | None = None) -> Found:
        """The client's chunks, the latest first; `kept` while all it has is still among them."""
        if not snapshot.extras:
            return self._otherwise.find(snapshot, offset, shown, kept)
        given = {(extra.name, extra.text) for extra in snapshot.extras}
        if kept is not None and kept.snippets and all((one.path, one.text) in given for one in kept.snippets):
            return kept
        chunks = enumerate(snapshot.extras)
        return Found(tuple(ContextSnippet(extra.name, extra.text, score) for score, extra in chunks if extra.text))

    def may_show(self, sources: Collection[str]) -> bool:
        """What the client gave was given to be shown, and has no source; of the rest those decide who found it."""
        return self._otherwise.may_show(sources)
