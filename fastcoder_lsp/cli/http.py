"""`fastcoder-lsp http`: the model for clients of llama.cpp's server, OpenAI's completions, Mistral's and Ollama."""

import argparse
import re
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.options import at_least, chosen_settings
from fastcoder_lsp.cli.start import whole_path
from fastcoder_lsp.cli.terminal import keep_log_quiet
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.errors import UsageError

if TYPE_CHECKING:
    from fastcoder_lsp.http.guard import AccessRules
    from fastcoder_lsp.http.sessions import OpenSessionHost

PORT = 8012  # the default port of llama.vim and llama.vscode
_KEY_LENGTH = 16
_END_S = 5.0
_WAITING = "The server keeps running, and loads the model at the next request. To end it, press Ctrl-C."


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "http",
        help="serve the model by HTTP, for llama.vim, llama.vscode and others",
        description="Answer as the completion servers of llama.cpp, OpenAI, Mistral and Ollama do. docs/clients.md "
        "says how to set up each client. This command downloads nothing; run `fastcoder-lsp model pull` first.",
        epilog="Example: fastcoder-lsp http --port 8012",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=at_least(0, 65_535), default=PORT, help=f"the port (default: {PORT}); 0: any free one"
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="a file with the key that every request must send; required if other machines can reach --host",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an origin whose web pages may use the server, for example https://editor.example; may be repeated "
        "(default: only the server's own)",
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (default: the setting)")
    parser.add_argument(
        "--edits-model", metavar="NAME", help="the model that answers edit models' prompts (default: --model)"
    )
    parser.add_argument("--engine", help="the engine that runs the model (default: the setting)")
    parser.add_argument(
        "--alone", action="store_true", help="load a model of its own instead of using the shared process"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from fastcoder_lsp.http.guard import LOOPBACK, AccessRules

    here = arguments.host in LOOPBACK
    key = read_key(whole_path(arguments.key_file, arguments.here)) if arguments.key_file else ""
    if not here and not key:
        from fastcoder_lsp.http.server import family_of

        family_of(arguments.host, arguments.port)
        raise UsageError(
            f"other machines can reach {arguments.host}, so clients need a key",
            "Name a file with a key: --key-file FILE",
        )
    rules = AccessRules(key, LOOPBACK if here else frozenset(), frozenset(map(read_origin, arguments.allow_origin)))
    chosen: dict[str, object] = {
        "model": arguments.model,
        "engine": arguments.engine,
        "edits.model": arguments.edits_model,
    }
    chosen["host.enabled"] = False if arguments.alone else None
    settings, _ = chosen_settings("http", chosen, defaults={"context.enabled": True})
    keep_log_quiet()
    _serve(settings, arguments.host, arguments.port, rules)
    return 0


def read_key(path: Path) -> str:
    """Read the key from a file; raises UsageError if there is none, it is too short, or others may read it."""
    from fastcoder_lsp.config.remote_access import read_key_file

    key = read_key_file(path).strip()
    if len(key) < _KEY_LENGTH or not key.isprintable():
        raise UsageError(f"the key in {path} is too short", f"Use a key of {_KEY_LENGTH} characters or more.")
    return key


def read_origin(text: str) -> str:
    """An origin, as browsers send it; raises UsageError if it is none, or stands for many pages."""
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?", text.lower()):
        raise UsageError(
            f"{text} is not an origin",
            "Write scheme, host and port, without a path: --allow-origin https://editor.example",
        )
    return text.lower()


def _serve(settings: "Settings", host: str, port: int, rules: "AccessRules") -> None:
    from fastcoder_lsp.completion.question import policy_of
    from fastcoder_lsp.http.app import make_app
    from fastcoder_lsp.http.server import listen, serve
    from fastcoder_lsp.http.sessions import SessionPool
    from fastcoder_lsp.model import find

    listening = listen(host, port)
    for name in filter(None, (settings.model, settings.edits_model)):
        find(name)  # else every client would learn at its first request that it is missing
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # save what is learnt
    open_host, close = _shared(settings) if settings.host_enabled else _alone(settings)
    sessions = SessionPool(open_host, policy_of(settings), settings.completion_max_tokens)

    def say(loaded: "Future[bool]") -> None:
        status = sessions.status
        what = "ready" if loaded.result() else f"{status.message}\n{status.hint}\n{_WAITING}"
        print(f"fastcoder-lsp: {what}", file=sys.stderr, flush=True)

    sessions.preload().add_done_callback(say)
    print(f"fastcoder-lsp: http://{host}:{listening.getsockname()[1]}, loading", file=sys.stderr, flush=True)
    try:
        serve(make_app(sessions, rules, settings.context_tokens), listening)
    except KeyboardInterrupt:
        pass
    finally:
        sessions.close(_END_S)
        close()


def _shared(settings: "Settings") -> tuple["OpenSessionHost", Callable[[], None]]:
    """Opens sessions in the process that editors share; the second function has nothing to close."""
    from fastcoder_lsp.host.spawn import open_shared
    from fastcoder_lsp.workspace.document import OpenTexts

    return lambda listener: open_shared(listener, settings, {}, OpenTexts()), lambda: None


def _alone(settings: "Settings") -> tuple["OpenSessionHost", Callable[[], None]]:
    """Opens sessions with a model in this process; the second function closes it."""
    from fastcoder_lsp.host.local import ModelServer
    from fastcoder_lsp.runtime.load import make_runtime
    from fastcoder_lsp.runtime.succession import load_first

    core = ModelServer(load_first, make_runtime, settings, cache_folder())
    return lambda listener: core.open(listener, settings, {}), lambda: core.close(_END_S)
