"""What the server offers a client: the static part in `initialize`, the rest registered once it is running."""

import uuid
from collections.abc import Iterable

from lsprotocol import types

from fastcoder_lsp.lsp.client import Client
from fastcoder_lsp.lsp.configuration import SECTION
from fastcoder_lsp.workspace.folders import SETTINGS_FILE

TRIGGER_CHARACTERS = (".", "(", "[", ",", "=", ":", "<")


def server_capabilities(
    client: Client, *, popup: bool, definitions: bool, commands: Iterable[str]
) -> types.ServerCapabilities:
    """The answer to `initialize`.

    Args:
        client: what it can do.
        popup: whether the settings ask for suggestions in the completion menu too.
        definitions: whether they let other files' code go along, so that `fastcoder/definitions` is of use.
        commands: their names.
    """
    everything = [types.FileOperationFilter(types.FileOperationPattern("**/*"), scheme="file")]
    return types.ServerCapabilities(
        position_encoding=types.PositionEncodingKind(client.encoding.value),
        text_document_sync=types.TextDocumentSyncOptions(
            open_close=True,
            change=types.TextDocumentSyncKind.Incremental,
            save=types.SaveOptions(include_text=False),
        ),
        notebook_document_sync=types.NotebookDocumentSyncOptions(
            [types.NotebookDocumentFilterWithNotebook(notebook="*")], save=False
        )
        if client.notebooks
        else None,
        inline_completion_provider=types.InlineCompletionOptions(),
        completion_provider=completion_options() if offers_popup(client, popup=popup) else None,
        execute_command_provider=types.ExecuteCommandOptions(list(commands)),
        workspace=types.WorkspaceOptions(
            workspace_folders=types.WorkspaceFoldersServerCapabilities(supported=True, change_notifications=True),
            file_operations=types.FileOperationOptions(
                did_rename=types.FileOperationRegistrationOptions(everything),
            ),
        ),
        experimental={"fastcoderDefinitions": definitions},
    )


def offers_popup(client: Client, *, popup: bool) -> bool:
    """Suggestions come in the completion menu where nothing else can show them, or where they are asked for."""
    return popup or not client.inline_completion


def completion_options() -> types.CompletionOptions:
    """How suggestions in the completion menu are offered."""
    return types.CompletionOptions(trigger_characters=list(TRIGGER_CHARACTERS), resolve_provider=False)


def registrations(client: Client) -> list[types.Registration]:
    """What is registered after `initialized`, where the client lets us."""
    wanted = []
    if client.registers_configuration:
        options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
        wanted.append(_registration("workspace/didChangeConfiguration", options))
    if client.registers_watched_files:
        watcher = types.FileSystemWatcher(f"**/{SETTINGS_FILE}")
        options_w = types.DidChangeWatchedFilesRegistrationOptions([watcher])
        wanted.append(_registration("workspace/didChangeWatchedFiles", options_w))
    return wanted


def popup_registration() -> types.Registration:
    """Suggestions in the completion menu, asked for while the server runs."""
    options = types.CompletionRegistrationOptions(trigger_characters=list(TRIGGER_CHARACTERS), resolve_provider=False)
    return types.Registration("fastcoder-popup", "textDocument/completion", options)


def _registration(method: str, options: object) -> types.Registration:
    return types.Registration(str(uuid.uuid4()), method, options)
