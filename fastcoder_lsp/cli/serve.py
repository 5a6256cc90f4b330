"""`fastcoder-lsp serve`: the language server on stdin and stdout, as editors start it."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn

from fastcoder_lsp.errors import UsageError

if TYPE_CHECKING:
    from fastcoder_lsp.completion.protocol import HostListener, ModelHost
    from fastcoder_lsp.config import Settings
    from fastcoder_lsp.workspace.document import OpenTexts

_SWITCH_INTERVAL_S: Final = 0.0005
"""How long the worker may hold the GIL while a message waits; the default of 5 ms would be felt in typing."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "serve",
        help="the language server, as editors start it",
        description="Speak the Language Server Protocol on stdin and stdout. Editors start this command. "
        "docs/settings.md lists the settings that they can send. It downloads nothing; "
        "run `fastcoder-lsp model pull` first.",
        epilog="Example: fastcoder-lsp serve --log-file ~/fastcoder.log",
    )
    parser.add_argument(
        "--stdio", action="store_true", help="accepted and ignored: the server always uses stdin and stdout"
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file; overrides the setting")
    parser.add_argument("--engine", help="the engine that runs the model; overrides the setting")
    parser.add_argument("--log-file", type=Path, metavar="FILE", help="write a log, with the times of every request")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="how much to log")
    parser.add_argument(
        "--clientProcessId", type=int, metavar="PID", help="the editor's process; the server ends with it"
    )
    parser.add_argument("--debug", action="store_true", help="answer the request fastcoder/debug/text, for tests")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client disconnects."""
    if sys.stdin is not None and sys.stdin.isatty():
        print(
            "Editors start this command and talk to it on stdin. To see ghost text, run: fastcoder-lsp play",
            file=sys.stderr,
        )
    stdin, stdout = take_wire()
    from fastcoder_lsp.cli.options import given_settings
    from fastcoder_lsp.lsp.logs import flush
    from fastcoder_lsp.lsp.server import ServeOptions, serve

    chosen = {
        "model": arguments.model,
        "engine": arguments.engine,
        "log.file": None if arguments.log_file is None else str(arguments.log_file),
        "log.level": arguments.log_level,
    }
    given = given_settings("serve", chosen)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    code = serve(stdin, stdout, open_host, ServeOptions(given.values, arguments.debug, arguments.clientProcessId))
    flush()
    leave(code)


def open_host(
    listener: "HostListener", settings: "Settings", folders: "Mapping[Path, Settings]", texts: "OpenTexts"
) -> "ModelHost":
    """The model's host: the shared process, this process, or a remote server, according to the settings."""
    from fastcoder_lsp.host.selector import BackendSelector

    return BackendSelector(_open_shared, _open_alone, listener, settings, folders, texts, _open_remote)


def _open_remote(
    listener: "HostListener", settings: "Settings", folders: "Mapping[Path, Settings]", texts: "OpenTexts"
) -> "ModelHost":
    from functools import partial

    from fastcoder_lsp.config.remote_access import proxy_for, read_remote_key
    from fastcoder_lsp.host.selector import BackendSelector
    from fastcoder_lsp.remote.client import NetworkOptions
    from fastcoder_lsp.remote.host import NetworkHost

    network = NetworkOptions(partial(read_remote_key, settings), proxy_for(settings.remote_url))
    local = partial(BackendSelector, _open_shared, _open_alone)
    return NetworkHost(listener, settings, folders, texts, network, local)


def _open_shared(
    listener: "HostListener", settings: "Settings", folders: "Mapping[Path, Settings]", texts: "OpenTexts"
) -> "ModelHost":
    from fastcoder_lsp.host.spawn import open_shared

    return open_shared(listener, settings, folders, texts)


def _open_alone(
    listener: "HostListener", settings: "Settings", folders: "Mapping[Path, Settings]", texts: "OpenTexts"
) -> "ModelHost":
    from fastcoder_lsp.host.local import open_alone
    from fastcoder_lsp.runtime.load import make_runtime
    from fastcoder_lsp.runtime.succession import load_first

    return open_alone(load_first, make_runtime, listener, settings, folders, texts)


def take_wire() -> tuple[BinaryIO, BinaryIO]:
    """The real stdin and stdout, reserved for the protocol.

    From here on everything printed, in Python or in C, goes to stderr, and child processes get no input.
    """
    try:
        os.fstat(0)
        os.fstat(1)  # before opening anything, which would reuse a closed descriptor
        stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    except OSError as error:
        raise UsageError(
            "stdin or stdout is closed", "Start this command from an editor, with pipes on both."
        ) from error
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    if sys.stderr is None:  # closed by the client: only a log file is left
        os.dup2(nothing, 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
    os.dup2(2, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return stdin, stdout


def leave(code: int) -> NoReturn:
    """End the process now: a thread that still computes must neither block the end nor crash on the way out."""
    os._exit(code)
