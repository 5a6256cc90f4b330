"""A long session with the installed command, as an editor on stdio has it, with the shared process and without.

`recorded/lsp_session.json` holds what the client sends, too: add a message without an answer and record it.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.goldens.golden import Goldens, Normal, command, normal_for
from tests.lsp.raw_client import Json, RawClient, running


@pytest.fixture
def ended(environment: dict[str, str]) -> Iterator[None]:
    """Ends the shared process after the test."""
    yield
    subprocess.run([command(), "host", "stop"], env=environment, check=False, capture_output=True)


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
