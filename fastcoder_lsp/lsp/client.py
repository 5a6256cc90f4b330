"""What the client at the other end can do, read once from its `initialize`."""

from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from fastcoder_lsp.workspace.positions import Encoding


@dataclass(frozen=True, slots=True)
class Client:
    """The client's abilities and wishes.

    `command_suffix` makes our commands' names unique where one editor starts us twice (VS Code registers them for the
    whole window). `protects_machine_settings`: the client keeps what a repository brings out of the settings of
    machine scope, by their schema; without this promise such settings are taken from `initializationOptions` alone.
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


def read_client(params: types.InitializeParams) -> Client:
    """The client behind these params."""
    capabilities = params.capabilities
    workspace, document = capabilities.workspace, capabilities.text_document
    general, window = capabilities.general, capabilities.window
    completion = document.completion if document else None
    item = completion.completion_item if completion else None
    wishes = client_options(params.initialization_options)
    suffix = wishes.get("commandSuffix")
    return Client(
        name=params.client_info.name if params.client_info else "",
        process_id=params.process_id,
        encoding=_first_known(general.position_encodings if general else None),
        inline_completion=bool(document and document.inline_completion),
        notebooks=capabilities.notebook_document is not None,
        progress=bool(window and window.work_done_progress),
        configuration=bool(workspace and workspace.configuration),
        markdown=types.MarkupKind.Markdown in ((item.documentation_format if item else None) or ()),
        registers_configuration=_dynamic(workspace and workspace.did_change_configuration),
        registers_watched_files=_dynamic(workspace and workspace.did_change_watched_files),
        registers_completion=_dynamic(completion),
        command_suffix=suffix if isinstance(suffix, str) else "",
        protects_machine_settings=wishes.get("protectsMachineSettings") is True,
    )


def client_options(initialization_options: object) -> dict[str, Any]:
    """The part of `initializationOptions` that describes the client itself, under the key `client`."""
    options = initialization_options.get("client") if isinstance(initialization_options, dict) else None
    return options if isinstance(options, dict) else {}


def _dynamic(capability: Any) -> bool:
    return bool(capability and capability.dynamic_registration)


def _first_known(offered: Any) -> Encoding:
    """The client's first choice among the three; UTF-16 where it names none."""
    known = {encoding.value: encoding for encoding in Encoding}
    values = (getattr(kind, "value", kind) for kind in offered or ())
    return next((known[value] for value in values if value in known), Encoding.UTF16)
