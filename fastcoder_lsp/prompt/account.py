"""A report for the user about the other code in a prompt: its place, the reason for it, and its cost."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fastcoder_lsp.core.wording import counted
from fastcoder_lsp.index.words.terms import words_of
from fastcoder_lsp.prompt.context import ContextSnippet, PromptContext
from fastcoder_lsp.prompt.retrieval import ABOVE, BELOW, around

MAX_REASONS = 6
"""Names listed for a piece."""
RECENT = "recently edited, visited or copied, or its tests"
"""The reason for a piece that shares no names."""
_NAME = re.compile(r"[^\W\d]\w{2,}")


@dataclass(frozen=True, slots=True)
class LatestPrompt:
    """The latest prompt of a document.

    Attributes:
        text: of all tokens, with the names of control tokens.
        found: the other code in it.
        prefill_ms: the time to prefill a token on this machine; 0 if unknown.
    """

    text: str
    tokens: int
    found: PromptContext
    prefill_ms: float = 0.0


def account(shown: LatestPrompt, text: str, offset: int) -> Iterator[str]:
    """Lines of the report; the cursor is at `offset` in the document's `text`."""
    pieces = shown.found.snippets
    cost = sum(piece.tokens for piece in pieces)
    time = f" (read once, about {cost * shown.prefill_ms:.0f} ms)" if cost and shown.prefill_ms else ""
    count = counted(len(pieces), "piece")
    yield f"prompt: {counted(shown.tokens, 'token')}, including {cost} of other code in {count}{time}"
    for piece in pieces:
        names = piece.reason or ", ".join(reasons(piece, text, offset)) or (RECENT if piece.source else "its imports")
        if piece.source and shown.found.copied == (piece.source, piece.line):
            names = "copied just now"
        place = f"{piece.path}:{piece.line}" if piece.line else piece.path
        where = place if piece.source or piece.reason else f"{place} (this file, beyond what the prompt shows of it)"
        yield f"  {where}: {counted(piece.tokens, 'token')}, score {piece.score:.1f}: {names}"


def reasons(piece: ContextSnippet, text: str, offset: int) -> list[str]:
    """The names at the cursor that a piece contains, whole or as parts of its names, longest first."""
    held = {word for name in _NAME.findall(piece.text) for word in words_of(name)}
    near = Counter(name for name in _NAME.findall(around(text, offset, ABOVE, BELOW)) if name.lower() in held)
    return sorted(near, key=lambda name: (-len(name), name))[:MAX_REASONS]
