"""Import statements as values, and the interface of a language family's syntax of imports."""

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from fastcoder_lsp.edits.imports.agreement import Said, agreed_target
from fastcoder_lsp.edits.imports.facts import MOST_FACTS, FileImports, ImportableName, ImportTarget, NamedTarget
from fastcoder_lsp.edits.imports.order import SortKey, best_key, best_place
from fastcoder_lsp.edits.values import Edit
from fastcoder_lsp.syntax import lex

TEST_NAME: Final = re.compile(r"(?:test_.*|.*_(?:test|spec)|conftest|tests?)(?:\.\w+)?|.*\.(?:test|spec)(?:\.\w+)?")
_TEST_FOLDERS: Final = frozenset({"tests", "test", "spec", "__tests__", "__mocks__"})
_COMMENT_LINE: Final = re.compile(r"[ \t]*(?://(?!!)|#(?!!?\[))[^\n]*\n")
_OF_FILE: Final = re.compile(
    r"copyright|licen[cs]e|spdx|coding[:=]|-\*-|#!|^///|@(?:ts-|file|flow|jest|vitest|jsx|generated)"
    r"|\b(?:eslint|globals?|prettier|frozen_string_literal|typed:|rubocop|pylint|mypy|ruff|flake8|vim:)",
    re.IGNORECASE | re.MULTILINE,
)
"""Comments that are a file's, whatever follows them."""


class BoundName(NamedTuple):
    """A name that a statement binds, and the place in the text of its member with its alias."""

    name: str
    member: str
    start: int
    end: int
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ImportLine:
    """An import statement."""

    start: int
    end: int  # without the end of its line
    source: str  # as the file spells it
    names: tuple[BoundName, ...] = ()
    form: str = "import"  # its beginning; statements of one form may share a source
    members: tuple[int, int] | None = None  # the place of a list that can take more members
    guarded: bool = False  # whether it is inside a block or a condition
    everything: bool = False  # whether it binds names that it does not say
    spelling: str = ""  # the statement's text, for its quotes and signs


class ImportStyle(NamedTuple):
    """How a file writes imports."""

    quote: str = "'"
    semicolon: bool = True


def kinds_first(member: str) -> tuple[int, str]:
    """isort's order: constants, classes, other names."""
    word = member.removeprefix("type ").split(" ")[0]
    return (0 if word.isupper() and len(word) > 1 else 1 if word[:1].isupper() else 2), word


MEMBER_KEYS: Final[tuple[SortKey, ...]] = (
    lambda member: (member.removeprefix("type ").lower(),),
    lambda member: (member.removeprefix("type "),),
    kinds_first,
    lambda member: (member.lower(),),
    lambda member: (member,),
)


