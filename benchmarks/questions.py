"""Questions to a model, and ways of asking them, to be compared with each other: arms of an experiment.

The product's own prompt builder makes every prompt.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.index.words.terms import Terms
from fastcoder_lsp.index.words.word_index import WordIndex
from fastcoder_lsp.prompt import NO_CONTEXT, Found, Prompt, PromptBuilder, PromptOptions
from fastcoder_lsp.prompt.retrieval import FileWords, question_at, retrieve
from fastcoder_lsp.tokenizer import Tokenizer

ARMS = "plain, anchored, anchored+N (N lines after the middle mark), words, words-N (N tokens of other files)"
_WORDS_TOKENS = 600


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of asking the model.

    `lines_above`: so many stand after the middle mark, None: as in the product; `context_tokens`: for pieces of other
    files, on top of the product's longest prompt.
    """

    name: str
    anchored: bool = True
    lines_above: int | None = None
    context_tokens: int = 0


def arm(name: str) -> Arm:
    """The arm of this name.

    Raises:
        UsageError: there is none.
    """
    match = re.fullmatch(r"(?P<plain>plain)|anchored(?:\+(?P<lines>\d+))?|(?P<words>words(?:-(?P<tokens>\d+))?)", name)
    if match is None:
        raise UsageError(f"there is no arm '{name}'", f"Take one of: {ARMS}")
    lines, tokens = match["lines"], match["tokens"] or _WORDS_TOKENS
    return Arm(name, not match["plain"], int(lines) if lines else None, int(tokens) if match["words"] else 0)


class RepositoryWords:
    """The files of a repository, all of them; who asks leaves out the one that the question is about."""

    def __init__(self, name: str, files: Mapping[str, str]) -> None:
        self.name = name
        self.files = files
        self.terms = Terms()

    @cached_property
    def words(self) -> Mapping[str, FileWords]:
        """Path → text and words."""
        return {path: FileWords(text, self.terms.of_lines(text)) for path, text in self.files.items()}

    @cached_property
    def index(self) -> WordIndex:
        """Which files use which words."""
        index = WordIndex()
        for path, file in self.words.items():
            index.put(path, file.lines.terms_W)
        index.settle()
        return index


@dataclass(frozen=True, slots=True)
class Question:
    """A cursor in a file.

    `repository`: the files around it; among them, whole, the question's own one, which no arm looks at.
    """

    id: str
    before: str
    after: str
    path: str = "main.py"
    repository: RepositoryWords | None = None
    language: str = "python"


def prompt_of(way: Arm, tokenizer: Tokenizer, question: Question) -> Prompt:
    """The prompt that the product would ask `question` with, were its settings the arm's."""
    usual = PromptOptions()
    options = replace(
        usual,
        limit=usual.limit + way.context_tokens,
        anchored=way.anchored,
        lines_above=usual.lines_above if way.lines_above is None else way.lines_above,
        context_tokens=way.context_tokens,
    )
    around = question.repository
    context = NO_CONTEXT if around is None or not way.context_tokens else _ByWords(around)
    now = Snapshot("bench", question.path, question.language, 1, question.before + question.after)
    return PromptBuilder(tokenizer, options, context).build(now, len(question.before))


@dataclass(frozen=True, slots=True)
class _ByWords:
    """The files around a question by their words, as the product finds them (`prompt.Context`)."""

    repository: RepositoryWords

    def observe(self, snapshot: Snapshot) -> None:
        """Remember nothing: nobody edits here."""

    def find(self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: Found | None = None) -> Found:
        """Pieces of the other files, and of this one outside its window, the best first."""
        del kept  # every question is a document's first one
        around = self.repository
        ask = question_at(snapshot.text, offset, around.index, around.terms)
        found = retrieve(ask, snapshot, offset, shown, around.index, around.terms, around.words.get)
        return Found(found, around.name, snapshot.path or "")

    def may_show(self, sources: Collection[str]) -> bool:  # noqa: ARG002 the interface
        """A question's files are all there to be shown."""
        return True
