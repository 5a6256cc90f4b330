"""Snippets of other files, as the model's family wants to see them before the prefix.

Owns their form and their budget; which snippets are worth it is decided by `prompt/retrieval.py` and measured by
`bench quality`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
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
        source: the file's absolute path, by which it is asked later whether it may still be shown; empty for a piece of
            the document itself.
        tokens: that it takes in a prompt; 0 before it is in one.
        line: its first one in the file, from 1; 0 where it is not of one place.
    """

    path: str
    text: str
    score: float = 0.0
    source: str = ""
    tokens: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What goes along with a prompt.

    Attributes:
        snippets: of other files, and of the document outside its window; best first.
        repository: the name of the workspace folder.
        path: the document's from there, as the snippets' paths are.
        copied: file and line, from 1, of what was just copied and stands ahead, if it fits; None: nothing was.
    """

    snippets: tuple[ContextSnippet, ...] = ()
    repository: str = "repository"
    path: str = ""
    copied: tuple[str, int] | None = None


NOTHING = Found()


class Context(Protocol):
    """Finds code of other files that the model should see."""

    def observe(self, snapshot: Snapshot) -> None:
        """A prompt is built for this text: what was edited may matter to the next one."""
        ...

    def find(self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: Found | None = None) -> Found:
        """Snippets for the cursor at `offset`, best first; may read the disk.

        Args:
            snapshot: the document.
            offset: the cursor.
            shown: what of the text the prompt's window holds, characters from…to; no snippet is of that.
            kept: what the prompt shows so far; given back itself where an exchange would gain too little.
        """
        ...

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether code of all these files, which a prompt shows, may be shown at this moment."""
        ...


class NoContext:
    """There are no other files."""

    def observe(self, snapshot: Snapshot) -> None:
        """Remember nothing."""

    def find(self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: Found | None = None) -> Found:  # noqa: ARG002 the interface
        """There are no snippets."""
        return NOTHING

    def may_show(self, sources: Collection[str]) -> bool:
        """Only a prompt that shows no other file may be shown."""
        return not sources


NO_CONTEXT = NoContext()


def told(
    tokenizer: Tokenizer,
    template: Template,
    found: Found,
    *,
    language: str,
    budget: int,
) -> tuple[tuple[int, ...], Found]:
    """The tokens that stand before the prefix mark (before the text, for a model without marks), and what they tell.

    The best snippets that fit `budget` together, the best one last, next to the code. Empty where none fits.
    """
    best = sorted(found.snippets, key=lambda snippet: -snippet.score)
    pieces: list[list[int]] = []
    taken: list[ContextSnippet] = []
    for snippet in best:
        piece = _snippet(tokenizer, template, snippet, language)
        if len(piece) <= budget:
            budget -= len(piece)
            pieces.append(piece)
            taken.append(replace(snippet, tokens=len(piece)))
    if not pieces:
        return (), NOTHING
    head = (
        [tokenizer.control[template.repository], *tokenizer.encode(f"{found.repository}\n")]
        if template.repository
        else []
    )
    tail: list[int] = []
    if template.file and not template.path_inside:
        tail = [tokenizer.control[template.file], *tokenizer.encode(f"{found.path}\n")]
    elif template.file:
        tail = [tokenizer.control[template.file]]
    tokens = (*head, *(token for piece in reversed(pieces) for token in piece), *tail)
    return tokens, replace(found, snippets=tuple(taken))


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
