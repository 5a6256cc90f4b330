"""Where a completion goes: the text on both sides of the cursor, and the way back from a text to an answer.

Owns the arithmetic of places alone: the editor's popup selection is inserted before anybody else looks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fastcoder_lsp.completion.reuse import Recalled
from fastcoder_lsp.core import Completion, CompletionRequest, Reason


@dataclass(frozen=True, slots=True)
class Place:
    """The text on both sides of the cursor, the popup's selected entry already inserted."""

    before: str
    after: str


def place_of(request: CompletionRequest) -> Place:
    """Where `request` asks, as text."""
    text, selected = request.snapshot.text, request.selected
    if selected is None:
        return Place(text[: request.offset], text[request.offset :])
    return Place(text[: selected.start] + selected.text, text[selected.end :])


def nothing(
    request: CompletionRequest, finish: str, reason: Reason, ms: Mapping[str, float] | None = None
) -> Completion:
    """The empty answer; `finish` says why to programs, `reason` to people."""
    return Completion("", request.offset, request.offset, finish=finish, ms=ms or {}, reason=reason)


def answering(
    request: CompletionRequest, candidates: Sequence[Recalled], finish: str, ms: Mapping[str, float]
) -> Completion:
    """The answer that inserts the first of `candidates` at the cursor, the others beside it.

    Where the popup has a selected entry, the answer replaces that entry's range and begins with its text.
    """
    first, *others = (_inserting(request, candidate, finish) for candidate in candidates)
    return replace(first, others=tuple(others), ms=ms)


def _inserting(request: CompletionRequest, candidate: Recalled, finish: str) -> Completion:
    start, end, head = request.offset, request.offset, ""
    if request.selected is not None:
        start, end, head = request.selected.start, request.selected.end, request.selected.text
    return Completion(head + candidate.text, start, end + candidate.replaces, finish=finish)
