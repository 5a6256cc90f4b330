"""PHP's `use` statements."""

import re
from collections.abc import Callable
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
    above_comment,
    line_end,
)

_USE: Final = re.compile(
    r"^use[ \t]+(?P<kind>function[ \t]+|const[ \t]+)?\\?(?P<path>[\w\\]+)(?:[ \t]+as[ \t]+(?P<alias>\w+))?[ \t]*;"
    r"|^use[ \t]+(?P<kinds>function[ \t]+|const[ \t]+)?\\?(?P<base>[\w\\]+?)\\?\{(?P<group>[^{}]*)\}[ \t]*;"
    r"|^use[ \t]+(?P<list>\\?[\w\\]+(?:[ \t]+as[ \t]+\w+)?(?:\s*,\s*\\?[\w\\]+(?:[ \t]+as[ \t]+\w+)?)+)\s*;",
    re.MULTILINE,
)
_ONE: Final = re.compile(r"\\?([\w\\]+)(?:[ \t]+as[ \t]+(\w+))?")
_NAMESPACE: Final = re.compile(r"^namespace[ \t]+([\w\\]+)[ \t]*;[^\n]*\n?", re.MULTILINE)
_DEFINED: Final = re.compile(
    r"^(?:(?:abstract|final|readonly)\s+)*(?:class|interface|trait|enum)\s+(\w+)", re.MULTILINE
)
_WORDS: Final = frozenset(
    [
        "array",
        "bool",
        "callable",
        "class",
        "const",
        "echo",
        "else",
        "elseif",
        "false",
        "float",
        "fn",
        "for",
        "foreach",
        "function",
        "if",
        "int",
        "iterable",
        "mixed",
        "never",
        "new",
        "null",
        "object",
        "parent",
        "return",
        "self",
        "static",
        "string",
        "true",
        "use",
        "void",
        "while",
    ]
)
_HEAD: Final = re.compile(
    r"^<\?php(?:(?!\?>)[^\n])*\n(?:\s*(?://[^\n]*|/\*.*?\*/|declare\([^)]*\);)[ \t]*\n)*", re.DOTALL | re.MULTILINE
)
_PLACES: Final = re.compile(
    r"(?:\bnew|\bextends|\bimplements|\binstanceof|\buse|\bcatch\s*\(|[(,|:?&{;#\[!=>.]|\breturn|\bpublic|\bprivate"
    r"|\bprotected|\breadonly|\bstatic|\bthrow|=>|\?\?|^)\s*$"
)


class PhpImports(ImportSyntax):
    r"""`use A\\B\\C;`."""

    name = "php"
    languages = frozenset({"php"})
    endings = (".php",)
    keys = (
        lambda line: (line.form, line.spelling.lower().replace("\\", " ")),
        lambda line: (line.form, line.spelling.lower()),
        lambda line: (line.form, line.spelling),
        lambda line: (line.form, len(line.spelling)),
    )

    @override
    def statements(self, text: str) -> list[ImportLine]:
        found = list[ImportLine]()
        for one in _USE.finditer(text):
            end = line_end(text, one.end())
            if one["path"]:
                source, _, member = one["path"].rpartition("\\")
                form = f"use {one['kind'] or ''}".strip()
                name = BoundName(one["alias"] or member, member, one.start("path"), one.end())
                spelling = text[one.start("path") : one.end() - 1].strip()
                found.append(ImportLine(one.start(), end, source, (name,), form, spelling=spelling))
                continue
            group = "group" if one["base"] else "list"
            for part in _ONE.finditer(text, *one.span(group)):
                path = f"{one['base']}\\{part[1]}" if one["base"] else part[1]
                source, _, member = path.rpartition("\\")
                name = BoundName(part[2] or member, member, *part.span())
                form = f"use {one['kinds'] or ''}".strip()
                found.append(ImportLine(one.start(), end, source, (name,), form, spelling=path))
        return found

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        namespace = _NAMESPACE.search(text)
        own = tuple((name, name) for name in dict.fromkeys(_DEFINED.findall(text)))[:MOST_FACTS]
        return FileImports(self.imported(text, path), own, namespace[1] if namespace is not None else "")

    @override
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        return ImportTarget(line.source, name.member, line.form.removeprefix("use").strip())

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> str:
        return line.form

    @override
    def form(self, target: ImportTarget) -> str:
        return f"use {target.kind}".strip()

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        path = f"{source}\\{target.member}" if source else target.member
        return f"{self.form(target)} {path}{'' if name == target.member else f' as {name}'};"

    @override
    def chosen(self, asked: NameSought) -> ImportTarget | None:
        if any(where == asked.package or where in asked.starred for _, where, _ in asked.defined):
            return None
        if not asked.package and _HEAD.search(asked.text) is None:  # a template without a place for it
            return None
        found = agreed_target(asked.said, asked.defined, asked.path, asked.own)
        if found is None or found.source in asked.starred or (asked.name[0].islower() and len(asked.said) < 2):
            return None
        return found

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        before = before.rstrip()
        if before.endswith(("->", "::", "\\", "$", "class", "interface", "trait", "function", "const", "namespace")):
            return False
        if before.endswith("case") and re.match(r"\s*[;=]", after):  # a member of an enum
            return False
        if name[0].isupper():
            return re.match(r"\s*(?:::|\(|\$|\||&|\{|\)|,|;|\.\.\.|\]|\w|\?|$)", after) is not None or after.startswith(
                "\\"
            )
        return re.match(r"\s*\(", after) is not None and not before.endswith("new")

    @override
    def is_builtin(self, name: str) -> bool:
        return name.lower() in _WORDS

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        namespace = _NAMESPACE.search(text)
        head = _HEAD.search(text)
        at = namespace.end() if namespace is not None else above_comment(text, head.end()) if head is not None else 0
        return at, "" if text[:at].endswith("\n\n") else "\n", "\n" if text[at:].startswith("\n") else "\n\n"
