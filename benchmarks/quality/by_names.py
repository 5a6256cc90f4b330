"""Which pieces of other files share names with a cursor's lines, and what they import: the way to compare with.

The product ranks by all words (`prompt/retrieval`), which gained twice as much on lines that use a repository's names.
Three kinds: definitions that the file imports and uses near the cursor, chunks that share its names, and places edited
lately, which the caller hands in. Owns no reading of files and no budget.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from benchmarks.quality.imports import imports_of, tails
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt.context import ContextSnippet

NEAR_LINES = 30
"""Lines before the cursor, and half as many after it, that say what is being written."""
CHUNK_LINES = 16
MOST_CHUNKS = 2
MOST_DEFINITIONS = 4
MOST_SOUGHT = 40
"""Imported names that are looked for in their files, at most."""
LEAST_SIMILARITY = 0.15
_NAME = re.compile(r"[A-Za-z_]\w{2,}")
_COMMON = frozenset(
    _NAME.findall(
        "def class return self import from for while with not and the None True False else elif try except raise "
        "const let var function export default new this void public private static async await int str bool"
    )
)
_HEAD = (
    r"^([ \t]*+)(?:export[ \t]++)?+(?:default[ \t]++)?+(?:(?:abstract|async)[ \t]++)*+"
    r"(?:class|def|function|interface|type|enum|const)[ \t]++"
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
    wanted = ((path, name) for path, names in _importing(snapshot, files) for name in names if name in used)
    for path, name in islice(wanted, MOST_SOUGHT):
        text = definition(files[path], name)
        if text:
            snippets.append(ContextSnippet(path, text, 1.0 - 0.01 * len(snippets)))
        if len(snippets) == MOST_DEFINITIONS:
            break
    return snippets


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
    lines = text[match.start() : match.start() + 100_000].split("\n", 60)
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


def _importing(snapshot: Snapshot, files: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(path in `files`, imported names) of each import that `files` can answer."""
    for one in imports_of(snapshot):
        ends = tails(one.module, snapshot.path or "", snapshot.language)
        # A Python module is named from a folder of modules, wherever that is.
        below = tuple(f"/{end}" for end in ends) if snapshot.language == "python" else ()
        path = next((path for path in files if path in ends or (below and path.endswith(below))), None)
        if path is not None:
            yield path, one.names


def _near(text: str, offset: int) -> str:
    before = text[:offset].split("\n")[-NEAR_LINES:]
    after = text[offset:].split("\n")[: NEAR_LINES // 2]
    return "\n".join([*before, *after])


def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text)) - _COMMON


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0