class ImportSyntax(ABC):
    """How the languages of one family import."""

    name: str
    languages: frozenset[str]
    endings: tuple[str, ...]  # of file names
    member_keys: tuple[SortKey, ...] = MEMBER_KEYS  # orders of the members of a statement
    names_files: bool = False  # whether an import names a file, and none of the names in it
    separates: bool = False  # whether categories are apart in a file that shows nothing
    keys: tuple[SortKey, ...] = (lambda line: (line.source,), lambda line: (line.source.lower(),))
    """Orders of statements, the usual one first."""

    @abstractmethod
    def statements(self, text: str) -> list[ImportLine]:
        """The import statements of a text, in order."""

    def facts(self, text: str, path: str) -> FileImports:
        """The facts that the table keeps of a file at `path`, below the workspace folder."""
        return self.facts_of(without_quoted_lines(text, min(self.languages)), path)

    @abstractmethod
    def facts_of(self, text: str, path: str) -> FileImports:
        """The same of a text without comments and strings of several lines."""

    @abstractmethod
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        """The target of a name that a statement of the file at `path` binds."""

    @abstractmethod
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> int | str:
        """The group of a statement. `is_own`: whether a source is the repository's."""

    def form(self, target: ImportTarget) -> str:
        """The form of a statement that imports a target."""
        return "from" if target.member else "import"

    @abstractmethod
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        """A new statement."""

    @abstractmethod
    def is_use(self, before: str, name: str, after: str) -> bool:
        """Whether a name between the rests of its line may be an imported one."""

    @abstractmethod
    def first_place(self, text: str) -> tuple[int, str, str]:
        """(offset, text before, text after) of the first import of a file that has none."""

    def chosen(self, asked: "NameSought") -> ImportTarget | None:
        """The target that files agree on; None where two are likely, or where the name needs no import."""
        return None if asked.starred else agreed_target(asked.said, asked.defined, asked.path, asked.own)

    def spelled(self, target: ImportTarget, _asked: "NameSought") -> str | None:
        """The source as the file that lacks the name spells it; None where it cannot."""
        return target.source

    def hides(self, _line: ImportLine) -> bool:
        """Whether a statement that imports everything may bind any name."""
        return True

    def homes(self, _text: str, _lines: Sequence[ImportLine], _at: int) -> list[int]:
        """The beginnings of the parts of a text whose imports bind a name at an offset, the nearest first."""
        return [0]

    def of_home(self, _text: str, lines: Sequence[ImportLine], _home: int) -> list[ImportLine]:
        """The statements that another import in the part of a text beginning at `home` joins."""
        return [line for line in lines if not line.guarded]

    def sorted_with(self, lines: Sequence[ImportLine]) -> list[ImportLine]:
        """Those of the statements in order among which a new one may come."""
        return list(lines)

    def is_global(self, _target: ImportTarget, _lines: Sequence[ImportLine]) -> bool:
        """Whether a target often needs no import, as far as the file's imports tell."""
        return False

    def fitting(self, target: ImportTarget, _asked: "NameSought", *, typed: bool) -> ImportTarget | None:
        """A target of a type's kind as its uses need it, which are all in types (`typed`) or not; None if none fits."""
        return target if typed else target._replace(kind="")

    def siblings(self, _lines: Sequence[ImportLine], _target: ImportTarget) -> list[ImportLine]:
        """The statements of a block that an import of a target belongs to; none where it belongs to none."""
        return []

    def leads(self, _form: str, _table: "SourceTable", _path: str) -> bool | None:
        """Whether statements of a form come before all others, as other files have it; None where forms are mixed."""
        return None

    def is_own(self, _source: str, _table: "SourceTable") -> bool:
        """Whether a source is the repository's."""
        return False

    def is_elsewhere(self, _asked: "NameSought") -> bool:
        """Whether only files that the file's imports do not bring along define a name."""
        return False

    def fewest(self, targets: Sequence[ImportTarget], _table: "SourceTable") -> list[ImportTarget]:
        """The targets without those that others of them bring along."""
        return list(targets)

    def exported(self, _text: str, _name: str) -> list[int]:
        """Where the text says in a string or an attribute that it has a name which it uses nowhere else."""
        return []

    def knows(self, _name: str) -> bool:
        """Whether the language's standard library has a well-known thing of this name."""
        return False

    def is_builtin(self, _name: str) -> bool:
        """Whether the language knows the name without an import."""
        return False

    def member_text(self, name: str, target: ImportTarget) -> str:
        """A member as a list of members says it."""
        return target.member if target.member == name else f"{target.member} as {name}"

    def extended(self, text: str, line: ImportLine, name: str, target: ImportTarget) -> Edit | None:
        """The edit that adds a name to a statement of the same source; None where it needs one of its own."""
        if line.members is None or line.everything or line.guarded:
            return None
        return self.added_member(text, line, self.member_text(name, target))

    def added_member(self, text: str, line: ImportLine, added: str) -> Edit | None:
        """One more member in a list, in its order, and on a line of its own where each member has one."""
        assert line.members is not None, "the caller looks"
        start, end = line.members
        names = sorted((one for one in line.names if start <= one.start < end), key=lambda one: one.start)
        if not names:
            return None
        said = _members(text, line)
        others = [_members(text, one) for one in self.statements(text) if one.members is not None]
        place = best_place(added, said, best_key([said] * len(others) + others, self.member_keys))
        lines = "\n" in text[start : names[0].start] and all(
            "\n" in text[one.end : two.start] for one, two in itertools.pairwise(names)
        )
        if place < len(names):
            at = names[place].start
            gap = text[text.rfind("\n", 0, at) + 1 : at]
            return Edit(at, at, f"{added},\n{gap}" if lines else f"{added}, ")
        last = names[-1].end
        if not lines:
            return Edit(last, last, f", {added}")
        gap = text[text.rfind("\n", 0, names[-1].start) + 1 : names[-1].start]
        comma = re.compile(r"[ \t]*,").match(text, last)
        if comma is None:
            stop = text.find("\n", last, end)
            rest = text[last:stop].rstrip() if stop >= 0 else ""  # a comment of the last member's
            return Edit(last, last + len(rest), f",{rest}\n{gap}{added}")
        stop = text.find("\n", comma.end(), end)
        at = stop if stop >= 0 else comma.end()
        return Edit(at, at, f"\n{gap}{added},")

    def imported(self, text: str, path: str) -> tuple[NamedTarget, ...]:
        """The names that a text imports, guarded ones, too."""
        return tuple(
            NamedTarget(name.name, self.target(line, name, path), line.source)
            for line in self.statements(text)
            for name in line.names
        )[:MOST_FACTS]


