"""How a file uses another file's definition, by its import statements: only what they say surely.

Python (`from m import f`, `m.f`), TypeScript and JavaScript (named imports, exports and `require` by relative paths),
Go (the files of a package, and `package.Name`). Other languages, star imports and computed paths say nothing.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fastcoder_lsp.edits.names import ANYWHERE, ScopedName, ScopedVariable, SyntaxScopes, scopes_of
from fastcoder_lsp.syntax import SCRIPT

SOURCE_FOLDERS: Final = frozenset({"src", "lib", "python"})
"""Folders whose modules are imported without the folder's name, wherever the importing file lies."""
_MOST_STATEMENT: Final = 20_000  # characters of an import's list of names
_FROM: Final = re.compile(
    rf"^[ \t]*from[ \t]+(?P<module>\.*[\w.]*)[ \t]+import[ \t]*"
    rf"(?:\((?P<many>[^()]{{0,{_MOST_STATEMENT}}})\)|(?P<few>(?:[^\n\\#;(]|\\\n)+))",
    re.MULTILINE,
)
_IMPORT: Final = re.compile(r"^[ \t]*import[ \t]+(?P<few>[\w.][^\n#;]*)", re.MULTILINE)
_IMPORTED: Final = re.compile(r"(?P<name>\w+(?:\.\w+)*)(?:\s+as\s+(?P<local>\w+))?\s*(?:,|$)")
_PYTHON_ENDS: Final = (".py", "/__init__.py", ".pyi")
_COMMENT: Final = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAMED: Final = re.compile(
    rf"\b(?P<word>import|export)\s+(?:type\s+)?(?:\w+\s*,\s*)?\{{(?P<many>[^{{}}]{{0,{_MOST_STATEMENT}}})\}}\s*"
    r"from\s*(?P<quote>['\"])(?P<module>[^'\"\n]+)(?P=quote)"
)
_REQUIRED: Final = re.compile(
    rf"\b(?:const|let|var)\s*\{{(?P<many>[^{{}}]{{0,{_MOST_STATEMENT}}})\}}\s*=\s*(?:await\s+import|require)\s*"
    r"\(\s*(?P<quote>['\"])(?P<module>[^'\"\n]+)(?P=quote)\s*\)"
)
_NAMESPACE: Final = re.compile(
    r"\b(?:import\s+(?:type\s+)?\*\s*as\s+(?P<local>\w+)\s+from\s*"
    r"|(?:const|let|var)\s+(?P<held>\w+)\s*=\s*require\s*\(\s*)"
    r"(?P<quote>['\"])(?P<module>[^'\"\n]+)(?P=quote)"
)
_SCRIPT_ITEM: Final = re.compile(r"(?:\btype\s+)?(?P<name>[\w$]+)(?:\s*(?:\bas\b|:)\s*(?P<local>[\w$]+))?\s*(?:,|$)")
_SCRIPT_ENDS: Final = ("", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts")
_SCRIPT_END: Final = re.compile(r"\.(?:[mc]?js|jsx)$")
_EXPORTED: Final = re.compile(r"\bexport\s*(?:type\s*)?\{[^{}]*$")
_ALL: Final = re.compile(r"^__all__\b[^=\n]*=\s*[\[(](?P<names>[^\])]*)", re.MULTILINE)
_GO_IMPORT: Final = re.compile(
    r'^[ \t]*(?:import\s+)?(?:(?P<local>[\w.]+)\s+)?"(?P<module>[^"\n]+)"[ \t]*$', re.MULTILINE
)
_GO_CLAUSE: Final = re.compile(r"^package[ \t]+(\w+)", re.MULTILINE)
_GO_MODULE: Final = re.compile(r"^module[ \t]+\"?([^\s\"()]+)\"?[ \t]*(?://[^\n]*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ImportedUses:
    """A file's uses of a definition.

    Attributes:
        written: offsets where the definition's own name stands.
        properties: those of them that name a property of an object, too.
        ends: where each expression ends that means it, by whatever name.
        exports: whether other files may import it from this one, by the same name.
    """

    written: tuple[int, ...]
    properties: frozenset[int]
    ends: tuple[int, ...]
    exports: bool


@dataclass(frozen=True, slots=True)
class GoPackage:
    """The package of a Go file: its name, and the path by which other packages import it, empty where none shows."""

    name: str
    import_path: str

    @classmethod
    def of(cls, path: str, text: str, known: Collection[str], read: Callable[[str], str]) -> "GoPackage | None":
        """That of a file, by its own clause and the nearest go.mod above; None without a clause."""
        if (clause := _GO_CLAUSE.search(text)) is None:
            return None
        root = go_module_root(path, known)
        module = _GO_MODULE.search(read(f"{root}/go.mod".lstrip("/"))) if root is not None else None
        if root is None or module is None or path.endswith("_test.go"):
            return cls(clause[1], "")
        folder = posixpath.dirname(path)
        return cls(clause[1], posixpath.join(module[1], folder[len(root) :].strip("/")).rstrip("/"))


def go_module_root(path: str, known: Collection[str]) -> str | None:
    """The folder of the nearest go.mod above a file, empty for the topmost one; None where there is none."""
    folder = posixpath.dirname(path)
    while f"{folder}/go.mod".lstrip("/") not in known:
        if not folder:
            return None
        folder = posixpath.dirname(folder)
    return folder


@dataclass(frozen=True, slots=True)
class _ImportedName:
    """An imported name: where it is written, the name that it has in the file, and where that is bound."""

    at: int
    local: str
    bound_at: int
    statement: int  # where its import begins
    is_bound: bool = True  # False in `export … from`


class Importer:
    """A file that may use a definition of another one; `known`: the paths of the folder's files.

    `package`: the definition's, in Go.
    """

    def __init__(
        self, path: str, language: str, text: str, known: Collection[str], package: GoPackage | None = None
    ) -> None:
        self._path, self._language, self._text, self._known, self._package = path, language, text, known, package

    def uses(self, name: str, targets: Collection[str]) -> ImportedUses | None:
        """The uses of the definition `name` of one of these files; None where there are none, or one is unsure."""
        if self._language == "python":
            imports, modules = list(self._python(name, targets)), self._python_modules(targets)
        elif self._language in SCRIPT:
            imports, modules = list(self._script(name, targets)), self._script_modules(targets)
        elif self._language == "go":
            return self._go(name, targets)
        else:
            return None
        return self._uses(name, imports, modules) if imports or modules else None

    def _uses(
        self, name: str, imports: Sequence[_ImportedName], modules: Sequence[_ImportedName]
    ) -> ImportedUses | None:
        if (scopes := scopes_of(self._text, self._language)) is None:
            return None
        imports = [one for one in imports if not scopes.quoted(one.at)]
        written, properties, ends = {one.at for one in imports}, set[int](), set[int]()
        exports = any(one.local == name for one in imports)
        for local in sorted({one.local for one in imports if one.is_bound}):
            found = _bound_at(scopes, local, [one for one in imports if one.local == local], written)
            if found is None:
                return None
            ends.update(one.at + len(local) for one in found)
            if local == name:
                others = [one for one in found if one.at not in written]
                written.update(one.at for one in others)
                properties.update(one.at for one in others if one.shorthand and not self._is_exported(one.at))
        bound = {one.bound_at for one in modules}
        for module in sorted({one.local for one in modules}):
            for at in self._members(scopes, module, name, bound):
                written.add(at)
                ends.add(at + len(name))
        if exports and self._language == "python":
            written.update(found.start("name") for found in _listed(self._text, name))
        if not written and not ends:
            return None
        return ImportedUses(tuple(sorted(written)), frozenset(properties), tuple(sorted(ends)), exports)

    def _is_exported(self, at: int) -> bool:
        return _EXPORTED.search(self._text, max(at - _MOST_STATEMENT, 0), at) is not None

    def _members(self, scopes: SyntaxScopes, module: str, name: str, bound: Collection[int]) -> Iterator[int]:
        """The places of a definition's name behind its module's; none where that name has another binding, too."""
        first = module.partition(".")[0]
        if any(one.bound and not one.free and one.at not in bound for one in scopes.names(first)):
            return
        dotted = r"\s*\.\s*".join(map(re.escape, module.split(".")))
        for found in re.finditer(rf"(?<![\w.]){dotted}\s*(?:\?\.|\.)\s*(?P<name>{re.escape(name)})(?!\w)", self._text):
            if not scopes.quoted(found.start()):
                yield found.start("name")

    # Python -----------------------------------------------------------------------------------------------------------

    def _python(self, name: str, targets: Collection[str]) -> Iterator[_ImportedName]:
        for found in _FROM.finditer(self._text):
            if name in found[0] and self._is_python(found["module"], targets):
                yield from (one for item, one in _items(found, _IMPORTED) if item == name)

    def _python_modules(self, targets: Collection[str]) -> list[_ImportedName]:
        """The word before the dot where a module is used."""
        modules = list[_ImportedName]()
        for found in _FROM.finditer(self._text):
            package = found["module"] if found["module"].endswith(".") else f"{found['module']}."
            names = _items(found, _IMPORTED)
            modules += [one for item, one in names if self._is_python(package + item, targets)]
        for found in _IMPORT.finditer(self._text):
            modules += [one for item, one in _items(found, _IMPORTED) if self._is_python(item, targets)]
        return modules

    def _is_python(self, module: str, targets: Collection[str]) -> bool:
        """Whether a module is surely one of these files."""
        name = module.lstrip(".")
        dots = len(module) - len(name)
        relative = name.replace(".", "/")
        if dots:
            base = posixpath.dirname(self._path)
            for _ in range(dots - 1):
                if not base:
                    return False
                base = posixpath.dirname(base)
            beside = f"{base}/{relative}".strip("/")
            return next((one for end in _PYTHON_ENDS if (one := beside + end) in self._known), "") in targets
        ends = (f"{relative}.py", f"{relative}.pyi", f"{relative}/__init__.py")
        if not name or not any(one.endswith(ends) and self._is_module(one, ends) for one in targets):
            return False
        return sum(one.endswith(ends) and self._is_module(one, ends) for one in self._known) == 1

    def _is_module(self, key: str, ends: Sequence[str]) -> bool:
        """Whether a file may be imported by the name of which `ends` are the paths."""
        end = next(end for end in ends if key.endswith(end))
        root = key[: -len(end)]
        if root and not root.endswith("/"):
            return False
        root = root.rstrip("/")
        if not root:
            return True
        if f"{root}/__init__.py" in self._known:
            return False
        near = self._path.startswith(f"{root}/")
        return near or posixpath.basename(root) in SOURCE_FOLDERS or end.count("/") > 0

    # TypeScript and JavaScript ----------------------------------------------------------------------------------------

    def _script(self, name: str, targets: Collection[str]) -> Iterator[_ImportedName]:
        for pattern in (_NAMED, _REQUIRED):
            for found in pattern.finditer(self._text):
                if name not in found["many"] or self._script_file(found["module"]) not in targets:
                    continue
                bound = pattern is _REQUIRED or found["word"] == "import"
                for item, one in _items(found, _SCRIPT_ITEM):
                    if item == name:
                        yield replace(one, is_bound=bound)

    def _script_modules(self, targets: Collection[str]) -> list[_ImportedName]:
        return [
            _named(found, "local" if found["local"] else "held")
            for found in _NAMESPACE.finditer(self._text)
            if self._script_file(found["module"]) in targets
        ]

    def _script_file(self, module: str) -> str | None:
        if not module.startswith("."):
            return None
        base = posixpath.normpath(posixpath.join(posixpath.dirname(self._path), module))
        without = _SCRIPT_END.sub("", base)
        names = [f"{one}{end}" for one in dict.fromkeys((base, without)) for end in _SCRIPT_ENDS]
        names += [f"{base}/index{end}" for end in _SCRIPT_ENDS[1:]]
        return next((name for name in names if name in self._known), None)

    # Go ---------------------------------------------------------------------------------------------------------------

    def _go(self, name: str, targets: Collection[str]) -> ImportedUses | None:
        package, clause = self._package, _GO_CLAUSE.search(self._text)
        if package is None or clause is None:
            return None
        if posixpath.dirname(self._path) in map(posixpath.dirname, targets) and clause[1] == package.name:
            return self._go_package(name)
        root = go_module_root(self._path, self._known)
        if not package.import_path or any(go_module_root(one, self._known) != root for one in targets):
            return None  # another module may use a published version
        modules = list[_ImportedName]()
        for found in _GO_IMPORT.finditer(self._text):
            if found["module"] == package.import_path:
                plain = _ImportedName(found.start("module"), package.name, -1, -1)
                modules.append(_named(found, "local") if found["local"] else plain)
        return self._uses(name, (), modules) if modules and name[:1].isupper() else None

    def _go_package(self, name: str) -> ImportedUses | None:
        if (scopes := scopes_of(self._text, self._language)) is None:
            return None
        uses = [one for one in scopes.names(name) if not one.free]
        owners = scopes.owners(uses)
        places = [one.at for one, owner in zip(uses, owners, strict=True) if owner == ANYWHERE]
        if not places or any(one.bound and one.at in places for one in uses) or any(one.unclear for one in uses):
            return None
        return ImportedUses(tuple(places), frozenset(), tuple(at + len(name) for at in places), exports=False)


def _items(found: "re.Match[str]", item: "re.Pattern[str]") -> Iterator[tuple[str, _ImportedName]]:
    """The names of an import's list, each as it is known in the file that it comes from."""
    group = next(one for one in ("many", "few") if found.groupdict().get(one) is not None)
    start = found.start(group)
    plain = _COMMENT.sub(lambda comment: " " * len(comment[0]), found[group]).replace("\\\n", "  ")
    for one in item.finditer(plain):
        named = "name" if one["local"] is None else "local"
        yield one["name"], _ImportedName(start + one.start("name"), one[named], start + one.start(named), found.start())


def _named(found: "re.Match[str]", group: str) -> _ImportedName:
    return _ImportedName(found.start(group), found[group], found.start(group), found.start())


def _bound_at(
    scopes: SyntaxScopes, local: str, imports: Sequence[_ImportedName], written: Collection[int]
) -> list[ScopedName] | None:
    """All uses of the variables that imports bind; None where more than they may bind them (`written`: their names)."""
    imported = {one.bound_at: one.statement for one in imports}
    uses = [one for one in scopes.names(local) if not one.free]
    owners = scopes.owners(uses)
    mine = set[ScopedVariable]()
    for one, owner in zip(uses, owners, strict=True):
        if one.at in imported:
            if owner.scope not in scopes.around(scopes.innermost(imported[one.at])):
                return None  # its braces were read as a block
            mine.add(owner)
    places = [one for one, owner in zip(uses, owners, strict=True) if owner in mine]
    unsure = any((one.bound and one.at not in imported and one.at not in written) or one.unclear for one in places)
    return None if unsure or not imported.keys() <= {one.at for one in places} else places


def _listed(text: str, name: str) -> Iterator["re.Match[str]"]:
    """The places of a name in a module's list of what it exports."""
    for names in _ALL.finditer(text):
        listed = re.compile(rf"(?P<quote>['\"])(?P<name>{re.escape(name)})(?P=quote)")
        yield from listed.finditer(text, names.start("names"), names.end("names"))
