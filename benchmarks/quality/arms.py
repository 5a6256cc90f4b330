"""Ways of asking a model the same question, to be compared with each other: arms of an experiment.

Owns what each arm's prompt is; the product's own prompt builder makes all of them.
"""

from collections.abc import Collection
from dataclasses import dataclass

from benchmarks.quality.by_names import related
from benchmarks.quality.repository_words import RepositoryWords
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import NO_CONTEXT, Context, Found, Prompt, PromptBuilder, PromptOptions
from fastcoder_lsp.prompt.retrieval import question_at, retrieve
from fastcoder_lsp.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of asking the model.

    `lines_above`: so many stand after the middle mark, None: as in the product; `context_tokens`: for snippets of other
    files, `room` of them on top of the product's longest prompt; `words`: chosen by their words, else by names.
    """

    name: str
    anchored: bool
    lines_above: int | None = None
    context_tokens: int = 0
    room: int = 0
    words: bool = False


ARMS = {
    arm.name: arm
    for arm in (
        Arm("plain", anchored=False),
        Arm("anchored", anchored=True),
        Arm("anchored+0", anchored=True, lines_above=0),
        Arm("anchored+3", anchored=True, lines_above=3),
        Arm("anchored+8", anchored=True, lines_above=8),
        Arm("context", anchored=True, context_tokens=400),
        Arm("context+room", anchored=True, context_tokens=400, room=400),
        Arm("names", anchored=True, context_tokens=600, room=600),
        Arm("words", anchored=True, context_tokens=600, room=600, words=True),
        Arm("words-400", anchored=True, context_tokens=400, room=400, words=True),
        Arm("words-900", anchored=True, context_tokens=900, room=900, words=True),
    )
}


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


def prompt_of(arm: Arm, tokenizer: Tokenizer, question: Question) -> Prompt:
    """The prompt that the product would ask `question` with, were its settings the arm's."""
    lines = PromptOptions().lines_above if arm.lines_above is None else arm.lines_above
    options = PromptOptions(
        limit=PromptOptions().limit + arm.room,
        anchored=arm.anchored,
        lines_above=lines,
        context_tokens=arm.context_tokens,
    )
    before, after = question.before, question.after
    now = Snapshot("bench", question.path, question.language, 1, before + after)
    return PromptBuilder(tokenizer, options, _context(arm, question)).build(now, len(before))


def _context(arm: Arm, question: Question) -> Context:
    if question.repository is None or not arm.context_tokens:
        return NO_CONTEXT
    return _ByWords(question.repository) if arm.words else _ByNames(question.repository)


@dataclass(frozen=True, slots=True)
class _ByNames:
    """The files around a question, ranked by the names that they share and what is imported (`prompt.Context`)."""

    repository: RepositoryWords

    def observe(self, snapshot: Snapshot) -> None:
        """Remember nothing: nobody edits here."""

    def find(self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: Found | None = None) -> Found:  # noqa: ARG002 the interface
        """Snippets of the other files that have to do with the text at `offset`, the best first."""
        return Found(related(snapshot, offset, self.repository.files), self.repository.name, snapshot.path or "")

    def may_show(self, sources: Collection[str]) -> bool:  # noqa: ARG002 the interface
        """A question's files are all there to be shown."""
        return True


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
