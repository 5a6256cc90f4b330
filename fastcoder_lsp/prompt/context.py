"""Snippets of other files in the form of the model's family, before the prefix. `retrieval` chooses them."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol

from fastcoder_lsp.core import Pieces, Snapshot, ready
from fastcoder_lsp.prompt.templates import Template
from fastcoder_lsp.tokenizer import Tokenizer

_HASH = frozenset({"python", "shellscript", "ruby", "perl", "r", "yaml", "toml", "makefile", "dockerfile", "elixir"})
_DASHES = frozenset({"lua", "sql", "haskell", "elm", "ada"})


@dataclass(frozen=True, slots=True)
class ContextSnippet:
    """Whole lines of another file, whose `path` is as the user knows it."""

    path: str
    text: str
    score: float = 0.0  # expected worth; more is better
    source: str = ""
    """The file's absolute path, for checking the rules again before each use; empty for a piece of the document."""
    tokens: int = 0  # its tokens in a prompt; 0 before it is in one
    line: int = 0  # its first line in the file, from 1; 0 if it is not from one place


@dataclass(frozen=True, slots=True)
class PromptContext:
    """Other code for a prompt: snippets of other files, and of the document outside its window, best first."""

    snippets: tuple[ContextSnippet, ...] = ()
    repository: str = "repository"  # the workspace folder's name
    path: str = ""  # the document's path from there, like the snippets'
    copied: tuple[str, int] | None = None  # file and line, from 1, of recently copied code that comes first if it fits


NOTHING = PromptContext()


class Context(Protocol):
    """Finds code of other files for the prompt."""

    def observe(self, snapshot: Snapshot) -> None:
        """A prompt is built for this text: edits may matter to the next one."""

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> Pieces[PromptContext]:
        """Snippets for the cursor at `offset`, best first; may read the disk.

        `shown`: the prompt's window, characters from…to; no snippet overlaps it. `kept`: the prompt's snippets so far,
        returned if an exchange would gain too little.
        """

    def may_show(self, sources: Collection[str]) -> bool:
        """Whether a prompt may show the code of all these files now."""


class NoContext:
    """No other files."""

    def observe(self, snapshot: Snapshot) -> None:
        """Ignore the text."""

    def find(self, *_: object, **_named: object) -> Pieces[PromptContext]:
        """Find no snippets."""
        return ready(NOTHING)

    def may_show(self, sources: Collection[str]) -> bool:
        """Allow only prompts without other files."""
        return not sources


NO_CONTEXT = NoContext()


class GivenExtras:
    """Code of other files that the client sends along with a snapshot, or else the snippets of another context.

    Snippets in a prompt stay while the client still sends them, because an exchange invalidates the KV cache behind
    them.
    """

    def __init__(self, fallback: Context = NO_CONTEXT) -> None:
        self._fallback = fallback

    def observe(self, snapshot: Snapshot) -> None:
        """Pass on edits only if the client sends no code."""
        if not snapshot.extras:
            self._fallback.observe(snapshot)

    def find(
        self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: PromptContext | None = None
    ) -> Pieces[PromptContext]:
        """The client's chunks, the latest first; `kept` while all its snippets are among them."""
        if not snapshot.extras:
            return (yield from self._fallback.find(snapshot, offset, shown, kept))
        given = {(extra.name, extra.text) for extra in snapshot.extras}
        if kept is not None and kept.snippets and all((one.path, one.text) in given for one in kept.snippets):
            return kept
        chunks = enumerate(snapshot.extras)
        return PromptContext(
            tuple(ContextSnippet(extra.name, extra.text, score) for score, extra in chunks if extra.text)
        )

    def may_show(self, sources: Collection[str]) -> bool:
        """The client's chunks have no source and may be shown; the other context decides the rest."""
        return self._fallback.may_show(sources)


def encode_context(
    tokenizer: Tokenizer, template: Template, found: PromptContext, *, language: str, budget: int
) -> Pieces[tuple[tuple[int, ...], PromptContext]]:
    """The tokens before the prefix mark, and the snippets in them: the best that fit `budget`, the best last."""
    best = sorted(found.snippets, key=lambda snippet: -snippet.score)
    pieces: list[list[int]] = []
    taken: list[ContextSnippet] = []
    for snippet in best:
        piece = _snippet(tokenizer, template, snippet, language)
        if len(piece) <= budget:
            budget -= len(piece)
            pieces.append(piece)
            taken.append(replace(snippet, tokens=len(piece)))
        yield
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
    lines = f"Path: {snippet.path}\n{text.rstrip()}".split("\n")  # a file's name may hold line feeds
    return tokenizer.encode("".join(f"{mark} {line}".rstrip() + "\n" for line in lines))


def comment_mark(language: str) -> str:
    """The mark that begins a line comment in `language` (an LSP language id)."""
    if language in _HASH:
        return "#"
    return "--" if language in _DASHES else "//"
