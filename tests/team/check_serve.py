"""The server on Ray Serve itself, as people start it: what dies, what is added, what is upgraded, what is too much.

Needs the extra `team`: scripts/test-team installs it and runs this. Figures are counts, never times of a clock.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from benchmarks.datasets.histories import TypedRun
from benchmarks.team import figures
from benchmarks.team_load import OwnServer, RequestRecord, TargetServer, arriving, ask, place, type_all
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.team.keys import KeyFile
from tests.opened import until as until_soon
from tests.team.counted import looked_at

until = partial(until_soon, pause_s=0.2)
MODEL = "scripted:step=10,prefill=0.02,letters=6"
TYPISTS, OPEN = 12, 8
SECONDS = 30.0
RUN = TypedRun("a.py", "python", "import os\n\n\n" * 50, 600, "def total(items):\n    return sum(items)\n" * 4)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyFile, list[str]]:
    """Somebody's each, and one that may read the metrics."""
    file = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    return file, [*(file.add(f"typist-{number}") for number in range(TYPISTS)), file.add("watch", metrics=True)]


@pytest.fixture(scope="module")
def own(keys: tuple[KeyFile, list[str]]) -> Iterator[OwnServer]:
    """Two replicas of a model that says checksums."""
    with OwnServer(MODEL, 2, f'keys = "{keys[0]._path}"\n') as server:
        yield server


@pytest.fixture
def server(own: OwnServer, keys: tuple[KeyFile, list[str]]) -> TargetServer:
    return TargetServer(own.url, tuple(keys[1][:TYPISTS]), scripted=True)


def one(server: TargetServer, typist: int = 0, number: int = 1) -> RequestRecord:
    """One request for a person's document, after so many before it."""

    async def asked() -> RequestRecord:
        client = server.client(typist)
        try:
            return await ask(server, client, place(typist, number), typist, 0.0)
        finally:
            await client.aclose()

    return asyncio.run(asked())


def test_it_answers_only_with_a_key(own: OwnServer, server: TargetServer) -> None:
    assert one(server).right
    assert one(TargetServer(own.url, ("fck_00000000_wrong",))).code == 401
    assert one(TargetServer(own.url)).code == 401


