"""Code of other files that is sent with a question, as the reading rules of its folder allow.

A question's snippets stay the same while the user types: new ones would invalidate the server's KV cache behind them.
`find` reads the disk, so it runs in one thread of its own.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.remote.excerpt import ExcerptSnippet, window
from fastcoder_lsp.workspace.open_texts import OpenTexts

if TYPE_CHECKING:
    from fastcoder_lsp.host.workspace import FrontWorkspace
    from fastcoder_lsp.prompt import PromptContext

MAX_CHARACTERS: Final = 6_000
"""Of all snippets of a question."""
_PAUSE_MS: Final = 2_000.0
"""After such a pause in typing a new search may replace the snippets; while there are none, after the last search."""


class SnippetFinder:
    """Finds the snippets for a question; `notice` shows a message to the user."""

    def __init__(self, folders: Mapping[Path, Settings], texts: OpenTexts, notice: Callable[[str], None]) -> None:
        self._lock = threading.Lock()
        self._folders, self._texts, self._notice = _without_auto_context(folders), texts, notice
        self._workspace: FrontWorkspace | None = None
        self._latest: LatestDocuments[tuple[PromptContext, float]] = LatestDocuments(16)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Replace the folders and their settings; from any thread."""
        with self._lock:
            self._folders = _without_auto_context(folders)
            if self._workspace is not None:
                self._workspace.change(self._folders)

    def enabled(self) -> bool:
        """Whether any folder's code may be sent."""
        return any(settings.context_enabled for settings in self._folders.values())

    def find(self, question: Question) -> tuple[ExcerptSnippet, ...]:
        """The snippets for `question`, the best last; empty if its folder's settings forbid them."""
        if not self.enabled():
            return ()
        context = self._open_workspace().surroundings(drafted_from=False).context
        snapshot, offset = question.request.snapshot, question.request.offset
        context.observe(snapshot)
        kept, since_ms = self._latest.get(snapshot.uri) or (None, 0.0)
        sources = {one.source for one in kept.snippets if one.source} if kept is not None else set()
        if kept is not None and not context.may_show(sources):
            kept = None
        if kept is None or question.asked_ms - since_ms > _PAUSE_MS:
            kept, since_ms = context.find(snapshot, offset, window(snapshot.text, offset), kept), question.asked_ms
        # An empty result may mean that indexing goes on: search again even without a pause in typing.
        self._latest.put(snapshot.uri, (kept, question.asked_ms if kept.snippets else since_ms))
        return _best_that_fit(kept)

    def close(self) -> None:
        """Close the workspace."""
        with self._lock:
            if self._workspace is not None:
                self._workspace.close(0.0)

    def _open_workspace(self) -> "FrontWorkspace":
        from fastcoder_lsp.host.workspace import FrontWorkspace  # noqa: PLC0415 brings a compiler along
        from fastcoder_lsp.workspace.shared_stores import SharedStores  # noqa: PLC0415

        with self._lock:
            if self._workspace is None:
                stores = SharedStores(cache_folder())
                self._workspace = FrontWorkspace(self._folders, stores, self._texts, lambda _: None, self._notice)
            return self._workspace


def _without_auto_context(folders: Mapping[Path, Settings]) -> dict[Path, Settings]:
    """The folders with `context.enabled` off unless it is `true`: `auto` is meant for a local model."""
    return {
        root: replace(settings, context_enabled=settings.context_enabled is True) for root, settings in folders.items()
    }


def _best_that_fit(found: "PromptContext") -> tuple[ExcerptSnippet, ...]:
    room, taken = MAX_CHARACTERS, list[ExcerptSnippet]()
    for snippet in sorted(found.snippets, key=lambda one: -one.score):
        if len(snippet.text) <= room and snippet.text.strip():
            room -= len(snippet.text)
            taken.append(ExcerptSnippet(snippet.path, snippet.text))
    return tuple(reversed(taken))
