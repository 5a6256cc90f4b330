"""Imports of Java and Kotlin."""

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

from typing_extensions import override

from fastcoder_lsp.edits.imports.agreement import agreed_target
from fastcoder_lsp.edits.imports.facts import MOST_FACTS, FileImports, ImportTarget
from fastcoder_lsp.edits.imports.values import (
    BoundName,
    ImportLine,
    ImportStyle,
    ImportSyntax,
    NameSought,
    SourceTable,
    line_end,
)

_IMPORT: Final = re.compile(
    r"^import[ \t]+(?P<static>static[ \t]+)?(?P<path>[\w.`]+?)(?P<star>\.\*)?"
    r"(?:[ \t]+as[ \t]+(?P<alias>\w+))?[ \t]*;?[ \t]*$",
    re.MULTILINE,
)
_PACKAGE: Final = re.compile(r"^package[ \t]+([\w.`]+)[^\n]*\n?", re.MULTILINE)
_MODIFIERS: Final = (
    r"(?:@\w+(?:\([^)\n]*\))?\s+)*(?:(?:public|abstract|final|sealed|data|open|internal|value|annotation|inline|static"
    r"|strictfp|non-sealed|suspend|operator|infix|tailrec|const|expect|actual|external|override|lateinit)\s+)*"
)
_TYPE: Final = re.compile(
    rf"^{_MODIFIERS}(?:class|interface|fun\s+interface|enum|enum\s+class|record|object|@interface|typealias)\s+(\w+)",
    re.MULTILINE,
)
_TOP: Final = re.compile(rf"^{_MODIFIERS}(?:fun|val|var)\s+(?:<[^>\n]*>\s*)?(\w+)\s*[(=:<]", re.MULTILINE)
_PUBLIC: Final = re.compile(r"\bpublic\s")
_HIDDEN: Final = "."  # the member of a class that only its package sees
_CASE: Final = re.compile(r"\bcase\s+(?:\w+\s*,\s*)*$")
_BUILTIN: Final = frozenset(
    [
        "String",
        "Object",
        "Integer",
        "Long",
        "Double",
        "Float",
        "Short",
        "Byte",
        "Character",
        "Boolean",
        "Void",
        "Number",
        "Math",
        "System",
        "Thread",
        "Runnable",
        "Iterable",
        "Comparable",
        "CharSequence",
        "StringBuilder",
        "StringBuffer",
        "Exception",
        "RuntimeException",
        "Error",
        "Throwable",
        "Override",
        "Deprecated",
        "SuppressWarnings",
        "FunctionalInterface",
        "SafeVarargs",
        "Class",
        "ClassLoader",
        "Enum",
        "Record",
        "Process",
        "ProcessBuilder",
        "AutoCloseable",
        "Cloneable",
        "InterruptedException",
        "IllegalArgumentException",
        "IllegalStateException",
        "NullPointerException",
        "IndexOutOfBoundsException",
        "ArithmeticException",
        "ClassCastException",
        "UnsupportedOperationException",
        "AssertionError",
        "StackOverflowError",
        "OutOfMemoryError",
        "NumberFormatException",
        "CloneNotSupportedException",
        "ThreadLocal",
        "Appendable",
        "Readable",
        "StackTraceElement",
        "Int",
        "Char",
        "Any",
        "Unit",
        "Nothing",
        "Array",
        "List",
        "Map",
        "Set",
        "MutableList",
        "MutableMap",
        "MutableSet",
        "Pair",
        "Triple",
        "Collection",
        "Sequence",
        "Lazy",
        "Result",
        "Regex",
        "IntArray",
        "ByteArray",
        "this",
        "super",
        "null",
        "true",
        "false",
        "if",
        "else",
        "for",
        "while",
        "when",
        "return",
        "class",
        "interface",
        "fun",
        "val",
        "var",
        "import",
        "package",
        "throw",
        "throws",
        "new",
        "in",
        "is",
        "as",
        "try",
        "catch",
        "finally",
        "do",
        "break",
        "continue",
        "object",
        "companion",
        "public",
        "private",
        "protected",
        "static",
        "final",
        "void",
        "int",
        "long",
        "double",
        "float",
        "boolean",
        "char",
        "byte",
        "short",
        "println",
        "print",
        "require",
        "check",
        "error",
        "listOf",
        "mapOf",
        "setOf",
        "mutableListOf",
        "arrayOf",
        "lazy",
        "run",
        "let",
        "apply",
        "also",
        "with",
    ]
)
_STANDARD: Final = ("java.util", "java.io", "java.nio", "java.time", "java.net", "java.math", "kotlin.")
_KOTLIN_ONLY: Final = frozenset({"List", "Map", "Set", "Collection", "Pair", "Regex", "Result", "Array", "Sequence"})


