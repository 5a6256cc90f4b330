"""The method table: the handler of each method of a running session."""

from collections.abc import Callable
from typing import Any, Final

from fastcoder_lsp.lsp.requests import completion, context, documents, edits, inline_completion, reports, workspace
from fastcoder_lsp.lsp.session import Session

Method = tuple[str, Callable[[Session, Any], Any]]
"""The method's name and its handler; params have the protocol's type, those of our own methods are plain JSON.

A handler runs up to its first `await` before the client's next message is read.
"""

METHODS: Final[tuple[Method, ...]] = (
    ("textDocument/inlineCompletion", inline_completion.inline_completion),
    ("textDocument/completion", completion.completion),
    ("textDocument/copilotInlineEdit", edits.inline_edit),
    ("textDocument/didShowInlineEdit", edits.did_show),
    ("textDocument/didFocus", edits.did_focus),
    ("fastcoder/editsElsewhere", edits.edits_elsewhere),
    ("textDocument/codeAction", edits.code_action),
    ("fastcoder/editRejected", edits.rejected),
    ("workspace/executeCommand", workspace.execute_command),
    ("fastcoder/stats", reports.statistics),
    ("fastcoder/trace", reports.trace),
    ("fastcoder/why", reports.why),
    ("fastcoder/cursor", context.cursor),
    ("fastcoder/definitions", context.definitions),
    ("fastcoder/yanked", context.yanked),
    ("initialized", workspace.initialized),
    ("textDocument/didOpen", documents.did_open),
    ("textDocument/didChange", documents.did_change),
    ("textDocument/didClose", documents.did_close),
    ("textDocument/didSave", documents.did_save),
    ("notebookDocument/didOpen", documents.notebook_did_open),
    ("notebookDocument/didChange", documents.notebook_did_change),
    ("notebookDocument/didClose", documents.notebook_did_close),
    ("workspace/didRenameFiles", documents.did_rename_files),
    ("workspace/didChangeWatchedFiles", documents.did_change_watched_files),
    ("workspace/didChangeWorkspaceFolders", workspace.did_change_folders),
    ("workspace/didChangeConfiguration", workspace.did_change_configuration),
)
DEBUG_METHODS: Final[tuple[Method, ...]] = (("fastcoder/debug/text", reports.debug_text),)
