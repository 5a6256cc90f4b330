"""Finds code of other files for a prompt, on this machine and within the reading rules.

Candidates are the first of the folder's word index, open documents, definitions of names at the cursor as the editor's
other servers know them, and a new file's tests; `prompt/retrieval` ranks pieces. A snippet is shown only if its file
may be read at that moment, and without lines that look like secrets. Runs on the model's thread when a prompt is
chosen, never for a key that only appends; in small pieces, between which that thread serves other clients.
"""

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path

from fastcoder_lsp.core import Definition, Pieces, Snapshot
from fastcoder_lsp.core.bounded import line_above, number_of_line
from fastcoder_lsp.core.differences import first_difference
from fastcoder_lsp.prompt import ContextSnippet, PromptContext
from fastcoder_lsp.prompt.context import NOTHING
from fastcoder_lsp.prompt.definitions import MOST_HELD, counterpart_of, heads, imported_definitions, outline
from fastcoder_lsp.prompt.retrieval import FileWords, WordQuery, query_at, related, retrieve, worth
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.workspace.background import ThreadTimes
from fastcoder_lsp.workspace.documents import MAX_YANK_CHARACTERS
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.rules import ReadingRules, resolved
from fastcoder_lsp.workspace.secret_lines import KEYS, in_file

OPEN_DOCUMENTS = 16  # the most recent open documents are searched whatever the index says
MOST_OPEN = 100_000  # longest open document, in characters, that is searched whatever the index says
MOST_CHARACTERS = 100_000
"""Characters of files and open documents whose words are found anew for one prompt; the next prompt finds others'."""
MOST_NAMES = 6_000
"""Identifiers that are numbered for one prompt where nothing else waits; so many characters of code rarely have more,
data may have ten times as many."""
FEW_NAMES = 1_500  # in a server, where other clients wait: some 10 ms; the next prompts number the rest
GOOD_ENOUGH = 0.7
"""A prompt keeps its snippets while their score is at least this share of the best that could be found."""
MOST_AHEAD = 600
"""Longest code just copied, in characters, that precedes all pieces but the best; longer code gets what is left."""
FEW = 4
"""With fewer pieces than this the document has too few words for a query: its tests, or what it tests, are shown."""

_LEAST_LINES = 2  # lines that are left of a piece, for it to be shown
RECENT_DOCUMENTS = 8  # whose texts are kept
RECENT_PLACES = 4
RECENT_LINES = 6  # lines shown on each side of a place
VISITED_PLACES = 2  # visited places shown after the edited ones, which tell more

_Places = OrderedDict[tuple[str, int], ContextSnippet]

_ALIKE = {"typescriptreact": "script", "javascriptreact": "script", "typescript": "script", "javascript": "script"} | {
    "c": "cpp",
    "objective-c": "cpp",
    "cuda-cpp": "cpp",
}
"""Maps languages whose files use each other's names to one name."""


@dataclass(frozen=True, slots=True)
class ReadableFolder:
    """A workspace folder, its reading rules, and the file of its word index, if it has one."""

    root: Path
    rules: ReadingRules
    kept: Path | None = None