def test_a_port_in_use_is_said(own: OwnServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Serve would share it with the server that has it, and each would get some of the requests."""
    assert main(["team", "--port", str(own.port), "--model", MODEL]) == 2
    assert f"port {own.port} is in use" in capsys.readouterr().err


def test_the_door_is_on_loopback_alone(own: OwnServer) -> None:
    listening = [
        connection.laddr[0]
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == own.port
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_nothing_is_lost_when_replicas_die_come_and_are_replaced(own: OwnServer, server: TargetServer) -> None:
    survivors = set[int]()

    async def disturb() -> None:
        await asyncio.sleep(SECONDS / 5)
        await asyncio.to_thread(own.kill_replica)
        await asyncio.sleep(SECONDS / 5)
        survivors.update(own.replica_processes())
        await asyncio.to_thread(own.add_replica)
        await asyncio.to_thread(until, lambda: len(own.replica_processes()) == 3)
        assert survivors <= set(own.replica_processes()), "one that is added replaces none"
        survivors.update(own.replica_processes())
        await asyncio.to_thread(own.upgrade)

    async def typing() -> list[RequestRecord]:
        asked, _ = await asyncio.gather(type_all(server, [RUN], TYPISTS, SECONDS, 2.0, patient=True), disturb())
        return asked

    asked = asyncio.run(typing())
    found = figures(asked, SECONDS, TYPISTS)
    assert found["failed"] == found["by_another's_text"] == 0, found
    assert found["answered"] + found["refused"] == found["requests"] > TYPISTS
    until(lambda: "upgraded" in own.said())
    until(lambda: len(own.replica_processes()) == 3 and not survivors & set(own.replica_processes()))
    assert one(server).right


def test_documents_are_read_before_a_new_replica_takes_them(own: OwnServer, server: TargetServer) -> None:
    """An upgrade leaves their prompts known. Where the machine stops for seconds meanwhile, it is tried again."""

    def found() -> bool:
        assert all(one(server, typist, 1).right for typist in range(OPEN))
        before = set(own.replica_processes())
        own.upgrade()
        until(lambda: own.replica_processes() and not before & set(own.replica_processes()))
        again = [one(server, typist, 2) for typist in range(OPEN)]
        return all(asked.right and asked.reused > 10 * asked.prefilled for asked in again)

    assert any(found() for _ in range(3))


def test_documents_find_their_prefix(server: TargetServer) -> None:
    """Of requests for documents that were asked for before, all but three of a hundred go to the same replica."""
    typists = OPEN  # whatever stops for how long, a document's own replica has a place for it
    asked = asyncio.run(type_all(server, [RUN], typists, 8.0, 2.0, patient=True, clock=looked_at()))
    found = figures(asked, 8.0, typists)
    assert found["same_replica"] >= 0.97, found
    assert found["prompt_reused"] > 0.8, found


def test_too_much_is_refused_with_a_time(own: OwnServer, server: TargetServer) -> None:
    asked = asyncio.run(arriving(server, 250.0, TYPISTS, 4.0, seed=1))
    codes = {one.code for one in asked}
    assert codes == {200, 429}, codes
    assert all(one.right for one in asked if one.code == 200)
    until(own.healthy)
    assert one(server).right


def test_a_closed_connection_holds_nothing(
    own: OwnServer, server: TargetServer, keys: tuple[KeyFile, list[str]]
) -> None:
    body = b'{"input_prefix": "x = "}'
    for number in range(80):
        with socket.create_connection(("127.0.0.1", own.port)) as gone:
            head = f"POST /infill HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {keys[1][number % TYPISTS]}\r\n"
            gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    until(lambda: one(server).right)


def test_a_key_is_revoked_while_it_runs(server: TargetServer, keys: tuple[KeyFile, list[str]]) -> None:
    keys[0].revoke("typist-3")
    until(lambda: one(server, 3).code == 401)
    assert one(server, 4).right


class _Collector(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    sent: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.sent.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_request_is_traced_without_its_text() -> None:
    collector = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    try:
        rest = f'[records]\ntraces = "http://127.0.0.1:{collector.server_port}/v1/traces"\n'
        with OwnServer(MODEL, 1, rest) as traced:
            assert one(TargetServer(traced.url, scripted=True)).right
            for part in (b"Door", b"Model"):
                until(lambda part=part: any(part in sent for sent in _Collector.sent))  # type: ignore[misc]
        asked = place(0, 1).before
        assert not any(
            line.encode() in sent for line in asked.splitlines() if len(line) > 8 for sent in _Collector.sent
        )
    finally:
        collector.shutdown()
        collector.server_close()


def test_it_ends_with_its_process(tmp_path: Path) -> None:
    with OwnServer(MODEL, 1) as brief:
        process = psutil.Process(brief._process.pid)
        children = process.children(recursive=True)
        assert len(children) > 3
        os.kill(process.pid, signal.SIGTERM)
        assert brief._process.wait(60) == 0
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]


def test_the_manifests_part_for_serve_is_serves() -> None:
    import yaml  # type: ignore[import-untyped]
    from ray.serve.schema import ServeDeploySchema

    from fastcoder_lsp.errors import UsageError
    from fastcoder_lsp.team.cluster import build

    docs = Path(__file__).parents[2] / "docs" / "team"
    manifest = yaml.safe_load((docs / "rayservice.yaml").read_text(encoding="utf-8"))
    deployed = ServeDeploySchema.model_validate(yaml.safe_load(manifest["spec"]["serveConfigV2"]))
    assert deployed.applications[0].import_path == f"{build.__module__}:{build.__name__}"
    assert type(build({"config": str(docs / "team.toml")})).__name__ == "Application"
    with pytest.raises(UsageError):
        build({"config": ""})
