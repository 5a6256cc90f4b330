"""Snippets of other files, as the model's family wants to see them before the prefix.

Owns their form and their budget; which snippets are worth it is decided by `prompt/select.py` and measured by
`bench quality`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt.templates import Template
from fastcoder_lsp.tokenizer import Tokenizer

_HASH = frozenset({"python", "shellscript", "ruby", "perl", "r", "yaml", "toml", "makefile", "dockerfile", "elixir"})
_DASHES = frozenset({"lua", "sql", "haskell", "elm", "ada"})


@dataclass(frozen=True, slots=True)
class ContextSnippet:
    """A piece of another file.

    Attributes:
        path: as the user knows it.
        text: whole lines.
        score: how much it promises.
        source: the file's absolute path, by which it is asked later whether it may still be shown.
    """

    path: str
    text: str
    score: float = 0.0
    source: str = ""


class Context(Protocol):
    """Finds code of other files that the model should see."""

    def observe(self, snapshot: Snapshot) -> None:
        """A prompt is built for this text: what was edited may matter to the next one."""
        ...

    def find(self, snapshot: Snapshot, offset: int) -> Sequence[ContextSnippet]:
        """Snippets for the cursor at `offset`, best first; may read the disk."""
        ...

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether code of all these files, which a prompt shows, may be shown at this moment."""
        ...


class NoContext:
    """There are no other files."""

    def observe(self, snapshot: Snapshot) -> None:
        """Remember nothing."""

    def find(self, snapshot: Snapshot, offset: int) -> Sequence[ContextSnippet]:  # noqa: ARG002 the interface
        """There are no snippets."""
        return ()

    def may_show(self, sources: Collection[str]) -> bool:
        """Only a prompt that shows no other file may be shown."""
        return not sources


NO_CONTEXT = NoContext()


def context_tokens(
    tokenizer: Tokenizer,
    template: Template,
    snippets: Sequence[ContextSnippet],
    *,
    path: str,
    language: str,
    budget: int,
) -> tuple[int, ...]:
    """The tokens that stand before the prefix mark (before the text, for a model without marks).

    The best snippets that fit `budget` together, the best one last, next to the code. Empty where none fits.
    """
    best = sorted(snippets, key=lambda snippet: -snippet.score)
    pieces: list[list[int]] = []
    for snippet in best:
        piece = _snippet(tokenizer, template, snippet, language)
        if len(piece) <= budget:
            budget -= len(piece)
            pieces.append(piece)
    if not pieces:
        return ()
    head = [tokenizer.control[template.repository], *tokenizer.encode("repository\n")] if template.repository else []
    tail: list[int] = []
    if template.file and not template.path_inside:
        tail = [tokenizer.control[template.file], *tokenizer.encode(f"{path}\n")]
    elif template.file:
        tail = [tokenizer.control[template.file]]
    return (*head, *(token for piece in reversed(pieces) for token in piece), *tail)


def _snippet(tokenizer: Tokenizer, template: Template, snippet: ContextSnippet, language: str) -> list[int]:
    text = snippet.text.rstrip() + "\n"
    if template.file:
        return [tokenizer.control[template.file], *tokenizer.encode(f"{snippet.path}\n{text}")]
    mark = comment_mark(language)
    lines = [f"Path: {snippet.path}", *text.rstrip().split("\n")]
    return tokenizer.encode("".join(f"{mark} {line}".rstrip() + "\n" for line in lines))


def comment_mark(language: str) -> str:
    """What begins a line comment in `language` (an LSP language id)."""
    if language in _HASH:
        return "#"
    return "--" if language in _DASHES else "//"
