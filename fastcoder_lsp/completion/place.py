"""Where a completion goes: the text on both sides of the cursor, and the way back from a text to an answer.

Owns the arithmetic of places alone: the editor's popup selection is inserted before anybody else looks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fastcoder_lsp.core import Completion, CompletionRequest


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


def nothing(request: CompletionRequest, finish: str, ms: Mapping[str, float] | None = None) -> Completion:
    """The empty answer; `finish` says why."""
    return Completion("", request.offset, request.offset, finish=finish, ms=ms or {})


def inserting(request: CompletionRequest, text: str, replaces: int, finish: str, ms: Mapping[str, float]) -> Completion:
    """The answer that inserts `text` at the cursor, replacing `replaces` characters right of it.

    Where the popup has a selected entry, the answer replaces that entry's range and begins with its text.
    """
    start, end, head = request.offset, request.offset, ""
    if request.selected is not None:
        start, end, head = request.selected.start, request.selected.end, request.selected.text
    if not text:
        return nothing(request, finish, ms)
    return Completion(head + text, start, end + replaces, finish=finish, ms=ms)