def _members(text: str, line: ImportLine) -> list[str]:
    """The members of a statement's list, in its order."""
    start, end = line.members or (0, 0)
    names = sorted((one for one in line.names if start <= one.start < end), key=lambda one: one.start)
    return [re.sub(r"\s+", " ", text[one.start : one.end]) for one in names]


def without_comments(text: str, pattern: "re.Pattern[str]") -> str:
    """A text of the same length with blanks in place of its comments."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def without_quoted_lines(text: str, language: str) -> str:
    """A text of the same length with blanks in place of its comments and strings of several lines."""
    parts, at = list[str](), 0
    for start, end in lex(text, language).spans:
        if text.find("\n", start, end - 1) >= 0:
            parts += text[at:start], re.sub(r"[^\n]", " ", text[start:end])
            at = end
    return "".join([*parts, text[at:]])


def is_test(path: str) -> bool:
    """Whether a file or module is a test, or a part of tests."""
    *folders, name = path.split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or TEST_NAME.fullmatch(name) is not None


def above_comment(text: str, at: int) -> int:
    """The beginning of the comment directly above the code at `at`, unless it is the file's; else `at`."""
    begin = at if text[at : at + 1].strip() else 0
    while begin:
        line = text.rfind("\n", 0, begin - 1) + 1
        if text[line:begin].rstrip().endswith("*/"):
            line = text.rfind("\n", 0, max(text.rfind("/*", 0, begin), 0)) + 1
        elif _COMMENT_LINE.fullmatch(text, line, begin) is None:
            return begin if _OF_FILE.search(text, begin, at) is None else at
        begin = line
    return at if _OF_FILE.search(text, 0, at) or not text[at : at + 1].strip() else 0


def below_head(text: str, at: int) -> tuple[int, str, str]:
    """(offset, text before, text after) of the first import of a file whose head ends at `at`."""
    at = above_comment(text, at)
    at += bool(at) and text.startswith("\n", at)
    return at, "", "\n\n" if text[at:] else "\n"


def line_end(text: str, at: int) -> int:
    """The end of a line, without its sign."""
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


@dataclass(frozen=True, slots=True)
class NameSought:
    """A name that the file at `path` lacks, and what is known of it."""

    name: str
    path: str
    text: str  # that of the file
    package: str  # that of the file
    said: Said  # (path, import) of other files
    defined: Sequence[ImportableName]  # of other files
    lines: Sequence[ImportLine]  # the file's statements
    own: Collection[str]  # the sources that it imports from
    starred: Collection[str]  # those of which it imports everything
    table: "SourceTable"

    def spellings(self, target: ImportTarget) -> list[tuple[str, str]]:
        """(path, source) of the other files' imports of a target, as they spell it."""
        return [(where, one.spelled) for where, one in self.said if one.target.member == target.member]


class SourceTable(Protocol):
    """The part of the table that the syntaxes need."""

    def packages(self) -> tuple[str, ...]:
        """The packages of all files."""

    def paths(self) -> tuple[str, ...]:
        """All files."""

    def named(self, name: str) -> list[str]:
        """The files with a name, in any folder."""

    def defined(self, name: str) -> Sequence[ImportableName]:
        """The files that define a name."""

    def using(self, name: str) -> list[str]:
        """The files that use a name."""

    def facts(self, path: str) -> FileImports | None:
        """A file's facts."""
