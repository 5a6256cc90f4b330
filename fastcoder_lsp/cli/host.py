"""`fastcoder-lsp host`: shows the process that has the model for all editors, its users and its log, and ends it."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fastcoder_lsp.cli.options import at_least
from fastcoder_lsp.core.controls import counted

if TYPE_CHECKING:
    from fastcoder_lsp.host.control import FoundHost

_STOPPED_S = 10.0  # how long an orderly end may take until the process is killed


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "host",
        help="the shared model process: status, stop, log",
        description="All editors share one process that holds the model, unless the setting `host.enabled` is false. "
        "Editors start it, and it ends by itself after the last one closes.",
        epilog="Example: fastcoder-lsp host status",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    verbs.add_parser("status", help="show the process, and which editors use it").set_defaults(run=status)
    verbs.add_parser("stop", help="end it; editors then start a new one").set_defaults(run=stop)
    log = verbs.add_parser("log", help="print its log")
    log.add_argument("--lines", type=at_least(0), default=200, help="lines to print (default: 200)")
    log.set_defaults(run=show_log)
    hidden = verbs.add_parser("run")
    hidden.add_argument("--folder", type=Path, required=True)
    hidden.add_argument("--key", required=True)
    hidden.add_argument("--linger", type=float, required=True)
    hidden.add_argument("--detach", action="store_true")
    hidden.set_defaults(run=run)
    verbs.choices = _Verbs(verbs.choices or {})


class _Verbs(dict[str, Any]):
    """All verbs; error messages list those that are for users."""

    def __iter__(self) -> Iterator[str]:
        return (verb for verb in super().__iter__() if verb != "run")


def status(_: argparse.Namespace) -> int:
    """Print the running hosts."""
    from fastcoder_lsp.host.control import find_hosts

    hosts = find_hosts()
    if not hosts:
        print("No shared process is running. Editors start it, unless the setting `host.enabled` is false.")
    for host in hosts:
        print("\n".join(_lines(host)))
    return 0


def stop(_: argparse.Namespace) -> int:
    """End all hosts."""
    from fastcoder_lsp.host.control import find_hosts, stop_host

    hosts = find_hosts()
    for host in hosts:
        print(f"process {host.process_id or '?'}: {'ended' if stop_host(host, _STOPPED_S) else 'did not end'}")
    if not hosts:
        print("No shared process is running.")
    elif editors := sum(len(host.report.fronts) for host in hosts if host.report is not None):
        print(
            f"{counted(editors, 'open editor')} will start it again with the next suggestion. To keep it from running, "
            "close your editors, or set `host.enabled` to false: each editor's server then loads its own model."
        )
    return 0


def show_log(arguments: argparse.Namespace) -> int:
    """Print the end of the log."""
    from fastcoder_lsp.host.host_log import log_path, older

    lines: list[str] = []
    for path in (older(log_path()), log_path()):
        with suppress(FileNotFoundError, PermissionError):
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        print(f"The log is empty: {log_path()}")
    for line in lines[max(0, len(lines) - arguments.lines) :]:
        print(line)
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Run as the shared process."""
    return 0 if arguments.detach and left_behind() else _serve(arguments)


def _serve(arguments: argparse.Namespace) -> NoReturn:
    from fastcoder_lsp.cli.serve import leave
    from fastcoder_lsp.host.host_log import log_to_stderr
    from fastcoder_lsp.host.process import LazyModelServer, run_host

    log_to_stderr()
    code = run_host(arguments.folder, arguments.key, arguments.linger, LazyModelServer())
    sys.stdout.flush()
    leave(code)


def left_behind() -> bool:
    """Fork, so that the started process can exit; returns whether this is that process, not its child.

    The child goes on in a session of its own, where ending an editor and its process tree does not reach it. A process
    with threads could not be forked; only the command line runs by now.
    """
    if os.fork() > 0:
        return True
    with suppress(OSError):
        os.setsid()
    return False


def _lines(host: "FoundHost") -> Iterator[str]:
    report = host.report
    if report is None:
        yield f"process {host.process_id or '?'} does not answer. To end it, run: fastcoder-lsp host stop"
        return
    model = f"{report.model} on {report.engine}" if report.model else "no model loaded yet"
    yield (
        f"process {report.process_id}: {model}, {report.resident_bytes / 1e6:,.0f} MB, "
        f"for {_time(report.running_s)}, version {report.build}"
    )
    if report.nice:
        yield f"  low priority (nice {report.nice}), like the editor that started it: other editors wait longer"
    for front in report.fronts:
        folders = ", ".join(os.fsdecode(folder) for folder in front.folders) or "no folder open"
        asking = ", working for it" if front.turn else ", waiting" if front.asking else ""
        yield f"  editor's server {front.process_id}: {folders}, for {_time(front.connected_s)}{asking}"
    if not report.fronts:
        yield "  no editor connected"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
