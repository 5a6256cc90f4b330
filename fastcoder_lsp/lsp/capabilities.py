"""The two sides of a session: the editor's features from its `initialize`, and the server's capabilities."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types

from fastcoder_lsp.lsp.configuration import SECTION
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.lsp.known_clients import ClientFacts, MenuText, at, known
from fastcoder_lsp.workspace.document import Encoding
from fastcoder_lsp.workspace.paths import uri_of
from fastcoder_lsp.workspace.settings_files import SETTINGS_FILE

TRIGGER_CHARACTERS = (".", "(", "[", ",", "=", ":", "<")


@dataclass(frozen=True, slots=True)
class EditorFeatures:
    """The client's abilities and wishes.

    `command_suffix` makes our commands' names unique if one editor starts several servers (VS Code registers them for
    the whole window).
    """

    name: str = ""
    process_id: int | None = None
    encoding: Encoding = Encoding.UTF16
    inline_completion: bool = False
    misreads_inline: bool = False  # it would spoil ghost text if the server offered it
    menu_text: MenuText = MenuText.AS_IS
    insert_text_mode: int = types.InsertTextMode.AsIs
    notebooks: bool = False
    progress: bool = False
    configuration: bool = False
    markdown: bool = False
    registers_configuration: bool = False
    registers_watched_files: bool = False
    registers_completion: bool = False
    versions_edits: bool = False  # edits of the workspace may name the versions of documents
    annotates_edits: bool = False  # and wait for the user's confirmation
    command_suffix: str = ""
    protects_machine_settings: bool = False
    """It keeps a repository's values out of settings of machine scope; without this promise such settings are taken
    only from `initializationOptions`."""
    reports_answers: bool = False  # send times and counts of each answer
    follows_status: bool = False  # it wants `fastcoder/status`; clients that do not know it warn the user
    shows_status: bool = False
    """It shows loading and errors itself, from `fastcoder/status`, so they are sent in no other way."""
    shows_late: bool = False  # on `fastcoder/late` it asks again for a suggestion that came too late


def read_client(params: object) -> EditorFeatures:
    """The client's features, from the raw params of `initialize`: no unknown value in them locks a client out."""
    wishes = at(params, "initializationOptions", "client")
    suffix, process_id = at(wishes, "commandSuffix"), at(params, "processId")
    capabilities = at(params, "capabilities")
    workspace, document = at(capabilities, "workspace"), at(capabilities, "textDocument")
    formats = at(document, "completion", "completionItem", "documentationFormat")
    facts = ClientFacts.read(params)
    client, shows_status = known(facts), at(wishes, "showsStatus") is True
    return EditorFeatures(
        name=facts.name,
        process_id=process_id if isinstance(process_id, int) else None,
        encoding=_position_encoding(at(capabilities, "general", "positionEncodings")),
        inline_completion=isinstance(at(document, "inlineCompletion"), dict),
        misreads_inline=client is not None and client.misreads_inline,
        menu_text=facts.menu_text if client is None else client.menu_text,
        insert_text_mode=facts.insert_text_mode,
        notebooks=isinstance(at(capabilities, "notebookDocument"), dict),
        progress=at(capabilities, "window", "workDoneProgress") is True,
        configuration=at(workspace, "configuration") is True,
        markdown=isinstance(formats, list) and "markdown" in formats,
        registers_configuration=at(workspace, "didChangeConfiguration", "dynamicRegistration") is True,
        registers_watched_files=at(workspace, "didChangeWatchedFiles", "dynamicRegistration") is True,
        registers_completion=at(document, "completion", "dynamicRegistration") is True,
        versions_edits=at(workspace, "workspaceEdit", "documentChanges") is True,
        annotates_edits=isinstance(at(workspace, "workspaceEdit", "changeAnnotationSupport"), dict),
        command_suffix=suffix if isinstance(suffix, str) else "",
        protects_machine_settings=at(wishes, "protectsMachineSettings") is True,
        reports_answers=at(wishes, "reportsAnswers") is True,
        follows_status=shows_status or at(capabilities, "experimental", "fastcoderStatus") is True,
        shows_status=shows_status,
        shows_late=at(wishes, "showsLate") is True or at(capabilities, "experimental", "fastcoderLate") is True,
    )


