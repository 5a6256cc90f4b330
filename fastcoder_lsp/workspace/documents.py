"""The open documents of a session, their notebooks, and recently copied lines. Never reads the disk.

Copied lines are cut from the server's own copy of the text, never from a register or a clipboard; `runtime/context`
decides whether they may be shown.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fastcoder_lsp.core import Snapshot, Yank
from fastcoder_lsp.workspace.document import Document
from fastcoder_lsp.workspace.paths import uri_key
from fastcoder_lsp.workspace.secret_lines import KEYS, without_secrets

MAX_NEIGHBOURS = 24  # cells above the current one that the model sees
MAX_YANKS = 2  # older yanks served another purpose
YANK_TTL_S = 600.0


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook: its document's URI, and whether it holds code."""

    uri: str
    is_code: bool


class Documents:
    """Open documents and notebooks by URI, however it is spelt; `clock_s`, in seconds, expires yanks."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._yanks: tuple[tuple[Yank, float], ...] = ()
        self._documents: dict[tuple[str, ...], Document] = {}
        self._notebooks: dict[tuple[str, ...], list[tuple[tuple[str, ...], Cell]]] = {}
        self._notebook_of: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __iter__(self) -> Iterator[Document]:
        return iter(tuple(self._documents.values()))

    def __len__(self) -> int:
        return len(self._documents)

    def get(self, uri: str) -> Document | None:
        """The open document, or None."""
        return self._documents.get(uri_key(uri))

    def open(self, document: Document) -> None:
        """Add an open document, or replace it."""
        self._documents[uri_key(document.uri)] = document

    def close(self, uri: str) -> Document | None:
        """Remove a document; None if it was not open."""
        return self._documents.pop(uri_key(uri), None)

    def lose_change(self, uri: str) -> None:
        """A change of a document, or of any for "", was not read."""
        for document in (self.get(uri),) if uri else self:
            if document is not None:
                document.lose_change()

    def yanked(self, yank: Yank) -> None:
        """Record copied lines: the snapshots of all documents' next versions contain them."""
        before = ((one, at_s) for one, at_s in self._yanks if one != yank)
        self._yanks = ((yank, self._clock_s()), *before)[:MAX_YANKS]

    @property
    def yanks(self) -> tuple[Yank, ...]:
        """The recent yanks of all documents, the newest first. They outlive their document, as a clipboard does."""
        since_s = self._clock_s() - YANK_TTL_S
        self._yanks = tuple((one, at_s) for one, at_s in self._yanks if at_s > since_s)
        return tuple(one for one, _ in self._yanks)

    def open_notebook(self, uri: str, cells: Sequence[Cell]) -> None:
        """Add a notebook with these cells; the client opens their documents separately."""
        self.splice_cells(uri, 0, 0, cells)

    def splice_cells(self, uri: str, start: int, delete: int, cells: Sequence[Cell]) -> None:
        """Replace `delete` cells from `start` by `cells`; clamped to the notebook."""
        notebook = uri_key(uri)
        of = self._notebooks.setdefault(notebook, [])
        start = min(max(start, 0), len(of))
        for gone, _ in of[start : start + delete]:
            self._notebook_of.pop(gone, None)
        of[start : start + delete] = added = [(uri_key(cell.uri), cell) for cell in cells]
        self._notebook_of.update((key, notebook) for key, _ in added)

    def close_notebook(self, uri: str) -> None:
        """Remove a notebook; the client closes its cells' documents separately."""
        for cell, _ in self._notebooks.pop(uri_key(uri), []):
            self._notebook_of.pop(cell, None)

    def snapshot(self, uri: str) -> Snapshot | None:
        """The current snapshot of an open document; neighbours are the code cells of its language above it."""
        document = self.get(uri)
        return None if document is None else document.snapshot(self._above(uri_key(uri)), self.yanks)

    def _above(self, key: tuple[str, ...]) -> tuple[str, ...]:
        cells = self._notebooks.get(self._notebook_of.get(key, ()), [])
        place = next((index for index, (one, _) in enumerate(cells) if one == key), 0)
        own = self._documents[key].language
        above = [self._documents.get(one) for one, cell in cells[:place] if cell.is_code]
        known = [document for document in above if document is not None and document.language == own]
        return tuple(document.clean_text for document in known[-MAX_NEIGHBOURS:])


MAX_YANK_CHARACTERS = 2_000  # longer text is data, or is being moved elsewhere
MAX_YANK_ABOVE = 100  # lines above that tell whether a line is a secret


def yank_of(document: Document, first: int, last: int) -> Yank | None:
    """Lines first…last of a document, inclusive, without secrets and without blank lines around.

    Whole lines, even if a part was copied: only a whole line shows whether it is a secret. None if nothing is left, the
    text is too long, the document is not a file, or it contains a private key.
    """
    if document.file is None or not document.uri.lower().startswith("file:"):
        return None
    lines = document.lines(first, last)
    if sum(map(len, lines)) + len(lines) - 1 > MAX_YANK_CHARACTERS or KEYS in document.clean_text:
        return None
    near = "".join(f"{line}\n" for line in document.lines(max(first - MAX_YANK_ABOVE, 0), first - 1))
    lines = without_secrets("\n".join(lines), document.language, near).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    above = next((number for number, line in enumerate(lines) if line.strip()), 0)
    return Yank(str(document.file), first + above, "\n".join(lines[above:])) if lines else None
