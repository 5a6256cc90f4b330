"""Rust's `use` declarations."""

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from typing_extensions import override

from fastcoder_lsp.edits.imports.agreement import agreed_target
from fastcoder_lsp.edits.imports.facts import MOST_FACTS, FileImports, ImportTarget
from fastcoder_lsp.edits.imports.values import (
    MEMBER_KEYS,
    BoundName,
    ImportLine,
    ImportStyle,
    ImportSyntax,
    NameSought,
    below_head,
    line_end,
    without_comments,
)
from fastcoder_lsp.edits.syntax_tree import parsed
from fastcoder_lsp.edits.values import Edit

_USE: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?:#\[[^\n]*\][ \t]*)?(?P<pub>pub(?:\([^)]*\))?[ \t]+)?use[ \t\n]+(?P<tree>[^;]+);",
    re.MULTILINE,
)
_DERIVE: Final = re.compile(r"^[ \t]*#\[derive\(([^()\[\]]*)\)\]", re.MULTILINE)
_ABOVE: Final = re.compile(r"\s*(?:#\[(?:[^\[\]]|\[[^\[\]]*\])*\][ \t]*(?://[^\n]*)?|///[^\n]*|/\*\*[^\n]*\*/[ \t]*)\n")
"""An attribute, or a line of a doc comment."""
_MOST_ABOVE: Final = 40  # lines of an item's attributes and doc comment
_PIECE: Final = re.compile(
    r"(?P<path>[\w#]+(?:\s*::\s*[\w#]+)*)?\s*(?P<glob>(?:::\s*)?\*)?\s*(?:\bas\s+(?P<alias>\w+))?"
)
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINED: Final = re.compile(
    r"^pub(?:\([^)]*\))?\s+(?:(?:async|unsafe|const|extern\s+\"C\"|default)\s+)*"
    r"(?:fn|struct|enum|trait|type|const|static|union)\s+(?:mut\s+)?(\w+)",
    re.MULTILINE,
)
_CONTEXT: Final = frozenset({"std", "core", "alloc"})
_BUILTIN: Final = frozenset(
    [
        "Option",
        "Some",
        "None",
        "Result",
        "Ok",
        "Err",
        "Vec",
        "Box",
        "String",
        "ToString",
        "ToOwned",
        "Clone",
        "Copy",
        "Send",
        "Sync",
        "Sized",
        "Drop",
        "Fn",
        "FnMut",
        "FnOnce",
        "Iterator",
        "IntoIterator",
        "Extend",
        "DoubleEndedIterator",
        "ExactSizeIterator",
        "Default",
        "Eq",
        "PartialEq",
        "Ord",
        "PartialOrd",
        "AsRef",
        "AsMut",
        "Into",
        "From",
        "TryFrom",
        "TryInto",
        "FromIterator",
        "Debug",
        "Hash",
        "drop",
        "vec",
        "println",
        "print",
        "eprintln",
        "eprint",
        "format",
        "panic",
        "assert",
        "assert_eq",
        "assert_ne",
        "debug_assert",
        "todo",
        "unimplemented",
        "unreachable",
        "write",
        "writeln",
        "matches",
        "dbg",
        "include_str",
        "concat",
        "env",
        "cfg",
        "self",
        "Self",
        "super",
        "crate",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "isize",
        "f32",
        "f64",
        "bool",
        "char",
        "str",
        "std",
        "core",
        "alloc",
        "as",
        "async",
        "await",
        "break",
        "const",
        "continue",
        "dyn",
        "else",
        "enum",
        "extern",
        "false",
        "fn",
        "for",
        "if",
        "impl",
        "in",
        "let",
        "loop",
        "match",
        "mod",
        "move",
        "mut",
        "pub",
        "ref",
        "return",
        "static",
        "struct",
        "trait",
        "true",
        "type",
        "union",
        "unsafe",
        "use",
        "where",
        "while",
    ]
)
_HEAD: Final = re.compile(
    r"(?:#!(?!\[)[^\n]*\n)?(?:\s*(?://(?!/(?!/))[^\n]*|/\*(?!\*[^*/]).*?\*/|#!\[[^\]]*\])[ \t]*\n)*", re.DOTALL
)
_SEVERAL: Final = frozenset(
    ("Result", "Error", "Ordering", "Entry", "Iter", "Write", "Read", "Context", "Instant", "Display", "Chars", "Range")
)
"""Names of several things in the standard library."""
_UNKNOWN: Final = "crate@?"  # a crate whose files are in no folder `src`
_MOST_MODULES: Final = 100  # inline ones of a file
_WIDEST: Final = 100


