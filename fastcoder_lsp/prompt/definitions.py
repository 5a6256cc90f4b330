"""Definitions near a cursor: heads at places that other servers gave, imported names, and the outline of a test.

The caller reads the files (`load`). If a file has changed since its place was given, the definition is searched around
it. The import statements alone name the files of imported ones, without an index; short ones are shown completely.

Names tell which files test which: `test_cart.py` and `cart.py`, `cart.spec.ts`, `CartTest.java`, `__tests__`. Retrieval
by words finds a file's tests as well as any rule (docs/rejected.md); these rules are for files that have hardly any
text yet.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import PurePosixPath

import numpy as np

from fastcoder_lsp.core import Definition, Pieces, Snapshot
from fastcoder_lsp.index.terms import Terms
from fastcoder_lsp.prompt.context import ContextSnippet
from fastcoder_lsp.prompt.retrieval import ABOVE, BELOW, Load, WordQuery, around, imports_above, worth

MAX_CHARACTERS = 500  # of all heads, some 150 tokens, a quarter of the other code
MAX_LINES = 14  # of a head
MAX_SIGNATURE_LINES = 6
MAX_SCANNED_LINES = 120  # of a class that are searched for members
MAX_LINE = 200  # longer lines are left out: a part of a secret need not look like one
MAX_MOVE = 20  # lines that a definition may have moved since its place was given
MOST_HELD = 6  # pieces that are probably shown; a head inside one of them is not shown twice
_CLASS = re.compile(
    r"\b(?:class|struct|interface|enum|trait|type|record|object|protocol|impl|union|module|namespace)\b"
)
_MODIFIER = "async static public private protected readonly abstract override get set pub fn def fun func const var let"
_MEMBER = re.compile(
    rf"(?:(?:{_MODIFIER.replace(' ', '|')}|val|final)(?:\([^()]*\))?\s+)*[^\W\d][\w$]*\s*[?!]?\s*[:(=<,;]"
)
_OPEN, _CLOSED = re.compile(r"[(\[]"), re.compile(r"[)\]]")


def heads(
    query: WordQuery, definitions: Sequence[Definition], pieces: Sequence[ContextSnippet], load: Load, terms: Terms
) -> Pieces[list[ContextSnippet]]:
    """Heads of definitions of names at the cursor, scored like pieces of code.

    `definitions`: the nearest first; their paths are keys of `load`. `pieces`: the other pieces of the prompt, best
    first.
    """
    room, seen, found = MAX_CHARACTERS, set[tuple[str, int]](), list[ContextSnippet]()
    for one in definitions:
        if one.name and not np.isin(terms.of(one.name)[:1], query.terms_Q).any():
            continue
        file = yield from load(one.path)
        lines = file.text.split("\n") if file is not None else []
        at = _place(lines, one)
        if at is None or (one.path, at) in seen or _is_shown(one.path, at + 1, pieces):
            continue
        seen.add((one.path, at))
        text = head_of(lines, at)
        value = yield from worth(query, [text], terms)
        if len(text) <= room and value > 0:
            room -= len(text)
            found.append(ContextSnippet(one.path, text, value, one.path, line=at + 1))
    return found


def head_of(lines: Sequence[str], at: int) -> str:
    """The definition that begins in line `at`: its signature, and a class's members, without bodies."""
    if len(lines[at]) > MAX_LINE:
        return ""
    kept = [lines[at]]
    below, depth = at + 1, _deeper(lines[at])
    while depth > 0 and below < len(lines) and len(kept) < MAX_SIGNATURE_LINES:
        kept.append(lines[below])
        depth += _deeper(lines[below])
        below += 1
    if _CLASS.search(lines[at].partition("(")[0]):
        kept += _members(lines[below : at + MAX_SCANNED_LINES], _indent(lines[at]))
    return "\n".join(line.rstrip() for line in kept[:MAX_LINES] if len(line) <= MAX_LINE)


def _members(body: Sequence[str], indent: int) -> Iterator[str]:
    first: int | None = None
    for line in body:
        if not line.strip():
            continue
        deep = _indent(line)
        if deep <= indent:
            if line.strip() == "{":
                continue
            return
        first = deep if first is None else first
        if deep == first and _MEMBER.match(line.strip()[:MAX_LINE]):
            yield line


def _place(lines: Sequence[str], one: Definition) -> int | None:
    """The current line of a definition: the given one if it has the name, else a near one that begins with it."""
    if not one.name:
        return one.line if one.line < len(lines) and lines[one.line].strip() else None
    given = lines[one.line] if one.line < len(lines) else ""
    name = rf"(?<![\w$]){re.escape(one.name)}(?![\w$])"
    if re.search(name, given):
        return one.line
    begun = re.compile(rf"(?!\s*return\b)[\w\s*]*{name}")
    near = range(max(one.line - MAX_MOVE, 0), min(one.line + MAX_MOVE + 1, len(lines)))
    return next((at for at in sorted(near, key=lambda at: abs(at - one.line)) if begun.match(lines[at])), None)


def _is_shown(path: str, line: int, pieces: Sequence[ContextSnippet]) -> bool:
    return any(one.source == path and one.line <= line <= one.line + one.text.count("\n") for one in pieces[:MOST_HELD])


