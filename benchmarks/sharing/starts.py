"""Editors' servers that start one after the other over one process: the CPU that each takes, and the memory of all."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.common.server import SERVER
from fastcoder_lsp.client.client import Client
from fastcoder_lsp.errors import FastcoderError

TEXT: Final = "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n    "
_TRIES: Final = 300
_PAUSE_S: Final = 0.5
_SETTLED_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Start:
    """Of one server.

    Attributes:
        initialized_cpu_s: of the server, until it had answered `initialize`.
        shown_cpu_s: of the server, until the first ghost text was there.
        host_cpu_s: of the shared process, for that.
    """

    initialized_cpu_s: float
    shown_cpu_s: float
    host_cpu_s: float


@dataclass(frozen=True, slots=True)
class Started:
    """All of them; `servers_bytes`, `host_bytes`: proportional set sizes, a page that several have counting in part."""

    starts: tuple[Start, ...]
    servers_bytes: tuple[int, ...]
    host_bytes: int


async def start_all(count: int, settings: Mapping[str, Any], folder: Path) -> Started:
    """Start so many servers, each in a workspace of its own, below `folder`.

    Raises:
        FastcoderError: no ghost text came, or the servers share no process.
    """
    clients = [Client(lambda _: None, lambda _: None, lambda _: None, name="fastcoder-lsp bench") for _ in range(count)]
    starts, host = list[Start](), 0
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
            starts.append(Start(initialized_s, _cpu_s(client.process_id), _cpu_s(host) - before_s))
        await asyncio.sleep(_SETTLED_S)
        return Started(tuple(starts), tuple(_bytes(client.process_id) for client in clients), _bytes(host))
    finally:
        for client in clients[: len(starts) + 1]:
            await client.stop()


async def _shown(client: Client, uri: str) -> None:
    """Wait for the first ghost text.

    Raises:
        FastcoderError: none came.
    """
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
