"""The server on Ray: on this machine's own Ray from start to end, or as an application of a running cluster.

`serve run` and a `RayService` import `build`, and set the address for editors themselves: `[listen]` is ignored there.
`run_here` starts Ray on this machine. Its processes require a private token, because those that take commands listen on
every address (docs/team.md); usage reports and the dashboard are off.
"""

import contextlib
import io
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.serve.config import HTTPOptions

from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.errors import FastcoderError, ResourceError, UsageError
from fastcoder_lsp.team.configuration import TeamConfig, read_config
from fastcoder_lsp.team.deployments import application

NAME = "fastcoder"
_LOOK_S = 0.2


def build(arguments: dict[str, str]) -> Any:
    """Build the Serve application; `arguments` has `config`, the path of a team.toml on every node.

    Raises UsageError if there is none, or it names no keys although others can reach a cluster.
    """
    config = read_config(Path(arguments.get("config", "")))
    if not config.keys:
        raise UsageError(
            "other machines can reach a cluster, so clients need keys",
            "Name the file of keys in team.toml: keys = FILE",
        )
    return application(config)


def run_here(
    config: TeamConfig, read: Callable[[], TeamConfig], say: Callable[[str], None], temporary: Path | None
) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads the configuration again.

    `say` prints a message for the user. `temporary`: a folder for Ray's own files; None: Ray's choice.
    """
    again, generation = threading.Event(), 0
    try:
        _begin(config, temporary)
        # Replace Ray's own handlers, which abort.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        signal.signal(signal.SIGHUP, lambda *_: again.set())
        _apply(config, generation)
        say(f"http://{config.listen.host}:{config.listen.port}, {counted(config.replicas.least, 'replica')}, ready")
        while True:
            if again.wait(_LOOK_S):
                again.clear()
                config, generation = _again(config, generation, read, say)
    except KeyboardInterrupt:
        return
    finally:
        _end()


def _end() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Ray prints that its own processes are gone; ignore it, because it must end.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        serve.shutdown()
        ray.shutdown()


def _begin(config: TeamConfig, temporary: Path | None) -> None:
    options: dict[str, Any] = {} if temporary is None else {"_temp_dir": str(temporary)}
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    with _explained("Ray does not start"):
        ray.init(
            address="local",
            include_dashboard=False,
            namespace=NAME,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
            configure_logging=False,
            **options,
        )
        serve.start(
            http_options=HTTPOptions(host=config.listen.host, port=config.listen.port, keep_alive_timeout_s=90),
            proxy_location="HeadOnly",
        )


def _apply(config: TeamConfig, generation: int) -> None:
    with _explained("the replicas do not start"):
        serve.run(application(config, str(generation)), name=NAME, route_prefix="/")


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Reduce an error of Ray's to its last line: the others are another process's traceback."""
    try:
        yield
    except Exception as error:  # Ray also raises plain exceptions
        said = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ResourceError(f"{what}: {said[-1] if said else error}", "Run: fastcoder-lsp doctor") from error


def _again(
    config: TeamConfig, generation: int, read: Callable[[], TeamConfig], say: Callable[[str], None]
) -> tuple[TeamConfig, int]:
    """Read and apply the configuration again, or replace all replicas if it is the same; ignore an invalid one."""
    try:
        wanted = read()
        newer = generation + (wanted == config)
        _apply(wanted, newer)
    except FastcoderError as error:
        say(f"not changed: {error}")
        return config, generation
    say("upgraded" if newer > generation else "changed")
    if wanted.listen != config.listen:
        say("where it listens changes with its next start")
    return wanted, newer
