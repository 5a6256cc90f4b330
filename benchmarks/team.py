"""`bench team`: people who type at a team's server: time to text, fairness, cost of kills and upgrades."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.datasets import histories
from benchmarks.harness import Reported, share, write
from benchmarks.team_load import GIVEN_UP, OwnServer, RequestRecord, TargetServer, arriving, closed, type_all
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.errors import UsageError

EXAMPLE = "team --typists 50 --speed 1 --part disturbed --json team.json"
_BEFORE_S = 10.0
_FELT = 1.5
"""A disturbance is over once the 95th percentile of a window is below so many times that before it."""
_OPEN = 8
"""Requests that a replica of the server of its own works on at a time."""
_PLAIN = "[limits]\nopen = 10000\na_minute = 1000000\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Have so many people type recorded histories at a team's server, with pauses as people make them.

    Without --url a server of its own is begun here, of a model that takes the time it is told; with --url another
    server that speaks llama.cpp's `/infill` is asked.
    """

    typists: int = option("people", 50, metavar="N")
    speed: float = option("keys a second of each", 1.0, metavar="KEYS")
    seconds: float = option("seconds to type", 60.0, metavar="S")
    part: Literal["typing", "disturbed", "overload", "overhead"] = option("the measurement", "typing")
    over: float = option("load of --part overload, in multiples of the capacity", 3.0, metavar="X")
    url: str | None = option("address of a running server, such as http://127.0.0.1:8020", None)
    key_file: Path | None = option("file with the people's keys, one on each line", None, metavar="FILE")
    replicas: int = option("replicas of the started server", 2, metavar="N")
    model: str = option(
        "model of the started server: milliseconds a step and a prompt token, letters",
        "scripted:step=4,prefill=0.01,letters=6",
    )
    replay: Path | None = option("the history to type (default: from FASTCODER_DATA)", None, metavar="DIR/NAME")


def run(options: Options) -> int:
    with ExitStack() as stack:
        own = None if options.url else stack.enter_context(OwnServer(options.model, options.replicas, _PLAIN))
        server = _server(options, own)
        found = asyncio.run(_PARTS[options.part](options, server, own))
    _print(options.part, found)
    write(options, "team", found)
    return 0


async def _typing(options: Options, server: TargetServer, own: OwnServer | None) -> dict[str, Any]:
    before = own.cpu_s() if own else {}
    asked = await _typed(options, server)
    return figures(asked, options.seconds, options.typists) | _cpu(before, own, len(asked))


async def _disturbed(options: Options, server: TargetServer, own: OwnServer | None) -> dict[str, Any]:
    """A replica is killed at a quarter, one is added at the half, an upgrade is rolled through at three quarters."""
    if own is None:
        raise UsageError("a server elsewhere is not disturbed", "Leave --url out.")
    quarter, done = options.seconds / 4, dict[str, float]()

    async def disturb() -> None:
        for name, act in (("killed", own.kill_replica), ("added", own.add_replica), ("upgraded", own.upgrade)):
            await asyncio.sleep(quarter)
            done[name] = quarter * (len(done) + 1)
            await asyncio.to_thread(act)

    asked, _ = await asyncio.gather(_typed(options, server), disturb())
    taken = [one for one in asked if one.code == 200]
    felt = {name: felt_s(taken, at_s, at_s + quarter) for name, at_s in done.items()}
    return figures(asked, options.seconds, options.typists) | {"felt_s": felt, "log": own.said()}


async def _overload(options: Options, server: TargetServer, _: OwnServer | None) -> dict[str, Any]:
    """Measure the capacity in a closed loop, then send a multiple of it."""
    clients = _OPEN * options.replicas
    await closed(server, clients, 3.0)  # its documents are read
    able = [one for one in await closed(server, clients, options.seconds) if one.code == 200]
    rate = len(able) / options.seconds
    asked = await arriving(server, options.over * rate, clients, options.seconds, seed=1)
    taken = [one for one in asked if one.code == 200]
    at_capacity, over = (float(np.percentile([one.ms for one in ones], 95)) for ones in (able, taken))
    return figures(asked, options.seconds, clients) | {
        "able_a_second": rate,
        "taken_a_second": len(taken) / options.seconds,
        "able_p95_ms": at_capacity,
        "times": over / at_capacity,
    }


async def _overhead(options: Options, server: TargetServer, own: OwnServer | None) -> dict[str, Any]:
    await closed(server, 1, 3.0)
    before = own.cpu_s() if own else {}
    asked = await closed(server, 1, options.seconds)
    return figures(asked, options.seconds, 1) | _cpu(before, own, len(asked))