class InlineModule(NamedTuple):
    """The body of a `mod x { … }`, and the `use` declarations on lines of their own that are directly in it."""

    start: int
    end: int
    uses: tuple[int, ...]  # where they begin
    globs: frozenset[str]  # the sources of which it uses everything

    def direct(self, lines: Sequence[ImportLine]) -> list[ImportLine]:
        """Those of a text's statements that are directly in the module."""
        starts = [line.start for line in lines]
        before = (lines[number - 1] for use in self.uses if (number := bisect_right(starts, use)))
        return [replace(line, guarded=False) for line in before if line.start >= self.start]


@lru_cache(maxsize=2)
def _modules(text: str) -> list[InlineModule]:
    found, rest = list[InlineModule](), [tree.root] if (tree := parsed(text, "rust")) is not None else []
    while rest and len(found) < _MOST_MODULES:
        for node in rest.pop().named_children:
            body = node.child_by_field_name("body") if node.type == "mod_item" else None
            if body is not None:
                uses = [one.start_byte for one in body.named_children if one.type == "use_declaration"]
                said = [one for at in uses if (one := _USE.match(text, text.rfind("\n", 0, at) + 1)) is not None]
                globs = (re.sub(r"\s+", "", one["tree"]) for one in said if "*" in one["tree"])
                starts = tuple(one.start("tree") for one in said)
                found.append(InlineModule(body.start_byte + 1, body.end_byte, starts, frozenset(globs)))
                rest.append(body)
    return found


def _names_first(member: str) -> tuple[object, ...]:
    """rustfmt's order: modules and functions, types, constants."""
    word = member.split(" ", maxsplit=1)[0]
    return word != "self", 2 if word.isupper() and len(word) > 1 else int(word[:1].isupper()), word


def _rank(line: ImportLine) -> int:
    top = line.source.partition("::")[0]
    return {"crate": 2, "super": 3, "self": 1}.get(top, 4)


