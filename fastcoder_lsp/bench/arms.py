"""Ways of asking a model the same question, to be compared with each other: arms of an experiment.

Owns what each arm's prompt is; the product's own prompt builder makes all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import Prompt, PromptBuilder, PromptOptions
from fastcoder_lsp.prompt.select import related
from fastcoder_lsp.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Arm:
    """`lines_above`: so many lines were typed since the anchor was set; `context_tokens`: for other files' snippets."""

    name: str
    anchored: bool
    lines_above: int = 0
    context_tokens: int = 0


ARMS = {
    arm.name: arm
    for arm in (
        Arm("plain", anchored=False),
        Arm("anchored", anchored=True),
        Arm("anchored+3", anchored=True, lines_above=3),
        Arm("anchored+8", anchored=True, lines_above=8),
        Arm("context", anchored=True, context_tokens=400),
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
    builder = PromptBuilder(tokenizer, PromptOptions(anchored=arm.anchored, context_tokens=arm.context_tokens))
    before, after = question.before, question.after
    now = Snapshot("bench", question.path, "python", 1, before + after)
    context = related(now, len(before), question.files) if arm.context_tokens and question.files else ()
    if arm.lines_above:
        lines = before.split("\n")
        earlier = "\n".join([*lines[: max(0, len(lines) - 1 - arm.lines_above)], ""]) if len(lines) > 1 else ""
        builder.build(Snapshot("bench", question.path, "python", 0, earlier + after), len(earlier), context)
    return builder.build(now, len(before), context)
