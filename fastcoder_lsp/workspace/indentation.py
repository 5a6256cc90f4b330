"""The indentation of files that show none yet: by `.editorconfig`, else as in files of the language beside them.

A repository writes both, so sizes and numbers are bounded, and the patterns of `.editorconfig` are matched by an
automaton that cannot backtrack. Only files that the reading rules allow are read.
"""

import io
import os
import re
from codecs import StreamReaderWriter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePath
from typing import cast

from editorconfig.exceptions import ParsingError
from editorconfig.ini import EditorConfigParser

from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.syntax import indentation_of
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.patterns import Patterns
from fastcoder_lsp.workspace.regular import FileStamp, file_stamp
from fastcoder_lsp.workspace.rules import ReadingRules, resolved

EDITOR_CONFIG = ".editorconfig"
_MOST_BYTES, _LONGEST_LINE = 65_536, 500  # of an `.editorconfig`; a parser's patterns take the square of a line
_MOST_FOLDERS = 32
_MOST_ALTERNATIVES = 64  # of the braces in one pattern
_MOST_LETTERS = 40_000  # of all patterns of a file, braces expanded
_SECTION_COST = 100
_WIDEST = 16
_BESIDE, _READ, _LINES = 200, 3, 400  # entries of a folder that are listed, files and their lines that are read
_MOST_KNOWN = 128
_BRACES = re.compile(r"(?<!\\)\{([^{}]*)\}")
_RANGE = re.compile(r"([+-]?\d{1,6})\.\.([+-]?\d{1,6})")

Stamps = tuple[FileStamp | None, ...]


class IndentationSources:
    """The indentation of files in a workspace; what was read holds as long as the stamps of its files."""

    def __init__(self) -> None:
        self._configured: LatestDocuments[tuple[Stamps, str]] = LatestDocuments(_MOST_KNOWN)
        self._beside: LatestDocuments[tuple[Stamps, str]] = LatestDocuments(_MOST_KNOWN)

    def of(self, path: Path, language: str, root: Path, rules: ReadingRules) -> str:
        """One level of indentation for the file at `path` in the workspace's folder `root`; "" if nothing tells."""
        folders = [folder for folder in path.parents if folder.is_relative_to(root)][:_MOST_FOLDERS]
        stamps = tuple(file_stamp(folder / EDITOR_CONFIG) for folder in folders)
        known = self._configured.get(str(path))
        if known is None or known[0] != stamps:
            present = [folder for folder, stamp in zip(folders, stamps, strict=True) if stamp is not None]
            known = stamps, _configured(path, present, rules)
            self._configured.put(str(path), known)
        return known[1] or self._as_beside(path, language, root, rules)

    def _as_beside(self, path: Path, language: str, root: Path, rules: ReadingRules) -> str:
        key, stamps = f"{language} {path.parent}", (file_stamp(path.parent),)
        known = self._beside.get(key)
        if known is None or known[0] != stamps:
            inside = resolved(path.parent).is_relative_to(resolved(root))
            texts = _texts_beside(path, language, rules) if inside else iter(())
            found = (indentation_of(text.splitlines()[:_LINES]) for text in texts)
            known = stamps, next(filter(None, found), "")
            self._beside.put(key, known)
        return known[1]


def _texts_beside(path: Path, language: str, rules: ReadingRules) -> Iterator[str]:
    """The texts of some files of the language in the folder of `path`."""
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in islice(entries, _BESIDE))
    except OSError:
        return
    others = (path.parent / name for name in names if name != path.name and language_of(PurePath(name)) == language)
    for other in islice(others, _READ):
        text = rules.read_text(other)
        if isinstance(text, str):
            yield text


def _configured(path: Path, folders: list[Path], rules: ReadingRules) -> str:
    """The indentation by the `.editorconfig` of these folders, the innermost first."""
    options: dict[str, str] = {}
    for folder in folders:
        text = rules.read_text(folder / EDITOR_CONFIG)
        if not isinstance(text, str) or len(text) > _MOST_BYTES:
            continue
        config = _EditorConfig(path.relative_to(folder).parts, text)
        options = {**config.options, **options}
        if config.root_file:
            break
    style, size = (options.get(name, "").lower() for name in ("indent_style", "indent_size"))
    if size == "tab":
        size = options.get("tab_width", "")
    if style == "tab" or style not in {"", "space"}:
        return "\t" if style == "tab" else ""
    return " " * int(size) if size.isascii() and size.isdigit() and 0 < int(size[:4]) <= _WIDEST else ""


class _EditorConfig(EditorConfigParser):
    """The options of a file, by the parts of its path below the folder of the `.editorconfig` with this `text`."""

    def __init__(self, parts: tuple[str, ...], text: str) -> None:
        super().__init__("/".join(parts))
        self._parts, self._letters = parts, 0
        lines = (line for line in text.splitlines(keepends=True) if len(line) <= _LONGEST_LINE)
        try:
            self._read(cast("StreamReaderWriter", io.StringIO("".join(lines))), EDITOR_CONFIG)
        except ParsingError:
            return  # lines without a meaning are left out

    def matches_filename(self, _: str, glob: str) -> bool:
        """Whether a section's pattern matches the file; its own braces, otherwise as git's patterns."""
        globs = _without_braces(glob.replace("\\#", "#").replace("\\;", ";"))
        self._letters += sum(map(len, globs)) + _SECTION_COST
        if self._letters > _MOST_LETTERS:
            return False
        patterns = Patterns([f"\\{one}" if one[:1] in ("#", "!") else one for one in globs], ignores_case=False)
        state = patterns.start
        for folder in self._parts[:-1]:
            state = patterns.match(state, folder, is_folder=True).below
        return patterns.match(state, self._parts[-1], is_folder=False).ignored is True


def _without_braces(glob: str) -> list[str]:
    """Patterns for each choice in the braces of `glob`; none if there are too many."""
    waiting, found = [glob], list[str]()
    while waiting:
        one = waiting.pop()
        braces = _BRACES.search(one)
        if braces is None:
            found.append(one)
            continue
        head, tail = one[: braces.start()], one[braces.end() :]
        waiting += [f"{head}{choice}{tail}" for choice in _choices(braces[1])]
        if len(waiting) + len(found) > _MOST_ALTERNATIVES:
            return []
    return found


def _choices(inner: str) -> list[str]:
    if "," in inner:
        return inner.split(",")
    numbers = _RANGE.fullmatch(inner)
    if numbers is None:
        return [f"\\{{{inner}\\}}"]
    first, last = sorted(map(int, numbers.groups()))
    return list(map(str, range(first, min(last, first + _MOST_ALTERNATIVES) + 1)))