class RustImports(ImportSyntax):
    """`use a::b`, `use a::{b, c}`."""

    name = "rust"
    languages = frozenset({"rust"})
    endings = (".rs",)
    separates = True
    member_keys = (_names_first, *MEMBER_KEYS)
    keys = (
        lambda line: (_path(line).lower(),),
        lambda line: (_path(line),),
        lambda line: (_rank(line), _path(line).lower()),
    )

    @override
    def statements(self, text: str) -> list[ImportLine]:
        found = list[ImportLine]()
        for use in _USE.finditer(text):
            begin, stop = use.span("tree")
            tree = without_comments(text[begin:stop], _COMMENT)
            names = list(_leaves(tree, begin, 0, len(tree), ()))
            source, members = _flat(tree, begin)
            everything = "*" in tree
            form = "pub use" if use["pub"] else "use"
            line = ImportLine(
                _with_attributes(text, use.start()),
                line_end(text, use.end()),
                source,
                tuple(names),
                form,
                members,
                bool(use["indent"]),
                everything,
                tree,
            )
            found.append(line)
        return found

    @override
    def facts_of(self, text: str, path: str) -> FileImports:
        own = tuple((name, name) for name in dict.fromkeys(_DEFINED.findall(text)))[:MOST_FACTS]
        module = module_of(path)
        return FileImports(self.imported(text, path), own, "" if module.startswith(_UNKNOWN) else module)

    @override
    def target(self, line: ImportLine, name: BoundName, path: str) -> ImportTarget:
        source, _, member = absolute(name.member, path).rpartition("::")
        return ImportTarget(source, member)

    @override
    def category(self, line: ImportLine, path: str, is_own: Callable[[str], bool]) -> int:
        top = line.source.partition("::")[0]
        return 0 if top in _CONTEXT else 2 if top in ("crate", "self", "super") else 1

    @override
    def form(self, target: ImportTarget) -> str:
        return "use"

    @override
    def rendered(self, name: str, target: ImportTarget, source: str, style: ImportStyle) -> str:
        path = f"{source}::{target.member}" if source else target.member
        return f"use {path};" if name == target.member else f"use {path} as {name};"

    @override
    def extended(self, text: str, line: ImportLine, name: str, target: ImportTarget) -> Edit | None:
        if line.form != "use" or line.guarded or line.everything or text.startswith(("#", "/"), line.start):
            return None
        added = self.member_text(name, target)
        if line.members is None:
            if len(line.names) != 1 or not re.search(r"^use [^;]*\{", text, re.MULTILINE):
                return None
            only = line.names[0]
            last = only.end - len(text[only.start : only.end].rpartition("::")[2])
            both = sorted([text[last : only.end].strip(), added], key=lambda one: (one[:1].isupper(), one))
            return Edit(last, only.end, f"{{{', '.join(both)}}}")
        edit = self.added_member(text, line, added)
        begins = text.rfind("\n", 0, line.start) + 1
        fits = edit is not None and line.end - begins + len(edit.text) <= _WIDEST
        if edit is None or fits or begins < line.start or "\n" in text[line.start : line.end]:
            return edit
        start, end = line.members
        inner = text[start : edit.start] + edit.text + text[edit.end : end]
        rows, row = list[str](), "   "
        for one in (one.strip() for one in inner.split(",") if one.strip()):
            if len(row) + len(one) + 2 > _WIDEST:
                rows.append(row)
                row = "   "
            row += f" {one},"
        return Edit(start, end, "\n" + "\n".join([*rows, row]) + "\n")

    @override
    def chosen(self, asked: NameSought) -> ImportTarget | None:
        crate = module_of(asked.path).partition("::")[0]
        near = [
            one
            for one in asked.said
            if one[1].target.source.partition("::")[0] in ("", crate) or "@" not in one[1].target.source
        ]
        if asked.starred:
            return None
        own = [one for one in asked.defined if one.package.partition("::")[0] == crate]
        return agreed_target(
            near,
            own,
            asked.path,
            asked.own,
            lambda target: target.source.partition("::")[0] in _CONTEXT and asked.name not in _SEVERAL,
        )

    @override
    def hides(self, line: ImportLine) -> bool:
        return not line.guarded and _may_hide(re.sub(r"\s+", "", line.spelling))

    @override
    def homes(self, text: str, lines: Sequence[ImportLine], at: int) -> list[int]:
        found, modules = list[int](), _modules(text)
        if len(modules) >= _MOST_MODULES:
            return found
        for module in sorted((one for one in modules if one.start <= at < one.end), key=lambda one: -one.start):
            if module.uses and not any(_may_hide(one) for one in module.globs - {"super::*"}):
                found.append(module.start)
            if "super::*" not in module.globs:
                return found
        return [*found, 0]

    @override
    def of_home(self, text: str, lines: Sequence[ImportLine], home: int) -> list[ImportLine]:
        module = next((one for one in _modules(text) if home and one.start == home), None)
        return super().of_home(text, lines, home) if module is None else module.direct(lines)

    @override
    def spelled(self, target: ImportTarget, asked: NameSought) -> str | None:
        source = target.source
        crate, sep, rest = source.partition("::")
        if "@" not in crate:
            return source
        module = module_of(asked.path)
        derived = len(self.exported(asked.text, asked.name))  # by a macro, which is another crate's
        if crate != module.partition("::")[0] or source == module or derived == len(_words(asked.text, asked.name)):
            return None
        own = [line.source for line in asked.lines if not line.guarded]
        declared = re.search(rf"^\s*(?:pub\s+)?mod\s+{rest.partition('::')[0]}\b", asked.text, re.MULTILINE)
        if asked.path.endswith("/main.rs") and not declared and not any(one.startswith("crate") for one in own):
            library = asked.path.removesuffix("main.rs") + "lib.rs"
            if asked.table.facts(library) is not None:  # the module may be in that crate only
                return None
        parent = module.rpartition("::")[0]
        uses_super = any(one.startswith("super") for one in own) and not any(one.startswith("crate") for one in own)
        if uses_super and (source == parent or source.startswith(parent + "::")):
            return "super" + source[len(parent) :]
        return f"crate{sep}{rest}"

    @override
    def is_use(self, before: str, name: str, after: str) -> bool:
        before = before.rstrip()
        if before.endswith((".", "::", "fn", "struct", "enum", "trait", "type", "mod", "let", "macro_rules!", "'")):
            return before.endswith("..")
        if re.match(r"\s*:(?!:)", after):  # a field or a parameter
            return False
        if name[0].isupper():
            return True
        return re.match(r"\s*(?:\(|::|!\s*[(\[{])", after) is not None

    @override
    def exported(self, text: str, name: str) -> list[int]:
        tree = parsed(text, "rust")
        if tree is None or re.search(rf"\b(?:struct|enum|trait|type|union|mod)\s+{re.escape(name)}\b", text):
            return []
        places = (at for derive in _DERIVE.finditer(text) for at in _words(text, name, *derive.span(1)))
        return [at for at in places if not tree.quoted(at)]

    @override
    def is_builtin(self, name: str) -> bool:
        return name in _BUILTIN

    @override
    def first_place(self, text: str) -> tuple[int, str, str]:
        head = _HEAD.match(text)
        at = head.end() if head is not None else 0
        return below_head(text, at)