def _cpu(before: Mapping[str, float], own: OwnServer | None, requests: int) -> dict[str, Any]:
    """CPU time a request since `before`, which is the same on a busy machine."""
    used = own.cpu_s() if own else {}
    return {"cpu_ms_a_request": {name: 1e3 * (used[name] - before[name]) / max(1, requests) for name in used}}


_PARTS = {"typing": _typing, "disturbed": _disturbed, "overload": _overload, "overhead": _overhead}


async def _typed(options: Options, server: TargetServer) -> list[RequestRecord]:
    runs = [run for run in histories.typed_runs(*histories.named(options.replay)) if run.text.strip()]
    return await type_all(server, runs, options.typists, options.seconds, options.speed)


def _server(options: Options, own: OwnServer | None) -> TargetServer:
    keys = options.key_file.read_text(encoding="ascii").split() if options.key_file else ()
    scripted = own is not None and options.model.startswith("scripted:")
    return TargetServer(own.url if own else str(options.url), tuple(keys), scripted)


def _print(part: str, found: dict[str, Any]) -> None:
    rows: list[Sequence[object]] = []
    for name, value in found.items():
        for inner, each in value.items() if isinstance(value, dict) else (("", value),):
            if name != "log":
                cell = "–" if each is None else f"{each:.3f}" if isinstance(each, float) else str(each)
                rows.append((f"{name} {inner}".strip(), cell))
    print_table(part, ("", "found"), rows)


def figures(asked: Sequence[RequestRecord], seconds: float, typists: int) -> dict[str, Any]:
    taken = [one for one in asked if one.code == 200]
    found, again = prefixes(taken)
    prompt = sum(one.prefilled + one.reused for one in taken)
    minutes = max(seconds * typists / 60.0, 1e-9)
    return {
        "requests": len(asked),
        "answered": len(taken),
        "refused": sum(one.code == 429 for one in asked),
        "given_up": sum(one.code == GIVEN_UP for one in asked),
        "failed": sum(one.code not in (200, 429, GIVEN_UP) for one in asked),
        "failures": dict(Counter(f"{one.code} {one.why}" for one in asked if one.why and one.code != 429)),
        "by_another's_text": sum(one.right is False for one in taken),
        "without_text": share(sum(not one.text for one in taken), len(taken)),
        "ms": _percentiles([one.ms for one in taken]),
        "text_ms": _percentiles([one.ms for one in taken if one.text]),
        "added_ms": _percentiles([one.ms - one.host_ms for one in taken if one.host_ms]),
        "same_replica": share(found, again),
        "prompt_reused": share(sum(one.reused for one in taken), prompt),
        "fairness": fairness(taken),
        "a_person_and_minute": {
            "requests": len(asked) / minutes,
            "prompt_tokens": sum(one.prefilled for one in taken) / minutes,
            "tokens": sum(one.tokens for one in taken) / minutes,
        },
    }


def prefixes(taken: Sequence[RequestRecord]) -> tuple[int, int]:
    last: dict[str, str] = {}
    found = again = 0
    for one in sorted(taken, key=lambda one: one.at_s):
        if one.replica and one.document in last:
            again += 1
            found += last[one.document] == one.replica
        last[one.document] = one.replica
    return found, again


def fairness(taken: Sequence[RequestRecord]) -> float | None:
    """Jain's index of people's median times: 1 where all wait alike, 1/n where one waits for all."""
    by: dict[int, list[float]] = {}
    for one in taken:
        by.setdefault(one.typist, []).append(one.ms)
    medians = np.array([np.median(ms) for ms in by.values()])
    return float(medians.sum() ** 2 / (len(medians) * (medians**2).sum())) if len(medians) else None


def felt_s(taken: Sequence[RequestRecord], at_s: float, until_s: float) -> float:
    """For how many seconds after `at_s` times were longer than before it, by windows of one second each."""
    before = [one.ms for one in taken if at_s - _BEFORE_S <= one.at_s < at_s]
    if not before:
        return 0.0
    most, felt = _FELT * float(np.percentile(before, 95)), 0.0
    for second in range(int(until_s - at_s)):
        begins = at_s + second
        within = [one.ms for one in taken if begins <= one.at_s < begins + 1.0]
        if within and float(np.percentile(within, 95)) > most:
            felt = second + 1.0
    return felt


def _percentiles(ms: Sequence[float]) -> Mapping[str, float | None]:
    names = ("p50", "p95", "p99")
    if not ms:
        return dict.fromkeys(names)
    return dict(zip(names, map(float, np.percentile(ms, (50, 95, 99))), strict=True))
