"""Runs `bench team`."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from benchmarks.datasets import histories
from benchmarks.datasets.folder import require
from benchmarks.datasets.histories import Typed
from benchmarks.team.asking import Asked
from benchmarks.team.figures import felt_s, figures
from benchmarks.team.load import arriving, closed
from benchmarks.team.own_server import OwnServer
from benchmarks.team.typists import Server, type_all
from fastcoder_lsp.bench import report
from fastcoder_lsp.errors import UsageError

_OPEN = 8
"""Requests that a replica of the server of its own works on at a time."""
_PLAIN = "[limits]\nopen = 10000\na_minute = 1000000\n"


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print what was found."""
    with ExitStack() as stack:
        own = None if arguments.url else stack.enter_context(OwnServer(arguments.model, arguments.replicas, _PLAIN))
        server = _server(arguments, own)
        found = asyncio.run(_PARTS[arguments.part](arguments, server, own))
    _print(arguments.part, found)
    if arguments.json:
        names = ("typists", "speed", "seconds", "part", "over", "patient", "interface", "replicas", "model")
        report.write_json(arguments.json, "team", {name: getattr(arguments, name) for name in names}, found)
    return 0


async def _typing(arguments: argparse.Namespace, server: Server, own: OwnServer | None) -> dict[str, Any]:
    before = own.cpu_s() if own else {}
    asked = await _typed(arguments, server)
    return figures(asked, arguments.seconds, arguments.typists) | _cpu(before, own, len(asked))


async def _disturbed(arguments: argparse.Namespace, server: Server, own: OwnServer | None) -> dict[str, Any]:
    """A replica is killed at a quarter, one is added at the half, an upgrade is rolled through at three quarters."""
    if own is None:
        raise UsageError("a server elsewhere is not disturbed", "Leave --url out.")
    quarter, done = arguments.seconds / 4, dict[str, float]()

    async def disturb() -> None:
        for name, act in (("killed", own.kill_replica), ("added", own.add_replica), ("upgraded", own.upgrade)):
            await asyncio.sleep(quarter)
            done[name] = quarter * (len(done) + 1)
            await asyncio.to_thread(act)

    asked, _ = await asyncio.gather(_typed(arguments, server), disturb())
    taken = [one for one in asked if one.code == 200]
    felt = {name: felt_s(taken, at_s, at_s + quarter) for name, at_s in done.items()}
    return figures(asked, arguments.seconds, arguments.typists) | {"felt_s": felt, "log": own.said()}


async def _overload(arguments: argparse.Namespace, server: Server, _: OwnServer | None) -> dict[str, Any]:
    """What it can do in a closed loop, then so many times as much."""
    clients = _OPEN * arguments.replicas
    await closed(server, clients, 3.0)  # its documents are read
    able = [one for one in await closed(server, clients, arguments.seconds) if one.code == 200]
    rate = len(able) / arguments.seconds
    asked = await arriving(server, arguments.over * rate, clients, arguments.seconds, seed=1)
    taken = [one for one in asked if one.code == 200]
    at_capacity, over = (float(np.percentile([one.ms for one in ones], 95)) for ones in (able, taken))
    return figures(asked, arguments.seconds, clients) | {
        "able_a_second": rate,
        "taken_a_second": len(taken) / arguments.seconds,
        "able_p95_ms": at_capacity,
        "times": over / at_capacity,
    }


async def _overhead(arguments: argparse.Namespace, server: Server, own: OwnServer | None) -> dict[str, Any]:
    """One client alone: what is between it and the replica, in time and in work of processors."""
    await closed(server, 1, 3.0)
    before = own.cpu_s() if own else {}
    asked = await closed(server, 1, arguments.seconds)
    return figures(asked, arguments.seconds, 1) | _cpu(before, own, len(asked))


def _cpu(before: Mapping[str, float], own: OwnServer | None, requests: int) -> dict[str, Any]:
    """What processors did for a request since then: it says the same on a busy machine."""
    used = own.cpu_s() if own else {}
    return {"cpu_ms_a_request": {name: 1e3 * (used[name] - before[name]) / max(1, requests) for name in used}}


_PARTS = {"typing": _typing, "disturbed": _disturbed, "overload": _overload, "overhead": _overhead}


async def _typed(arguments: argparse.Namespace, server: Server) -> list[Asked]:
    runs = _runs(arguments)
    return await type_all(
        server, runs, arguments.typists, arguments.seconds, arguments.speed, patient=arguments.patient
    )


def _runs(arguments: argparse.Namespace) -> Sequence[Typed]:
    replay = arguments.replay
    folder, name = (require("replay"), histories.NAMES[0]) if replay is None else (replay.parent, replay.name)
    return tuple(run for run in histories.typed_runs(folder, name) if run.text.strip())


def _server(arguments: argparse.Namespace, own: OwnServer | None) -> Server:
    keys = arguments.key_file.read_text(encoding="ascii").split() if arguments.key_file else ()
    scripted = own is not None and arguments.model.startswith("scripted:")
    return Server(own.url if own else arguments.url, tuple(keys), arguments.interface, scripted)


def _print(part: str, found: dict[str, Any]) -> None:
    rows: list[Sequence[object]] = []
    for name, value in found.items():
        if name in ("windows", "log"):
            continue
        if isinstance(value, dict):
            rows += [(f"{name} {inner}", _cell(each)) for inner, each in value.items()]
        else:
            rows.append((name, _cell(value)))
    report.print_table(part, ("", "found"), rows)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