def _may_hide(glob: str) -> bool:
    return not glob.removesuffix("::*").rpartition("::")[2][:1].isupper()  # an enum binds its own variants


def _words(text: str, name: str, start: int = 0, end: int = sys.maxsize) -> list[int]:
    """The offsets of a name in a part of a text, in comments, too."""
    return [one.start() for one in re.compile(rf"(?<!\w){re.escape(name)}(?!\w)").finditer(text, start, end)]


def _with_attributes(text: str, at: int) -> int:
    """The beginning of the item whose line begins at an offset: that of its attributes and its doc comment."""
    start = top = at
    for _ in range(_MOST_ABOVE):
        if not top or not text[(above := text.rfind("\n", 0, top - 1) + 1) : top].strip():
            break
        top = above
        if _ABOVE.fullmatch(text, top, start):
            start = top
    return next(one for one in range(start, len(text)) if text[one] not in " \t")


def _path(line: ImportLine) -> str:
    return re.sub(r"\s+", "", line.spelling).replace("{", "").split(",")[0]


def _flat(tree: str, begin: int) -> tuple[str, tuple[int, int] | None]:
    """The path before a tree's members, and the place of those in one pair of braces at its end."""
    brace = tree.find("{")
    if brace < 0:
        return re.sub(r"\s+", "", tree).partition(" as ")[0].rpartition("::")[0], None
    source = re.sub(r"\s+", "", tree[:brace]).removesuffix("::")
    if tree.count("{") > 1 or not tree.rstrip().endswith("}"):
        return source, None
    return source, (begin + brace + 1, begin + tree.rstrip().rfind("}"))


def _leaves(tree: str, begin: int, at: int, end: int, above: tuple[str, ...]) -> Iterator[BoundName]:
    """The names that a tree binds; `member` is the whole path."""
    if len(above) > 20:
        return
    depth, start = 0, at
    for place in range(at, end + 1):
        sign = tree[place] if place < end else ","
        depth += (sign == "{") - (sign == "}")
        if sign != "," or depth:
            continue
        part = tree[start:place]
        brace = part.find("{")
        if brace >= 0:
            path = re.sub(r"\s+", "", part[:brace]).removesuffix("::")
            stop = part.rfind("}")
            yield from _leaves(
                tree,
                begin,
                start + brace + 1,
                start + (stop if stop >= 0 else len(part)),
                (*above, path) if path else above,
            )
        elif (one := _PIECE.fullmatch(part.strip())) is not None and one["path"] and not one["glob"]:
            path = re.sub(r"\s+", "", one["path"])
            whole = "::".join((*above, path)) if path != "self" else "::".join(above)
            name = one["alias"] or whole.rpartition("::")[2]
            first = start + len(part) - len(part.lstrip())
            yield BoundName(name, whole, begin + first, begin + start + len(part.rstrip()))
        start = place + 1


def module_of(path: str) -> str:
    """A file's module: the crate's folder and the path in it."""
    head, found, tail = ("/" + path).rpartition("/src/")
    if not found:
        return f"{_UNKNOWN}::" + path.removesuffix(".rs").replace("/", "::")
    parts = tail.removesuffix(".rs").split("/")
    if parts[0] == "bin" and len(parts) > 1 and parts[1] != "mod":  # a crate of its own
        head, parts = f"{head}/src/bin/{parts[1]}", parts[2:] or ["main"]
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return "::".join((f"crate@{head}", *parts))


def absolute(source: str, path: str) -> str:
    """A path whose beginning says the crate by its folder."""
    top, sep, rest = source.partition("::")
    if top == "crate":
        return module_of(path).partition("::")[0] + sep + rest
    if top not in ("self", "super"):
        return source
    module = module_of(path).split("::")
    while top in ("self", "super"):
        if top == "super" and len(module) > 1:
            module.pop()
        top, _, rest = rest.partition("::")
    return "::".join((*module, *([top] if top else []), *([rest] if rest else [])))
