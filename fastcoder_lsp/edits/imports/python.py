"""Python's imports."""

import builtins
import keyword
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from typing_extensions import override

from fastcoder_lsp.edits.imports.agreement import agreed_target
from fastcoder_lsp.edits.imports.facts import MOST_FACTS, FileImports, ImportTarget, NamedTarget
from fastcoder_lsp.edits.imports.values import (
    MEMBER_KEYS,
    TEST_NAME,
    BoundName,
    ImportLine,
    ImportStyle,
    ImportSyntax,
    NameSought,
    SourceTable,
    above_comment,
    is_test,
    kinds_first,
    line_end,
    without_comments,
)
from fastcoder_lsp.edits.values import Edit

_STATEMENT: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?:from[ \t]+(?P<source>\.*[ \t]*[\w.]*)[ \t]+import[ \t]*"
    r"(?:\((?P<list>[^()]*)\)|(?P<names>(?:[^\n#;\\(]|\\\n)+))|import[ \t]+(?P<modules>(?:[^\n#;\\]|\\\n)+))",
    re.MULTILINE,
)
_TYPE_BLOCK: Final = re.compile(
    r"^if[ \t]+(?:\w+\.)?TYPE_CHECKING[ \t]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t][^\n]*(?:\n|\Z)|\n)*", re.MULTILINE
)
_MEMBER: Final = re.compile(r"(\*|\w+)(?:[ \t\\\n]+as[ \t\\\n]+(\w+))?")
_MODULE: Final = re.compile(r"([\w.]+)(?:[ \t]+as[ \t]+(\w+))?")
_COMMENT: Final = re.compile(r"#[^\n]*")
_DEFINED: Final = re.compile(
    r"^(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)|^([A-Z][A-Z0-9_]{2,})[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE
)
_HEAD: Final = re.compile(
    r"(?:#[^\n]*\n|[ \t]*\n)*(?:(?>[rRuU]?(?:\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|\"[^\"\n]*\"|'[^'\n]*')[ \t]*)++"
    r"(?:#[^\n]*|;(?![^\n]*(?:\"\"\"|'''))[^\n]*)?(?:\n|$))?"
)
_WIDEST: Final = 88
_EXPORTS: Final = re.compile(r"^__all__[ \t]*(?::[^=\n]+)?\+?=[ \t]*[\[(]([^\])]*)", re.MULTILINE)
_LAZY: Final = re.compile(r"^def __getattr__\b", re.MULTILINE)
_GATHERED: Final = frozenset({"typing", "typing_extensions", "collections.abc"})
"""Sources whose names share a statement even where others have one each."""
_NEVER_SOURCES: Final = frozenset({"setup", "conftest", "__main__"})
_ROOTS: Final = ("", "/src")  # folders from which files outside of a package import it, likely


def _by_form(line: ImportLine) -> tuple[object, ...]:
    return line.form == "from" and line.source != "__future__", *_by_name(line)


def _by_kind(line: ImportLine) -> tuple[object, ...]:
    return *_by_form(line)[:-1], kinds_first(line.names[0].name if line.names else "")


def _by_name(line: ImportLine) -> tuple[object, ...]:
    dots = len(line.source) - len(line.source.lstrip("."))
    return -dots, line.source.lower(), _first(line)


def _nearest_first(line: ImportLine) -> tuple[object, ...]:
    dots = len(line.source) - len(line.source.lstrip("."))
    return line.form == "from", dots, line.source.lower(), _first(line)


def _first(line: ImportLine) -> str:
    return line.names[0].name.lower() if line.names and line.form == "from" else ""


