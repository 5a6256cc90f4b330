"""Definitions that a document imports by name and uses near the cursor, complete if they are short.

The import statements alone name the files, without an index; the caller reads them (`load`).
"""

import posixpath
import re
from collections.abc import Iterator, Sequence

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt.context import ContextSnippet
from fastcoder_lsp.prompt.definitions import MAX_LINE, head_of
from fastcoder_lsp.prompt.imports import imports_above
from fastcoder_lsp.prompt.retrieval import ABOVE, BELOW, Load, around

MAX_CHARACTERS = 1_200
"""Of all definitions, some 300 tokens, half of the other code."""
MAX_NAMES = 4
"""Imported names that are looked up, the nearest above the cursor."""
_SCRIPTS = ("javascript", "javascriptreact", "typescript", "typescriptreact")
_ENDINGS = (".ts", ".tsx", ".js", ".jsx", ".mjs", "/index.ts", "/index.js")
_FROM = re.compile(r"from\s+(\.*)([\w.]*)\s+import\s+(.+)")
_SCRIPT_FROM = re.compile(r"import\s+(?:type\s+)?(.+?)\s+from\s+[\"']([^\"']+)[\"']")
_NAME = re.compile(r"(?:type\s+)?([^\W\d][\w$]*)(?:\s+as\s+([^\W\d][\w$]*))?$")
_DEFINES = (
    r"^[ \t]*(?:(?:export|default|declare|abstract|async|pub|public|static|final|sealed|data)\s+)*"
    r"(?:class|def|function|interface|type|enum|struct|trait|const|let|var)\s+{}(?![\w$])"
)


def imported_definitions(snapshot: Snapshot, offset: int, load: Load) -> tuple[ContextSnippet, ...]:
    """The definitions of imported names near the cursor, the nearest name's first."""
    above = around(snapshot.text[:offset], offset, ABOVE, 0)
    near = f"{above}\n{around(snapshot.text, offset, 0, BELOW)}"
    names = imported_names(snapshot)
    at = {name: place for name in names if (place := _last(near, name)) >= 0}
    room, found = MAX_CHARACTERS, list[ContextSnippet]()
    for name in sorted(at, key=lambda one: -at[one])[:MAX_NAMES]:
        own, keys = names[name]
        for key in keys:
            file = load(key)
            if file is None:
                continue
            if (defined := _definition(file.text.split("\n"), own, room)) is not None:
                line, text = defined
                room -= len(text)
                found.append(ContextSnippet(key, text, 0.0, key, line=line + 1))
                break
    return tuple(found)


def imported_names(snapshot: Snapshot) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Each imported name → its name where it is defined, and the files that may define it."""
    if snapshot.language == "python":
        return dict(_python(snapshot))
    return dict(_script(snapshot)) if snapshot.language in _SCRIPTS else {}


def _python(snapshot: Snapshot) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    folders = _folders(snapshot.path or "")
    for line in imports_above(snapshot.text, len(snapshot.text), snapshot.language).split("\n"):
        if (match := _FROM.match(line)) is None:
            continue
        dots, module, names = match.groups()
        parts = module.replace(".", "/")
        tops = folders[len(dots) - 1 : len(dots)] if dots else [*folders, posixpath.join(folders[-1], "src")]
        files = [posixpath.join(top, parts) for top in tops]
        keys = tuple(key for file in files for key in (f"{file}.py", f"{file}/__init__.py") if parts)
        yield from ((shown, (name, keys)) for name, shown in _names(names.strip("() ")))


def _script(snapshot: Snapshot) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    folder = posixpath.dirname(snapshot.path or "")
    for line in imports_above(snapshot.text, len(snapshot.text), snapshot.language).split("\n"):
        if (match := _SCRIPT_FROM.match(line)) is None or not match[2].startswith("."):
            continue
        file = posixpath.normpath(posixpath.join(folder, re.sub(r"\.[mc]?jsx?$", "", match[2])))
        keys = tuple(f"{file}{ending}" for ending in _ENDINGS) if not file.startswith("..") else ()
        yield from ((shown, (name, keys)) for name, shown in _names(match[1].replace("{", " ").replace("}", " ")))


def _names(listed: str) -> Iterator[tuple[str, str]]:
    """Each name of an import: where it is defined, and here."""
    for one in listed.split(","):
        if match := _NAME.match(one.strip()):
            yield match[1], match[2] or match[1]


def _folders(path: str) -> list[str]:
    """The folder of a file and all above it, the nearest first; "" is the workspace's."""
    folders = [posixpath.dirname(path)]
    while folders[-1]:
        folders.append(posixpath.dirname(folders[-1]))
    return folders


def _last(text: str, name: str) -> int:
    return max((match.start() for match in re.finditer(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text)), default=-1)


def _definition(lines: Sequence[str], name: str, room: int) -> tuple[int, str] | None:
    """The line that defines `name`, and its definition, complete or its head, if that fits; else None."""
    begins = re.compile(_DEFINES.format(re.escape(name)))
    at = next((number for number, line in enumerate(lines) if begins.match(line[:MAX_LINE])), None)
    if at is None:
        return None
    whole = "\n".join(_block(lines, at))
    text = whole if len(whole) <= room else head_of(lines, at)
    return (at, text) if text and len(text) <= room else None


def _block(lines: Sequence[str], at: int) -> list[str]:
    """The definition that begins in line `at`: the deeper lines below, and a line that closes it."""
    indent = _indent(lines[at])
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    if end < len(lines) and lines[end].strip().startswith((")", "}", "]")) and _indent(lines[end]) == indent:
        end += 1
        if lines[end - 1].rstrip().endswith((":", "{")):  # the end of a signature of several lines
            end += len(_block(lines, end - 1)) - 1
    return "\n".join(lines[at:end]).rstrip().split("\n")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
