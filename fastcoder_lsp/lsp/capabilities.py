"""What the two sides of a session can do: the editor's features from its `initialize`, and the server's capabilities.

The capabilities are told in the answer to `initialize`, or registered while the server runs if the client supports it.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types

from fastcoder_lsp.lsp.configuration import SECTION
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.workspace.document import Encoding
from fastcoder_lsp.workspace.folders import SETTINGS_FILE
from fastcoder_lsp.workspace.paths import uri_of

TRIGGER_CHARACTERS = (".", "(", "[", ",", "=", ":", "<")


def at(value: object, *names: str) -> object:
    """The value at a path of names in untrusted JSON; None if a name is missing or its parent is no table."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


@dataclass(frozen=True, slots=True)
class EditorFeatures:
    """The client's abilities and wishes.

    `command_suffix` makes our commands' names unique where one editor starts us twice (VS Code registers them for the
    whole window). `reports_answers`: it wants to be told how each answer came about. `shows_status`: it shows
    loading and errors itself, from `fastcoder/status`; neither comes a second time by other ways. `shows_late`: it asks
    again where it is told (`fastcoder/late`) that a suggestion is there by now which came too late for its question.
    `protects_machine_settings`: the client keeps what a repository brings out of the settings of machine scope, by
    their schema; without this promise such settings are taken from `initializationOptions` alone.
    """

    name: str = ""
    process_id: int | None = None
    encoding: Encoding = Encoding.UTF16
    inline_completion: bool = False
    notebooks: bool = False
    progress: bool = False
    configuration: bool = False
    markdown: bool = False
    registers_configuration: bool = False
    registers_watched_files: bool = False
    registers_completion: bool = False
    command_suffix: str = ""
    protects_machine_settings: bool = False
    reports_answers: bool = False
    shows_status: bool = False
    shows_late: bool = False


def read_client(params: object) -> EditorFeatures:
    """The client behind the raw params of `initialize`.

    They are read by hand, so that nothing in them, such as a value that a later protocol brings, keeps a client out.
    """
    wishes = at(params, "initializationOptions", "client")
    name, suffix = at(params, "clientInfo", "name"), at(wishes, "commandSuffix")
    process_id = at(params, "processId")
    capabilities = at(params, "capabilities")
    workspace, document = at(capabilities, "workspace"), at(capabilities, "textDocument")
    formats = at(document, "completion", "completionItem", "documentationFormat")
    return EditorFeatures(
        name=name if isinstance(name, str) else "",
        process_id=process_id if isinstance(process_id, int) else None,
        encoding=_position_encoding(at(capabilities, "general", "positionEncodings")),
        inline_completion=isinstance(at(document, "inlineCompletion"), dict),
        notebooks=isinstance(at(capabilities, "notebookDocument"), dict),
        progress=at(capabilities, "window", "workDoneProgress") is True,
        configuration=at(workspace, "configuration") is True,
        markdown=isinstance(formats, list) and "markdown" in formats,
        registers_configuration=at(workspace, "didChangeConfiguration", "dynamicRegistration") is True,
        registers_watched_files=at(workspace, "didChangeWatchedFiles", "dynamicRegistration") is True,
        registers_completion=at(document, "completion", "dynamicRegistration") is True,
        command_suffix=suffix if isinstance(suffix, str) else "",
        protects_machine_settings=at(wishes, "protectsMachineSettings") is True,
        reports_answers=at(wishes, "reportsAnswers") is True,
        shows_status=at(wishes, "showsStatus") is True,
        shows_late=at(wishes, "showsLate") is True or at(capabilities, "experimental", "fastcoderLate") is True,
    )


def read_folders(params: object) -> list[str]:
    """The workspace's folders as URIs, from whichever of the protocol's three generations the client speaks."""
    folders, root_uri, root_path = (at(params, name) for name in ("workspaceFolders", "rootUri", "rootPath"))
    if isinstance(folders, list) and folders:
        return [uri for uri in (at(folder, "uri") for folder in folders) if isinstance(uri, str)]
    if isinstance(root_uri, str):
        return [root_uri]
    return [uri_of(Path(root_path))] if isinstance(root_path, str) and Path(root_path).is_absolute() else []


def initialization_options(params: object) -> object:
    """The settings that the client starts us with."""
    return at(params, "initializationOptions")


def _position_encoding(offered: object) -> Encoding:
    """The client's first choice among the three; UTF-16 where it names none."""
    known = {encoding.value: encoding for encoding in Encoding}
    choices = offered if isinstance(offered, list) else []
    return next((known[choice] for choice in choices if isinstance(choice, str) and choice in known), Encoding.UTF16)


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
            open_close=True, change=types.TextDocumentSyncKind.Incremental, save=types.SaveOptions(include_text=False)
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
            file_operations=types.FileOperationOptions(did_rename=types.FileOperationRegistrationOptions(everything)),
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
            self._endpoint.ask("client/unregisterCapability", undo, _ignore_result)

    def _register(self, wanted: list[types.Registration]) -> None:
        self._endpoint.ask("client/registerCapability", types.RegistrationParams(wanted), _ignore_result)


def _ignore_result(_: object) -> None:
    """Ignore the answer: a refusal is in the log."""
