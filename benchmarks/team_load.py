"""Requests to a team's server: people who type recorded histories, generated loads, a server of our own.

Each person is at a place of their own, and asks llama.cpp's `/infill` at every key. As an editor, a client has one
request open at a time, and closes its connection when it cancels one.
"""

import asyncio
import hashlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import psutil

from benchmarks.datasets.histories import TypedRun
from benchmarks.typist import keys, opening, waits
from fastcoder_lsp.config.environment import neutral_folder, python_command
from fastcoder_lsp.errors import NetworkError, ResourceError

GIVEN_UP = -1
_WORDS = 24
"""Tokens of an answer at most, for servers that do not end a text by themselves."""
_LONGEST = 30_000
"""Characters of a document, the cursor in them: clients send windows of large files."""
_FILE = "def total(items):\n    return sum(items)\n\n\n" * 10
_BEGIN_S = 180.0


@dataclass(frozen=True, slots=True)
class TargetServer:
    """A server to ask, by the people's `keys` if it wants any; `scripted`: its model says checksums."""

    url: str
    keys: tuple[str, ...] = ()
    scripted: bool = False

    def client(self, typist: int) -> httpx2.AsyncClient:
        """A person's connection to their own workspace; raises NetworkError where the server's URL is no address."""
        if not httpx2.URL(self.url).host or httpx2.URL(self.url).scheme != "http":
            raise NetworkError(f"{self.url} is no address", "Write: http://127.0.0.1:8020")
        named = {"X-Fastcoder-Workspace": f"workspace-{typist}"}
        if self.keys:
            named["Authorization"] = f"Bearer {self.keys[typist % len(self.keys)]}"
        one = httpx2.Limits(max_connections=1)
        return httpx2.AsyncClient(base_url=self.url, headers=named, timeout=None, trust_env=False, limits=one)


@dataclass(frozen=True, slots=True)
class DocumentCursor:
    document: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request and what became of it.

    Attributes:
        at_s: seconds since the beginning.
        code: HTTP's status; 0: the connection broke; -1: a newer key came first.
        host_ms: of them, in the replica, where it says so.
        right: whether it was this request's own, where that can be told.
        prefilled, reused: prompt tokens that were computed, and those that were in a KV cache.
        why: the server's error, or its text where that is another request's.
    """

    typist: int
    document: str
    at_s: float
    code: int
    ms: float = 0.0
    host_ms: float = 0.0
    text: bool = False
    right: bool | None = None
    replica: str = ""
    prefilled: int = 0
    reused: int = 0
    tokens: int = 0
    why: str = ""


async def ask(
    server: TargetServer, client: httpx2.AsyncClient, place: DocumentCursor, typist: int, at_s: float
) -> RequestRecord:
    headers = {"X-Fastcoder-Document": place.document}
    begun = time.perf_counter()
    try:
        response = await client.post("/infill", json=_request(place), headers=headers)
    except httpx2.TransportError:
        return RequestRecord(typist, place.document, at_s, 0, 1e3 * (time.perf_counter() - begun))
    ms = 1e3 * (time.perf_counter() - begun)
    is_json = response.headers.get("content-type", "").startswith("application/json")
    told: Mapping[str, Any] = response.json() if is_json else {}
    said = str(told.get("content", "")).rstrip("\n")
    answered, error = response.status_code == 200, told.get("error")
    right = said == checksum(place.before, len(said)) if server.scripted and answered and said else None
    why = str(error.get("message", "")) if isinstance(error, dict) and not answered else ""
    times = told.get("timings") or {}
    return RequestRecord(
        typist=typist,
        document=place.document,
        at_s=at_s,
        code=response.status_code,
        ms=ms,
        host_ms=float(response.headers.get("x-fastcoder-host-ms", 0.0)),
        text=bool(said.strip()),
        right=right,
        replica=response.headers.get("x-fastcoder-replica", ""),
        prefilled=int(times.get("prompt_n", 0)),
        reused=int(times.get("cache_n", 0)),
        tokens=int(times.get("predicted_n", 0)),
        why=repr(said) if right is False else why,
    )


def _request(place: DocumentCursor) -> dict[str, Any]:
    line = place.before.rfind("\n") + 1
    around = {"input_prefix": place.before[:line], "prompt": place.before[line:], "input_suffix": place.after}
    return around | {"filename": place.document, "n_predict": _WORDS}


def checksum(before: str, letters: int) -> str:
    return f"~{hashlib.blake2b(before.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"[:letters]


def places(run: TypedRun, name: str) -> Iterator[tuple[DocumentCursor, str]]:
    begun = max(0, run.offset - _LONGEST // 2)
    before = run.document[begun : run.offset] + opening(run.text)
    after = run.document[run.offset : run.offset + _LONGEST // 2]
    for key in keys(run.text):
        before += key
        yield DocumentCursor(name, before, after), key


async def type_all(
    server: TargetServer,
    runs: Sequence[TypedRun],
    typists: int,
    seconds: float,
    speed: float,
    *,
    patient: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> list[RequestRecord]:
    """All of them at once, each from another of the `runs` on, for so many seconds of the clock.

    `patient`: whether a key waits for the answer to the one before it, and gives no request up.
    """
    begun = clock()

    async def type_one(typist: int) -> list[RequestRecord]:
        client, done = server.client(typist), list[RequestRecord]()
        first, turn = len(runs) * typist // typists, 0
        open_: asyncio.Task[None] | None = None

        async def one(place: DocumentCursor, at_s: float) -> None:
            try:
                done.append(await ask(server, client, place, typist, at_s))
            except asyncio.CancelledError:
                done.append(RequestRecord(typist, place.document, at_s, GIVEN_UP))
                raise

        while clock() - begun < seconds:
            run = runs[(first + turn) % len(runs)]
            pauses = waits(keys(run.text), speed, f"{typist}-{turn}")
            for (place, _), pause in zip(places(run, f"{typist}/{run.path}"), pauses, strict=True):
                await asyncio.sleep(pause)
                if open_ is not None:
                    await _ended(open_, patient=patient)
                if (at_s := clock() - begun) >= seconds:
                    break
                open_ = asyncio.create_task(one(place, at_s))
            turn += 1
        if open_ is not None:
            await _ended(open_, patient=True)
        await client.aclose()
        return done

    return [asked for typed in await asyncio.gather(*map(type_one, range(typists))) for asked in typed]


async def _ended(task: "asyncio.Task[None]", *, patient: bool) -> None:
    if not patient and not task.done():
        task.cancel()
    await asyncio.wait((task,))


def place(client: int, number: int) -> DocumentCursor:
    """A client's document after so many requests: each adds a line, so that its prefix is known."""
    return DocumentCursor(f"file_{client}.py", f"# {client}\n{_FILE}" + "value = 1\n" * (number % 40) + "x = ", "\n")


