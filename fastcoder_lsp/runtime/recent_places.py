"""Where somebody was lately: places that were edited, that completions were asked for at, that code was copied from.

Owns what is remembered of the first two, told by the snapshots of questions, which bring the third along; whether it
may be shown is asked when it is (`runtime/context`).
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.core.differences import first_difference
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.workspace.secret_lines import KEYS
from fastcoder_lsp.workspace.yanks import MOST_LETTERS

RECENT_PLACES = 4
RECENT_LINES = 6
"""Lines shown on both sides of a place."""
VISITED_PLACES = 2
"""Shown after the edited ones: where somebody only was tells less."""
_Places = OrderedDict[tuple[str, int], ContextSnippet]


class RecentPlaces:
    """The places that were edited and visited last.

    Args:
        documents: how many documents' texts are remembered.
    """

    def __init__(self, documents: int = 8) -> None:
        self._capacity = documents
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._paths: dict[str, str] = {}
        self._edited: _Places = OrderedDict()
        self._visited: _Places = OrderedDict()

    def observe(self, uri: str, path: str, text: str) -> None:
        """This is the text of the document at `path` (empty: of one without) now."""
        before = self._texts.pop(uri, None)
        self._texts[uri], self._paths[uri] = text, path
        while len(self._texts) > self._capacity:
            self._paths.pop(self._texts.popitem(last=False)[0], None)
        if before is not None and before != text:
            _remember(self._edited, RECENT_PLACES, uri, path, text, first_difference(before, text))

    def texts(self) -> dict[str, str]:
        """The documents' last texts, by their paths."""
        return {self._paths[uri]: text for uri, text in self._texts.items() if uri in self._paths}

    def visit(self, uri: str, path: str, text: str, offset: int) -> None:
        """Somebody is at this place of a text."""
        _remember(self._visited, VISITED_PLACES, uri, path, text, offset)

    def places(self, but: str) -> tuple[ContextSnippet, ...]:
        """The latest ones outside the document `but`, which the prompt shows anyway; the newest first, edits before."""
        edited = islice(((name, one) for name, one in _newest(self._edited, but)), RECENT_PLACES)
        visited = islice(
            ((name, one) for name, one in _newest(self._visited, but) if name not in self._edited), VISITED_PLACES
        )
        return tuple(one for _, one in chain(edited, visited))


def copied(snapshot: Snapshot) -> Iterator[ContextSnippet]:
    """What was copied in other files, the newest first: it was wanted somewhere, and likely here."""
    for one in snapshot.yanks:
        if one.path != snapshot.path and len(one.text) <= MOST_LETTERS and KEYS not in one.text:
            yield ContextSnippet(Path(one.path).name, one.text, 0.0, one.path, line=one.line + 1)


def _remember(places: _Places, shown: int, uri: str, path: str, text: str, offset: int) -> None:
    """Keep the lines around a place as the latest one; twice as many as are shown, for some are of one document."""
    if KEYS in text:
        return
    line = text.count("\n", 0, offset)
    lines = text.split("\n")
    first = max(line - RECENT_LINES, 0)
    around = "\n".join(lines[first : line + RECENT_LINES + 1])
    piece, above = around.strip("\n"), len(around) - len(around.lstrip("\n"))
    name = (uri, line // (2 * RECENT_LINES))
    places.pop(name, None)
    if piece.strip() and len(piece) <= MOST_LETTERS:
        places[name] = ContextSnippet(Path(path or uri).name, piece, 0.0, path, line=first + above + 1)
    while len(places) > 2 * shown:
        places.popitem(last=False)


def _newest(places: _Places, but: str) -> list[tuple[tuple[str, int], ContextSnippet]]:
    return [(name, one) for name, one in reversed(places.items()) if name[0] != but]
