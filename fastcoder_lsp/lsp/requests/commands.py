"""`workspace/executeCommand`: toggle, reload, stats, why, and the accept command of suggestions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from fastcoder_lsp.lsp.requests.reports import statistics, why_command
from fastcoder_lsp.lsp.session import Session


def execute_command(session: Session, params: types.ExecuteCommandParams) -> object:
    """Run one of our commands, with or without the client's suffix."""
    name = params.command.removesuffix(session.client.command_suffix)
    command = _COMMANDS.get(name)
    if command is None:
        raise JsonRpcInvalidParams(f"no such command: {params.command}")
    return command(session, list(params.arguments or ()))


def command_names(suffix: str) -> list[str]:
    """The commands' names, made unique by the client's suffix."""
    return [f"{name}{suffix}" for name in _COMMANDS]


def _reload(session: Session, _: list[Any]) -> object:
    session.reload()
    return None


def _accepted(session: Session, arguments: list[Any]) -> object:
    if len(arguments) == 1 and isinstance(arguments[0], int):
        session.accepts.accept_command(arguments[0])
    return None


_COMMANDS: Final[Mapping[str, Callable[[Session, list[Any]], object]]] = {
    "fastcoder.toggle": lambda session, _: {"enabled": session.toggle()},
    "fastcoder.reload": _reload,
    "fastcoder.stats": statistics,
    "fastcoder.why": why_command,
    "fastcoder.accepted": _accepted,
}
