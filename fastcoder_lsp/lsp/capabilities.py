"""What the server offers a client: the static part in `initialize`, the rest registered once it is running."""

import uuid
from collections.abc import Iterable
from typing import Any, Final

from fastcoder_lsp.lsp.client import Client
from fastcoder_lsp.lsp.configuration import SECTION
from fastcoder_lsp.workspace.folders import SETTINGS_FILE

Options = dict[str, Any]
"""What is offered, as JSON."""
Registration = dict[str, Any]
"""`id`, `method` and `registerOptions`, as JSON."""
INCREMENTAL: Final = 2
"""Changes come as edits."""
TRIGGER_CHARACTERS = (".", "(", "[", ",", "=", ":", "<")


def server_capabilities(client: Client, *, popup: bool, commands: Iterable[str]) -> Options:
    """The answer to `initialize`. `popup`: the settings ask for suggestions in the completion menu too."""
    offered: Options = {
        "positionEncoding": client.encoding.value,
        "textDocumentSync": {"openClose": True, "change": INCREMENTAL, "save": {"includeText": False}},
        "inlineCompletionProvider": {},
        "executeCommandProvider": {"commands": list(commands)},
        "workspace": {
            "workspaceFolders": {"supported": True, "changeNotifications": True},
            "fileOperations": {"didRename": {"filters": [{"scheme": "file", "pattern": {"glob": "**/*"}}]}},
        },
    }
    if client.notebooks:
        offered["notebookDocumentSync"] = {"notebookSelector": [{"notebook": "*"}], "save": False}
    if offers_popup(client, popup=popup):
        offered["completionProvider"] = completion_options()
    return offered


def offers_popup(client: Client, *, popup: bool) -> bool:
    """Suggestions come in the completion menu where nothing else can show them, or where they are asked for."""
    return popup or not client.inline_completion


def completion_options() -> Options:
    """How suggestions in the completion menu are offered."""
    return {"triggerCharacters": list(TRIGGER_CHARACTERS), "resolveProvider": False}


def registrations(client: Client) -> list[Registration]:
    """What is registered after `initialized`, where the client lets us."""
    wanted = []
    if client.registers_configuration:
        wanted.append(_registration("workspace/didChangeConfiguration", {"section": SECTION}))
    if client.registers_watched_files:
        watchers = [{"globPattern": f"**/{SETTINGS_FILE}"}]
        wanted.append(_registration("workspace/didChangeWatchedFiles", {"watchers": watchers}))
    return wanted


def popup_registration() -> Registration:
    """Suggestions in the completion menu, asked for while the server runs. For whatever the client shows."""
    options = completion_options() | {"documentSelector": None}
    return {"id": "fastcoder-popup", "method": "textDocument/completion", "registerOptions": options}


def _registration(method: str, options: Options) -> Registration:
    return {"id": str(uuid.uuid4()), "method": method, "registerOptions": options}
