"""Code of other files that goes along with a prompt: looked for on this machine, by the reading rules.

Owns which files are looked at (few, so that it takes milliseconds) and which places were edited lately; what of them is
worth showing is decided by `prompt/select.py`. What is remembered is shown only where its file may be read at that very
moment, and no line of it that looks like a secret. Used by the service's worker alone, when a prompt's anchor moves.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import ContextSnippet
from fastcoder_lsp.prompt.imports import imports_of, tails
from fastcoder_lsp.prompt.select import related
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.secret_lines import without_secrets

NEIGHBOURS = 16
"""Files of the document's own folder that are looked at, at most."""
OPEN_DOCUMENTS = 16
MOST_CHARACTERS = 600_000
"""Of all files that are looked at for one prompt."""
MOST_ENTRIES = 5_000
"""Of the document's folder: of one with more, those that the system names first."""
MODULE_FOLDERS = ("", "src", "lib")
"""Where a workspace folder keeps its modules, besides the folders above the document."""
RECENT_PLACES = 4
RECENT_LINES = 6
"""Lines shown on both sides of an edit."""
RECENT_SCORE = 0.3
"""Of an edited place, beside the similarity of a chunk: above a chunk that shares less than a third of its names."""


@dataclass(frozen=True, slots=True)
class ReadableFolder:
    """A workspace folder and what may be read in it."""

    root: Path
    rules: ReadingRules


class RecentEdits:
    """The places that were edited last, told by the snapshots that completions were asked for.

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
        if before is None or before == text:
            return
        line = text.count("\n", 0, first_difference(before, text))
        lines = text.split("\n")
        piece = "\n".join(lines[max(line - RECENT_LINES, 0) : line + RECENT_LINES + 1]).strip("\n")
        name = (uri, line // (2 * RECENT_LINES))
        self._places.pop(name, None)
        if piece.strip():
            self._places[name] = ContextSnippet(Path(path or uri).name, piece, RECENT_SCORE, path)
        while len(self._places) > 2 * RECENT_PLACES:
            self._places.popitem(last=False)

    def places(self, but: str) -> tuple[ContextSnippet, ...]:
        """The latest ones outside the document `but`, which the prompt shows anyway; the newest first."""
        others = (snippet for (uri, _), snippet in reversed(self._places.items()) if uri != but)
        return tuple(islice(others, RECENT_PLACES))


class RepositoryContext:
    """Finds snippets for a cursor (`prompt.Context`).

    Args:
        folder_of: the workspace folder that holds a path; None outside all of them.
        open_texts: path → unsaved text of the open documents; called from the worker's thread.
    """

    def __init__(
        self, folder_of: Callable[[Path], ReadableFolder | None], open_texts: Callable[[], Mapping[Path, str]]
    ) -> None:
        self._folder_of, self._open_texts = folder_of, open_texts
        self._recent = RecentEdits()

    def observe(self, snapshot: Snapshot) -> None:
        """A completion was asked for: remember what was edited."""
        self._recent.observe(snapshot.uri, snapshot.path or "", snapshot.text)

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether code of all these files may be shown at this moment."""
        return all(map(self._may_show, sources))

    def find(self, snapshot: Snapshot, offset: int) -> tuple[ContextSnippet, ...]:
        """Snippets of other files for the cursor at `offset`, best first; none for a document outside all folders."""
        path = Path(snapshot.path) if snapshot.path is not None else None
        folder = self._folder_of(path) if path is not None else None
        if path is None or folder is None or not path.is_relative_to(folder.root):
            return ()
        here = replace(snapshot, path=path.relative_to(folder.root).as_posix())
        files: dict[str, str] = {}
        open_texts, room = self._open_texts(), MOST_CHARACTERS
        for candidate in self._candidates(here, path, folder.root, open_texts):
            name = candidate.relative_to(folder.root).as_posix()
            text = _readable_text(candidate, folder.rules, open_texts) if name not in files else None
            if text is not None and len(text) <= room:
                files[name], room = text, room - len(text)
        recent = [place for place in self._recent.places(snapshot.uri) if self._may_show(place.source, place.text)]
        found = (
            replace(snippet, source=snippet.source or str(folder.root / snippet.path))
            for snippet in related(here, offset, files, recent)
        )
        clean = (replace(one, text=without_secrets(one.text, language_of(Path(one.path)))) for one in found)
        return tuple(snippet for snippet in clean if snippet.text.strip())

    def _may_show(self, source: str, text: str = "") -> bool:
        """Whether a file's code may be shown at this moment; what lies in no folder of the workspace never may."""
        path = Path(source)
        folder = self._folder_of(path) if source else None
        if folder is None or folder.rules.may_read(path) is not None:
            return False
        return folder.rules.size_reason(len(text), max(map(len, text.split("\n")))) is None

    def _candidates(self, here: Snapshot, path: Path, root: Path, open_texts: Mapping[Path, str]) -> Iterator[Path]:
        """Files worth a look: what the document imports, what is open, what lies beside it."""
        above = [folder for folder in path.parents if folder.is_relative_to(root)]
        modules = [*above, *(root / name for name in MODULE_FOLDERS)]
        for one in imports_of(here):
            ends = tails(one.module, here.path or "", here.language)
            found = (place / end for end in ends for place in modules if _is_file(place / end))
            if (module := next(found, None)) is not None and module != path:
                yield module
        beside = [other for other in open_texts if other != path and other.suffix == path.suffix]
        yield from (other for other in beside[-OPEN_DOCUMENTS:] if other.is_relative_to(root))
        try:
            with os.scandir(path.parent) as listed:
                names = [entry.name for entry in islice(listed, MOST_ENTRIES) if entry.name.endswith(path.suffix)]
        except OSError:  # the folder is gone: nothing lies beside the document
            return
        others = (path.with_name(name) for name in names)
        same = sorted(other for other in others if other.suffix == path.suffix and other != path)
        # The nearest by name: what belongs together is often named alike.
        place = sum(other.name < path.name for other in same)
        first = max(0, min(place - NEIGHBOURS // 2, len(same) - NEIGHBOURS))
        yield from same[first : first + NEIGHBOURS]


def _readable_text(path: Path, rules: ReadingRules, open_texts: Mapping[Path, str]) -> str | None:
    """A file's text, as it stands in the editor where it is open; None where it may not be read."""
    text = open_texts.get(path)
    if text is None:
        read = rules.read_text(path)
        return read if isinstance(read, str) else None
    longest = max(map(len, text.split("\n")))
    return text if rules.may_read(path) is None and rules.size_reason(len(text), longest) is None else None


def _is_file(path: Path) -> bool:
    """Whether it is one; the name, which a text may hold, may be one that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def first_difference(left: str, right: str) -> int:
    """Where two texts begin to differ, by halving: comparing slices is fast, comparing characters is not."""
    same, different = 0, min(len(left), len(right)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            different = middle
    return same
