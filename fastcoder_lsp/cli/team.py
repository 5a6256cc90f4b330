"""`fastcoder-lsp team`: a server for a team, and the keys to it."""

import argparse
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.cli.options import at_least
from fastcoder_lsp.cli.terminal import keep_log_quiet
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.errors import InstallationError, UsageError

if TYPE_CHECKING:
    from fastcoder_lsp.team.configuration import TeamConfig
    from fastcoder_lsp.team.keys import KeyFile

_KEYS = Path("~/.config/fastcoder-lsp/team-keys.json")
_PRIVATE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_SERVE_LOG_TO_STDERR": "0"}
"""Turns Ray's usage reports off, and has it accept only requests with a token that is made anew at each start."""
_QUICK = {
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
}
"""Serve's options for fewer hops between threads: our code in its processes waits, and computes nothing."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its subcommands."""
    parser = commands.add_parser(
        "team",
        help="serve a team: replicas of the model on Ray Serve, with keys",
        description="Serve /infill, /completion and /v1/completions to a team from replicas of the model, on this "
        "machine or on a Ray cluster. See docs/team.md. On SIGHUP the server reads its configuration again and, if "
        "necessary, replaces its replicas one by one; open requests finish.",
        epilog="Example: fastcoder-lsp team --replicas 2",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a team.toml; options override it")
    parser.add_argument("--replicas", type=at_least(1, 10_000), metavar="N", help="replicas of the model (default: 2)")
    parser.add_argument("--host", help="the address to listen on (default: 127.0.0.1); any other needs --keys")
    parser.add_argument("--port", type=at_least(1, 65_535), help="the port (default: 8020)")
    parser.add_argument(
        "--keys", type=Path, metavar="FILE", help="a file of keys; without it, only this machine is served"
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (default: auto)")
    parser.add_argument("--engine", help="the engine that runs the model (default: auto)")
    parser.set_defaults(run=run)
    kinds = parser.add_subparsers(title="keys", metavar="key", required=False)
    key = kinds.add_parser("key", help="make, list and revoke keys", description="Make, list and revoke keys.")
    verbs = key.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = verbs.add_parser("add", help="make a key, and print it once")
    add.add_argument("name", help="the owner of the key")
    add.add_argument(
        "--open", type=at_least(1, 10_000), metavar="N", help="requests at a time (default: the server's limit)"
    )
    add.add_argument(
        "--a-minute", type=at_least(1, 1_000_000), metavar="N", help="requests a minute (default: the server's limit)"
    )
    add.add_argument(
        "--repository",
        action="append",
        default=[],
        metavar="NAME",
        help="a repository whose code this key may use; may be repeated",
    )
    add.add_argument("--metrics", action="store_true", help="let this key read the metrics of all keys")
    add.set_defaults(run=_add)
    verbs.add_parser("list", help="list the keys, without their secrets").set_defaults(run=_list)
    revoke = verbs.add_parser("revoke", help="revoke a key")
    revoke.add_argument("name", help="the key's name or id")
    revoke.set_defaults(run=_revoke)
    for verb in verbs.choices.values():
        verb.add_argument("--keys", type=Path, metavar="FILE", help=f"the file of keys (default: {_KEYS})")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from fastcoder_lsp.extensions import COMMANDS
    from fastcoder_lsp.http.server import reserved
    from fastcoder_lsp.model.machine import require_packages

    config = config_of(arguments)
    require_packages("the team's server", *COMMANDS["team"].packages)
    _require_model(config)
    with reserved(config.listen.host, config.listen.port):
        _run(config, arguments)
    return 0


def _run(config: "TeamConfig", arguments: argparse.Namespace) -> None:
    keep_log_quiet()
    # Ray reads its environment as it is imported, and its processes inherit it.
    os.environ.update(_PRIVATE, RAY_AUTH_TOKEN=secrets.token_hex(32))
    for name, value in _QUICK.items():
        os.environ.setdefault(name, value)
    if config.records.traces:
        _trace(config.records.traces)
    from fastcoder_lsp.team.cluster import run_here

    def say(text: str) -> None:
        print(f"fastcoder-lsp: {text}", file=sys.stderr, flush=True)

    say(f"starting {counted(config.replicas.least, 'replica')}")
    with tempfile.TemporaryDirectory(prefix="fc-", ignore_cleanup_errors=True) as folder:
        run_here(config, lambda: config_of(arguments), say, Path(folder))


def _require_model(config: "TeamConfig") -> None:
    """Raise FastcoderError for a missing or damaged model before Ray's processes try to load it again and again."""
    from fastcoder_lsp import model
    from fastcoder_lsp.team.scripted import PREFIX

    if not (name := config.settings().model).startswith(PREFIX):
        model.find(name)


def _trace(address: str) -> None:
    from importlib.util import find_spec

    from fastcoder_lsp.team.counts import EXPORTER, TRACES_MODULE, TRACES_PACKAGE

    try:
        found = find_spec(TRACES_MODULE) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise InstallationError(
            f"traces need {TRACES_PACKAGE}", f"Run: {sys.executable} -m pip install {TRACES_PACKAGE}"
        )
    os.environ["RAY_SERVE_TRACING_EXPORTER_IMPORT_PATH"] = EXPORTER
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = address
    os.environ.setdefault("RAY_SERVE_TRACING_SAMPLING_RATIO", "1.0")


def config_of(arguments: argparse.Namespace) -> "TeamConfig":
    """The configuration from the options and the file; raises UsageError if they are invalid."""
    from msgspec.structs import replace

    from fastcoder_lsp.http.guard import LOOPBACK
    from fastcoder_lsp.team.configuration import TeamConfig, parse_config, read_config

    config = read_config(arguments.config) if arguments.config else parse_config("", Path.cwd())
    listen = {name: value for name in ("host", "port") if (value := getattr(arguments, name)) is not None}
    model = {name: value for name in ("model", "engine") if (value := getattr(arguments, name)) is not None}
    config = replace(config, listen=replace(config.listen, **listen), model={**config.model, **model})
    if arguments.replicas is not None:
        config = replace(config, replicas=replace(config.replicas, least=arguments.replicas, most=0))
    if arguments.keys is not None:
        config = replace(config, keys=str(arguments.keys))
    if config.listen.host not in LOOPBACK and not config.keys:
        raise UsageError(
            f"other machines can reach {config.listen.host}, so clients need keys",
            "Make keys, and name their file: --keys FILE",
        )
    assert isinstance(config, TeamConfig)
    config.settings()
    return config


def _add(arguments: argparse.Namespace) -> int:
    key = _keys(arguments).add(
        arguments.name,
        open_=arguments.open,
        a_minute=arguments.a_minute,
        repositories=tuple(arguments.repository),
        metrics=arguments.metrics,
    )
    print(key)
    print("Save it now: it is not shown again.", file=sys.stderr)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    for key in _keys(arguments).load():
        made = time.strftime("%Y-%m-%d", time.gmtime(key.made))
        about = [f"{key.id}  {made}  {key.name}"]
        about += [f"open {key.open}"] if key.open else []
        about += [f"{key.a_minute} a minute"] if key.a_minute else []
        about += [f"repositories {', '.join(key.repositories)}"] if key.repositories else []
        about += ["metrics"] if key.metrics else []
        print("  ".join(about))
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    _keys(arguments).revoke(arguments.name)
    return 0


def _keys(arguments: argparse.Namespace) -> "KeyFile":
    from fastcoder_lsp.team.keys import KeyFile

    return KeyFile(arguments.keys or _KEYS.expanduser())