class PythonImports(ImportSyntax):
    """`import a`, `from a import b`."""

    name = "python"
    languages = frozenset({"python"})
    endings = (".py", ".pyi")
    separates = True
    member_keys = (kinds_first, *MEMBER_KEYS)
    keys = (
        _by_kind,
        _by_form,
        _by_name,
        _nearest_first,
        lambda line: (line.form == "from", line.source),
        lambda line: (line.form != "from", line.source.lower()),
        lambda line: (line.form != "from", line.source),
        lambda line: (line.source,),
        lambda line: (len(line.spelling),),
    )

    @override
    def statements(self, text: str) -> list[ImportLine]:
        blocks = [found.span() for found in _TYPE_BLOCK.finditer(text)] if "TYPE_CHECKING" in text else []
        lines = (line for found in _STATEMENT.finditer(text) for line in self._lines(text, found))
        return [
            _typed(line) if line.guarded and any(start < line.start < end for start, end in blocks) else line
            for line in lines
        ]

    def _lines(self, text: str, found: "re.Match[str]") -> Iterator[ImportLine]:
        start, guarded = found.end("indent"), bool(found["indent"])
        end = line_end(text, found.end())
        spelling = text[start : found.end()]
        if found["source"] is None:
            begin, stop = found.span("modules")
            names = tuple(
                BoundName(one[2] or one[1].partition(".")[0], one[1], *one.span())
                for one in _MODULE.finditer(text, begin, stop)
            )
            for name in names:
                source = name.member
                yield ImportLine(
                    start, end, source, (name._replace(member=""),), "import", None, guarded, False, spelling
                )
            return
        group = "list" if found["list"] is not None else "names"
        begin, stop = found.span(group)
        clean = without_comments(text[begin:stop], _COMMENT)
        members = [
            BoundName(one[2] or one[1], one[1], begin + one.start(), begin + one.end())
            for one in _MEMBER.finditer(clean)
        ]
        everything = any(one.member == "*" for one in members)
        names = tuple(one for one in members if one.member != "*")
        source = found["source"].replace(" ", "")
        yield ImportLine(start, end, source, names, "from", (begin, stop), guarded, everything, spelling)

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        defined = dict.fromkeys(one[1] or one[2] for one in _DEFINED.finditer(text))
        own = tuple((name, name) for name in defined if not name.startswith("_"))[:MOST_FACTS]
        single = _in_single_lines(self.statements(text))
        return FileImports(self.imported(text, path), own, module_path(path), single=single)

    @override
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        return ImportTarget(absolute(line.source, path), name.member, name.kind)

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> int:
        top = line.source.partition(".")[0]
        if not top:
            return 4
        if top == "__future__":
            return 0
        if top in sys.stdlib_module_names:
            return 1
        return 3 if is_own(line.source) else 2

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        if not target.member:
            return f"import {source}" if name == source.partition(".")[0] else f"import {source} as {name}"
        return f"from {source} import {self.member_text(name, target)}"

    @override
    def extended(self, text: str, line: ImportLine, name: str, target: ImportTarget) -> Edit | None:
        guarded = line.guarded and target.kind != "type"
        if line.form != "from" or not target.member or line.everything or guarded or line.members is None:
            return None
        edit = self.added_member(text, line, self.member_text(name, target))
        start, end = line.members
        if edit is None or "\n" in text[line.start : line.end] or line.end - line.start + len(edit.text) <= _WIDEST:
            return edit
        inner = text[start : edit.start] + edit.text + text[edit.end : end]
        if inner.rstrip().endswith("\\") or text[end : end + 1] not in ("", ")", "\n"):
            return edit
        lead = text[text.rfind("\n", 0, line.start) + 1 : line.start]
        members = "".join(f"{lead}    {one.strip()},\n" for one in inner.split(",") if one.strip())
        bracket = text[start - 1] == "("
        return Edit(start - bracket, end + bracket, f"(\n{members}{lead})")

    @override
    def fitting(self, target: ImportTarget, asked: NameSought, *, typed: bool) -> ImportTarget | None:
        lazy = any(
            line.source == "__future__" and any(one.name == "annotations" for one in line.names) for line in asked.lines
        )
        if typed and lazy and self.siblings(asked.lines, target):
            return target
        return None if all(one.target.kind == "type" for _, one in asked.said) else target._replace(kind="")

    @override
    def siblings(self, lines: Sequence[ImportLine], target: ImportTarget) -> list[ImportLine]:
        return [line for line in lines if target.kind == "type" and any(one.kind == "type" for one in line.names)]

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        return not (before.rstrip().endswith((".", "def", "class", "import", "global", "nonlocal")))

    @override
    def chosen(self, asked: NameSought) -> ImportTarget | None:
        if asked.starred:
            return None
        said = [one for each in asked.said if (one := _handed_on(*each, asked.path)) is not None]
        return agreed_target(said, asked.defined, asked.path, asked.own, lambda target: not target.member)

    @override
    def spelled(self, target: ImportTarget, asked: NameSought) -> str | None:
        found = self._spelled(target, asked)
        if found is None or not _can_be_written(found):
            return None
        own, tail = module_path(asked.path), "/" + found.replace(".", "/")
        is_own = own in (tail, absolute(found, asked.path)) or ("." in found and own.endswith(tail))
        return None if is_own else found

    def _spelled(self, target: ImportTarget, asked: NameSought) -> str | None:
        said = asked.spellings(target)
        source = target.source
        whole = source if source.startswith("/") else _path_of(source, asked.table)
        if whole is None or not target.member:
            return source if not source.startswith("/") else None
        if _is_odd(whole, asked.path, [where for where, _ in said]):
            return None
        plain = Counter(one for _, one in said if one[0] != "." and whole.endswith("/" + one.replace(".", "/")))
        dotted = plain.most_common(1)[0][0] if plain else source if whole != source else _dotted(whole, asked.table)
        folder = asked.path.rpartition("/")[0]
        if (
            plain
            and dotted is not None
            and _is_script(whole, dotted, [where for where, one in said if one == dotted])
            and not whole.startswith(f"/{folder}/" if folder else "/")
        ):
            return None
        near = relative(whole, asked.path, _outermost(asked))
        if dotted is None and near is None:
            return _flat(whole, asked)
        if dotted is not None and near is None:
            is_found = not said or bool(plain) or whole[: -len(dotted) - 1] in _ROOTS
            return dotted if is_found else None
        if dotted is None or near is None:
            return near
        top = dotted.partition(".")[0]
        if f"/{top}/" not in f"/{asked.path}":
            return dotted if plain or not said else None
        own = [
            line.source
            for line in asked.lines
            if line.form == "from" and (line.source[:1] == "." or self.is_own(line.source, asked.table))
        ]
        beside = [one for where, one in said if where.rpartition("/")[0] == folder]
        beside = beside if said else _own_sources(folder, top, asked)
        votes = own or beside or [one for _, one in said]
        return near if 2 * sum(one.startswith(".") for one in votes) > len(votes) else dotted

    @override
    def exported(self, text: str, name: str) -> list[int]:
        found = [one.start() for one in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
        if len(found) != 1 or _LAZY.search(text):
            return []
        at, end = found[0], found[0] + len(name)
        quoted = text[at - 1 : at] in ("'", '"') and text[at - 1 : at] == text[end : end + 1]
        return found if quoted and any(one.start(1) <= at < one.end(1) for one in _EXPORTS.finditer(text)) else []

    @override
    def is_own(self, source: str, table: SourceTable) -> bool:
        top = source.partition(".")[0]
        return any(one.endswith(f"/{top}") or f"/{top}/" in one for one in table.packages())

    @override
    def is_builtin(self, name: str) -> bool:
        return hasattr(builtins, name) or keyword.iskeyword(name) or keyword.issoftkeyword(name) or name == "self"

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        head = _HEAD.match(text)
        at = above_comment(text, head.end()) if head is not None else 0
        while at and text[:at].endswith("\n\n"):
            at -= 1
        rest = text[at:].lstrip("\n")
        blank = len(text[at:]) - len(rest)
        most = 3 if re.match(r"(?:#[^\n]*\n)*+(?:async |def |class |@)", rest) else 2
        lead = "\n" if at and text[:at].strip() else ""
        return at, lead, "\n" * max(most - blank, 1) if rest else "\n"


def _typed(line: ImportLine) -> ImportLine:
    """A statement of a block for type checkers."""
    return replace(line, names=tuple(one._replace(kind="type") for one in line.names))


def _in_single_lines(lines: Sequence[ImportLine]) -> bool | None:
    """Whether each statement imports one name, as far as statements of one source tell."""
    lines = [one for one in lines if one.form == "from" and not one.guarded]
    if any(len(one.names) > 1 and one.source not in _GATHERED for one in lines):
        return False
    sources = [one.source for one in lines if len(one.names) == 1]
    return True if len(set(sources)) < len(sources) else None


def module_path(path: str) -> str:
    """A module's path from the workspace folder, with a slash before it."""
    pure = PurePosixPath("/", path)
    return str(pure.parent if pure.stem == "__init__" else pure.with_suffix(""))


def absolute(source: str, path: str) -> str:
    """A source without dots before it: a relative one becomes a path from the workspace folder."""
    dots = len(source) - len(source.lstrip("."))
    if not dots:
        return source
    folder = PurePosixPath("/", path)
    for _ in range(dots):
        folder = folder.parent
    return str(folder.joinpath(*source[dots:].split("."))) if source[dots:] else str(folder)


def relative(target: str, path: str, outermost: str | None) -> str | None:
    """The relative source of a module at a path; None outside of the folder `outermost`."""
    folder, wanted = PurePosixPath("/", path).parent, PurePosixPath(target)
    dots = 1
    while outermost is not None and folder.is_relative_to(outermost):
        if wanted.is_relative_to(folder):
            return "." * dots + ".".join(wanted.relative_to(folder).parts)
        if folder == folder.parent:
            break
        folder, dots = folder.parent, dots + 1
    return None


def _outermost(asked: NameSought) -> str | None:
    """The folder that the relative imports of a file may reach: of its topmost package, or as far as its own reach.

    None where it may have none.
    """
    paths = {*asked.table.paths(), asked.path}
    folder, packages = PurePosixPath("/", asked.path).parent, 0
    while str(folder) != "/" and f"{folder / '__init__.py'}"[1:] in paths:
        folder, packages = folder.parent, packages + 1
    own = max((len(one.source) - len(one.source.lstrip(".")) for one in asked.lines), default=0)
    parents = PurePosixPath("/", asked.path).parents
    reach = min(max(own, packages), len(parents))
    return str(parents[reach - 1]) if reach else None


def _own_sources(folder: str, top: str, asked: NameSought) -> list[str]:
    """The sources in the package `top` that the other files of a folder import from."""
    paths = (one for one in asked.table.paths() if one != asked.path and one.rpartition("/")[0] == folder)
    files = (asked.table.facts(one) for one in paths)
    said = (one.spelled for facts in files if facts is not None for one in facts.imported)
    return [one for one in said if one.startswith((".", f"{top}."))]


def _flat(module: str, asked: NameSought) -> str | None:
    """The name of a module beside a script, outside of packages; None where files import by the folder's name."""
    folder, _, name = module.rpartition("/")
    if folder != f"/{asked.path}".rpartition("/")[0] or name in sys.stdlib_module_names:
        return None
    tops = {part + "." for part in folder.split("/") if part}
    files = (asked.table.facts(one) for one in asked.table.paths())
    sources = (one.spelled for facts in files if facts is not None for one in facts.imported)
    return None if tops and any(one.startswith(tuple(tops)) or one + "." in tops for one in sources) else name


def _is_script(module: str, dotted: str, users: Sequence[str]) -> bool:
    """Whether only scripts beside a module import it by this name."""
    folder = module[: -len(dotted) - 1]
    return bool(folder) and all(f"/{one}".rpartition("/")[0] == folder for one in users)


def _is_odd(module: str, path: str, users: Sequence[str]) -> bool:
    """Whether a file of this kind does not import from such a module: production code from tests, or from `setup`."""
    name = module.rpartition("/")[2]
    if not users:
        return name in _NEVER_SOURCES or TEST_NAME.fullmatch(name) is not None or is_test(module) > is_test(path)
    return is_test(module) and not is_test(path) and all(map(is_test, users))


def _can_be_written(source: str) -> bool:
    parts = source.lstrip(".").split(".") if source.strip(".") else []
    return all(one.isidentifier() and not keyword.iskeyword(one) for one in parts)


def _path_of(source: str, table: SourceTable) -> str | None:
    """The path of the repository's module with a dotted name."""
    tail = "/" + source.replace(".", "/")
    return next((one for one in table.packages() if one.endswith(tail)), None)


def _dotted(module: str, table: SourceTable) -> str | None:
    """The dotted name of a module, from the topmost package on; None outside of packages."""
    paths, pure = set(table.paths()), PurePosixPath(module)
    parts = [pure.name]
    while str(pure := pure.parent) != "/" and f"{str(pure)[1:]}/__init__.py" in paths:
        parts.append(pure.name)
    return ".".join(reversed(parts)) if len(parts) > 1 or f"{module[1:]}/__init__.py" in paths else None


def _handed_on(where: str, one: NamedTarget, path: str) -> tuple[str, NamedTarget] | None:
    """The import of a file; that of a package's own file hands a name on to files outside, and tells others nothing."""
    package = module_path(where)
    if not where.endswith("/__init__.py") or not f"{_slashed(one.target.source)}/".startswith(package + "/"):
        return where, one
    if f"/{path}".startswith(package + "/"):
        return None
    return where, one._replace(target=ImportTarget(package, one.name))


def _slashed(source: str) -> str:
    return source if source.startswith("/") else "/" + source.replace(".", "/")
