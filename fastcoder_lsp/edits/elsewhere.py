"""The user's changes, made in other files of the repository: next edits without a model.

A renamed definition is proposed wherever other files import it, a renamed parameter where they name it in a call, and a
change that the user made twice at places like those. A search comes in pieces, since it reads files: the nearest ones
that have the change's words by an index, and no more than `MOST_READ`.
"""

import hashlib
import itertools
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Final, NamedTuple, Protocol

from msgspec import Meta, Struct, structs

from fastcoder_lsp.core import Change, Pieces
from fastcoder_lsp.core.bounds import Short
from fastcoder_lsp.edits.analogy import WORD, RepeatedChange, beside, places, repeated
from fastcoder_lsp.edits.arguments import function_of, named_arguments, own_uses
from fastcoder_lsp.edits.names import FILE, ScopedName, SyntaxScopes, scopes_of
from fastcoder_lsp.edits.renames import MOST_CHANGES, names_changed
from fastcoder_lsp.edits.scope_rules import NameRole
from fastcoder_lsp.edits.uses import GoPackage, ImportedUses, Importer
from fastcoder_lsp.edits.values import MOST_EDITS, Edit, EditQuestion
from fastcoder_lsp.syntax import SCRIPT

SOURCE: Final = "elsewhere"  # the source of an `EditAnswer` with these edits
MOST_READ: Final = 200  # files that a search reads
MOST_CHARACTERS: Final = 6_000_000  # of all of them
MOST_FOUND: Final = 64  # files with edits
MOST_TEXT: Final = 400_000  # characters of a file that is searched
LIKENESS: Final = 6  # points that a place needs in a file without changes; see `analogy.LIKENESS`
_IMPORTS: Final = re.compile(r"[ \t]*(?:from|import|use|using|export\s*[{*]|#\s*include)\b")
_OWN: Final = frozenset({"this", "self"})
_MOST_HOPS: Final = 3  # files that hand an import on, one to the other
_MOST_IMPORTED: Final = 1_000  # characters between an import's beginning and a name in it
_IMPORTED: Final = re.compile(
    r"(?:^|\n)[ \t]*(?:from\b.*\b)?(?:import|use)\b(?:[^\n]*|[^\n;({]*[({][^;)}]*)(?<!\bas )$"
)
_WORD: Final = re.compile(r"[^\W\d]\w+")
_EXPORTS: Final = re.compile(r"export\b")
_EXPORTED: Final = re.compile(r"\bexport\s*(?:type\s*)?\{(?P<names>[^{}]*)\}(?!\s*from)")


class FileEdits(Struct, frozen=True, array_like=True):
    """The edits of a file: `path` lies below the folder; they fit the text with this `digest`."""

    path: Short
    digest: Short
    edits: Annotated[tuple[Edit, ...], Meta(max_length=MOST_EDITS)]


class SearchedFiles(Protocol):
    """The files of a folder that may be read, by their paths below it."""

    def known(self) -> Collection[str]:
        """All of them."""

    def holding(self, words: Sequence[str], *, partly: bool = False) -> Iterable[str]:
        """Those that have all these words; `partly`: and long ones, of which an index has only the beginning."""

    def read(self, path: str) -> tuple[str, str] | None:
        """The text as it is now, unsaved or on the disk, and its language; None if it may not be read."""


def digest_of(text: str) -> str:
    """A short name of a text, by which another process tells whether it has the same."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def concerns_others(history: Sequence[Change]) -> bool:
    """Whether changes may be wanted in other files, too: cheap, and mostly no."""
    if repeated(history):
        return True
    return any(_changes_names(change) for change in history[-MOST_CHANGES:])


def _changes_names(change: Change) -> bool:
    return set(_WORD.findall(change.old)) != set(_WORD.findall(change.new)) and bool(change.old and change.new)


def edits_elsewhere(
    question: EditQuestion, files: SearchedFiles, most: int = MOST_FOUND
) -> Pieces[tuple[FileEdits, ...]]:
    """The edits of other files, and of the question's where a parameter is named: the nearest files, at `most`."""
    search = _Search(question, files, most)
    for path in dict.fromkeys((question.path, *(change.path for change in reversed(question.history)))):
        for name in search.renamed_in(path):
            yield
            yield from search.follow(name)
    for one in repeated(question.history):
        yield from search.repeat(one)
    return search.found()


