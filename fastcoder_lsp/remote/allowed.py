"""Which open documents may be sent to a server: those that the reading rules of their folder allow to be read.

Where the editor has opened no folder, a document's repository is the workspace, or else the folder that it lies in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.remote.failures import NotSentError, not_sent
from fastcoder_lsp.workspace import rules
from fastcoder_lsp.workspace.folders import workspace_of
from fastcoder_lsp.workspace.rules import ReadingRules

_KEPT: Final = 16
"""Folders whose rules are kept: a workspace may have hundreds."""


class Allowed:
    """The rules; used in one thread, but for `change`.

    Args:
        settings: of the session.
        folders: of the workspace, with their settings.
    """

    def __init__(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        self.change(settings, folders)

    def change(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """Other folders, or other settings for them."""
        self._said: tuple[Settings, dict[Path, Settings], dict[Path | None, ReadingRules]]
        self._said = settings, dict(folders), {}

    def why_not(self, snapshot: Snapshot, host: str) -> NotSentError | None:
        """Why a document must not be sent to `host`; None where it may be. Heeds what the ignore files say now."""
        path = None if snapshot.path is None else Path(snapshot.path)
        rule = self._rules(path).may_send(path, snapshot.language)
        if rule is None:
            return None
        return not_sent(host, "secret" if rule is rules.Reason.SECRET else "ignored", rule.value)

    def _rules(self, path: Path | None) -> ReadingRules:
        settings, folders, kept = self._said
        holding = (root for root in folders if path is not None and path.is_relative_to(root))
        root = max(holding, key=lambda root: len(root.parts), default=None)
        roots, key = tuple(folders), root
        if path is not None and not folders:
            key = workspace_of(path, Path(path.anchor)) or path.parent
            roots = (key,)
        if key not in kept:
            if len(kept) >= _KEPT:
                kept.clear()
            kept[key] = ReadingRules(roots, settings if root is None else folders[root])
        return kept[key]
