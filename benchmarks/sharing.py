"""`bench sharing`: people who type at once at one model, in reckoned time; starts of editors' servers.

Each person types alone, then all of them at once, over the same model and the same keys.
"""

import asyncio
import os
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from benchmarks.datasets import histories, require
from benchmarks.harness import Reported, write
from benchmarks.product import SERVER
from benchmarks.typist import chosen
from benchmarks.typist.reckoned import MACHINES, TypingEnvironment, TypingTotals, TypingWorkload
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.client.client import LanguageClient
from fastcoder_lsp.completion.question import policy_of
from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.runtime.load import load_model, make_runtime
from fastcoder_lsp.runtime.parts import ALONE

EXAMPLE = "sharing --people svcs,structlog --speed 3"
PATIENT_MS = 60_000
"""However busy the machine is, the first answer is whole."""
TEXT: Final = "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    "
_TRIES: Final = 300
_PAUSE_S: Final = 0.5
_SETTLED_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Type runs of a recorded history for each person, alone and then all at once over one model.

    Time is reckoned: steps and prompts take what they take on an idle machine, so that the figures are the same on a
    busy one.
    """

    part: Literal["people", "starts"] = option(
        "people who type, or the start and the memory of editors' servers", "people"
    )
    editors: int = option("editors, for --part starts", 4, metavar="N")
    people: str = option("a history for each person", "svcs,structlog", metavar="NAME,…")
    model: str = option("a name as in the setting", "auto")
    costs: Literal["amx", "vnni"] = option("kind of CPU whose step times to add up", "amx")
    speed: float = option("keys a second", 3.0, metavar="KEYS")
    limit: int | None = option("runs each (default: as many as make 480 keys)", None, metavar="N")
    seed: int = option("of the runs and the rhythm", 0)


def run(options: Options) -> int:
    return _starts(options) if options.part == "starts" else _people(options)


def _starts(options: Options) -> int:
    settings = {"model": options.model, "budget.automatic_ms": PATIENT_MS}
    with tempfile.TemporaryDirectory(prefix="fastcoder-starts-") as folder:
        started = asyncio.run(start_all(options.editors, settings, Path(folder).resolve()))
    rows = [
        [str(number), *(f"{value:.2f}" for value in astuple(start)), f"{size / 1e6:.0f}"]
        for number, (start, size) in enumerate(zip(started.starts, started.servers_bytes, strict=True), 1)
    ]
    every = sum(started.servers_bytes) + started.host_bytes
    title = f"the shared process has {started.host_bytes / 1e6:.0f} MB, all together {every / 1e9:.2f} GB"
    print_table(title, ("editor", "initialize, CPU s", "ghost text", "the process, for it", "MB"), rows)
    write(options, "sharing", asdict(started))
    return 0


def _people(options: Options) -> int:
    folder = require("replay")
    names = options.people.split(",")
    subsets = {name: chosen(folder, name, options.limit, options.seed) for name in names}
    settings = replace(Settings(), model=options.model)
    model = load_model(settings, lambda _share, _what: None)
    room = TypingEnvironment(model, MACHINES[options.costs], policy_of(settings), options.speed, options.seed)

    def text(name: str) -> TypingWorkload:
        made = lambda shared, seat, _clock: make_runtime(shared, settings, ALONE, seat)  # noqa: E731
        return TypingWorkload(subsets[name], histories.base(folder, name), made)

    try:
        alone = [room.type([text(name)])[0][0] for name in names]
        together, _ = room.type([text(name) for name in names])
    finally:
        model.close()
    rows = [
        [name, how, *_figures(account)]
        for name, *both in zip(names, alone, together, strict=True)
        for how, account in zip(("alone", "together"), both, strict=True)
    ]
    keys = sum(subset.keys for subset in subsets.values())
    title = f"{len(names)} people, {keys} keys at {options.speed:g} a second each, times of {options.costs}"
    print_table(title, ("who", "", "accepted %", "requests", "shown %", "prompt tokens a key", "mean"), rows)
    told: dict[str, Any] = {
        name: {"alone": asdict(single), "together": asdict(shared)}
        for name, single, shared in zip(names, alone, together, strict=True)
    }
    write(options, "sharing", told)
    return 0


def _figures(account: TypingTotals) -> list[str]:
    computed = account.computed or [0]
    return [
        f"{100 * account.accepted:.1f}",
        str(account.asked),
        f"{100 * account.shown / max(1, account.asked):.1f}",
        f"{statistics.median(computed):g}",
        f"{statistics.fmean(computed):.1f}",
    ]


@dataclass(frozen=True, slots=True)
class StartFigures:
    """CPU seconds of one server's start: until `initialize`, until ghost text, and of the shared process for that."""

    initialized_cpu_s: float
    shown_cpu_s: float
    host_cpu_s: float


@dataclass(frozen=True, slots=True)
class StartTotals:
    """All of them; `servers_bytes`, `host_bytes`: proportional set sizes, a page that several have counting in part."""

    starts: tuple[StartFigures, ...]
    servers_bytes: tuple[int, ...]
    host_bytes: int


async def start_all(count: int, settings: Mapping[str, Any], folder: Path) -> StartTotals:
    """Start so many servers, each in a workspace of its own, below `folder`; FastcoderError where they cannot work."""
    clients = [
        LanguageClient(lambda _: None, lambda _: None, lambda _: None, name="fastcoder-lsp bench") for _ in range(count)
    ]
    starts, host = list[StartFigures](), 0
    try:
        for number, client in enumerate(clients):
            root = folder / str(number)
            root.mkdir()
            before_s = _cpu_s(host)
            await client.start(SERVER, root, dict(settings), dict(os.environ))
            initialized_s = _cpu_s(client.process_id)
            await _shown(client, (root / "a.py").as_uri())
            told = (await client.stats())["host"]
            if not told["shared"]:
                raise FastcoderError("the server has a model of its own", "Set host.enabled = true.")
            host = told["process_id"]
            starts.append(StartFigures(initialized_s, _cpu_s(client.process_id), _cpu_s(host) - before_s))
        await asyncio.sleep(_SETTLED_S)
        return StartTotals(tuple(starts), tuple(_bytes(client.process_id) for client in clients), _bytes(host))
    finally:
        for client in clients[: len(starts) + 1]:
            await client.stop()


async def _shown(client: LanguageClient, uri: str) -> None:
    client.open(uri, "python", 1, TEXT)
    for _ in range(_TRIES):
        if await client.suggest(uri, TEXT, len(TEXT), invoked=False) is not None:
            return
        await asyncio.sleep(_PAUSE_S)
    raise FastcoderError("no ghost text came", "Ask: fastcoder-lsp doctor")


def _cpu_s(process_id: int) -> float:
    if not process_id:
        return 0.0
    spent = psutil.Process(process_id).cpu_times()
    return float(spent.user + spent.system)


def _bytes(process_id: int) -> int:
    facts = psutil.Process(process_id).memory_full_info()
    return int(getattr(facts, "pss", facts.uss))