class _RenamedDefinition(NamedTuple):
    """The definition `old` of `path` is called `new` now; or a parameter of the function `of`."""

    path: str
    language: str
    old: str
    new: str
    of: str = ""


class _Search:
    def __init__(self, question: EditQuestion, files: SearchedFiles, most: int) -> None:
        self._question, self._files, self._room, self._most = question, files, MOST_CHARACTERS, most
        self._texts: dict[str, tuple[str, str] | None] = {question.path: (question.text, question.language)}
        self._edits: dict[str, list[Edit]] = {}

    def found(self) -> tuple[FileEdits, ...]:
        """The edits so far; none of a file where two of them overlap."""
        found = list[FileEdits]()
        for path in self._near(self._edits):
            edits = sorted(dict.fromkeys(self._edits[path]), key=lambda edit: edit.start)
            apart = all(one.end <= then.start for one, then in itertools.pairwise(edits))
            if apart and len(edits) <= MOST_EDITS and (text := self._read(path)) is not None:
                found.append(FileEdits(path, digest_of(text[0]), tuple(edits)))
        return tuple(found[: self._most])

    def _is_full(self) -> bool:
        return len(self._edits) >= self._most

    # Renames ----------------------------------------------------------------------------------------------------------

    def renamed_in(self, path: str) -> Iterator[_RenamedDefinition]:
        """The definitions of a file that other files may use, and that have another name now."""
        text, language = self._existing(path)
        if (scopes := scopes_of(text, language)) is None:
            return
        history, seen = self._question.history, set[tuple[str, str, int]]()
        for number in range(len(history) - 1, max(len(history) - 1 - MOST_CHANGES, -1), -1):
            if history[number].path != path or not _changes_names(history[number]):
                continue
            for old, new, at in names_changed(text, history, number):
                if (old, new, at) in seen:
                    continue
                seen.add((old, new, at))
                use = next((one for one in scopes.names(new) if one.at == at), None)
                if use is not None and use.bound and use.role is not NameRole.IMPORTED:
                    yield from self._definition(scopes, _RenamedDefinition(path, language, old, new), text, use)

    def _definition(
        self, scopes: SyntaxScopes, renamed: _RenamedDefinition, text: str, use: ScopedName
    ) -> Iterator[_RenamedDefinition]:
        still = [one for one in scopes.names(renamed.old) if one.bound and one.scope == use.scope]
        if still:
            return
        if use.parameter:
            if renamed.language == "python" and (of := function_of(scopes, text, use)) is not None:
                yield renamed._replace(of=of)
        elif use.scope == FILE and (renamed.language not in SCRIPT or _is_exported(text, use, renamed.new)):
            yield renamed

    def follow(self, renamed: _RenamedDefinition) -> Pieces[None]:
        """Find the uses of a renamed definition, or the calls that name a parameter of it."""
        name, targets, seen = renamed.of or renamed.old, {renamed.path}, {renamed.path}
        package = self._package(renamed)
        if renamed.of:
            self._name_in_calls(renamed, renamed.path, own_uses(*self._existing(renamed.path), renamed.of))
        for _ in range(_MOST_HOPS):
            exporting = set[str]()
            for path in self._near(set(self._files.holding([name])) - seen)[:MOST_READ]:
                yield
                if self._is_full():
                    return
                if (uses := self._uses(path, name, targets, package)) is None:
                    continue
                seen.add(path)
                if renamed.of:
                    self._name_in_calls(renamed, path, uses.ends)
                else:
                    self._rename(renamed, path, uses)
                if uses.exports:
                    exporting.add(path)
            if not exporting:
                return
            targets |= exporting

    def _package(self, renamed: _RenamedDefinition) -> GoPackage | None:
        if renamed.language != "go":
            return None
        known, text = self._files.known(), self._existing(renamed.path)[0]
        return GoPackage.of(renamed.path, text, known, lambda path: self._existing(path)[0])

    def _uses(self, path: str, name: str, targets: Collection[str], package: GoPackage | None) -> ImportedUses | None:
        if (known := self._read(path)) is None or not _has_word(known[0], name):
            return None
        text, language = known
        return Importer(path, language, text, self._files.known(), package).uses(name, targets)

    def _rename(self, renamed: _RenamedDefinition, path: str, uses: ImportedUses) -> None:
        text, language = self._existing(path)
        old, new = renamed.old, renamed.new
        scopes = scopes_of(text, language) if _has_word(text, new) else None
        if scopes is not None and any(not one.free for one in scopes.names(new)):
            return  # it means something else here, or both are used on purpose
        for at in uses.written:
            self._add(path, Edit(at, at + len(old), f"{old}: {new}" if at in uses.properties else new))

    def _name_in_calls(self, renamed: _RenamedDefinition, path: str, ends: Iterable[int]) -> None:
        for at in named_arguments(*self._existing(path), ends, renamed.old):
            self._add(path, Edit(at, at + len(renamed.old), renamed.new))

    # Repeated changes -------------------------------------------------------------------------------------------------

    def repeat(self, change: RepeatedChange) -> Pieces[None]:
        """Find places of other files that are like those of a change that the user made twice."""
        languages = {language for one in change.examples if (language := self._language(one.path))}
        words = _WORD.findall(change.old) or _words_beside(change)
        if not words or len(languages) != 1:
            return
        done = {self._question.path}
        for path in self._near(set(self._files.holding(words, partly=True)) - done)[:MOST_READ]:
            yield
            if self._is_full():
                return
            known = self._read(path)
            if known is None or known[1] not in languages:
                continue
            asked = structs.replace(self._question, path=path, text=known[0], language=known[1], offset=0)
            for group in places(asked, change):
                if all(_is_like(change, path, known[0], edit) for edit in group):
                    for edit in group:
                        self._add(path, edit)

    def _language(self, path: str) -> str:
        known = self._read(path)
        return "" if known is None else known[1]

    # Files ------------------------------------------------------------------------------------------------------------

    def _add(self, path: str, edit: Edit) -> None:
        self._edits.setdefault(path, []).append(edit)

    def _near(self, paths: Iterable[str]) -> list[str]:
        """Files in the order in which they are searched and shown: those of the same folder first, then by name."""
        own = posixpath.dirname(self._question.path)

        def place(path: str) -> tuple[bool, int, str]:
            common = posixpath.commonprefix([f"{own}/", path]).rfind("/")
            return path != self._question.path, -common, path

        return sorted(paths, key=place)

    def _existing(self, path: str) -> tuple[str, str]:
        return self._read(path) or ("", "")

    def _read(self, path: str) -> tuple[str, str] | None:
        if path not in self._texts:
            known = self._files.read(path) if self._room > 0 else None
            self._texts[path] = known if known is not None and len(known[0]) <= MOST_TEXT else None
            self._room -= len(known[0]) if known is not None else 0
        return self._texts[path]


