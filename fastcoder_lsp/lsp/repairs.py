"""Mistakes of clients in messages about documents, repaired before the protocol's types reject the message.

A rejected edit would leave the server with an old text, and a rejected question the user without an answer.
"""

from typing import Any, TypeGuard

from lsprotocol import types

from fastcoder_lsp.lsp.known_clients import at, counts_triggers_from_zero
from fastcoder_lsp.workspace.documents import Documents

_OPENING = (types.TEXT_DOCUMENT_DID_OPEN, types.NOTEBOOK_DOCUMENT_DID_OPEN)


class Repairs:
    """Repairs the params of one client's messages, in place. `documents`: the session's."""

    def __init__(self) -> None:
        self.documents: Documents | None = None
        self._from_zero = False

    def repair(self, method: str, params: object) -> None:
        """Repair the params of a request or a notification."""
        if not isinstance(params, dict):
            return
        if method == types.INITIALIZE:
            self._from_zero = counts_triggers_from_zero(params)
        elif method == types.TEXT_DOCUMENT_INLINE_COMPLETION:
            self._number_trigger(params)
        elif method == types.TEXT_DOCUMENT_COMPLETION:
            _drop_trigger(params)
        if method in _OPENING:
            for item in (params.get("textDocument"), *_listed(params, "cellTextDocuments")):
                _complete(item)
        else:
            self._address(params)
            self._address(params.get("textDocument"), changes=method == types.TEXT_DOCUMENT_DID_CHANGE)
        if method == types.NOTEBOOK_DOCUMENT_DID_CHANGE:
            self._repair_cells(at(params, "change", "cells"))
        notebook = params.get("notebookDocument")
        if isinstance(notebook, dict) and not _is_version(notebook.get("version")):
            notebook["version"] = 0

    def _number_trigger(self, params: dict[str, Any]) -> None:
        """Drafts of the protocol, and vscode-languageclient 9, count from 0 for a key; LSP 3.18 counts from 1.

        Such a client is known by what it declares, and else by the first 0. Any other number means typing too.
        """
        context = params["context"] if isinstance(params.get("context"), dict) else {}
        entry = context.get("selectedCompletionInfo")
        if not isinstance(at(entry, "text"), str) or not isinstance(at(entry, "range"), dict):
            context.pop("selectedCompletionInfo", None)
        kind = context.get("triggerKind")
        if not _is_int(kind) or kind not in (0, 1, 2):
            kind = int(types.InlineCompletionTriggerKind.Automatic)
        self._from_zero = self._from_zero or kind == 0
        kind = min(kind + self._from_zero, int(types.InlineCompletionTriggerKind.Automatic))
        params["context"] = context | {"triggerKind": kind}

    def _address(self, holder: object, *, changes: bool = False) -> None:
        """Spell an open document's URI as at `didOpen`; give its next version to a change without one."""
        if not isinstance(holder, dict) or not isinstance(holder.get("uri"), str):
            return
        document = self.documents.get(holder["uri"]) if self.documents is not None else None
        if document is not None:
            holder["uri"] = document.uri
        if changes and not _is_version(holder.get("version")):
            holder["version"] = 0 if document is None else document.version + 1

    def _repair_cells(self, cells: object) -> None:
        structure = at(cells, "structure")
        for item in _listed(structure, "didOpen"):
            _complete(item)
        for closed in _listed(structure, "didClose"):
            self._address(closed)
        for content in _listed(cells, "textContent"):
            self._address(at(content, "document"), changes=True)


def _complete(item: object) -> None:
    """Give a document that is opened the version and the language that the client left out."""
    if isinstance(item, dict):
        if not _is_version(item.get("version")):
            item["version"] = 0
        if not isinstance(item.get("languageId"), str):
            item["languageId"] = ""


def _drop_trigger(params: dict[str, Any]) -> None:
    """Drop a menu's context with an unknown trigger: without one, the user has asked."""
    kind = at(params, "context", "triggerKind")
    if not _is_int(kind) or kind not in (1, 2, 3):
        params.pop("context", None)


def _listed(holder: object, name: str) -> list[Any]:
    found = at(holder, name)
    return found if isinstance(found, list) else []


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_version(value: object) -> bool:
    """Whether it is a version within the protocol's limits; some clients count milliseconds."""
    return _is_int(value) and -(2**31) <= value < 2**31
