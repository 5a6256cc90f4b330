r"""An open document, the server's own copy of the editor's text, edited by the protocol's rules; and the texts of all.

A line ends at `\n`, `\r\n` or `\r` and nowhere else (`str.splitlines` would also cut at \f, U+2028 and others).
Positions count UTF-8, UTF-16 or UTF-32 units and are clamped to the document; a unit inside a character means that
character's start.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fastcoder_lsp.core import Definition, Snapshot, Yank
from fastcoder_lsp.workspace.languages import language_of_cell

_LINE_END = re.compile(r"(\r\n|\n|\r)")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Encoding(Enum):
    """The unit of `character` in a position, as agreed with the client."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a document: `line` from 0, `character` in units of the agreed encoding."""

    line: int
    character: int


def units_to_index(line: str, units: int, encoding: Encoding) -> int:
    """The character index of `units` in `line` (without its end), clamped to the line."""
    if units <= 0:
        return 0
    if encoding is Encoding.UTF32 or line.isascii():
        return min(units, len(line))
    width = 2 if encoding is Encoding.UTF16 else 1
    codec = "utf-16-le" if encoding is Encoding.UTF16 else "utf-8"
    try:
        encoded = line[:units].encode(codec)  # a character takes at least one unit
    except UnicodeEncodeError:
        return _walk(line, units, encoding)
    return len(encoded[: units * width].decode(codec, "ignore"))  # a character cut in two is dropped


def index_to_units(line: str, index: int, encoding: Encoding) -> int:
    """How many units precede the character at `index` of `line`."""
    before = line[:index]
    if encoding is Encoding.UTF32 or before.isascii():
        return len(before)
    if encoding is Encoding.UTF16:
        return len(before.encode("utf-16-le", "surrogatepass")) // 2
    return len(before.encode("utf-8", "surrogatepass"))


def _walk(line: str, units: int, encoding: Encoding) -> int:
    """A slow path for lines with half a surrogate pair, which no codec can cut."""
    for index, character in enumerate(line):
        units -= index_to_units(character, 1, encoding)
        if units < 0:
            return index
    return len(line)


@dataclass(frozen=True, slots=True)
class ContentChange:
    """Replace start…end by `text`; without a range, the whole document."""

    text: str
    start: Position | None = None
    end: Position | None = None


