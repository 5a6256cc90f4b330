"""The server's capabilities: in `initialize`, and registered while it runs if the client supports it."""

import uuid
from collections.abc import Iterable

from lsprotocol import types

from fastcoder_lsp.lsp.client import EditorFeatures
from fastcoder_lsp.lsp.configuration import SECTION
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.workspace.folders import SETTINGS_FILE

TRIGGER_CHARACTERS = (".", "(", "[", ",", "=", ":", "<")


def server_capabilities(
    client: EditorFeatures, *, popup: bool, definitions: bool, commands: Iterable[str]
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


def offers_popup(client: EditorFeatures, *, popup: bool) -> bool:
    """Suggestions come in the completion menu where nothing else can show them, or where they are asked for."""
    return popup or not client.inline_completion


def completion_options() -> types.CompletionOptions:
    """How suggestions in the completion menu are offered."""
    return types.CompletionOptions(trigger_characters=list(TRIGGER_CHARACTERS), resolve_provider=False)


def registrations(client: EditorFeatures) -> list[types.Registration]:
    """The registrations after `initialized`, as far as the client supports them."""
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


class Registrar:
    """Registers and takes back.

    Args:
        popup: whether suggestions in the completion menu were offered in `initialize` already.
    """

    def __init__(self, endpoint: Endpoint, client: EditorFeatures, *, popup: bool) -> None:
        self._endpoint = endpoint
        self._client = client
        self._static_popup = popup
        self._popup = False

    def open(self) -> None:
        """The client takes requests from now on."""
        if wanted := registrations(self._client):
            self._register(wanted)

    def offer_popup(self, *, wanted: bool) -> None:
        """Settings changed: offer suggestions in the completion menu, or no longer."""
        if self._static_popup or not self._client.registers_completion or wanted == self._popup:
            return
        self._popup = wanted
        registration = popup_registration()
        if wanted:
            self._register([registration])
        else:
            undo = types.UnregistrationParams([types.Unregistration(registration.id, registration.method)])
            self._endpoint.ask("client/unregisterCapability", undo, _taken)

    def _register(self, wanted: list[types.Registration]) -> None:
        self._endpoint.ask("client/registerCapability", types.RegistrationParams(wanted), _taken)


def _taken(_: object) -> None:
    """Ignore the answer: a refusal is in the log."""