def _is_exported(text: str, use: ScopedName, name: str) -> bool:
    """Whether other files of TypeScript or JavaScript may import a definition by its name."""
    if _EXPORTS.match(text, use.line) is not None:
        return "default" not in text[use.line : use.at]
    return any(_has_word(found["names"], name) for found in _EXPORTED.finditer(text))


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _words_beside(change: RepeatedChange) -> list[str]:
    """The words that stand beside a change at all places of the user's."""
    beside = [{token for token in (*one.left, *one.right) if _WORD.fullmatch(token)} for one in change.examples]
    return sorted(set[str].intersection(*beside)) if beside else []


def _is_imported(text: str, at: int) -> bool:
    return _IMPORTED.search(text[max(at - _MOST_IMPORTED, 0) : at]) is not None


def _is_like(change: RepeatedChange, path: str, text: str, edit: Edit) -> bool:
    """Whether a place of another file is certain enough.

    Changes of one file, punctuation, and members of `this` or `self` say something of the very same line alone;
    changes of tests nothing of other code; and imports depend on what a file uses.
    """
    line = text.rfind("\n", 0, edit.start) + 1
    if _IMPORTS.match(text, line) is not None or _is_imported(text, edit.start):
        return False
    if path.partition("/")[0] not in {one.path.partition("/")[0] for one in change.examples}:
        return False
    left, right = map(tuple, beside(text, edit.start, edit.end))
    if any((one.left, one.right) == (left, right) for one in change.examples):
        return edit.start < edit.end
    alone = len({one.path for one in change.examples}) == 1
    if alone or WORD.search(change.old) is None or (left[-1:] == (".",) and left[-2:-1] and left[-2] in _OWN):
        return False
    return any(one.likeness(left, right) >= LIKENESS for one in change.examples)