def read_folders(params: object) -> list[str]:
    """The workspace's folders as URIs, from the newest of the protocol's three forms that the client sends."""
    folders, root_uri, root_path = (at(params, name) for name in ("workspaceFolders", "rootUri", "rootPath"))
    if isinstance(folders, list) and folders:
        return [uri for uri in (at(folder, "uri") for folder in folders) if isinstance(uri, str)]
    if isinstance(root_uri, str):
        return [root_uri]
    return [uri_of(Path(root_path))] if isinstance(root_path, str) and Path(root_path).is_absolute() else []


def _position_encoding(offered: object) -> Encoding:
    known = {encoding.value: encoding for encoding in Encoding}
    choices = offered if isinstance(offered, list) else []
    return next((known[choice] for choice in choices if isinstance(choice, str) and choice in known), Encoding.UTF16)


def server_capabilities(
    client: EditorFeatures, *, popup: bool, definitions: bool, edits: bool, commands: Iterable[str]
) -> types.ServerCapabilities:
    """The answer to `initialize`.

    `popup`: offer suggestions in the completion menu too. The client should send `fastcoder/definitions` if prompts may
    contain other files' code (`definitions`), and ask for `edits`; those of other files are code actions where no
    plugin of ours asks for them.
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
        inline_completion_provider=None if client.misreads_inline else types.InlineCompletionOptions(),
        completion_provider=types.CompletionOptions(list(TRIGGER_CHARACTERS), resolve_provider=False)
        if offers_popup(client, popup=popup)
        else None,
        code_action_provider=types.CodeActionOptions([types.CodeActionKind.RefactorRewrite])
        if edits and not client.follows_status
        else None,
        execute_command_provider=types.ExecuteCommandOptions(list(commands)),
        workspace=types.WorkspaceOptions(
            workspace_folders=types.WorkspaceFoldersServerCapabilities(supported=True, change_notifications=True),
            file_operations=types.FileOperationOptions(did_rename=types.FileOperationRegistrationOptions(everything)),
        ),
        experimental={
            "fastcoderDefinitions": definitions,
            **({"fastcoderEdits": True} if edits else {}),
        },
    )


def offers_popup(client: EditorFeatures, *, popup: bool) -> bool:
    """Whether suggestions appear in the completion menu: on request, or if the client has no ghost text."""
    return popup or not client.inline_completion


class Registrar:
    """Registers and unregisters. `popup`: whether `initialize` already offered suggestions in the completion menu."""

    def __init__(self, endpoint: Endpoint, client: EditorFeatures, *, popup: bool) -> None:
        self._endpoint, self._client = endpoint, client
        self._static_popup, self._popup = popup, False

    def open(self) -> None:
        """The client accepts requests from now on."""
        wanted: dict[str, object] = {}
        if self._client.registers_configuration:
            options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
            wanted["workspace/didChangeConfiguration"] = options
        if self._client.registers_watched_files:
            watcher = types.FileSystemWatcher(f"**/{SETTINGS_FILE}")
            wanted["workspace/didChangeWatchedFiles"] = types.DidChangeWatchedFilesRegistrationOptions([watcher])
        if wanted:
            self._register([types.Registration(str(uuid.uuid4()), *one) for one in wanted.items()])

    @property
    def can_offer_popup(self) -> bool:
        """Whether suggestions can appear in the completion menu without a restart."""
        return self._static_popup or self._client.registers_completion

    def offer_popup(self, *, wanted: bool) -> None:
        """Settings changed: offer suggestions in the completion menu, or withdraw them."""
        if self._static_popup or not self._client.registers_completion or wanted == self._popup:
            return
        self._popup, name, method = wanted, "fastcoder-popup", "textDocument/completion"
        if wanted:
            characters = list(TRIGGER_CHARACTERS)
            options = types.CompletionRegistrationOptions(trigger_characters=characters, resolve_provider=False)
            self._register([types.Registration(name, method, options)])
        else:
            undo = types.UnregistrationParams([types.Unregistration(name, method)])
            self._endpoint.ask("client/unregisterCapability", undo, _ignore_result)

    def _register(self, wanted: list[types.Registration]) -> None:
        self._endpoint.ask("client/registerCapability", types.RegistrationParams(wanted), _ignore_result)


def _ignore_result(_: object) -> None:
    """Errors are logged."""
