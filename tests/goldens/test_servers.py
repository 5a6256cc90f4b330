"""Long sessions with the installed command: an editor on stdio, and every route of the HTTP server."""

import http.client
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.goldens.golden import Goldens, Normal, command, normal_for
from tests.lsp.raw_client import Json, RawClient, running


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
async def test_session(
    goldens: Goldens, small_model: Path, environment: dict[str, str], tmp_path: Path, shared: bool
) -> None:
    (tmp_path / ".fastcoderignore").write_text("ignored.py\n", encoding="utf-8")
    normal = normal_for(environment, tmp_path, small_model)
    messages = goldens.recorded("lsp_session")["messages"]
    async with running(command=(command(), "serve"), environment=environment) as client:
        for message in messages:
            params = normal.undo(message.get("params"))
            if message.get("ask") == "initialize" and params:
                params["initializationOptions"]["host.enabled"] = shared
            if "notify" in message:
                client.notify(message["notify"], params)
            else:
                message["answer"] = _plain(await client.answer(client.ask(message["ask"], params)), normal)
        host = (await client.call("fastcoder/stats"))["host"]
        assert await client.leave() == 0
    goldens.check("lsp_session", {"messages": messages, "told": _told(client, normal)})
    goldens.check(f"lsp_host_{'shared' if shared else 'alone'}", normal(host))


def _plain(answer: Json, normal: Normal) -> Any:
    """The result or the error, without tracebacks and without the process that has the model."""
    result = answer.get("result")
    if "error" in answer:
        return normal({"error": {key: answer["error"][key] for key in ("code", "message")}})
    return normal({key: part for key, part in result.items() if key != "host"} if isinstance(result, dict) else result)


def _told(client: RawClient, normal: Normal) -> Json:
    """What the server said unasked, by method; which states may be seen depends on the moment."""
    told: dict[str, list[Any]] = {}
    for message in client.told:
        told.setdefault(message["method"], []).append(normal(message["params"]))
    status = sorted(told.pop("fastcoder/status")[-1])
    asked = [{"ask": message["method"], "params": normal(message.get("params"))} for message in client.asked]
    return told | {"fastcoder/status": status, "requests": asked}


def test_http(goldens: Goldens, small_model: Path, environment: dict[str, str], tmp_path: Path) -> None:
    normal = normal_for(environment, tmp_path, small_model)
    requests = goldens.recorded("http")
    arguments = [command(), "http", "--alone", "--port", "0", "--model", str(small_model)]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            port = re.search(r"127\.0\.0\.1:(\d+)", server.stderr.readline())
            assert port is not None
            assert "ready" in server.stderr.readline()
            for request in requests:
                status, text = call(int(port[1]), request["path"], request["body"])
                request["answer"] = {"status": status, "body": normal(plain(text))}
        finally:
            server.kill()
    goldens.check("http", requests)


def call(port: int, path: str, body: Any) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    sent = None if body is None else body if isinstance(body, str) else json.dumps(body)
    connection.request("GET" if sent is None else "POST", path, sent, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def plain(text: str) -> Any:
    """JSON, or a list of a stream's events."""
    if text.startswith("data: "):
        return [plain(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
    try:
        return json.loads(text)
    except ValueError:
        return text
