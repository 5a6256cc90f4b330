"""Questions to a model, and ways of asking them, to be compared with each other: arms of an experiment.

The product's own prompt builder makes every prompt. Single lines of whole repositories are questions: any line of code,
or one that calls what another file defines. To avoid leaks, lines that were probably copied are left out: the same two
lines occur in another file. So are lines that begin or continue an import, a definition, a comment or a text. Lines of
recorded histories are questions, too, where a change may well be a copy.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from benchmarks.datasets import Repository, histories
from fastcoder_lsp.core import Pieces, Snapshot, at_once, ready
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.index.terms import Terms
from fastcoder_lsp.index.word_index import WordIndex
from fastcoder_lsp.prompt import NO_CONTEXT, Context, Prompt, PromptBuilder, PromptContext, PromptOptions
from fastcoder_lsp.prompt.retrieval import FileWords, query_at, retrieve
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.languages import language_of

_WORDS_TOKENS = 600


@dataclass(frozen=True, slots=True)
class PromptVariant:
    """One way of asking the model.

    Attributes:
        context_tokens: for pieces of other files, on top of the product's longest prompt.
        product: whether other files are found as in the product.
    """

    name: str
    anchored: bool = True
    context_tokens: int = 0
    product: bool = False


_WITH_FILES = PromptVariant("words", context_tokens=_WORDS_TOKENS)
_AS_PRODUCT = replace(_WITH_FILES, name="context", product=True)
VARIANTS = {
    way.name: way
    for way in (
        PromptVariant("plain", anchored=False),
        PromptVariant("anchored"),
        _WITH_FILES,
        _AS_PRODUCT,
    )
}
ARMS = f"plain, anchored, words ({_WORDS_TOKENS} tokens of other files), context (other files as in the product)"


def arm(name: str) -> PromptVariant:
    if name not in VARIANTS:
        raise UsageError(f"there is no arm '{name}'", f"Take one of: {ARMS}")
    return VARIANTS[name]


class RepositoryFiles:
    def __init__(self, name: str, files: Mapping[str, str]) -> None:
        self.name = name
        self.files = files
        self.terms = Terms()

    @cached_property
    def words(self) -> Mapping[str, FileWords]:
        return {path: FileWords(text, self.terms.of_lines(text)) for path, text in self.files.items()}

    @cached_property
    def index(self) -> WordIndex:
        index = WordIndex()
        for path, file in self.words.items():
            index.put(path, file.lines.terms_W)
        index.merge()
        return index


@dataclass(frozen=True, slots=True)
class InfillQuestion:
    """A cursor in a file; the `repository` has the question's own file, too, whole, which no arm looks at."""

    id: str
    before: str
    after: str
    path: str = "main.py"
    repository: RepositoryFiles | None = None
    language: str = "python"


def prompt_of(
    way: PromptVariant,
    tokenizer: Tokenizer,
    question: InfillQuestion,
    product: Context = NO_CONTEXT,
) -> Prompt:
    """The prompt that the product would ask `question` with, were its settings the arm's.

    `product` finds code of other files, for arms with the product's context.
    """
    usual, around = PromptOptions(), question.repository
    now = Snapshot("bench", question.path, question.language, 1, question.before + question.after)
    context: Context = NO_CONTEXT if around is None or not way.context_tokens else _ByWords(around)
    options = replace(
        usual, limit=usual.limit + way.context_tokens, anchored=way.anchored, context_tokens=way.context_tokens
    )
    builder = PromptBuilder(tokenizer, options, product if way.product else context)
    return at_once(builder.build(now, len(question.before)))


