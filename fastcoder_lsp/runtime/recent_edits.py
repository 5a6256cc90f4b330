"""The places that were edited last, told by the snapshots that completions were asked for.

Owns what is remembered of them; whether it may be shown is asked when it is (`runtime/context`).
"""

from collections import OrderedDict
from itertools import islice
from pathlib import Path

from fastcoder_lsp.core.differences import first_difference
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.runtime.folder_words import KEYS

RECENT_PLACES = 4
RECENT_LINES = 6
"""Lines shown on both sides of an edit."""


class RecentEdits:
    """The places that were edited last.

    Args:
        documents: how many documents' texts are remembered.
    """

    def __init__(self, documents: int = 8) -> None:
        self._capacity = documents
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._places: OrderedDict[tuple[str, int], ContextSnippet] = OrderedDict()

    def observe(self, uri: str, path: str, text: str) -> None:
        """This is the text of the document at `path` (empty: of one without) now."""
        before = self._texts.pop(uri, None)
        self._texts[uri] = text
        while len(self._texts) > self._capacity:
            self._texts.popitem(last=False)
        if before is None or before == text or KEYS in text:
            return
        line = text.count("\n", 0, first_difference(before, text))
        lines = text.split("\n")
        first = max(line - RECENT_LINES, 0)
        around = "\n".join(lines[first : line + RECENT_LINES + 1])
        piece, above = around.strip("\n"), len(around) - len(around.lstrip("\n"))
        name = (uri, line // (2 * RECENT_LINES))
        self._places.pop(name, None)
        if piece.strip():
            self._places[name] = ContextSnippet(Path(path or uri).name, piece, 0.0, path, line=first + above + 1)
        while len(self._places) > 2 * RECENT_PLACES:
            self._places.popitem(last=False)

    def places(self, but: str) -> tuple[ContextSnippet, ...]:
        """The latest ones outside the document `but`, which the prompt shows anyway; the newest first."""
        others = (snippet for (uri, _), snippet in reversed(self._places.items()) if uri != but)
        return tuple(islice(others, RECENT_PLACES))
