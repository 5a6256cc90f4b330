"""What a file imports: the modules, and the names that it takes from them. A function of the text alone.

Owns the little of the languages' grammar that this takes. A line is looked at once, and a statement only so far: the
text may be written to be slow to read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fastcoder_lsp.core import Snapshot

MOST_IMPORTS = 64
MOST_NAMES = 64
"""Of one import."""
_TRIED = 256
"""Lines that begin like an import, at most."""
_LONGEST = 2_000
"""Characters of a statement over several lines."""
_NAME = re.compile(r"[A-Za-z_]\w{2,}")
_LINE = re.compile(r"^[ \t]*+(?:from|import)\b", re.MULTILINE)
_PYTHON_FROM = re.compile(r"from[ \t]++([\w.]++)[ \t]++import\b[ \t]*+(\([^)]*+\)?|[^\n#]++)")
_PYTHON_IMPORT = re.compile(r"import[ \t]++([\w.]++)")
_SCRIPT_HEAD = re.compile(r"""import\b([^;'"]++)['"]([^'"\n]++)['"]""")
_SCRIPT_FROM = re.compile(r"\bfrom\s*$")


@dataclass(frozen=True, slots=True)
class Import:
    """A module as the file names it, and what is taken from it."""

    module: str
    names: tuple[str, ...]


def imports_of(snapshot: Snapshot) -> list[Import]:
    """The first imports of a file, in their order."""
    read = _python if snapshot.language == "python" else _script
    found: list[Import] = []
    for tried, line in enumerate(_LINE.finditer(snapshot.text)):
        if tried >= _TRIED or len(found) >= MOST_IMPORTS:
            break
        begin = line.end() - (6 if line.group().endswith("import") else 4)
        found += read(snapshot.text[begin : begin + _LONGEST])
    return found


def tails(module: str, importer: str, language: str) -> tuple[str, ...]:
    """The paths that a module may have, from the workspace folder or a folder of modules; none for a package's name.

    Args:
        module: as it is named in the file `importer`, a path from the workspace folder.
        importer: see above.
        language: of both.
    """
    return _python_tails(module, importer) if language == "python" else _script_tails(module, importer)


def _python(statement: str) -> Iterator[Import]:
    if (match := _PYTHON_FROM.match(statement)) is not None:
        yield Import(match[1], _names(match[2]))
    elif (match := _PYTHON_IMPORT.match(statement)) is not None:
        yield Import(match[1], ())


def _script(statement: str) -> Iterator[Import]:
    match = _SCRIPT_HEAD.match(statement)
    if match is not None and (end := _SCRIPT_FROM.search(match[1][-_LONGEST:].rstrip())) is not None:
        yield Import(match[2], _names(match[1][: end.start()].strip().removeprefix("type ")))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_NAME.findall(text)))[:MOST_NAMES]


def _python_tails(module: str, importer: str) -> tuple[str, ...]:
    parts = [part for part in module.split(".") if part]
    if module.startswith("."):
        up = len(module) - len(module.lstrip("."))
        parts = [*_folders(importer)[: -(up - 1) or None], *parts]
    tail = "/".join(parts)
    return (f"{tail}.py", f"{tail}/__init__.py") if tail else ()


def _script_tails(module: str, importer: str) -> tuple[str, ...]:
    if not module.startswith("."):
        return ()
    parts: list[str] = []
    for part in (*_folders(importer), *module.split("/")):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    base = "/".join(parts)
    ends = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", "/index.ts", "/index.js")
    return tuple(base + end for end in ends)


def _folders(path: str) -> Sequence[str]:
    """The folders of a path that is written with slashes."""
    return path.split("/")[:-1]
