"""Which pieces of other files are worth a place in the prompt: pure functions of texts.

Three kinds: definitions that the file imports and uses near the cursor, chunks that share its names, and places edited
lately, which the caller hands in. Owns no reading of files and no budget.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt.context import ContextSnippet

NEAR_LINES = 30
"""Lines before the cursor, and half as many after it, that say what is being written."""
CHUNK_LINES = 16
MOST_CHUNKS = 2
MOST_DEFINITIONS = 4
LEAST_SIMILARITY = 0.15
_NAME = re.compile(r"[A-Za-z_]\w{2,}")
_PYTHON_IMPORT = re.compile(
    r"^\s*from\s+(\.*[\w.]*)\s+import\s+(\([^)]*\)|[^\n#]+)|^\s*import\s+([\w.]+)", re.MULTILINE
)
_SCRIPT_IMPORT = re.compile(r"""^\s*import\s+(?:type\s+)?([^;'"]+?)\s+from\s+['"]([^'"]+)['"]""", re.MULTILINE)
_COMMON = frozenset(
    _NAME.findall(
        "def class return self import from for while with not and the None True False else elif try except raise "
        "const let var function export default new this void public private static async await int str bool"
    )
)
_HEAD = (
    r"^([ \t]*)(?:export\s+)?(?:default\s+)?(?:abstract\s+|async\s+)*"
    r"(?:class|def|function|interface|type|enum|const)\s+"
)


def related(
    snapshot: Snapshot,
    offset: int,
    files: Mapping[str, str],
    recent: Sequence[ContextSnippet] = (),
) -> tuple[ContextSnippet, ...]:
    """Snippets for the cursor at `offset`, best first; scores are comparable over the kinds.

    Args:
        snapshot: the document.
        offset: the cursor.
        files: path → text of other files that may be seen, open ones with their unsaved text.
        recent: places edited lately.
    """
    near = _near(snapshot.text, offset)
    definitions = imported(snapshot, near, files)
    known = {snapshot.path, *(snippet.path for snippet in definitions)}
    others = {path: text for path, text in files.items() if path not in known}
    found = [*definitions, *similar(near, others), *recent]
    return tuple(sorted(found, key=lambda snippet: -snippet.score))


def imported(snapshot: Snapshot, near: str, files: Mapping[str, str]) -> list[ContextSnippet]:
    """Definitions that `snapshot` imports from `files` and names in `near`: their heads, without bodies."""
    used = set(_NAME.findall(near))
    snippets: list[ContextSnippet] = []
    for path, names in _imports(snapshot, files):
        for name in names:
            text = definition(files[path], name) if name in used else ""
            if text:
                snippets.append(ContextSnippet(path, text, 1.0 - 0.01 * len(snippets)))
    return snippets[:MOST_DEFINITIONS]


def imported_files(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """What each import of `snapshot` may stand for: paths to try, from the workspace folder or a folder of modules."""
    parts = snapshot.path or ""
    if snapshot.language == "python":
        modules = (match[1] or match[3] or "" for match in _PYTHON_IMPORT.finditer(snapshot.text))
        return [tails for module in modules if (tails := _python_tails(module, parts))]
    modules = (match[2] for match in _SCRIPT_IMPORT.finditer(snapshot.text))
    return [tails for module in modules if (tails := _script_tails(module, parts))]


def similar(near: str, files: Mapping[str, str]) -> list[ContextSnippet]:
    """The chunks of `files` that share most names with `near` (Jaccard), each file's best one only."""
    wanted = _names(near)
    best = []
    for path, text in files.items() if wanted else ():
        lines = text.split("\n")
        chunks = ["\n".join(lines[at : at + CHUNK_LINES]) for at in range(0, len(lines), CHUNK_LINES // 2)]
        scored = [(_jaccard(wanted, _names(chunk)), chunk) for chunk in chunks]
        score, chunk = max(scored, key=lambda pair: pair[0])
        if score >= LEAST_SIMILARITY:
            best.append(ContextSnippet(path, chunk.strip("\n"), score))
    return sorted(best, key=lambda snippet: -snippet.score)[:MOST_CHUNKS]


def definition(text: str, name: str) -> str:
    """The head of what `name` names in `text`: a signature, or a class with its fields and its methods' signatures."""
    match = re.search(rf"{_HEAD}{re.escape(name)}\b", text, re.MULTILINE)
    if match is None:
        return ""
    lines = text[match.start() :].split("\n")
    indent = len(match[1])
    head = [lines[0]]
    for line in lines[1:60]:
        depth = len(line) - len(line.lstrip())
        if line.strip() and depth <= indent and not line.lstrip().startswith((")", "}", "]")):
            break
        if (
            re.match(r"\s*(async\s+)?(def|get|set|public|private|static|readonly)\b|\s*\w+\s*[:(]", line)
            and depth <= indent + 4
        ):
            head.append(line)
    return "\n".join(head[:14])


def _imports(snapshot: Snapshot, files: Mapping[str, str]) -> Iterable[tuple[str, list[str]]]:
    """(path in `files`, imported names) of each import that `files` can answer."""
    if snapshot.language == "python":
        for match in _PYTHON_IMPORT.finditer(snapshot.text):
            module, names = match[1] or match[3] or "", match[2] or ""
            path = _python_module(module, snapshot.path or "", files)
            if path:
                yield path, _NAME.findall(names)
        return
    for match in _SCRIPT_IMPORT.finditer(snapshot.text):
        path = _script_module(match[2], snapshot.path or "", files)
        if path:
            yield path, _NAME.findall(match[1])


def _python_module(module: str, importer: str, files: Mapping[str, str]) -> str | None:
    ends = _python_tails(module, importer)
    below = tuple("/" + end for end in ends)
    return next((path for path in files if path in ends or path.endswith(below)), None)


def _python_tails(module: str, importer: str) -> tuple[str, ...]:
    """The ends of paths that a module may have; `importer`: the path of the file that names it."""
    parts = [part for part in module.split(".") if part]
    if module.startswith("."):
        up = len(module) - len(module.lstrip("."))
        folder = PurePosixPath(importer)
        for _ in range(up):
            folder = folder.parent
        parts = [*folder.parts, *parts]
    tail = "/".join(parts)
    return (f"{tail}.py", f"{tail}/__init__.py") if tail else ()


def _script_module(module: str, importer: str, files: Mapping[str, str]) -> str | None:
    return next((path for path in _script_tails(module, importer) if path in files), None)


def _script_tails(module: str, importer: str) -> tuple[str, ...]:
    """The paths that a relative import may mean; a package's name means none."""
    if not module.startswith("."):
        return ()
    parts: list[str] = []
    for part in (*PurePosixPath(importer).parent.parts, *module.split("/")):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    base = "/".join(parts)
    ends = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", "/index.ts", "/index.js")
    return tuple(base + end for end in ends)


def _near(text: str, offset: int) -> str:
    before = text[:offset].split("\n")[-NEAR_LINES:]
    after = text[offset:].split("\n")[: NEAR_LINES // 2]
    return "\n".join([*before, *after])


def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text)) - _COMMON


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0
