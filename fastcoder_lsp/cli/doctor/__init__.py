"""`fastcoder-lsp doctor`: checks the installation, says what is wrong and what to do. Changes and downloads nothing.

People run it when nothing else works, so it must not depend on anything broken: each check runs on its own, imports
what it checks, and reports its own failure as a finding.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fastcoder_lsp import __version__
from fastcoder_lsp.cli.doctor import machine, model, places
from fastcoder_lsp.cli.doctor.check import Check, attempt, show
from fastcoder_lsp.cli.options import require_writable
from fastcoder_lsp.cli.terminal import keep_log_quiet
from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import UsageError

REPORT = "fastcoder-report.json"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation, and say how to fix what fails",
        description="Check Python, its packages, the device, memory, the cache folder and what is in it, the last "
        "start, the model and its prompt template; time one completion. Nothing is changed or downloaded. Exit code 0 "
        "if all checks pass, 1 otherwise.",
        epilog="Example: fastcoder-lsp doctor --json",
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (default: auto)")
    parser.add_argument("--edits-model", metavar="NAME", help="check this edit model too (`edits.model`)")
    parser.add_argument("--engine", help="the engine to check (default: auto)")
    parser.add_argument("--remote", metavar="URL", help="check this server too (`remote.url`)")
    parser.add_argument(
        "--allow",
        metavar="HOST",
        help="the host of that server once more (`remote.allow`); not needed for this machine",
    )
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="the file with its key (`remote.key_file`)")
    shapes = parser.add_mutually_exclusive_group()
    shapes.add_argument("--json", action="store_true", help="print everything as JSON")
    shapes.add_argument(
        "--report",
        type=Path,
        nargs="?",
        const=Path(REPORT),
        metavar="FILE",
        help=f"also write a report to attach to an issue ({REPORT}); it leaves out names, tokens and the model's text",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print every check as it is made; 0 if nothing is wrong."""
    from fastcoder_lsp.config import SettingsLayer, resolve

    keep_log_quiet()
    if arguments.report is not None:
        if arguments.report.exists():
            raise UsageError(f"{arguments.report} exists", "Delete it, or name another file: doctor --report FILE")
        require_writable(arguments.report)
    key_file = str(arguments.key_file) if arguments.key_file else None
    remote = {"remote.url": arguments.remote, "remote.allow": arguments.allow, "remote.key_file": key_file}
    chosen = {"model": arguments.model, "engine": arguments.engine, "edits.model": arguments.edits_model, **remote}
    settings, problems = resolve(
        [SettingsLayer("command line", {k: v for k, v in chosen.items() if v is not None}, True)]
    )
    if problems:
        raise UsageError(str(problems[0]), "See: fastcoder-lsp doctor --help")
    checks = []
    for check in examine(settings):
        checks.append(check)
        if not arguments.json:
            show(check)
    wrong = [check for check in checks if check.state == "wrong"]
    if arguments.json:
        report = {"ok": not wrong, "version": __version__, "checks": [asdict(check) for check in checks]}
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        if arguments.report:
            from fastcoder_lsp.cli.doctor.report import Redaction, write_report

            write_report(arguments.report, checks, Redaction.here(*_server(settings)))
            print(f"\nReport written to {arguments.report}. Read it, then attach it to your issue.")
        names = ", ".join(dict.fromkeys(check.name for check in wrong))
        print(f"\n{len(wrong)} of {len(checks)} checks failed (✗): {names}." if wrong else "\nAll checks passed.")
    return 1 if wrong else 0


def examine(settings: Settings) -> Iterator[Check]:
    """All checks in order, those of the server that the user asks about last."""
    yield from _examine_here(settings)
    if settings.remote_url:
        yield from attempt("remote", lambda: _remote(settings))


def _examine_here(settings: Settings) -> Iterator[Check]:
    """The checks of this machine; a check that depends on a failed one is left out."""
    yield Check("fastcoder-lsp", "ok", f"{__version__}, {Path(__file__).parents[2]}", details={"version": __version__})
    yield from attempt("python", machine.check_python)
    yield from attempt("packages", machine.check_packages)
    yield from attempt("gpu", machine.check_gpu)
    yield from attempt("processor", machine.check_processor)
    yield from attempt("memory", machine.check_memory)
    yield from attempt("battery", machine.check_battery)
    yield from attempt("watches", machine.check_watches)
    yield from attempt("home", places.check_home)
    yield from attempt("cache", places.check_cache)
    yield from attempt("unfinished", places.check_unfinished)
    yield from attempt("kernels", places.check_kernels)
    yield from attempt("indexes", places.check_indexes)
    yield from attempt("host", _host)
    yield from attempt("last start", _last_start)  # before the completion below, which records a start of its own
    found = list(attempt("model", lambda: model.check_model(settings)))
    yield from found
    if settings.edits_model:
        yield from attempt("edit model", lambda: model.check_edit_model(settings))
    if any(check.state == "wrong" for check in found):
        return
    yield from attempt("choice", lambda: model.check_choice(settings))
    folder = Path(str(found[0].details["folder"]))
    yield from attempt("weights", lambda: model.check_weights(settings))
    yield from attempt("template", lambda: model.check_template(folder))
    yield from attempt("completion", lambda: model.check_completion(settings))


def _host() -> Iterator[Check]:
    from fastcoder_lsp.cli.doctor.shared import check_host

    return check_host()


def _remote(settings: Settings) -> Iterator[Check]:
    from fastcoder_lsp.cli.doctor.remote import check_remote

    return check_remote(settings)


def _server(settings: Settings) -> tuple[str, ...]:
    """The name of the remote server, which may be private to a company."""
    if not settings.remote_url:
        return ()
    from fastcoder_lsp.remote.target import host_of

    return (host_of(settings.remote_url),)


def _last_start() -> Iterator[Check]:
    from fastcoder_lsp.cli.doctor.last_start import check_last_start

    return check_last_start()
