"""A gateway and replicas in this process: all that a team's server is, but for Ray between the two."""

import asyncio
import http.client
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
from tests.opened import Served

_HERE = Path("/")


class ToyTeam(Served):
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
        self.serve(config)

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
        named = {**(headers or {}), **({"Authorization": f"Bearer {key}"} if key else {})}
        return self.exchange(path, body, method=method, headers=named)

    def infill(self, before: str, document: str = "a.py", key: str = "", workspace: str = "") -> dict[str, Any]:
        headers = {"X-Fastcoder-Document": document, "X-Fastcoder-Workspace": workspace}
        code, reply, _ = self.call("/infill", {"input_prefix": before}, headers=headers, key=key)
        assert code == 200, reply
        assert isinstance(reply, dict)
        return reply

    def close(self) -> None:
        self.stop()
        for replica in self.replicas:
            replica.close()


Start = Callable[..., ToyTeam]
