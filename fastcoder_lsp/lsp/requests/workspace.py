"""The start of a session, changes of folders and settings, and `workspace/executeCommand`."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.lsp.configuration import SECTION
from fastcoder_lsp.lsp.requests.edits import ACCEPT_COMMAND, accepted
from fastcoder_lsp.lsp.requests.elsewhere import APPLY_COMMAND, apply_edits
from fastcoder_lsp.lsp.requests.reports import statistics, why_command
from fastcoder_lsp.lsp.session import Session

logger = logging.getLogger(__name__)

_EDITS: Final = (ACCEPT_COMMAND, APPLY_COMMAND)
SNOOZE_MINUTES: Final = 30  # how long a snooze lasts if the command names no time


def initialized(session: Session, _: types.InitializedParams) -> None:
    """The client accepts notifications and requests from now on."""
    session.reporter.open(session.client)
    session.registrar.open()
    pull_settings(session)


def did_change_folders(session: Session, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Folders were added or removed."""
    added, removed = params.event.added, params.event.removed
    session.folders.change(added=[folder.uri for folder in added], removed=[folder.uri for folder in removed])
    session.refresh()
    pull_settings(session)


def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> None:
    """The client sends settings, or null: they must be requested."""
    if params.settings is not None:
        session.configuration.set_pushed(params.settings, trusted=session.client.protects_machine_settings)
        session.refresh()
    pull_settings(session)


def pull_settings(session: Session) -> None:
    """Request the client's settings for every folder and for none, if it supports that."""
    if session.client.configuration:
        scopes = [None, *(folder.uri for folder in session.folders)]
        items = [types.ConfigurationItem(scope_uri=scope, section=SECTION) for scope in scopes]
        params = types.ConfigurationParams(items)
        session.endpoint.ask("workspace/configuration", params, partial(_pulled, session, scopes))


def _pulled(session: Session, scopes: list[str | None], answer: object) -> None:
    if not isinstance(answer, list):
        logger.warning("the client's answer to workspace/configuration is not a list")
        return
    for scope, values in zip(scopes, answer, strict=False):
        session.configuration.set_pulled(scope, values, trusted=session.client.protects_machine_settings)
    session.refresh()


async def execute_command(session: Session, params: types.ExecuteCommandParams) -> object:
    """Run one of our commands, with or without the client's suffix."""
    name = params.command.removesuffix(session.client.command_suffix)
    command = _COMMANDS.get(name)
    if command is None:
        raise JsonRpcInvalidParams(f"no such command: {params.command}")
    result = command(session, list(params.arguments or ()))
    return await result if isinstance(result, Awaitable) else result


def command_names(suffix: str, *, edits: bool) -> list[str]:
    """The commands' names, made unique by the client's suffix. `edits`: whether edits are suggested."""
    return [f"{name}{suffix}" for name in _COMMANDS if edits or name not in _EDITS]


def _reload(session: Session, _: list[Any]) -> object:
    session.reload()
    return None


def _snooze(session: Session, arguments: list[Any]) -> object:
    try:
        minutes = int(arguments[0]) if arguments else SNOOZE_MINUTES
    except (TypeError, ValueError, OverflowError):
        raise JsonRpcInvalidParams("the argument of fastcoder.snooze must be a number of minutes") from None
    session.snooze.start(minutes)
    left = session.snooze.minutes
    text = f"suggestions are snoozed for {counted(left, 'minute')}." if left else "suggestions are back."
    message = types.ShowMessageParams(type=types.MessageType.Info, message=f"fastcoder: {text}")
    session.endpoint.notify("window/showMessage", message)
    return {"minutes": left}


def _accepted(session: Session, arguments: list[Any]) -> object:
    if len(arguments) == 1 and isinstance(arguments[0], int):
        session.accepts.accept_command(arguments[0])
    return None


_COMMANDS: Final[Mapping[str, Callable[[Session, list[Any]], object]]] = {
    "fastcoder.toggle": lambda session, _: {"enabled": session.toggle()},
    "fastcoder.reload": _reload,
    "fastcoder.stats": statistics,
    "fastcoder.why": why_command,
    "fastcoder.snooze": _snooze,
    "fastcoder.accepted": _accepted,
    ACCEPT_COMMAND: accepted,
    APPLY_COMMAND: apply_edits,
}
