"""A gateway and replicas in this process: all that a team's server is, but for Ray between the two."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from fastcoder_lsp.team.calls import Call, ReplicaAnswer, ReplicaRefusal, preferred
from fastcoder_lsp.team.configuration import TeamConfig, parse_config
from fastcoder_lsp.team.counts import RequestOutcome
from fastcoder_lsp.team.gateway import Gateway
from fastcoder_lsp.team.keys import KeyFile, Refusal
from fastcoder_lsp.team.replica import TeamReplica
from fastcoder_lsp.team.scripted import MODULE

WAIT_S = 60.0
_HERE = Path("/")


class ToyTeam:
    """The gateway with the configuration `toml`, over so many replicas; without `keys` anybody may ask."""

    def __init__(
        self,
        toml: str = "",
        keys: KeyFile | None = None,
        replicas: int = 1,
        model: str = "scripted:step=1,prefill=0",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config: TeamConfig = parse_config(f'model = {{ model = "{model}" }}\n{toml}', folder=_HERE)
        self.replicas = [
            TeamReplica(self.config, f"replica-{number}", lambda _: {}, MODULE) for number in range(replicas)
        ]
        self.outcomes: list[RequestOutcome] = []
        self.calls: list[Call] = []
        self.healthy = True
        self.refusal: Refusal | None = None
        limits, told = self.config.limits, self.outcomes.append
        answer, can_answer = lambda call: self.answer(call), lambda: self.can_answer()  # noqa: PLW0108 tests replace both
        app = Gateway(answer, can_answer, keys, limits, told, "scripted", 4096, clock)
        config = uvicorn.Config(app, port=0, loop="asyncio", http="h11", ws="none", lifespan="off", log_config=None)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        self.until(lambda: self._server.started)
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]

    async def answer(self, call: Call) -> ReplicaAnswer | ReplicaRefusal | Refusal:
        self.calls.append(call)
        if self.refusal is not None:
            return self.refusal
        named = {replica.name: replica for replica in self.replicas}
        return await named[preferred(call.place, named)[0]].answer(call)

    async def can_answer(self) -> bool:
        await asyncio.sleep(0)
        return self.healthy

    def call(
        self, path: str, body: Any = None, *, method: str = "", headers: dict[str, str] | None = None, key: str = ""
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            named = {**(headers or {}), **({"Authorization": f"Bearer {key}"} if key else {})}
            connection.request(method or ("GET" if body is None else "POST"), path, data, named)
            response = connection.getresponse()
            text = response.read().decode()
            is_json = (response.getheader("content-type") or "").startswith("application/json")
            return response.status, json.loads(text) if is_json else text, response.headers
        finally:
            connection.close()

    def infill(self, before: str, document: str = "a.py", key: str = "", workspace: str = "") -> dict[str, Any]:
        headers = {"X-Fastcoder-Document": document, "X-Fastcoder-Workspace": workspace}
        code, reply, _ = self.call("/infill", {"input_prefix": before}, headers=headers, key=key)
        assert code == 200, reply
        assert isinstance(reply, dict)
        return reply

    def until(self, holds: Any) -> None:
        end = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < end, "it does not come"
            time.sleep(0.002)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_S)
        for replica in self.replicas:
            replica.close()
        assert not self._thread.is_alive()


Start = Callable[..., ToyTeam]
