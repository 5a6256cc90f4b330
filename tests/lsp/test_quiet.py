"""What a session adds to the rules of quiet: a snooze, the battery, deletions, and settings for one language."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.lsp.battery import Battery, PowerSource, read_battery
from fastcoder_lsp.lsp.status import Snooze
from tests.lsp.raw_client import Json, RawClient, initialized

URI = "file:///project/a.py"


async def code(client: RawClient, uri: str = URI) -> str:
    told = await client.call("fastcoder/why", {"textDocument": {"uri": uri}})
    return str(told["items"][0]["code"])


async def snooze(client: RawClient, *minutes: object) -> Json:
    params = {"command": "fastcoder.snooze", "arguments": list(minutes)}
    result: Json = await client.call("workspace/executeCommand", params)
    return result


def last_status(client: RawClient) -> Json:
    told: Json = [message["params"] for message in client.told if message["method"] == "fastcoder/status"][-1]
    return told


async def test_a_snooze_is_told_by_the_status_and_ends_by_the_command() -> None:
    async with initialized() as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4)
        assert await snooze(client) == {"minutes": 30}
        await client.until(lambda: last_status(client).get("snoozed") == 30)
        assert last_status(client)["notes"] == ["snoozed for 30 more minutes"]
        assert "30 minutes" in client.notices()[-1]
        assert await client.inline(URI, 0, 3) == []
        assert await code(client) == "snoozed"
        told = await client.call("fastcoder/why", {"textDocument": {"uri": URI}})
        assert "Snoozed for 30 more minutes." in told["text"]
        assert await client.inline(URI, 0, 4, triggerKind=1)
        assert await snooze(client, "1") == {"minutes": 1}
        assert await snooze(client, 0.0) == {"minutes": 0}
        await client.until(lambda: "snoozed" not in last_status(client))
        assert await client.inline(URI, 0, 3)
        for wrong in ("soon", None, [5]):
            answer = await client.answer(
                client.ask("workspace/executeCommand", {"command": "fastcoder.snooze", "arguments": [wrong]})
            )
            assert "number of minutes" in answer["error"]["message"]


class Loop:
    """An event loop's clock, which the test moves."""

    def __init__(self) -> None:
        self.now_s, self.calls = 100.0, list[tuple[float, Callable[[], None]]]()

    def time(self) -> float:
        return self.now_s

    def call_at(self, at_s: float, call: Callable[[], None]) -> "Loop":
        self.calls = [(at_s, call)]
        return self

    def cancel(self) -> None:
        self.calls = []


def test_a_snooze_counts_down_by_the_minute() -> None:
    loop, told = Loop(), list[int]()
    countdown: Any = Snooze(loop, lambda: told.append(countdown.minutes))  # type: ignore[arg-type]
    countdown.start(3)
    while loop.calls:
        [(loop.now_s, call)] = loop.calls
        loop.calls = []
        call()
    assert (told, loop.now_s) == ([3, 2, 1, 0], 280.0)
    countdown.start(10**9)
    assert countdown.minutes == 24 * 60
    countdown.start(-5)
    assert (countdown.minutes, loop.calls) == (0, [])


async def test_what_the_last_change_did_counts() -> None:
    options = {"quiet": {"deletions": True}}
    async with initialized(initializationOptions=options) as client:
        client.open(URI, "x = 12")
        place = {"line": 0, "character": 5}
        end = {"line": 0, "character": 6}
        client.change(URI, 2, [{"range": {"start": place, "end": end}, "text": ""}])
        assert await client.inline(URI, 0, 5) == []
        assert await code(client) == "deletion"
        client.change(URI, 3, [{"range": {"start": place, "end": place}, "text": "3"}])
        assert await client.inline(URI, 0, 6)
        client.change(URI, 4, [{"range": {"start": place, "end": end}, "text": "4"}])
        assert await client.inline(URI, 0, 6)


async def test_a_language_has_settings_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "fastcoder.toml").write_text('[languages.python]\nquiet.mode = "invoked"\npower = "saver"\n')
    python, c = ((tmp_path / name).as_uri() for name in ("a.py", "a.c"))
    folders = [{"uri": tmp_path.as_uri(), "name": "a"}]
    for options, quiet in (({}, True), ({"languages.python.quiet.mode": "always"}, False)):
        async with initialized(workspaceFolders=folders, initializationOptions=options) as client:
            for uri, language in ((python, "python"), (c, "c")):
                client.open(uri, "x = ", language)
                shown = await client.inline(uri, 0, 4)
                assert bool(shown) != (quiet and uri == python), json.dumps(shown)
            assert not quiet or await code(client, python) == "by-key"
            assert not client.notices()


MAINS = {"type": "Mains", "online": "1"}
OFF = {"type": "Mains", "online": "0"}
LAPTOP = {"type": "Battery", "status": "Discharging", "capacity": "54"}


@pytest.mark.parametrize(
    ("supplies", "battery"),
    [
        ({}, None),
        ({"AC": MAINS}, None),
        ({"BAT0": LAPTOP}, Battery(54, True)),
        ({"AC": OFF, "BAT0": LAPTOP}, Battery(54, True)),
        ({"AC": MAINS, "BAT0": LAPTOP}, Battery(54, False)),
        ({"AC": OFF, "BAT0": LAPTOP | {"status": "Full"}}, Battery(54, False)),
        ({"BAT0": LAPTOP | {"status": "Unknown", "capacity": "80"}, "BAT1": LAPTOP}, Battery(67, True)),
        ({"hidpp_battery_0": LAPTOP | {"scope": "Device"}}, None),
        ({"BAT0": {"type": "Battery", "status": "Discharging", "capacity": "?"}}, Battery(None, True)),
    ],
    ids=["none", "mains", "bare", "unplugged", "plugged", "full", "two", "a mouse", "unknown level"],
)
def test_the_battery_that_runs_the_machine(
    supplies: dict[str, dict[str, str]], battery: Battery | None, tmp_path: Path
) -> None:
    for name, values in supplies.items():
        (tmp_path / name).mkdir()
        for value, text in values.items():
            (tmp_path / name / value).write_text(f"{text}\n")
    assert read_battery(tmp_path) == battery
    assert read_battery(tmp_path / "absent") is None


async def test_a_change_of_the_power_is_told() -> None:
    told, on_battery = asyncio.Event(), True
    power = PowerSource(asyncio.get_running_loop(), told.set, lambda: Battery(9, on_battery))
    assert not power.on_battery()
    await told.wait()
    assert power.on_battery()


async def test_in_a_menu_the_rules_hold_for_the_key_as_well() -> None:
    """By the protocol "invoked" is typing, too, and Helix sends no context at all."""
    options = {"quiet": {"lines": 1}, "popup": {"budget_ms": 20_000}}
    async with initialized(initializationOptions=options, capabilities={}) as client:
        client.open(URI, "x = ")
        params = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 4}}
        assert (await client.call("textDocument/completion", params))["items"]
        await snooze(client)
        for context in ({}, {"context": {"triggerKind": 1}}):
            assert (await client.call("textDocument/completion", params | context))["items"] == []
            assert await code(client) == "snoozed"
