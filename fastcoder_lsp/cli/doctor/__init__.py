"""`fastcoder-lsp doctor`: checks the installation, says what is wrong and what to do. Changes and downloads nothing.

People run it when nothing else works, so it must not depend on anything broken: each check runs on its own, imports
what it checks, and reports its own failure as a finding.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp import __version__
from fastcoder_lsp.cli.doctor import machine, model
from fastcoder_lsp.cli.doctor.check import Check, Redaction, attempt, show, write_report
from fastcoder_lsp.cli.doctor.model import SAMPLE, SAMPLE_AFTER
from fastcoder_lsp.cli.doctor.settings import FoundSettings, check_files, check_settings
from fastcoder_lsp.cli.options import given_settings, require_writable
from fastcoder_lsp.cli.terminal import keep_log_quiet
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.folders import workspace_of

if TYPE_CHECKING:
    from fastcoder_lsp.host.transport import Fronts
    from fastcoder_lsp.runtime.start_record import ModelStart

_TOKENS, _WHOLE_S = 24, 60.0  # limits on the answer to the sample: its size, and its whole time


def check_remote(settings: Settings) -> Iterator[Check]:
    """The server that `--remote` names; it receives a sample, and nothing of the user's."""
    from fastcoder_lsp.remote.failures import RemoteError
    from fastcoder_lsp.remote.target import sent_text, target_of

    try:
        target = target_of(settings)
        where = "this machine" if target.is_local else target.host
        text = f"editors with this setting send each request to {where}: {sent_text()}"
        yield Check(
            "remote", "ok" if target.is_local else "note", text, details={"host": target.host, "here": target.is_local}
        )
        yield asyncio.run(_answers(settings))
    except RemoteError as error:
        yield Check("remote", "wrong", error.reason.text, error.reason.hint, {"code": error.reason.code})


async def _answers(settings: Settings) -> Check:
    from fastcoder_lsp.config.remote_access import proxy_for, read_remote_key
    from fastcoder_lsp.remote import failures
    from fastcoder_lsp.remote.client import NetworkOptions, Timeouts
    from fastcoder_lsp.remote.excerpt import Excerpt
    from fastcoder_lsp.remote.generation import MAX_CHARACTERS_PER_TOKEN
    from fastcoder_lsp.remote.server import RemoteServer

    network = NetworkOptions(partial(read_remote_key, settings), proxy_for(settings.remote_url))
    server = RemoteServer(settings, network, Timeouts())
    try:
        identity, said = await server.identify(), ""
        chunks = server.stream(Excerpt(SAMPLE, SAMPLE_AFTER, (), "fibonacci.py", "python", _TOKENS))
        try:
            async with asyncio.timeout(_WHOLE_S):
                async for chunk in chunks:
                    said += chunk.text
                    if len(said) > MAX_CHARACTERS_PER_TOKEN * _TOKENS:
                        break
        except TimeoutError:
            raise failures.timed_out(server.host) from None
        finally:
            await chunks.aclose()
    finally:
        await server.close()
    details: dict[str, object] = {"form": identity.dialect.name, "model": identity.model, "completion": said}
    if not said.strip():
        return Check(
            "server",
            "wrong",
            "the answer was empty",
            "Set `remote.kind` and `remote.template` to the form that the server expects.",
            details,
        )
    text = f"{identity.dialect.name}, with {identity.model or 'a model without a name'}, completed a sample"
    return Check("server", "ok", text, details=details)


_STOP = "To end it, run: fastcoder-lsp host stop"


def check_host() -> Iterator[Check]:
    """Whether its folder exists and running processes answer; no finding if none runs and one could."""
    from fastcoder_lsp.host.address import runtime_folder
    from fastcoder_lsp.host.control import find_hosts

    try:
        folder = runtime_folder()
    except UsageError as error:
        yield Check("host", "wrong", error.message, error.hint)
        return
    for host in find_hosts():
        details: dict[str, object] = {"folder": str(folder), "process_id": host.process_id}
        if host.report is None:
            yield Check("host", "wrong", f"the shared process {host.process_id or ''} does not answer", _STOP, details)
        else:
            yield _at_work(host.report, details)


def _at_work(told: "Fronts", details: dict[str, object]) -> Check:
    """A process that answers: how many editors it serves, and whose turn it is."""
    asking = [front.process_id for front in told.fronts if front.asking]
    turn = next((front.process_id for front in told.fronts if front.turn), None)
    details |= {"fronts": len(told.fronts), "asking": asking, "turn": turn, "build": told.build, "nice": told.nice}
    text = f"process {told.process_id}: {told.model or 'no model loaded yet'}, editors connected: {len(told.fronts)}"
    if asking:
        text += f", {len(asking)} of them waiting for a suggestion"
    if turn is not None:
        text += f"; it works for process {turn}"
    if told.nice:
        slow = f"{text}; it runs at low priority (nice {told.nice}), like the editor that started it"
        return Check("host", "note", slow, f"{_STOP}. An editor at normal priority then starts a new one.", details)
    return Check("host", "ok", text, details=details)


_WAITING_S = 1.0  # shorter stages are listed only in the details