class Document:
    r"""The text of one open document, its version, and its current snapshot.

    Lines and line ends are stored separately: the model sees only `\n`, the client's own ends are kept, and a position
    means the same in both. There is one line more than there are ends. `definitions` are
    for the next version's snapshot: a new snapshot now would void open questions. `indentation` is one level where the
    text shows none, `editors_indentation` what the client said of it. `is_stale`: a change was lost.
    """

    def __init__(self, uri: str, file: Path | None, language: str, version: int, text: str) -> None:
        self.uri = uri
        self.file = file
        self.version = version
        self.indentation = self.editors_indentation = ""
        self.definitions: tuple[Definition, ...] = ()
        self._edited = self._deleted = self.is_stale = False
        self._language = language
        self._lines, self._ends = _split(_paired(text))
        self._clean: str | None = None
        self._snapshot: Snapshot | None = None

    @property
    def language(self) -> str:
        """The client's language id, or the language of a notebook's cell that begins with a magic."""
        return language_of_cell(self._language, self._lines)

    @property
    def text(self) -> str:
        """The raw text, as the editor holds it."""
        return _join(self._lines, self._ends)

    @property
    def clean_text(self) -> str:
        r"""The text with `\n` line ends only."""
        if self._clean is None:
            self._clean = "\n".join(self._lines)
        return self._clean

    def lines(self, first: int, last: int) -> list[str]:
        """Lines first…last, inclusive, without their ends, clamped to the document."""
        return self._lines[max(first, 0) : last + 1]

    def longest_line(self) -> int:
        """Characters of the longest line."""
        return max(map(len, self._lines))

    def edit(self, version: int, edits: Sequence[ContentChange], encoding: Encoding) -> None:
        """Apply `edits` one after another; `version` is the document's afterwards."""
        for edit in edits:
            if edit.start is None or edit.end is None:
                self._lines, self._ends = _split(_paired(edit.text))
                self.is_stale = False
            else:
                self._replace(min(edit.start, edit.end), max(edit.start, edit.end), edit.text, encoding)
        self.version, self._edited = version, True
        self._deleted = bool(edits) and all(not edit.text and edit.start != edit.end for edit in edits)
        self._clean = self._snapshot = None

    def lose_change(self) -> None:
        """A change was lost: the text is no longer the editor's, until it is sent as a whole; voids open questions."""
        self.is_stale, self._snapshot = True, None

    def snapshot(self, neighbours: tuple[str, ...] = (), yanks: tuple[Yank, ...] = ()) -> Snapshot:
        """An immutable view; the same object until the document, its `neighbours` or its `indentation` change.

        `neighbours` are texts of its notebook. An existing snapshot keeps its own `yanks`.
        """
        known = self._snapshot
        if known is None or (known.neighbours, known.indentation) != (neighbours, self.indentation):
            self._snapshot = Snapshot(
                uri=self.uri,
                path=str(self.file) if self.file else None,
                language=self.language,
                version=self.version,
                text=self.clean_text,
                neighbours=neighbours,
                definitions=self.definitions,
                yanks=yanks,
                edited=self._edited,
                deleted=self._deleted,
                indentation=self.indentation,
            )
            return self._snapshot
        return known

    def offset_at(self, position: Position, encoding: Encoding) -> int:
        """The offset in the snapshot's text; clamped to the line, and after the last line to the end."""
        line, index = self._locate(position, encoding)
        return sum(map(len, self._lines[:line])) + line + index

    def _locate(self, position: Position, encoding: Encoding) -> tuple[int, int]:
        if position.line >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        line = max(position.line, 0)
        if position.line < 0:
            return 0, 0
        return line, units_to_index(self._lines[line], position.character, encoding)

    def _replace(self, start: Position, end: Position, text: str, encoding: Encoding) -> None:
        r"""Replace start…end, and split the lines around it again, because a `\r` and a `\n` may meet or part."""
        first, from_index = self._locate(start, encoding)
        last, to_index = self._locate(end, encoding)
        head = self._lines[first][:from_index]
        tail = self._lines[last][to_index:]
        low = max(first - 1, 0)
        high = min(last + 1, len(self._lines) - 1)
        before = _join(self._lines[low:first], self._ends[low:first])
        after = "".join(self._ends[last:high]) + "".join(self._lines[last + 1 : high + 1])
        lines, ends = _split(_paired(f"{before}{head}{text}{tail}{after}"))
        self._lines[low : high + 1] = lines
        self._ends[low:high] = ends


def position_at(text: str, offset: int, encoding: Encoding) -> Position:
    """The position of `offset` in a snapshot's text."""
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    return Position(text.count("\n", 0, offset), index_to_units(line, offset - line_start, encoding))


def _split(text: str) -> tuple[list[str], list[str]]:
    if "\r" not in text:
        lines = text.split("\n")
        return lines, ["\n"] * (len(lines) - 1)
    parts = _LINE_END.split(text)
    return parts[::2], parts[1::2]


def _join(lines: Sequence[str], ends: Sequence[str]) -> str:
    pieces = [piece for pair in zip(lines, ends, strict=False) for piece in pair]
    pieces.extend(lines[len(ends) :])
    return "".join(pieces)


def _paired(text: str) -> str:
    """`text` with meeting surrogate halves joined to one character, as the client sees them; a lone half stays."""
    if _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class OpenTexts:
    """Texts by path, the latest change last; thread-safe. Putting the same text again changes nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[Path, str] = {}

    def put(self, path: Path, text: str) -> None:
        """An open document's text, saved or not, overrides the disk."""
        with self._lock:
            self._texts.pop(path, None)
            self._texts[path] = text

    def remove(self, path: Path) -> None:
        """The document was closed: the disk holds again."""
        with self._lock:
            self._texts.pop(path, None)

    def get(self, path: Path) -> str | None:
        """The text of an open document, or None."""
        return self._texts.get(path)

    def copy(self) -> Mapping[Path, str]:
        """All texts as they are now."""
        with self._lock:
            return dict(self._texts)
