"""The editor's features, read once from its `initialize`."""

from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.workspace.document import Encoding
from fastcoder_lsp.workspace.paths import uri_of


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
        encoding=_first_known(at(capabilities, "general", "positionEncodings")),
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


def _first_known(offered: object) -> Encoding:
    """The client's first choice among the three; UTF-16 where it names none."""
    known = {encoding.value: encoding for encoding in Encoding}
    choices = offered if isinstance(offered, list) else []
    return next((known[choice] for choice in choices if isinstance(choice, str) and choice in known), Encoding.UTF16)
