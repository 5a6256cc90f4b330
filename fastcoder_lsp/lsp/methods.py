"""Which handler takes which method of a running session: the table to start reading from."""

from collections.abc import Callable
from typing import Any, Final

from lsprotocol import types

from fastcoder_lsp.lsp.requests import commands, completion, debug, documents, inline_completion, statistics, workspace
from fastcoder_lsp.lsp.session import Session

Method = tuple[str, Callable[[Session, Any], Any], type | None]
"""The method's name, its handler, and the type of its params (None: as they come)."""

REQUESTS: Final[tuple[Method, ...]] = (
    ("textDocument/inlineCompletion", inline_completion.inline_completion, types.InlineCompletionParams),
    ("textDocument/completion", completion.completion, types.CompletionParams),
    ("workspace/executeCommand", commands.execute_command, types.ExecuteCommandParams),
    ("fastcoder/stats", statistics.statistics, None),
)
DEBUG_REQUESTS: Final[tuple[Method, ...]] = (("fastcoder/debug/text", debug.debug_text, None),)
NOTIFICATIONS: Final[tuple[Method, ...]] = (
    ("initialized", workspace.initialized, types.InitializedParams),
    ("textDocument/didOpen", documents.did_open, types.DidOpenTextDocumentParams),
    ("textDocument/didChange", documents.did_change, types.DidChangeTextDocumentParams),
    ("textDocument/didClose", documents.did_close, types.DidCloseTextDocumentParams),
    ("textDocument/didSave", documents.did_save, types.DidSaveTextDocumentParams),
    ("notebookDocument/didOpen", documents.notebook_did_open, types.DidOpenNotebookDocumentParams),
    ("notebookDocument/didChange", documents.notebook_did_change, types.DidChangeNotebookDocumentParams),
    ("notebookDocument/didClose", documents.notebook_did_close, types.DidCloseNotebookDocumentParams),
    ("workspace/didRenameFiles", documents.did_rename_files, types.RenameFilesParams),
    ("workspace/didChangeWatchedFiles", documents.did_change_watched_files, types.DidChangeWatchedFilesParams),
    ("workspace/didChangeWorkspaceFolders", workspace.did_change_folders, types.DidChangeWorkspaceFoldersParams),
    ("workspace/didChangeConfiguration", workspace.did_change_configuration, types.DidChangeConfigurationParams),
)
