"""Imports of JavaScript and TypeScript."""

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from typing_extensions import override

from fastcoder_lsp.edits.imports.facts import MOST_FACTS, TYPE_KINDS, FileImports, ImportTarget
from fastcoder_lsp.edits.imports.values import (
    BoundName,
    ImportLine,
    ImportStyle,
    ImportSyntax,
    NameSought,
    below_head,
    line_end,
    without_comments,
)
from fastcoder_lsp.edits.values import Edit
from fastcoder_lsp.syntax import SCRIPT

ENDINGS: Final = (".ts", ".tsx", ".js", ".jsx", ".mts", ".cts", ".mjs", ".cjs")
_NAME: Final = r"[A-Za-z_$][\w$]*"
_IMPORT: Final = re.compile(
    r"^(?P<indent>[ \t]*)import\s*(?P<type>\btype\b(?!\s*(?:,|from\b)))?\s*"
    r"(?:(?P<clause>[\w$*{][^;'\"`()]*?)\s*\bfrom\s*)?(?P<quote>['\"])(?P<source>[^'\"\n]+)(?P=quote)[ \t]*;?",
    re.MULTILINE,
)
_REQUIRE: Final = re.compile(
    rf"^(?P<indent>[ \t]*)(?:const|let|var)\s+(?P<clause>{_NAME}|\{{[^}}=]*\}})\s*=\s*"
    r"require\(\s*(?P<quote>['\"])(?P<source>[^'\"\n]+)(?P=quote)\s*\)[ \t]*;?",
    re.MULTILINE,
)
_LIST: Final = re.compile(r"\{([^}]*)\}")
_MEMBER: Final = re.compile(rf"(?:(type)\s+(?!as\b))?({_NAME})(?:\s+as\s+({_NAME})|\s*:\s*({_NAME}))?")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_EXPORTED: Final = re.compile(
    rf"^export\s+(?P<default>default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?"
    rf"(?:(?:const\s+)?enum|function\s*\*?|class|const|let|var|(?P<type>interface|type))\s+(?P<name>{_NAME})",
    re.MULTILINE,
)
_EXPORT_LIST: Final = re.compile(r"^export\s*(?:type\s*)?\{([^}]*)\}(?!\s*from)", re.MULTILINE)
_GLOBALS: Final = frozenset(
    [
        "Array",
        "Boolean",
        "Date",
        "Error",
        "Function",
        "JSON",
        "Map",
        "Math",
        "Number",
        "Object",
        "Promise",
        "Proxy",
        "Reflect",
        "RegExp",
        "Set",
        "String",
        "Symbol",
        "WeakMap",
        "WeakSet",
        "BigInt",
        "Intl",
        "console",
        "window",
        "document",
        "globalThis",
        "process",
        "Buffer",
        "URL",
        "URLSearchParams",
        "fetch",
        "setTimeout",
        "require",
        "clearTimeout",
        "setInterval",
        "clearInterval",
        "module",
        "exports",
        "undefined",
        "NaN",
        "Infinity",
        "parseInt",
        "parseFloat",
        "isNaN",
        "Record",
        "Partial",
        "Required",
        "Readonly",
        "Pick",
        "Omit",
        "Exclude",
        "Extract",
        "NonNullable",
        "Parameters",
        "ReturnType",
        "InstanceType",
        "Awaited",
        "Event",
        "Iterable",
        "Iterator",
        "AsyncIterable",
        "Response",
        "Request",
        "Headers",
        "ReadableStream",
        "Uint8Array",
        "ArrayBuffer",
        "TextEncoder",
        "TextDecoder",
        "HTMLElement",
        "Element",
        "Node",
        "FormData",
        "Blob",
        "File",
        "AbortController",
        "AbortSignal",
        "crypto",
        "performance",
        "localStorage",
        "navigator",
        "location",
        "alert",
        "JSX",
        "React",
        "describe",
        "it",
        "test",
        "expect",
        "beforeEach",
        "afterEach",
        "beforeAll",
        "afterAll",
        "async",
        "await",
        "of",
        "type",
        "as",
        "from",
        "get",
        "set",
        "static",
        "this",
        "super",
        "new",
        "class",
        "function",
        "return",
        "typeof",
        "keyof",
        "infer",
        "is",
        "never",
        "any",
        "unknown",
        "string",
        "number",
        "boolean",
        "object",
        "symbol",
        "void",
        "null",
        "true",
        "false",
        "if",
        "else",
        "for",
        "while",
        "do",
        "switch",
        "case",
        "default",
        "break",
        "continue",
        "throw",
        "try",
        "catch",
        "finally",
        "delete",
        "in",
        "instanceof",
        "let",
        "const",
        "var",
        "export",
        "import",
        "extends",
        "implements",
        "interface",
        "enum",
        "namespace",
        "declare",
        "readonly",
        "abstract",
        "public",
        "private",
        "protected",
    ]
) - {"React", "describe", "it", "test", "expect", "beforeEach", "afterEach", "beforeAll", "afterAll"}
_RUNNERS: Final = frozenset({"vitest", "@jest/globals", "bun:test", "node:test", "mocha", "chai"})
"""Their functions may be global."""
_PASSED_ON: Final = re.compile(r"^export\s*(?:type\s*)?(?:\{[^}]*\}|\*(?:\s*as\s+\w+)?)\s*from\b[^\n]*", re.MULTILINE)
_PASSED_LIST: Final = re.compile(r"^export\s*(?:type\s*)?\{([^}]*)\}\s*from\b", re.MULTILINE)
_LOCAL: Final = re.compile(r"\.{1,2}(?:/|$)")
_HEAD: Final = re.compile(
    r"(?:#![^\n]*\n)?(?:\s*(?://[^\n]*|/\*.*?\*/)[ \t]*\n)*(?:\s*['\"]use \w+['\"];?[ \t]*\n)*", re.DOTALL
)
_STYLE: Final = re.compile(r"\.(?:css|less|sass|scss|styl)(?:\?.*)?$")
_MOST_COMPARED: Final = 1_000  # files
_MODULES: Final = frozenset({".mjs", ".mts", ".cts", ".ts", ".tsx"})
_WIDEST: Final = 100