class RepositoryContext:
    """Finds snippets for a cursor (`prompt.Context`).

    `folder_of`: the workspace folder that holds a path; None outside all of them. `open_texts`: path → unsaved text,
    called from the worker's thread. `wait_s`: how long a query waits for the scan of a folder, 0 in a server. `urgent`:
    folders are scanned at full priority, because the user waits for it. `reported`: whether `changed` is called for all
    changes on the disk. `cpu`: is told the time of threads that read folders.
    """

    def __init__(
        self,
        folder_of: Callable[[Path], ReadableFolder | None],
        open_texts: Callable[[], Mapping[Path, str]],
        wait_s: float = 0.0,
        clock_s: Callable[[], float] = time.monotonic,
        *,
        urgent: bool = False,
        reported: Callable[[], bool] = lambda: False,
        cpu: ThreadTimes | None = None,
    ) -> None:
        self._reported, self._cpu = reported, cpu or ThreadTimes()
        self._folder_of, self._open_texts, self._wait_s = folder_of, open_texts, wait_s
        self._clock_s, self._urgent = clock_s, urgent
        self._names = MOST_NAMES if urgent else FEW_NAMES
        self._recent = RecentPlaces()
        self._folders: dict[Path, FolderWords] = {}
        self._lock = threading.Lock()  # searches for edits ask for words, too, on their own thread
        self._opened: dict[Path, tuple[str, FileWords]] = {}

    def words_at(self, path: Path) -> FolderWords | None:
        """The word index of the folder that holds `path`, with its scan begun; None outside all folders."""
        folder = self._folder_of(path)
        return self._words_of(folder) if folder is not None else None

    def changed(self, files: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Let the word indexes follow changes on the disk (see `FolderWords.changed`). Any thread may call."""
        for words in tuple(self._folders.values()):
            folder = self._folder_of(words.root)
            # By other rules the next query has everything scanned.
            if folder is not None and folder.root == words.root and folder.rules is words.rules:
                words.changed(files, folders)

    def observe(self, snapshot: Snapshot) -> None:
        """Remember the edited places when a completion is requested."""
        self._recent.observe(snapshot.uri, snapshot.path or "", snapshot.text)

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether code of all these files may be shown at this moment."""
        return all(map(self._may_show, sources))

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> Pieces[PromptContext]:
        """Snippets for the cursor at `offset`, best first; none for a document outside all folders."""
        path = Path(snapshot.path) if snapshot.path is not None else None
        folder = self._folder_of(path) if path is not None else None
        if path is None or folder is None or not path.is_relative_to(folder.root):
            return NOTHING
        for known in tuple(self._folders.values()):
            known.terms.allow(self._names)
        unsaved = self._open_texts()
        if closed := [one for one in self._opened if one not in unsaved]:
            self.changed(closed)  # their files are read again
        words = self._words_of(folder)
        here = replace(snapshot, path=path.relative_to(folder.root).as_posix())
        ask = query_at(here.text, offset, words.index, words.terms)
        yield
        opened, room = yield from self._follow_open(unsaved)
        itself = _real_key(path, folder.root)
        look = _QuestionFiles(words, opened, _kind(here.language), itself, self._may_show, self._elsewhere, room)
        near = [one.relative_to(folder.root).as_posix() for one in opened if one.is_relative_to(folder.root)]
        pieces = yield from retrieve(ask, here, offset, shown, words.index, words.terms, look, near)
        told = _within(snapshot.definitions, folder.root, here)
        defined = yield from heads(ask, told, pieces, look, words.terms)
        scored = sorted((*pieces, *defined), key=lambda piece: -piece.score)
        pieces = yield from related(ask, scored, words.terms)
        pieces = _below_imported((yield from imported_definitions(here, offset, look)), pieces)
        if len(pieces) < FEW:
            pieces = (*pieces, *(yield from _counterpart(here.path or "", (*near, *words.index.known()), look)))
        self._recent.visit(snapshot.uri, snapshot.path or "", snapshot.text, min(offset, len(snapshot.text)))
        window = here.text[slice(*shown)]
        recent = (*_not_in(window, copied(snapshot)), *self._recent.places(snapshot.uri))
        allowed = [place for place in recent if self._may_show(place.source, place.text)]
        placed = [replace(one, source=str(folder.root / one.source)) if one.source else one for one in pieces]
        newest, ahead = next(copied(snapshot), None), None
        if newest is not None and newest in allowed and len(newest.text) <= MOST_AHEAD:
            placed, ahead = _behind_best(newest, placed), (newest.source, newest.line)
        texts, clean = self._recent.texts(), list[ContextSnippet]()
        for one in _apart((*placed, *_not_held(allowed, placed))):
            whole = (yield from look.text(one.source)) if one.source else here.text
            clean.append(_clean(one, (whole, texts.get(one.source, ""))))
            yield
        found = tuple(one for one in clean if one.text.strip())
        if (
            kept is not None
            and ahead in {None, kept.copied}  # else copied code goes elsewhere
            and (yield from self._good_enough(kept, ask, window, found, words))
        ):
            return kept
        return PromptContext(found, folder.root.name, here.path or "", ahead)

    def _good_enough(
        self, kept: PromptContext, ask: WordQuery, window: str, found: tuple[ContextSnippet, ...], words: FolderWords
    ) -> Pieces[bool]:
        still = [one.text for one in kept.snippets if one.text not in window]
        instead = [one.text for one in found[: len(kept.snippets)]]
        if not kept.snippets:
            return False
        worths = (yield from worth(ask, still, words.terms)), (yield from worth(ask, instead, words.terms))
        return worths[0] >= GOOD_ENOUGH * worths[1]

    def _words_of(self, folder: ReadableFolder) -> FolderWords:
        with self._lock:
            words = self._indexed(folder)
        words.follow(folder.rules, reported=self._reported())
        if self._wait_s:
            words.wait_idle(self._wait_s)
        return words

    def _indexed(self, folder: ReadableFolder) -> FolderWords:
        words = self._folders.get(folder.root)
        if words is not None and words.kept != folder.kept:  # other settings have an index file of their own
            words.stop()
            words = None
        if words is None:
            words = FolderWords(
                folder.root, folder.rules, self._clock_s, folder.kept, urgent=self._urgent, cpu=self._cpu
            )
            words.terms.allow(self._names)
            self._folders[folder.root] = words
        return words

    def _follow_open(self, texts: Mapping[Path, str]) -> Pieces[tuple[dict[Path, FileWords], int]]:
        """The words of the open documents, and what is left of the prompt's characters."""
        before, room = self._opened, MOST_CHARACTERS
        opened, found = dict[Path, tuple[str, FileWords]](), dict[Path, FileWords]()
        for path, text in reversed(list(texts.items())[-OPEN_DOCUMENTS:]):
            folder, known = self._folder_of(path), before.get(path)
            if folder is None or len(text) > MOST_OPEN:
                continue
            if known is None or known[0] != text:
                if room < MOST_CHARACTERS and len(text) > room:
                    continue
                room -= len(text)
                file, complete = yield from self._words_of(folder).words_of(text)
                known = text, file
                if not complete:  # words that lack some are found again for the next prompt
                    found[path] = file
                    continue
            opened[path], found[path] = known, known[1]
        self._opened = opened
        return dict(reversed(found.items())), room

    def _may_show(self, source: str, text: str = "") -> bool:
        """Whether a file's code may be shown at this moment; a file outside all workspace folders never may."""
        path = Path(source)
        folder = self._folder_of(path) if source else None
        if folder is None or folder.rules.may_read(path) is not None:
            return False
        return folder.rules.size_reason(len(text), _longest_line(text)) is None

    def _elsewhere(self, root: Path, path: Path) -> bool:
        folder = self._folder_of(path)
        return folder is None or folder.root != root


@lru_cache(maxsize=2 * OPEN_DOCUMENTS)
def _longest_line(text: str) -> int:
    return max(map(len, text.split("\n")))


@dataclass(slots=True)
class _QuestionFiles:
    """The files of the query's language, with the editor's text for open documents; bounded."""

    words: FolderWords
    opened: Mapping[Path, FileWords]
    kind: str
    itself: str  # the document's own file, links resolved; never given
    may_show: Callable[[str, str], bool]
    elsewhere: Callable[[Path, Path], bool]  # whether a file below a folder belongs to another one
    room: int  # characters that may still be read from the disk

    def __call__(self, key: str) -> Pieces[FileWords | None]:
        path = self.words.root / key
        if key == self.itself or _kind(language_of(path)) != self.kind:
            return None
        one = self.opened.get(path)
        if one is not None:
            return one if self.may_show(str(path), one.text) else None
        if self.elsewhere(self.words.root, path) and not self.may_show(str(path), ""):
            return None
        if self.words.held(key):
            return (yield from self.words.load(key))
        read = (yield from self.words.load(key)) if self.room > 0 else None
        self.room -= len(read.text) if read is not None else 0
        return read

    def text(self, source: str) -> Pieces[str]:
        """The whole text of a file that was given; empty for any other file."""
        path = Path(source)
        file = self.opened.get(path)
        if file is None and path.is_relative_to(self.words.root):
            key = path.relative_to(self.words.root).as_posix()
            file = (yield from self.words.load(key)) if self.words.held(key) else None
        return file.text if file is not None else ""


def _clean(piece: ContextSnippet, files: Iterable[str]) -> ContextSnippet:
    """A piece without lines that look like secrets, with the lines above it in each of these texts of its file."""
    language, text = language_of(Path(piece.path)), piece.text
    for file in dict.fromkeys(filter(None, files)) or ("",):
        text = in_file(text, file, language)
    return replace(piece, text=text)


def _within(definitions: Sequence[Definition], root: Path, here: Snapshot) -> list[Definition]:
    """The definitions in other files below `root`, with paths relative to it."""
    found = []
    for one in definitions:
        path = Path(one.path)
        if path.is_relative_to(root) and ".." not in path.parts:
            found.append(replace(one, path=path.relative_to(root).as_posix()))
    return [one for one in found if one.path != here.path]


def _real_key(path: Path, root: Path) -> str:
    """A file's key in the index of a folder, links resolved; empty for a file outside it."""
    real, top = resolved(path), resolved(root)
    return real.relative_to(top).as_posix() if real.is_relative_to(top) else ""


def _not_held(places: Iterable[ContextSnippet], pieces: Sequence[ContextSnippet]) -> Iterator[ContextSnippet]:
    """The places with less than half of their lines in pieces of the same file or in earlier places."""
    held: dict[str, set[str]] = defaultdict(set)
    for piece in pieces[:MOST_HELD]:
        held[piece.source].update(piece.text.split("\n"))
    for place in places:
        if not _mostly_in(held[place.source], place):
            held[place.source].update(place.text.split("\n"))
            yield place


def _apart(pieces: Iterable[ContextSnippet]) -> Iterator[ContextSnippet]:
    """Pieces, best first, without the lines that better ones of the same file show."""
    held: dict[str, dict[int, str]] = defaultdict(dict)
    for piece in pieces:
        lines = piece.text.split("\n")
        runs = _not_shown(lines, piece.line, held[piece.source]) if piece.line else []
        if not piece.line or runs == [(0, len(lines))]:
            yield piece
            runs = []
        if piece.line:
            held[piece.source] = dict(enumerate(lines, piece.line)) | held[piece.source]
        for begin, end in runs:
            text = "\n".join(lines[begin:end])
            if text.strip().count("\n") + 1 >= _LEAST_LINES:
                above = len(text) - len(text.lstrip("\n"))
                yield replace(piece, text=text.strip("\n"), line=piece.line + begin + above)


def _not_shown(lines: Sequence[str], first: int, shown: Mapping[int, str]) -> list[tuple[int, int]]:
    edges = [-1, *(at for at, line in enumerate(lines) if shown.get(first + at) == line), len(lines)]
    return [(before + 1, after) for before, after in pairwise(edges) if after > before + 1]


def _below_imported(imported: Sequence[ContextSnippet], pieces: Sequence[ContextSnippet]) -> tuple[ContextSnippet, ...]:
    """The definitions that the document imports, then the pieces that do not repeat them; statements come first."""
    statements = [one for one in pieces if not one.line]
    held = {one.source: set[str]() for one in imported}
    for one in imported:
        held[one.source].update(one.text.split("\n"))
    rest = [one for one in pieces if one.line and not (one.source in held and _mostly_in(held[one.source], one))]
    best = max((one.score for one in rest), default=0.0)
    first = [replace(one, score=best + 1.0 - rank / 100) for rank, one in enumerate(imported)]
    return (*(replace(one, score=best + 2.0) for one in statements), *first, *rest)


def _behind_best(newest: ContextSnippet, pieces: Sequence[ContextSnippet]) -> list[ContextSnippet]:
    """Pieces with the code just copied, or the piece that holds it, behind the best one that is no import."""
    at = next((behind for behind, one in enumerate(pieces, 1) if one.line), len(pieces))
    holding = [one for one in pieces if one.source == newest.source and _mostly_in(one.text.split("\n"), newest)]
    if holding and holding[0] in pieces[:at]:
        return list(pieces)
    second = replace((*holding, newest)[0], score=pieces[at - 1].score if pieces else 0.0)
    return [*pieces[:at], second, *(one for one in pieces[at:] if one not in holding[:1])]


def _not_in(window: str, places: Iterable[ContextSnippet]) -> Iterator[ContextSnippet]:
    """Copied code that is not in `window` at any indentation; the prompt shows the window anyway."""
    lines = {line.strip() for line in window.split("\n")}
    return (
        place
        for place in places
        if not _mostly_in(lines, replace(place, text="\n".join(line.strip() for line in place.text.split("\n"))))
    )


def _mostly_in(lines: Collection[str], place: ContextSnippet) -> bool:
    own = [line for line in place.text.split("\n") if line.strip()]
    return 2 * sum(line in lines for line in own) >= len(own)


def _counterpart(key: str, keys: Iterable[str], look: "_QuestionFiles") -> Pieces[tuple[ContextSnippet, ...]]:
    """The defining lines of the file that `key` tests, or of the file that tests it."""
    other = counterpart_of(key, keys)
    file = (yield from look(other)) if other is not None else None
    text = outline(file.text) if file is not None else ""
    return (ContextSnippet(other, text, 0.0, other),) if other is not None and text else ()


def _kind(language: str) -> str:
    return _ALIKE.get(language, language)


class RecentPlaces:
    """The most recently edited and visited places."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._paths: dict[str, str] = {}
        self._edited: _Places = OrderedDict()
        self._visited: _Places = OrderedDict()

    def observe(self, uri: str, path: str, text: str) -> None:
        """Record the current text of the document at `path` (empty: a document without a path)."""
        before = self._texts.pop(uri, None)
        self._texts[uri], self._paths[uri] = text, path
        while len(self._texts) > RECENT_DOCUMENTS:
            self._paths.pop(self._texts.popitem(last=False)[0], None)
        if before is not None and before != text:
            _remember(self._edited, RECENT_PLACES, uri, path, text, first_difference(before, text))

    def texts(self) -> dict[str, str]:
        """Path → the document's last text."""
        return {self._paths[uri]: text for uri, text in self._texts.items() if uri in self._paths}

    def visit(self, uri: str, path: str, text: str, offset: int) -> None:
        """Record a visit to this place of a text."""
        _remember(self._visited, VISITED_PLACES, uri, path, text, offset)

    def places(self, but: str) -> tuple[ContextSnippet, ...]:
        """The places outside the document `but`, edited ones first, then the newest first."""
        edited = islice(((name, one) for name, one in _newest(self._edited, but)), RECENT_PLACES)
        visited = islice(
            ((name, one) for name, one in _newest(self._visited, but) if name not in self._edited), VISITED_PLACES
        )
        return tuple(one for _, one in chain(edited, visited))


def copied(snapshot: Snapshot) -> Iterator[ContextSnippet]:
    """Code copied in other files, the newest first: it will probably be pasted here."""
    for one in snapshot.yanks:
        if one.path != snapshot.path and len(one.text) <= MAX_YANK_CHARACTERS and KEYS not in one.text:
            yield ContextSnippet(Path(one.path).name, one.text, 0.0, one.path, line=one.line + 1)


def _remember(places: _Places, shown: int, uri: str, path: str, text: str, offset: int) -> None:
    """Keep the lines around a place as the latest; holds twice the places shown, because some share a document."""
    if KEYS in text:
        return
    line, begin = number_of_line(text, offset), line_above(text, offset, RECENT_LINES)
    first, end = max(line - RECENT_LINES, 0), offset
    for _ in range(RECENT_LINES + 1):
        end = text.find("\n", end + 1) if 0 <= end < len(text) else -1
    around = text[begin : end if end >= 0 else len(text)]
    piece, above = around.strip("\n"), len(around) - len(around.lstrip("\n"))
    name = (uri, line // (2 * RECENT_LINES))
    places.pop(name, None)
    if piece.strip() and len(piece) <= MAX_YANK_CHARACTERS:
        places[name] = ContextSnippet(Path(path or uri).name, piece, 0.0, path, line=first + above + 1)
    while len(places) > 2 * shown:
        places.popitem(last=False)


def _newest(places: _Places, but: str) -> list[tuple[tuple[str, int], ContextSnippet]]:
    return [(name, one) for name, one in reversed(places.items()) if name[0] != but]
