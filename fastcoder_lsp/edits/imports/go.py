"""Go's imports."""

import posixpath
import re
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from fastcoder_lsp.edits.imports.agreement import agreed_target
from fastcoder_lsp.edits.imports.facts import MOST_FACTS, FileImports, ImportableName, ImportTarget
from fastcoder_lsp.edits.imports.place import code_statements
from fastcoder_lsp.edits.imports.values import (
    BoundName,
    ImportLine,
    ImportStyle,
    ImportSyntax,
    NameSought,
    SourceTable,
    line_end,
)

_BLOCK: Final = re.compile(r"^import[ \t]*(?:\((?P<list>[^)]*)\)|(?P<one>(?:[\w.]+[ \t]+)?\"[^\"\n]+\"))", re.MULTILINE)
_ENTRY: Final = re.compile(r"^[ \t]*(?:(?P<alias>[\w.]+)[ \t]+)?\"(?P<source>[^\"\n]+)\"", re.MULTILINE)
_PACKAGE: Final = re.compile(r"^package[ \t]+(\w+)[^\n]*\n?", re.MULTILINE)
_NAMES: Final = r"(\w+(?:[ \t]*,[ \t]*\w+)*)"
_TOP: Final = re.compile(rf"^(?:func|var|const|type)[ \t]+{_NAMES}", re.MULTILINE)
_OPENED: Final = re.compile(r"^(?:var|const|type)[ \t]*\(", re.MULTILINE)
_IN_BLOCK: Final = re.compile(rf"^(?:\t| +){_NAMES}", re.MULTILINE)
_SEVERAL: Final = frozenset(
    {"rand", "template", "json", "scanner", "list", "errors", "context", "yaml", "uuid", "parser"}
)
"""Names of several well-known packages."""
_VERSION: Final = re.compile(r"v\d+")
_TESTS: Final = ":test"
"""Beside a folder: its package that tests the other one from outside."""
_UNSEEN: Final = re.compile(r"/(?:[_.][^/]*|testdata|vendor)/")
"""Folders whose packages no file imports by their path in the module."""
_MODULE: Final = re.compile(r"^module[ \t]+(\S+)", re.MULTILINE)


class GoImports(ImportSyntax):
    """`import "a/b"`, one or a block."""

    name = "go"
    languages = frozenset({"go"})
    endings = (".go", "go.mod")
    separates = True

    @override
    def statements(self, text: str) -> list[ImportLine]:
        found = list[ImportLine]()
        for block in _BLOCK.finditer(text):
            group = "list" if block["list"] is not None else "one"
            begin, stop = block.span(group)
            for one in _ENTRY.finditer(text, begin, stop) if group == "list" else [_ENTRY.match(text[begin:stop])]:
                if one is None:
                    continue
                shift = 0 if group == "list" else begin
                start = shift + one.start("alias" if one["alias"] else "source") - (not one["alias"])
                source, alias = one["source"], one["alias"]
                name = alias or package_of(source, text)
                names = (
                    ()
                    if alias in ("_", ".")
                    else (BoundName(name, "", start, shift + one.end(), "" if alias is None else "alias"),)
                )
                form = "entry" if group == "list" else "import"
                begins = start if group == "list" else block.start()
                found.append(
                    ImportLine(
                        begins,
                        line_end(text, shift + one.end()),
                        source,
                        names,
                        form,
                        None,
                        source == "C",  # cgo reads the comment above it, so that nothing joins it
                        alias == ".",
                        one[0].strip(),
                    )
                )
        return found

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        folder = posixpath.join("/", posixpath.dirname(path))
        if path.endswith("go.mod"):
            module = _MODULE.search(text)
            return FileImports(package=f"{module[1]} {folder.rstrip('/')}" if module is not None else "")
        package = _PACKAGE.search(text)
        if package is None:
            return FileImports(self.imported(text, path))
        if package[1].endswith("_test") and path.endswith("_test.go"):
            folder += _TESTS
        own = [(name, ".") for name in _declared(text)]
        if package[1] != "main" and not path.endswith("_test.go") and _UNSEEN.search("/" + path) is None:
            own.append((package[1], ""))
        return FileImports(self.imported(text, path), tuple(dict.fromkeys(own))[:MOST_FACTS], folder)

    @override
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        return ImportTarget(line.source, "", name.kind and name.name)

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> int:
        if "." not in line.source.partition("/")[0]:
            return 0
        return 2 if is_own(line.source) else 1

    @override
    def form(self, target: ImportTarget) -> str:
        return "entry"

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        return f'{target.kind} "{source}"' if target.kind else f'"{source}"'

    @override
    def chosen(self, asked: NameSought) -> ImportTarget | None:
        if asked.starred or any(folder == asked.package and member == "." for _, folder, member in asked.defined):
            return None
        folders = {
            folder: where for where, folder, member in asked.defined if member != "." and folder != asked.package
        }
        paths = {path: folder for folder in folders if (path := _import_path(folder, asked)) is not None}
        several = asked.name in _SEVERAL
        found = agreed_target(
            asked.said,
            [ImportableName(folders[folder], path, "") for path, folder in paths.items()],
            asked.path,
            asked.own,
            lambda _: not several,
            lambda target: not several and "." not in target.source.partition("/")[0],
        )
        if found is None or not _is_visible(found.source, asked):
            return None
        folder = paths.pop(found.source, "")
        is_beside = any(posixpath.dirname(other) == asked.package for other in paths.values())
        return None if is_beside or (folder and not _has_members(folder, asked)) else found

    @override
    def is_own(self, source: str, table: SourceTable) -> bool:
        modules = [one.partition(" ")[0] for one in table.packages() if " " in one]
        return any(source == one or source.startswith(one + "/") for one in modules)

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        return re.match(r"\.(?![a-z_.])", after) is not None and not before.rstrip().endswith(".")

    @override
    def is_builtin(self, name: str) -> bool:
        return name == "C"  # it needs a comment, too

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        if cgo := code_statements(self, text, "go"):
            at = cgo[-1].end if cgo[-1].form == "import" else line_end(text, max(text.find(")", cgo[-1].end), 0))
            return at, "\n\nimport ", ""
        package = _PACKAGE.search(text)
        at = package.end() if package is not None else 0
        return at, "\nimport ", "\n"


