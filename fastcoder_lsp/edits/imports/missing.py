"""Imports that a file lacks after the user's last changes: one edit that adds them all.

A name counts that the user wrote lately, that nothing in the file binds, and that the other files of the workspace
import in one way, or that exactly one of them defines. Where two answers are likely there is none.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from fastcoder_lsp.edits.imports.facts import TYPE_KINDS, ImportTarget
from fastcoder_lsp.edits.imports.languages import syntax_of
from fastcoder_lsp.edits.imports.place import ImportPlaces, code_statements
from fastcoder_lsp.edits.imports.table import ImportTable
from fastcoder_lsp.edits.imports.uses import in_types, unbound_uses
from fastcoder_lsp.edits.imports.values import ImportLine, ImportSyntax, NameSought, is_test, line_end
from fastcoder_lsp.edits.minimal import apply, minimal
from fastcoder_lsp.edits.values import Edit, EditQuestion
from fastcoder_lsp.syntax import CLOSER_OF, lex

SOURCE: Final = "import"  # the source of an `EditAnswer` with these edits
AGREED: Final = 0.9  # share of the files importing a name that import the same
_MOST_TEXT: Final = 1_000_000  # characters of a document
_MOST_NAMES: Final = 400  # names of the last changes that are looked at
_MOST_ADDED: Final = 16  # imports of one edit
_MOST_CHECKED: Final = 64  # files that show a name and are checked: each costs some looks at the disk
_MOST_CHANGES: Final = 8  # latest changes of the file whose names are looked at
_NAME: Final = re.compile(r"(?<![\w$])[^\W\d][\w$]*")


class MissingImport(NamedTuple):
    """A name that a file lacks, its target, the source as the file spells it, and where the file uses the name.

    `home` is the beginning of the part of the text whose imports bind it there.
    """

    name: str
    target: ImportTarget
    spelled: str
    used_at: int
    home: int = 0


class AddedImports(NamedTuple):
    """The edits that add imports, and the names that they import."""

    edits: tuple[Edit, ...] = ()
    imports: tuple[MissingImport, ...] = ()


def missing_imports(
    question: EditQuestion, table: ImportTable, may_read: Callable[[str], bool] = lambda _: True
) -> AddedImports:
    """The imports of what the last changes use and nothing binds; none where nothing is certain.

    `may_read`: whether the rules allow a file of the table now. They may have changed since it was read.
    """
    syntax, text = syntax_of(question.language), question.text
    if syntax is None or len(text) > _MOST_TEXT:
        return AddedImports()
    names = [
        name
        for name in new_names(question)
        if (table.knows(name) or syntax.knows(name)) and not syntax.is_builtin(name)
    ]
    if not names:
        return AddedImports()
    search = ImportSearch(syntax, table, question.path, question.language, may_read)
    cursor = -1 if question.invoked else question.offset
    lacking = search.lacking(text, names, cursor)
    if not lacking and (closers := _closers(text, stop := line_end(text, question.offset), question.language)):
        closed = text[:stop] + closers + text[stop:]
        lacking = [one for one in search.lacking(closed, names, cursor) if one.used_at < stop]
    after = search.with_imports(text, lacking)
    return AddedImports(minimal(text, 0, len(text), after), tuple(lacking)) if after != text else AddedImports()


def new_names(question: EditQuestion) -> list[str]:
    """The names that the last changes of the file brought, the latest first."""
    history, found = question.history, dict[str, None]()
    own = [number for number, change in enumerate(history) if change.path == question.path]
    if not own or own[-1] != len(history) - 1:
        return []
    for number in reversed(own[-_MOST_CHANGES:]):
        before = set(_NAME.findall(history[number].old))
        found.update((name, None) for name in _NAME.findall(history[number].new) if name not in before)
    return list(found)[:_MOST_NAMES]


def _closers(text: str, stop: int, language: str) -> str:
    """The closers of the brackets open on the line that ends at `stop`: a parser reads no call without its end."""
    line = lex(text[text.rfind("\n", 0, stop) + 1 : stop], language)
    if line.quote or line.comment:
        return ""
    closers = "".join(CLOSER_OF[sign] for _, sign in reversed(line.openers))
    return closers.partition("}")[0] + ";" if language == "java" and closers[:1] in (")", "]") else closers


class ImportSearch:
    """Looks in a folder's table for what a file of it lacks."""

    def __init__(
        self, syntax: ImportSyntax, table: ImportTable, path: str, language: str, may_read: Callable[[str], bool]
    ) -> None:
        self._syntax, self._table, self._path, self._language = syntax, table, path, language
        self._may_read = may_read

    def lacking(self, text: str, names: Sequence[str], cursor: int = -1) -> list[MissingImport]:
        """Those of some names that the text uses, that nothing binds, and that one import explains.

        A name that ends at the `cursor` may be the beginning of a longer one.
        """
        syntax, table, path = self._syntax, self._table, self._path
        lines = code_statements(syntax, text, self._language)
        facts = syntax.facts(text, path)
        bound = {name for name, _ in facts.defined} | {one.name for one in facts.imported}
        starred = {line.source for line in lines if line.everything and syntax.hides(line)}
        own = {one.target.source for one in facts.imported}
        found = list[MissingImport]()
        for name in names:
            if name in bound or len(found) >= _MOST_ADDED:
                continue
            said = [(where, one) for where, one in table.imported(name) if where != path]
            defined = [one for one in table.defined(name) if one.path != path and is_test(one.path) <= is_test(path)]
            asked = NameSought(name, path, text, facts.package, said, defined, lines, own, starred, table)
            if (target := syntax.chosen(asked)) is not None:
                asked = self._allowed(asked)
                target = syntax.chosen(asked)
            if (
                syntax.names_files
                and target is None
                and syntax.is_elsewhere(asked)
                and self._uses(text, name, -1, lines)
            ):
                return []  # the file that gives this name may give the others, too
            if target is None or syntax.is_global(target, lines) or self._is_other(text, name, target):
                continue
            uses = self._uses(text, name, cursor, lines)
            if uses and target.kind in TYPE_KINDS:
                target = syntax.fitting(target, asked, typed=in_types(text, self._language, name))
            if target is not None and uses and (spelled := syntax.spelled(target, asked)) is not None:
                home = self._home(text, lines, uses)
                if not home or not spelled.startswith("super"):  # another module's parent is another one
                    found.append(MissingImport(name, target, spelled, uses[0], home))
        each = dict.fromkeys(one.target for one in found)
        fewest = syntax.fewest(list(each), table)
        return [one for one in found if one.target in fewest]

    def _allowed(self, asked: NameSought) -> NameSought:
        """The same with the files that may be read, the nearest `_MOST_CHECKED` at most."""
        paths = dict.fromkeys([*(one.path for one in asked.defined), *(path for path, _ in asked.said)])
        nearest = sorted(paths, key=lambda one: -posixpath.commonprefix([one, self._path]).count("/"))
        allowed = {one for one in nearest[:_MOST_CHECKED] if self._may_read(one)}
        return replace(
            asked,
            said=[one for one in asked.said if one[0] in allowed],
            defined=[one for one in asked.defined if one.path in allowed],
        )

    def with_imports(self, text: str, lacking: Sequence[MissingImport]) -> str:
        """The text with some imports added."""
        single = self._has_single_lines(text)
        by_target = {one[1:3] if self._syntax.names_files else one[:3]: one for one in lacking}
        moved, mine = list[tuple[int, int]](), self._is_own
        for name, target, spelled, _, home in by_target.values():
            at = home
            for place, more in moved:
                at += more * (place < at)
            places = ImportPlaces(
                self._syntax, text, self._language, self._path, mine, target, at, leads=self._leads, single=single
            )
            edit = places.added(name, spelled)
            moved.append((edit.start, len(edit.text) - (edit.end - edit.start)))
            text = apply(text, [edit])
        return text

    def _is_other(self, text: str, name: str, target: ImportTarget) -> bool:
        """Whether the text uses members of the name that another import of it has."""
        others = {one.target._replace(kind="") for _, one in self._table.imported(name)} - {target._replace(kind="")}
        if self._language != "python" or not others:
            return False
        attributes = set(re.findall(rf"(?<![\w.]){re.escape(name)}\.(\w+)", text))
        if target.member:  # `datetime.timedelta` needs the module, and `datetime.now` the class
            modules = {one.source for one in others if not one.member}
            known = {one.target.source for word in attributes for _, one in self._table.imported(word)}
            return bool(attributes) and not modules.isdisjoint({*known, *(attributes & {name})})
        return any(one.source.rpartition(".")[2] in attributes for one in others if "." in one.source)

    def _uses(self, text: str, name: str, cursor: int, lines: Sequence[ImportLine]) -> list[int]:
        """The offsets of the uses of the name as an imported one; none where the text binds it."""
        found = list[int]()
        for at in unbound_uses(text, self._language, name) or self._syntax.exported(text, name):
            end, start = at + len(name), text.rfind("\n", 0, at) + 1
            stop = text.find("\n", end)
            if any(line.start <= at < line.end for line in lines):
                continue
            if self._syntax.is_use(text[start:at], name, text[end : stop if stop >= 0 else len(text)]):
                if end == cursor and self._table.longer(name):
                    return []
                if self._syntax.homes(text, lines, at):
                    found.append(at)
        return found

    def _home(self, text: str, lines: Sequence[ImportLine], uses: Sequence[int]) -> int:
        """The nearest part of the text whose imports bind a name where it is used first, and in most other places."""
        homes, *others = [self._syntax.homes(text, lines, at) for at in uses]
        for other in others:
            homes = [one for one in homes if one in other] or homes
        return homes[0]

    def _has_single_lines(self, text: str) -> bool:
        """Whether each statement imports one name: in the file, or in most of the nearest folder that shows it."""
        if self._language != "python":
            return False
        if (own := self._syntax.facts(text, self._path).single) is not None:
            return own
        told = [(one, facts.single) for one in self._table.paths() if (facts := self._table.facts(one)) is not None]
        for folder in map(str, PurePosixPath(self._path).parents):
            votes = [
                single
                for one, single in told
                if single is not None and one != self._path and (folder == "." or one.startswith(folder + "/"))
            ]
            if votes:
                return 2 * sum(votes) > len(votes)
        return False

    def _leads(self, form: str) -> bool | None:
        return self._syntax.leads(form, self._table, self._path)

    def _is_own(self, source: str) -> bool:
        return self._syntax.is_own(source, self._table)