def _far_first(line: ImportLine) -> tuple[object, ...]:
    """Packages before paths, farther paths first."""
    ups = line.source.count("../") if _LOCAL.match(line.source) else 1000
    return -ups, line.source.lower()


class ScriptImports(ImportSyntax):
    """`import { a } from 'b'`, `const a = require('b')`."""

    name = "script"
    languages = SCRIPT
    endings = ENDINGS
    keys = (
        _far_first,
        lambda line: (line.source.lower(),),
        lambda line: (line.source,),
        lambda line: (line.form.endswith("type"), line.source.lower()),
        lambda line: (not line.form.endswith("type"), line.source.lower()),
        lambda line: (not line.form.endswith("type"), *_far_first(line)),
        lambda line: (len(line.spelling),),
    )

    @override
    def statements(self, text: str) -> list[ImportLine]:
        found = [*self._read(text, _IMPORT), *(self._read(text, _REQUIRE) if "require" in text else ())]
        passed_on = [
            ImportLine(one.start(), one.end(), "", (), "export", None, guarded=True)
            for one in _PASSED_ON.finditer(text)
        ]
        return sorted([*found, *passed_on], key=lambda line: line.start)

    def _read(self, text: str, pattern: "re.Pattern[str]") -> Iterator[ImportLine]:
        for found in pattern.finditer(text):
            start = found.end("indent")
            members: tuple[int, int] | None = None
            names = list[BoundName]()
            typed = pattern is _IMPORT and found["type"] is not None
            if found["clause"]:
                begin, stop = found.span("clause")
                clean = without_comments(text[begin:stop], _COMMENT)
                if (inner := _LIST.search(clean)) is not None:
                    members = begin + inner.start(1), begin + inner.end(1)
                    names += _members(inner, begin, typed=typed)
                    clean = clean[: inner.start()] + " " * len(inner[0]) + clean[inner.end() :]
                if (all_of := re.search(rf"\*\s*as\s+({_NAME})", clean)) is not None:
                    names.append(BoundName(all_of[1], "*", begin + all_of.start(), begin + all_of.end()))
                    clean = clean[: all_of.start()] + " " * len(all_of[0]) + clean[all_of.end() :]
                if (first := re.search(_NAME, clean)) is not None:
                    member = "default" if pattern is _IMPORT else "*"
                    kind = "type" if typed else "" if pattern is _IMPORT else "require"
                    names.append(BoundName(first[0], member, begin + first.start(), begin + first.end(), kind))
            form = "require" if pattern is _REQUIRE else "import type" if typed else "import"
            end = line_end(text, found.end())
            yield ImportLine(
                start, end, found["source"], tuple(names), form, members, bool(found["indent"]), False, found[0]
            )

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        own = {found["name"]: "default" if found["default"] else found["name"] for found in _EXPORTED.finditer(text)}
        for found in _EXPORT_LIST.finditer(text):
            for one in _MEMBER.finditer(without_comments(found[1], _COMMENT)):
                own[one[2] if one[3] == "default" else one[3] or one[2]] = one[3] or one[2]
        for found in _PASSED_LIST.finditer(text):
            for one in _MEMBER.finditer(without_comments(found[1], _COMMENT)):
                own.setdefault(one[3] or one[2], one[3] or one[2])
        types = frozenset(found["name"] for found in _EXPORTED.finditer(text) if found["type"])
        named = tuple(own.items())[:MOST_FACTS]
        return FileImports(self.imported(text, path), named, module_of(path), types=types)

    @override
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        inline = line.form == "import" and name.kind == "type"
        kind = "require" if line.form == "require" else "inline type" if inline else name.kind
        return ImportTarget(resolved_source(line.source, path), name.member, kind)

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> int:
        source = line.source
        if source.startswith("node:"):
            return 0
        if source.startswith(("@/", "~/", "#")):
            return 2
        return 3 if _LOCAL.match(source) else 1

    @override
    def form(self, target: ImportTarget) -> str:
        return "require" if target.kind == "require" else "import type" if target.kind == "type" else "import"

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        end = ";" if style.semicolon else ""
        spelled = f"{style.quote}{source}{style.quote}"
        if target.kind == "require":
            said = target.member if target.member == name else f"{target.member}: {name}"
            return f"const {name if target.member == '*' else f'{{ {said} }}'} = require({spelled}){end}"
        lead = "import type" if target.kind == "type" else "import"
        clause = {"default": name, "*": f"* as {name}"}.get(target.member, f"{{ {self.member_text(name, target)} }}")
        return f"{lead} {clause} from {spelled}{end}"

    @override
    def member_text(self, name: str, target: ImportTarget) -> str:
        return "type " * (target.kind == "inline type") + super().member_text(name, target)

    @override
    def fitting(self, target: ImportTarget, asked: NameSought, *, typed: bool) -> ImportTarget | None:
        if not typed:
            return target._replace(kind="")
        own = {kind for line in asked.lines if (kind := _type_style(line)) is not None}
        kind = "type" if target.member in ("*", "default") else own.pop() if len(own) == 1 else target.kind
        return target._replace(kind=kind)

    @override
    def extended(self, text: str, line: ImportLine, name: str, target: ImportTarget) -> Edit | None:
        if target.member in ("*", "default") or line.guarded:
            if (
                target.member == "default"
                and line.members is not None
                and not any(one.member in ("*", "default") for one in line.names)
            ):
                at = line.members[0] - 1
                return Edit(at, at, f"{name}, ") if line.form != "require" else None
            return None
        said = self.member_text(name, target)
        if line.form == "require":
            said = target.member if target.member == name else f"{target.member}: {name}"
        if line.members is None:
            if line.form == "import" and len(line.names) == 1 and line.names[0].member == "default":
                return Edit(line.names[0].end, line.names[0].end, f", {{ {said} }}")
            return None
        edit = self.added_member(text, line, said)
        if edit is None or "\n" in text[line.start : line.end]:
            return edit
        widest = max([_WIDEST, *(len(one) for one in text[: line.end].split("\n") if one.startswith("import"))])
        if line.end - line.start + len(edit.text) <= widest:
            return edit
        start, end = line.members
        inner = text[start : edit.start] + edit.text + text[edit.end : end]
        tab = (
            "\t"
            if re.search(r"^\t", text, re.MULTILINE)
            else "  "
            if not re.search(r"^    \S", text, re.MULTILINE) or re.search(r"^  \S", text, re.MULTILINE)
            else "    "
        )
        return Edit(
            start, end, "\n" + ",\n".join(f"{tab}{one.strip()}" for one in inner.split(",") if one.strip()) + ",\n"
        )

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        if before.rstrip().endswith((".", "function", "class", "#")) and not before.rstrip().endswith("..."):
            return False
        # A key of an object, a member of a type, a label.
        return not (re.match(r"\s*\??:(?!:)", after) and not re.search(r"\?[^:]*$|\bcase\s+$", before))

    @override
    def spelled(self, target: ImportTarget, asked: NameSought) -> str | None:
        said = asked.spellings(target)
        if target.source == module_of(asked.path):
            return None
        if not target.source.startswith("/"):
            return target.source
        own = [line.source for line in asked.lines]
        there = [one for where, one in said if _same_module(one, where, target.source)]
        aliases = Counter(one for one in there if not _LOCAL.match(one))
        if aliases:
            alias = aliases.most_common(1)[0][0]
            mine = [
                one for one in own if _LOCAL.match(one) or one.partition("/")[0] == alias.partition("/")[0]
            ] or there
            if 2 * sum(not _LOCAL.match(one) for one in mine) > len(mine):
                return alias
        near = [one for one in own if _LOCAL.match(one)]
        ending = Counter(map(_ending, near or [one for one in there if _LOCAL.match(one)])).most_common(1)
        indexed = [one for one in there if re.search(r"/index(?:\.\w+)?$", one)]
        index = "/index" if there and 2 * len(indexed) > len(there) else ""
        return relative_source(target.source, asked.path) + index + (ending[0][0] if ending else "")

    @override
    def is_global(self, target: ImportTarget, lines: Sequence[ImportLine]) -> bool:
        return target.source in _RUNNERS and all(line.source != target.source for line in lines)

    @override
    def chosen(self, asked: NameSought) -> ImportTarget | None:
        if (module := _is_module(asked)) is not None:
            said = [(where, one) for where, one in asked.said if (one.target.kind != "require") == module]
            if asked.said and not said:
                return None
            asked = replace(asked, said=said)
        target = super().chosen(asked)
        return _as_type(target, asked) if target is not None and not asked.said else target

    @override
    def sorted_with(self, lines: Sequence[ImportLine]) -> list[ImportLine]:
        found = [line for line in lines if line.names]
        first = found[0].start if found else len(lines) and lines[-1].end
        runs = [line.start for line in lines if not line.names and not _STYLE.search(line.source)]
        return [line for line in lines if line.start >= max([first, *runs]) and line.start not in runs]

    @override
    def is_builtin(self, name: str) -> bool:
        return name in _GLOBALS

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        head = _HEAD.match(text)
        at = head.end() if head is not None else 0
        end = at
        for line in self.statements(text):
            if line.form == "import" and line.start >= end and not _COMMENT.sub("", text[end : line.start]).strip():
                end = line.end
        if end > at:
            return end, "\n", ""
        return below_head(text, at)