@dataclass(frozen=True, slots=True)
class _ByWords:
    """The files around a question by their words, as the product finds them (`prompt.Context`)."""

    repository: RepositoryFiles

    def observe(self, snapshot: Snapshot) -> None:
        """Remember nothing, because these documents are never edited."""

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> Pieces[PromptContext]:
        del kept  # every question is a document's first one
        around = self.repository
        ask = query_at(snapshot.text, offset, around.index, around.terms)
        index, terms, words = around.index, around.terms, around.words
        found = yield from retrieve(ask, snapshot, offset, shown, index, terms, lambda key: ready(words.get(key)))
        return PromptContext(found, around.name, snapshot.path or "")

    def may_show(self, sources: Collection[str]) -> bool:  # noqa: ARG002 the interface
        return True


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
_KNOWN = {name for kind in (str, bytes, list, dict, set, int, object) for name in dir(kind)}.union(
    ("constructor", "super", "catch", "switch", "while", "return", "function", "print", "push", "then", "forEach"),
    ("filter",),
)
_KNOWN_RUST = frozenset(
    (
        *("clone", "unwrap", "expect", "into", "iter", "next", "from_str", "as_bytes", "as_str", "as_ref", "as_mut"),
        *("to_string", "to_owned", "default", "with_capacity", "is_empty", "is_none", "is_some", "push_str"),
        *("read_line", "lines", "start", "open", "create", "write", "flush", "none", "some", "contains", "extend"),
    )
)
"""Names of the standard library's own types, which a repository may define too."""


@dataclass(frozen=True, slots=True)
class LineCase:
    """A line that is asked for; `names`: what it calls that other files define."""

    question: InfillQuestion
    expected: str
    names: tuple[str, ...]


def line_cases(repository: Repository, *, api: bool, seed: int = 20) -> list[LineCase]:
    """Lines of a repository, at most `MOST_OF_A_FILE` of a file, by path and place; the same ones in every run."""
    code = {path: text for path, text in repository.files.items() if _language(path) in _NO_CODE}
    defining = _defining(code)
    copies = Counter(pair for text in code.values() for pair in set(_pairs(text)))
    around = RepositoryFiles(repository.name, repository.files)
    cases: list[LineCase] = []
    for path, text in code.items():
        found = list(_lines(path, text, defining if api else None))
        found = [one for one in found if copies[one[2]] == 1]
        chooser = random.Random(f"{seed} {repository.name} {path}")  # noqa: S311 no secret
        chosen = chooser.sample(found, min(MOST_OF_A_FILE, len(found)))
        for begin, end, _, names in sorted(chosen):
            question = InfillQuestion(
                f"{repository.name}/{path}:{text.count(chr(10), 0, begin) + 1}",
                text[:begin],
                text[end:],
                path,
                around,
                _language(path),
            )
            cases.append(LineCase(question, text[begin:end], names))
    return cases


MOST_OF_A_RUN = 2


def recorded_cases(folder: Path, name: str, seed: int = 20) -> Iterator[LineCase]:
    """Lines that were typed in a recorded history, at most `MOST_OF_A_RUN` of a run."""
    files = histories.base(folder, name)
    for number, step in enumerate(histories.steps(folder, name)):
        if isinstance(step, histories.RecordedEdit) and step.typed and _language(step.path) in _NO_CODE:
            run = histories.typed(files, step)
            around = RepositoryFiles(name, dict(files))
            language = _language(step.path)
            lines = run.text.removesuffix("\n").split("\n")
            usable = [
                at
                for at, line in enumerate(lines)
                if SHORTEST <= len(line.strip()) <= LONGEST and _NO_CODE[language].match(line.strip()) is None
            ]
            chooser = random.Random(f"{seed} {name} {number}")  # noqa: S311 no secret
            chosen = chooser.sample(usable, min(MOST_OF_A_RUN, len(usable)))
            for at, line in enumerate(lines):
                head = run.document[: run.offset] + "".join(f"{said}\n" for said in lines[:at])
                tail = "\n" + run.document[run.offset :]
                if at in chosen:
                    name_of = f"{name}/{step.path}:{number}.{at}"
                    yield LineCase(InfillQuestion(name_of, head, tail, step.path, around, language), line, ())
        histories.apply(files, step)


def file_of(question: str) -> str:
    """The file that a question is about: errors within one file are not independent."""
    return question.rpartition(":")[0]


def _language(path: str) -> str:
    language = language_of(PurePosixPath(path))
    return "typescript" if language == "typescriptreact" else language


def _defining(code: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
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
    above = ""
    for line in text.split("\n"):
        said = line.strip()
        yield above, said
        above = said or above
