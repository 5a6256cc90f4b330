"""Single lines of whole repositories, as questions: any line of code, or one that calls what another file defines.

Owns which lines those are. No leak: a line that stands in another file below the same line as here, so that the code
was copied, is no question; nor is one that begins or continues an import, a definition, a comment or a text.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchmarks.datasets.repositories import Repository
from benchmarks.questions import Question, RepositoryWords
from fastcoder_lsp.workspace.languages import language_of

SHORTEST, LONGEST = 12, 120
"""Characters of a line that is asked for."""
MOST_OF_A_FILE = 12
MOST_DEFINED = 3
"""Files that define a name, at most: what more of them define tells little of where it comes from."""
LEAST_NAME = 4
_NAME = r"[A-Za-z_$][\w$]*"
_VISIBLE = r"(?:pub(?:\([^()]*\))?[ \t]+)?"
"""Rust's."""
_DEFINED = {
    "python": re.compile(rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+({_NAME})", re.MULTILINE),
    "typescript": re.compile(
        rf"^(?:[ \t]*(?:export[ \t]+)?(?:default[ \t]+)?(?:(?:abstract|async|declare)[ \t]+)*"
        rf"(?:function\*?|class|enum)[ \t]+({_NAME})|(?:export[ \t]+)?const[ \t]+({_NAME})"
        rf"|[ \t]+(?:(?:public|private|protected|static|async|get|set)[ \t]+)*({_NAME})\([^\n;]*\{{$)",
        re.MULTILINE,
    ),
    "rust": re.compile(
        rf"^[ \t]*{_VISIBLE}(?:(?:async|unsafe|const|default|extern \"\w+\")[ \t]+)*"
        rf"(?:fn|struct|enum|union|trait)[ \t]+({_NAME})",
        re.MULTILINE,
    ),
}
_CALLED = re.compile(rf"({_NAME})\s*(?:(?:::)?<[^<>()]*>)?\(")
_NO_CODE = {
    "python": re.compile(r"(?:import|from|def|class|async def|global|nonlocal)\b|[#@\"')\]}]|[rbfu]+[\"']"),
    "typescript": re.compile(
        r"(?:import|export|function|class|interface|type|enum|declare|abstract|async function)\b|[/*@\"'`)\]}]"
    ),
    "rust": re.compile(
        r"(?:use|pub|fn|async fn|unsafe fn|const|static|struct|enum|union|trait|impl|mod|type|extern|macro_rules!)"
        r"(?!\w)|where\b|[/*#\"')\]}]|b\""
    ),
}
_FUNCTION = {
    "python": re.compile(r"(?:async\s+)?def\b"),
    "typescript": re.compile(r".*(?:\)|=>)[^;]*\{\s*$"),
    "rust": re.compile(rf"{_VISIBLE}(?:(?:async|unsafe|const|default|extern \"\w+\")\s+)*fn\b"),
}
_KNOWN = frozenset(name for kind in (str, bytes, list, dict, set, int, object) for name in dir(kind)) | frozenset(
    [
        "constructor",
        "super",
        "catch",
        "switch",
        "while",
        "return",
        "function",
        "print",
        "push",
        "then",
        "forEach",
        "filter",
    ]
)
_KNOWN_RUST = frozenset(
    (
        *("clone", "unwrap", "expect", "into", "iter", "next", "from_str", "as_bytes", "as_str", "as_ref", "as_mut"),
        *("to_string", "to_owned", "default", "with_capacity", "is_empty", "is_none", "is_some", "push_str"),
        *("read_line", "lines", "start", "open", "create", "write", "flush", "none", "some", "contains", "extend"),
    )
)
"""What the standard library's own types have; a repository's may be called the same."""


@dataclass(frozen=True, slots=True)
class LineCase:
    """A line that is asked for; `names`: what it calls that other files define."""

    question: Question
    expected: str
    names: tuple[str, ...]


def line_cases(repository: Repository, *, api: bool, seed: int = 20) -> list[LineCase]:
    """Lines of a repository, at most `MOST_OF_A_FILE` of a file, by path and place; the same ones in every run."""
    code = {path: text for path, text in repository.files.items() if _language(path) in _NO_CODE}
    defining = _defining(code)
    copies = Counter(pair for text in code.values() for pair in set(_pairs(text)))
    around = RepositoryWords(repository.name, repository.files)
    cases: list[LineCase] = []
    for path, text in code.items():
        found = list(_lines(path, text, defining if api else None))
        found = [one for one in found if copies[one[2]] == 1]
        chooser = random.Random(f"{seed} {repository.name} {path}")  # noqa: S311 no secret
        chosen = chooser.sample(found, min(MOST_OF_A_FILE, len(found)))
        for begin, end, _, names in sorted(chosen):
            question = Question(
                f"{repository.name}/{path}:{text.count(chr(10), 0, begin) + 1}",
                text[:begin],
                text[end:],
                path,
                around,
                _language(path),
            )
            cases.append(LineCase(question, text[begin:end], names))
    return cases


def file_of(question: str) -> str:
    """The file that a question is about: errors within one file are not independent."""
    return question.rpartition(":")[0]


def _language(path: str) -> str:
    language = language_of(PurePosixPath(path))
    return "typescript" if language == "typescriptreact" else language


def _defining(code: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    """Name → the files that define it."""
    files: dict[str, set[str]] = defaultdict(set)
    for path, text in code.items():
        for match in _DEFINED[_language(path)].finditer(text):
            name = next(group for group in match.groups() if group)
            if not (path.endswith(".rs") and name in _KNOWN_RUST):
                files[name].add(path)
    return {
        name: frozenset(paths)
        for name, paths in files.items()
        if len(paths) <= MOST_DEFINED and len(name) >= LEAST_NAME and not name.startswith("__") and name not in _KNOWN
    }


def _lines(
    path: str, text: str, defining: Mapping[str, frozenset[str]] | None
) -> Iterator[tuple[int, int, tuple[str, str], tuple[str, ...]]]:
    """(begin, end, the line and the one above, names) of every line that may be asked for."""
    language, offset, above = _language(path), 0, ""
    inside: list[int] = []
    quoted = False
    for line in text.split("\n"):
        begin, said = offset, line.strip()
        offset += len(line) + 1
        pair, above = (above, said), said or above
        depth = len(line) - len(line.lstrip())
        was_quoted = quoted
        quoted ^= (line.count('"""') + line.count("'''")) % 2 == 1
        if not said or was_quoted or quoted:
            continue
        while inside and depth <= inside[-1]:
            inside.pop()
        usable = bool(inside) and SHORTEST <= len(said) <= LONGEST and _NO_CODE[language].match(said) is None
        if _FUNCTION[language].match(said):
            inside.append(depth)
        if not usable:
            continue
        names = tuple(
            name
            for name in dict.fromkeys(_CALLED.findall(said))
            if defining is not None and name in defining and path not in defining[name]
        )
        if defining is None or names:
            yield begin, begin + len(line), pair, names


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Every line with the one above it that is not blank."""
    above = ""
    for line in text.split("\n"):
        said = line.strip()
        yield above, said
        above = said or above