def _type_style(line: ImportLine) -> str | None:
    """The kind of a statement's types."""
    if line.form == "import" and any(one.kind == "type" for one in line.names):
        return "inline type"
    return "type" if line.form == "import type" else None


def _as_type(target: ImportTarget, asked: NameSought) -> ImportTarget:
    """The target of a name that no file imports: a type's as all files import those, if they do it in one way."""
    facts = (asked.table.facts(one) for one in asked.table.paths()[:_MOST_COMPARED])
    files = [one for one in facts if one is not None]
    types = {name for one in files for name in one.types}
    kinds = Counter(
        named.target.kind
        for one in files
        for named in one.imported
        if named.target.kind in TYPE_KINDS or named.target.member in types
    )
    alone = asked.name in types and kinds.total() > 0 and all(kind in TYPE_KINDS for kind in kinds)
    return target._replace(kind=kinds.most_common(1)[0][0]) if alone else target


def _is_module(asked: NameSought) -> bool | None:
    """Whether a file imports by `import`, not by `require`; None where that does not show."""
    suffix, forms = PurePosixPath(asked.path).suffix, {line.form for line in asked.lines}
    facts = asked.table.facts(asked.path)
    if suffix in _MODULES or suffix == ".cjs":
        return suffix != ".cjs"
    if forms - {"require"} or (facts is not None and facts.defined):
        return True
    return False if forms else None


