"""Ways of asking a model the same question, to be compared with each other: arms of an experiment.

Owns what each arm's prompt is; the product's own prompt builder makes all of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import ContextSnippet, Prompt, PromptBuilder, PromptOptions
from fastcoder_lsp.prompt.select import related
from fastcoder_lsp.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of asking the model.

    `lines_above`: so many stand after the middle mark, None: as in the product; `context_tokens`: for snippets of other
    files, of which `room` come on top of the product's longest prompt.
    """

    name: str
    anchored: bool
    lines_above: int | None = None
    context_tokens: int = 0
    room: int = 0


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
    )
}


@dataclass(frozen=True, slots=True)
class Question:
    """A cursor in a file. `files`: path → text of the rest of its repository, as far as it may be seen."""

    id: str
    before: str
    after: str
    path: str = "main.py"
    files: Mapping[str, str] | None = None


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
    now = Snapshot("bench", question.path, "python", 1, before + after)
    return PromptBuilder(tokenizer, options, _Repository(question.files or {})).build(now, len(before))


@dataclass(frozen=True, slots=True)
class _Repository:
    """The other files of a question, all of them looked at (`prompt.Context`)."""

    files: Mapping[str, str]

    def observe(self, snapshot: Snapshot) -> None:
        """Remember nothing: nobody edits here."""

    def find(self, snapshot: Snapshot, offset: int) -> Sequence[ContextSnippet]:
        """Snippets of the other files that have to do with the text at `offset`, the best first."""
        return related(snapshot, offset, self.files)

    def may_show(self, sources: Collection[str]) -> bool:
        """A question's files are all there to be shown."""
        return not sources
