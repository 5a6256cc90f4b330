"""Which files test which, by their names: `test_cart.py` and `cart.py`, `cart.spec.ts`, `CartTest.java`, `__tests__`.

The rules work in both directions. The prompt shows the definition lines of such a file. Retrieval by words finds a
file's tests as well as any rule (docs/rejected.md); these rules are for files that have hardly any text yet.
"""

import re
from collections.abc import Iterable
from itertools import islice, takewhile
from pathlib import PurePosixPath

MAX_CHARACTERS = 800
"""Of the lines shown."""
MAX_LINE = 160
"""Longer lines are left out: a part of a secret need not look like one."""
MAX_EXAMINED = 2_000
"""Names that are compared, and lines of a file that are read."""
_AFFIXES = re.compile(
    r"(?:test_|Test(?=[A-Z]))(.+)|(.+?)(?:_(?:test|tests|spec|unittest)|[.-](?:test|spec)|(?:Tests?|Spec|IT))"
)
_FOLDERS = frozenset(("test", "tests", "__tests__", "spec", "specs"))
_NAMELESS = frozenset(("__init__", "index", "mod", "main", "lib", "conftest", "setup"))
_SCRIPT = dict.fromkeys((".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"), ".ts")
_FAMILY = _SCRIPT | {".exs": ".ex", ".cc": ".cpp", ".cxx": ".cpp"}
_DEFINES = re.compile(
    r"[ \t]{0,8}(?:(?:export|default|async|static|public|private|protected|abstract|final|pub(?:\([^()]*\))?)\s+)*"
    r"(?:def|class|function|fn|func|fun|interface|type|enum|struct|trait|const|describe|it|test|module|record)\b[ \t(*]"
)


def stem_of(key: str) -> str:
    """The common part of a file's name and its tests' names; empty if the name is too general."""
    whole = PurePosixPath(key).stem
    stem = _stem(PurePosixPath(key))
    return "" if {whole, stem} & _NAMELESS or len(stem) < 2 else stem


def counterpart_of(key: str, others: Iterable[str]) -> str | None:
    """The nearest of `others` that tests the file `key`, or that it tests.

    All are paths from the workspace folder, with slashes; `others` has the most important ones first.
    """
    here = PurePosixPath(key)
    stem = stem_of(key)
    if not stem:
        return None
    alike = (other for other in others if stem in other and stem in other.rpartition("/")[2])  # the first test is fast
    looked_at = islice(alike, MAX_EXAMINED)
    found = [other for other in looked_at if other != key and _belongs(here, PurePosixPath(other), stem)]
    return max(sorted(found), key=lambda other: _common(key, other), default=None)


def outline(text: str) -> str:
    """The lines of a file that define something, up to `MAX_CHARACTERS`."""
    kept, room = [], MAX_CHARACTERS
    for line in text.split("\n", MAX_EXAMINED)[:MAX_EXAMINED]:
        if len(line) <= MAX_LINE and _DEFINES.match(line):
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