def _deeper(line: str) -> int:
    return len(_OPEN.findall(line)) - len(_CLOSED.findall(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


MAX_IMPORTED_CHARACTERS = 1_200  # of all definitions, some 300 tokens, half of the other code
MAX_NAMES = 4  # imported names that are looked up, the nearest above the cursor
_SCRIPTS = ("javascript", "javascriptreact", "typescript", "typescriptreact")
_ENDINGS = (".ts", ".tsx", ".js", ".jsx", ".mjs", "/index.ts", "/index.js")
_FROM = re.compile(r"from\s+(\.*)([\w.]*)\s+import\s+(.+)")
_SCRIPT_FROM = re.compile(r"import\s+(?:type\s+)?(.+?)\s+from\s+[\"']([^\"']+)[\"']")
_NAME = re.compile(r"(?:type\s+)?([^\W\d][\w$]*)(?:\s+as\s+([^\W\d][\w$]*))?$")
_DEFINES = (
    r"^[ \t]*(?:(?:export|default|declare|abstract|async|pub|public|static|final|sealed|data)[^\S\n]+)*"
    r"(?:class|def|function|interface|type|enum|struct|trait|const|let|var)[^\S\n]+{}(?![\w$])"
)


def imported_definitions(snapshot: Snapshot, offset: int, load: Load) -> Pieces[tuple[ContextSnippet, ...]]:
    """The definitions of imported names near the cursor, the nearest name's first."""
    above = around(snapshot.text[:offset], offset, ABOVE, 0)
    near = f"{above}\n{around(snapshot.text, offset, 0, BELOW)}"
    names = imported_names(snapshot)
    at = {name: place for name in names if (place := _last(near, name)) >= 0}
    room, found = MAX_IMPORTED_CHARACTERS, list[ContextSnippet]()
    for name in sorted(at, key=lambda one: -at[one])[:MAX_NAMES]:
        own, keys = names[name]
        for key in keys:
            file = yield from load(key)
            yield
            if file is None:
                continue
            if (defined := _definition(file.text, own, room)) is not None:
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


def _definition(text: str, name: str, room: int) -> tuple[int, str] | None:
    """The line that defines `name`, and its definition, complete or its head, if that fits; else None."""
    begins = re.compile(_DEFINES.format(re.escape(name)), re.MULTILINE)
    found = next((one for one in begins.finditer(text) if one.end() - one.start() <= MAX_LINE), None)
    if found is None:
        return None
    at, lines = text.count("\n", 0, found.start()), text.split("\n")
    whole = "\n".join(_block(lines, at))
    shown = whole if len(whole) <= room else head_of(lines, at)
    return (at, shown) if shown and len(shown) <= room else None


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


MAX_OUTLINE = 800  # of the lines shown
MAX_OUTLINE_LINE = 160  # longer lines are left out: a part of a secret need not look like one
MAX_EXAMINED = 2_000  # names that are compared, and lines of a file that are read
_AFFIXES = re.compile(
    r"(?:test_|Test(?=[A-Z]))(.+)|(.+?)(?:_(?:test|tests|spec|unittest)|[.-](?:test|spec)|(?:Tests?|Spec|IT))"
)
_FOLDERS = frozenset(("test", "tests", "__tests__", "spec", "specs"))
_NAMELESS = frozenset(("__init__", "index", "mod", "main", "lib", "conftest", "setup"))
_SCRIPT = dict.fromkeys((".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"), ".ts")
_FAMILY = _SCRIPT | {".exs": ".ex", ".cc": ".cpp", ".cxx": ".cpp"}
_OUTLINED = re.compile(
    r"[ \t]{0,8}(?:(?:export|default|async|static|public|private|protected|abstract|final|pub(?:\([^()]*\))?)\s+)*"
    r"(?:def|class|function|fn|func|fun|interface|type|enum|struct|trait|const|describe|it|test|module|record)\b[ \t(*]"
)


def stem_of(key: str) -> str:
    """The common part of a file's name and its tests' names; empty if the name is too general."""
    whole = PurePosixPath(key).stem
    stem = _stem(PurePosixPath(key))
    return "" if {whole, stem} & _NAMELESS or len(stem) < 2 else stem


def counterpart_of(key: str, others: Iterable[str]) -> str | None:
    """The nearest of `others`, most important first, that tests the file `key` or that it tests (relative paths)."""
    here = PurePosixPath(key)
    stem = stem_of(key)
    if not stem:
        return None
    alike = (other for other in others if stem in other and stem in other.rpartition("/")[2])  # the first test is fast
    looked_at = islice(alike, MAX_EXAMINED)
    found = [other for other in looked_at if other != key and _belongs(here, PurePosixPath(other), stem)]
    return max(sorted(found), key=lambda other: _common(key, other), default=None)


def outline(text: str) -> str:
    """The lines of a file that define something, up to `MAX_OUTLINE`."""
    kept, room = [], MAX_OUTLINE
    for line in text.split("\n", MAX_EXAMINED)[:MAX_EXAMINED]:
        if len(line) <= MAX_OUTLINE_LINE and _OUTLINED.match(line):
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line.rstrip())
    return "\n".join(kept)


def _belongs(one: PurePosixPath, other: PurePosixPath, stem: str) -> bool:
    same = _family(one) == _family(other) and _stem(other) == stem
    return same and _is_test(one) != _is_test(other)


def _is_test(path: PurePosixPath) -> bool:
    return _AFFIXES.fullmatch(path.stem) is not None or not _FOLDERS.isdisjoint(path.parts[:-1])


def _stem(path: PurePosixPath) -> str:
    match = _AFFIXES.fullmatch(path.stem)
    return (match[1] or match[2] if match is not None else path.stem).lstrip("_")


def _family(path: PurePosixPath) -> str:
    return _FAMILY.get(path.suffix, path.suffix)


def _common(one: str, other: str) -> int:
    return sum(
        1
        for _ in takewhile(
            lambda pair: pair[0] == pair[1], zip(one.split("/")[:-1], other.split("/")[:-1], strict=False)
        )
    )