async def closed(
    server: TargetServer, clients: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> list[RequestRecord]:
    """So many clients that ask again as soon as they are answered, for so many seconds of the clock."""
    begun = clock()

    async def one(client: int) -> list[RequestRecord]:
        connection, done = server.client(client), list[RequestRecord]()
        while (at_s := clock() - begun) < seconds:
            wanted = place(client, len(done))
            done.append(await ask(server, connection, wanted, client, at_s))
        await connection.aclose()
        return done

    return [asked for each in await asyncio.gather(*map(one, range(clients))) for asked in each]


async def arriving(
    server: TargetServer, a_second: float, clients: int, seconds: float, seed: int
) -> list[RequestRecord]:
    """So many a second, each from a client that is free; one more client comes where none is."""
    begun, chance = time.perf_counter(), random.Random(seed)  # noqa: S311 arrivals need no secrets
    free = [(server.client(number), number) for number in range(clients)]
    asked_by, done, tasks = dict.fromkeys(range(clients), 0), list[RequestRecord](), set[asyncio.Task[None]]()

    async def one(at_s: float) -> None:
        if not free:
            asked_by[len(asked_by)] = 0
            free.append((server.client(len(asked_by) - 1), len(asked_by) - 1))
        connection, client = free.pop(0)
        wanted = place(client, asked_by[client])
        asked_by[client] += 1
        done.append(await ask(server, connection, wanted, client, at_s))
        free.append((connection, client))

    due = 0.0
    while due < seconds:
        await asyncio.sleep(max(0.0, due - (time.perf_counter() - begun)))
        task = asyncio.create_task(one(time.perf_counter() - begun))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        due += chance.expovariate(a_second)
    await asyncio.gather(*tasks)
    for connection, _ in free:
        await connection.aclose()
    return done


class OwnServer:
    """A team's server of `model`, while the block is entered; `rest`: more of its configuration, as TOML."""

    def __init__(self, model: str, replicas: int, rest: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-team-")
        self._model, self.replicas, self._rest = model, replicas, rest
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._file = Path(self._folder.name) / "team.toml"

    def __enter__(self) -> Self:
        self._write()
        self.log = (Path(self._folder.name) / "log").open("w+", encoding="utf-8")
        command = python_command("fastcoder_lsp.cli.main", "team", "--config", str(self._file))
        self._process = subprocess.Popen(command, cwd=neutral_folder(), stdin=subprocess.DEVNULL, stderr=self.log)
        until = time.monotonic() + _BEGIN_S
        while not self.healthy():
            if self._process.poll() is not None or time.monotonic() > until:
                said = self.said()
                self.__exit__(None, None, None)
                raise ResourceError(
                    f"the team's server does not start: {said[-500:]}",
                    "Mend what the server names, and run the benchmark again.",
                )
            time.sleep(0.2)
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.log.close()
        self._folder.cleanup()

    def said(self) -> str:
        self.log.flush()
        return Path(self.log.name).read_text(encoding="utf-8")

    def healthy(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        with suppress(OSError, HTTPException):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False

    def kill_replica(self) -> int:
        victim = min(self.replica_processes())
        os.kill(victim, signal.SIGKILL)
        return victim

    def replica_processes(self) -> list[int]:
        children = psutil.Process(self._process.pid).children(recursive=True)
        return [child.pid for child in children if _names_replica(child)]

    def cpu_s(self) -> dict[str, float]:
        """Seconds of CPU that its processes have used so far: Serve's proxy, the door, replicas, all of them."""
        used = {"proxy": 0.0, "door": 0.0, "replicas": 0.0, "all": 0.0}
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.Error):
                times, line = process.cpu_times(), (process.cmdline() or [""])[0]
                spent = times.user + times.system
                used["all"] += spent
                for name, part in (("proxy", "ProxyActor"), ("door", "Door"), ("replicas", "Model")):
                    used[name] += spent if part in line else 0.0
        return used

    def add_replica(self) -> None:
        self.replicas += 1
        self.upgrade()

    def upgrade(self) -> None:
        """Have the configuration read again: where it is as it was, every replica is replaced."""
        self._write()
        self._process.send_signal(signal.SIGHUP)

    def _write(self) -> None:
        self._file.write_text(
            f'{self._rest}\n[model]\nmodel = "{self._model}"\n"where.middle_of_word" = true\n'
            f"[listen]\nport = {self.port}\n[replicas]\nleast = {self.replicas}\nat_once = {self.replicas}\n",
            encoding="utf-8",
        )


def _names_replica(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        line = (process.cmdline() or [""])[0]
        return "ServeReplica" in line and "Model" in line
    return False