class JvmImports(ImportSyntax):
    """`import a.b.C`."""

    name = "jvm"
    languages = frozenset({"java", "kotlin"})
    endings = (".java", ".kt", ".kts")
    keys = (
        lambda line: (line.form != "import static", line.spelling),
        lambda line: (line.form == "import static", line.spelling),
        lambda line: (line.spelling,),
        lambda line: (line.spelling.startswith(("java.", "javax.", "kotlin.")), line.spelling),
        lambda line: (line.spelling.lower(),),
    )

    @override
    def statements(self, text: str) -> list[ImportLine]:
        found = list[ImportLine]()
        for one in _IMPORT.finditer(text):
            source, _, member = one["path"].rpartition(".")
            form = "import static" if one["static"] else "import"
            spelling = one["path"] + (one["star"] or "")
            if one["star"]:
                line = ImportLine(
                    one.start(), line_end(text, one.end()), one["path"], (), form, None, False, True, spelling
                )
            else:
                name = BoundName(one["alias"] or member.strip("`"), member, one.start("path"), one.end())
                line = ImportLine(
                    one.start(), line_end(text, one.end()), source, (name,), form, None, False, False, spelling
                )
            found.append(line)
        return found

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        package = _PACKAGE.search(text)
        if path.endswith(".java"):
            own = {one[1]: one[1] if _PUBLIC.search(one[0]) else _HIDDEN for one in _TYPE.finditer(text)}
        else:
            own = {name: name for name in (*_TYPE.findall(text), *_TOP.findall(text))}
        return FileImports(
            self.imported(text, path),
            tuple(own.items())[:MOST_FACTS],
            package[1] if package is not None else "",
        )

    @override
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        return ImportTarget(line.source, name.member, "static" if line.form == "import static" else "")

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> str:
        return "static" if line.form == "import static" else line.source.partition(".")[0]

    @override
    def leads(self, form: str, table: SourceTable, path: str) -> bool:
        both = list[tuple[str, bool]]()
        for other in table.paths():
            facts = table.facts(other)
            kinds = [one.target.kind == "static" for one in facts.imported] if facts is not None else []
            if len(set(kinds)) == 2:
                both.append((other, kinds[0]))
        for folder in map(str, PurePosixPath(path).parents):
            if votes := [first for other, first in both if folder == "." or other.startswith(folder + "/")]:
                return (2 * sum(votes) >= len(votes)) == (form == "import static")
        return form == "import static"

    @override
    def form(self, target: ImportTarget) -> str:
        return "import static" if target.kind else "import"

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        path = f"{source}.{target.member}" if source else target.member
        alias = "" if name == target.member.strip("`") else f" as {name}"
        return f"{self.form(target)} {path}{alias}{';' if style.semicolon else ''}"

    @override
    def chosen(self, asked: NameSought) -> ImportTarget | None:
        if any(where == asked.package or where in asked.starred for _, where, _ in asked.defined):
            return None
        found = agreed_target(
            asked.said,
            [one for one in asked.defined if one.member != _HIDDEN],
            asked.path,
            asked.own,
            lambda target: target.source.startswith(_STANDARD),
        )
        if found is None or found.source in asked.starred or (asked.name[0].islower() and len(asked.said) < 2):
            return None
        return found

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        before = before.rstrip()
        if before.endswith(
            (".", "::", "class", "interface", "enum", "record", "fun", "val", "var", "object", "package")
        ):
            return False
        if _CASE.search(before + " ") and re.match(r"\s*(?:[:,]|->)", after):  # a member of an enum
            return False
        if name[0].isupper():
            return not re.match(r"\s*=(?!=)", after)
        return re.match(r"\s*(?:\(|<[^>\n]*>\(|\{)", after) is not None

    @override
    def is_builtin(self, name: str) -> bool:
        return name in _BUILTIN - _KOTLIN_ONLY

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        package = _PACKAGE.search(text)
        if package is None:
            return 0, "", "\n\n"
        rest = text[package.end() :]
        return package.end(), "\n", "\n" if rest.startswith("\n") else "\n\n"