def _declared(text: str) -> list[str]:
    """The names that a file declares for its package."""
    said = _TOP.findall(text)
    for block in _OPENED.finditer(text):
        end = text.find("\n)", block.end())
        if end < 0:
            break
        said += _IN_BLOCK.findall(text, block.end(), end)
    return [name.strip() for names in said for name in names.split(",")]


def _import_path(folder: str, asked: NameSought) -> str | None:
    """The path that imports a folder's package; None where the file is not in its module."""
    modules = [(one.partition(" ")[2], one.partition(" ")[0]) for one in asked.table.packages() if " " in one]
    inside = [one for one in modules if f"{folder.rstrip('/')}/".startswith(one[0] + "/")]
    if not inside:
        return None
    root, module = max(inside, key=lambda one: len(one[0]))
    return (module + folder[len(root) :]).rstrip("/") if f"/{asked.path}".startswith(root + "/") else None


def _is_visible(source: str, asked: NameSought) -> bool:
    """Whether the file may import a path: an `internal` package is for the tree that it is in."""
    above, inner, _ = f"/{source}/".rpartition("/internal/")
    own = _import_path(asked.package.removesuffix(_TESTS), asked)
    return not inner or (own is not None and f"/{own}/".startswith(above + "/"))


def _has_members(folder: str, asked: NameSought) -> bool:
    """Whether a package declares all that the file uses of it."""
    members = set(re.findall(rf"(?<![\w.]){re.escape(asked.name)}\.(\w+)", asked.text))
    return all(
        any(
            one.package == folder and one.member == "." and not one.path.endswith("_test.go")
            for one in asked.table.defined(name)
        )
        for name in members
    )


def package_of(source: str, text: str = "") -> str:
    """The name of the package at a path, as its users say it."""
    parts = source.split("/")
    last = parts[-2] if len(parts) > 1 and _VERSION.fullmatch(parts[-1]) else parts[-1]
    last = re.sub(r"\.v\d+$", "", last)
    if last.isidentifier():
        return last
    choices = [
        last.removeprefix("go-").removesuffix("-go").removesuffix(".go"),
        last.rpartition("-")[2],
        last.replace("-", ""),
        last.replace("-", "_"),
        last.partition(".")[0],
    ]
    for one in choices:
        if one.isidentifier() and re.search(rf"\b{one}\.", text):
            return one
    return next((one for one in choices if one.isidentifier()), last)