def _members(inner: "re.Match[str]", begin: int, *, typed: bool) -> Iterator[BoundName]:
    for one in _MEMBER.finditer(inner[1]):
        at = begin + inner.start(1)
        kind = "type" if typed or one[1] else ""
        yield BoundName(one[3] or one[4] or one[2], one[2], at + one.start(), at + one.end(), kind)


def module_of(path: str) -> str:
    """A module's path from the workspace folder, with a slash before it and no ending."""
    pure = PurePosixPath("/", path)
    name = pure.name.removesuffix(".d.ts")
    stem = name if name != pure.name else pure.stem if pure.suffix in ENDINGS else pure.name
    return str(pure.parent if stem == "index" else pure.parent / stem)


def resolved_source(source: str, path: str) -> str:
    """A source; a relative one becomes a path from the workspace folder."""
    if not _LOCAL.match(source):
        return source
    return module_of(posixpath.normpath(posixpath.join("/", posixpath.dirname(path), source)).lstrip("/"))


def relative_source(target: str, path: str) -> str:
    """The relative source of a module at a path from the workspace folder."""
    found = posixpath.relpath(target, posixpath.join("/", posixpath.dirname(path)))
    return found if found.startswith(".") else f"./{found}"


def _same_module(source: str, path: str, target: str) -> bool:
    found = resolved_source(source, path)
    return found == target or (not found.startswith("/") and target.endswith("/" + found.lstrip("@~#/")))


def _ending(source: str) -> str:
    ending = posixpath.splitext(source)[1]
    return ending if ending in ENDINGS else ""