def check_last_start(settings: Settings) -> Iterator[Check]:
    """The last start of a server or a command that loaded a model; no finding if there was none.

    A failed start is wrong if the settings name its model, and a note for another model.
    """
    from fastcoder_lsp.runtime.start_record import read_start

    start = read_start(cache_folder())
    if start is None:
        return
    details: dict[str, object] = {
        "state": start.state,
        "began": start.began,
        "seconds": start.seconds,
        "cpu_seconds": start.cpu_seconds,
        "stages": {stage.name: stage.seconds for stage in start.stages},
        "compiled": start.compiled,
    }
    wrong = "wrong" if start.model in (settings.model, settings.edits_model) else "note"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(start.began))
    told = f"{when}, model {start.model}{f' on {start.engine}' if start.engine else ''}"
    stages = ", ".join(f"{stage.name} {stage.seconds:.1f} s" for stage in start.stages if stage.seconds >= _WAITING_S)
    if start.state == "ready":
        text = f"{told}: ready after {start.seconds:.1f} s"
        text += f" ({stages})" if stages else ""
        text += f"; compiled {counted(start.compiled, 'function')}, which later starts load" if start.compiled else ""
        yield Check("last start", "ok", text, details=details)
    elif start.state == "failed":
        yield Check(
            "last start", wrong, f"{told}: failed after {start.seconds:.1f} s: {start.reason}", start.hint, details
        )
    elif _runs(start):
        text = f"{told}: running for {time.time() - start.began:.0f} s, now: {start.stage}"
        yield Check("last start", "note", text + (f" (before: {stages})" if stages else ""), "Wait.", details)
    else:
        text = f"{told}: its process ended during “{start.stage}”, after {start.seconds:.1f} s"
        hint = "The editor or the system (out of memory) ended it, or it crashed. Start it again."
        yield Check("last start", wrong, text, hint, details)
    for note in start.notes:
        yield Check("last start", "note", note)


def _runs(start: "ModelStart") -> bool:
    """Whether the process that began it still runs, and its id was not reused."""
    import psutil

    try:
        return psutil.Process(start.process).create_time() <= start.began
    except psutil.Error:
        return False


REPORT = "fastcoder-report.json"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation, and say how to fix what fails",
        description="Check the settings files, Python, its packages, the device, memory, the cache folder and what is "
        "in it, the last start, the model and its prompt template; time one completion. It downloads nothing, and "
        "writes only to the cache folder, and to the file of --report. Exit code 0 if all checks pass, 1 otherwise.",
        epilog="Example: fastcoder-lsp doctor --json",
    )
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file (default: the setting)")
    parser.add_argument("--edits-model", metavar="NAME", help="check this edit model too (`edits.model`)")
    parser.add_argument("--engine", help="the engine to check (default: the setting)")
    parser.add_argument("--remote", metavar="URL", help="check this server too (`remote.url`)")
    parser.add_argument(
        "--allow",
        metavar="HOST",
        help="the host name in that URL again, to allow requests to it (`remote.allow`); not needed for this machine",
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
    keep_log_quiet()
    if arguments.report is not None:
        if arguments.report.exists():
            raise UsageError(f"{arguments.report} exists", "Delete it, or name another file: doctor --report FILE")
        require_writable(arguments.report)
    key_file = str(arguments.key_file) if arguments.key_file else None
    remote = {"remote.url": arguments.remote, "remote.allow": arguments.allow, "remote.key_file": key_file}
    chosen = {"model": arguments.model, "engine": arguments.engine, "edits.model": arguments.edits_model, **remote}
    folder = _workspace(arguments.here)
    found = FoundSettings.read(given_settings("doctor", chosen), folder)
    settings = found.of_session
    checks = []
    files = () if folder is None else attempt("files", lambda: check_files(folder, found))
    for check in chain(attempt("settings", lambda: check_settings(found)), files, examine(settings)):
        checks.append(check)
        if not arguments.json:
            show(check)
    wrong = [check for check in checks if check.state == "wrong"]
    if arguments.json:
        report = {"ok": not wrong, "version": __version__, "checks": [asdict(check) for check in checks]}
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        if arguments.report:
            write_report(arguments.report, checks, Redaction.here(*_server(settings)))
            print(f"\nReport written to {arguments.report}. Read it, then attach it to your issue.")
        names = ", ".join(dict.fromkeys(check.name for check in wrong))
        print(f"\n{len(wrong)} of {len(checks)} checks failed (✗): {names}." if wrong else "\nAll checks passed.")
    return 1 if wrong else 0


def examine(settings: Settings) -> Iterator[Check]:
    """All checks in order, those of the server that the user asks about last."""
    yield from _examine_here(settings)
    if settings.remote_url:
        yield from attempt("remote", lambda: check_remote(settings))


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
    yield from attempt("home", machine.check_home)
    yield from attempt("cache", machine.check_cache)
    yield from attempt("unfinished", machine.check_unfinished)
    yield from attempt("kernels", machine.check_kernels)
    yield from attempt("indexes", machine.check_indexes)
    yield from attempt("host", check_host)
    # Before the completion below, which records a start of its own.
    yield from attempt("last start", lambda: check_last_start(settings))
    found = list(attempt("model", lambda: model.check_model(settings)))
    yield from found
    if settings.edits_model:
        yield from attempt("edit model", lambda: model.check_edit_model(settings))
    if any(check.state == "wrong" for check in found):
        return
    yield from attempt("choice", lambda: model.check_choice(settings))
    folder = Path(str(found[0].details["folder"]))
    yield from attempt("template", lambda: model.check_template(folder))
    yield from attempt("completion", lambda: model.check_completion(settings))


def _workspace(here: Path | None) -> Path | None:
    """The workspace that the command was started in; None if there is none."""
    try:
        return None if here is None else workspace_of(here / "file", Path.home())
    except RuntimeError:  # no home folder, which is a finding of its own
        return None


def _server(settings: Settings) -> tuple[str, ...]:
    """The name of the remote server, which may be private to a company."""
    if not settings.remote_url:
        return ()
    from fastcoder_lsp.remote.target import host_of

    return (host_of(settings.remote_url),)
