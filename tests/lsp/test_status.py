"""What the user is told: status, progress, notices, statistics, the log."""

import asyncio
from pathlib import Path

import pytest

from tests.lsp.raw_client import Brake, Json, RawClient, initialized, running

URI = "file:///project/a.py"
SAYS = "suggested = 1"


def inserted(line: int, character: int, text: str) -> Json:
    place = {"line": line, "character": character}
    return {"range": {"start": place, "end": place}, "text": text}


def progress_kinds(client: RawClient) -> list[str]:
    return [message["params"]["value"]["kind"] for message in client.told if message["method"] == "$/progress"]


async def stats(client: RawClient) -> Json:
    result: Json = await client.call("fastcoder/stats")
    return result


async def test_the_status_tells_the_life_of_the_model() -> None:
    async with initialized("--load-ms", "50") as client:
        client.open(URI, "x = ")
        await stats(client)
        assert client.statuses() == ["starting"]
        assert await client.inline(URI, 0, 4)
        await client.until(lambda: client.statuses()[-1] == "ready" and "thinking" in client.statuses())
        assert list(dict.fromkeys(client.statuses())) == ["starting", "loading", "ready", "thinking"]
        told = [message["params"] for message in client.told if message["method"] == "fastcoder/status"]
        assert {status["percent"] for status in told if status["state"] == "loading"} == {0, 50}
        assert len({str(status) for status in told}) == len(told) - 1  # "ready" came twice


async def test_loading_shows_progress_where_the_client_can() -> None:
    async with initialized("--load-ms", "50", capabilities={"window": {"workDoneProgress": True}}) as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4)
        await client.until(lambda: progress_kinds(client)[-1:] == ["end"])
        [created] = [asked for asked in client.asked if asked["method"] == "window/workDoneProgress/create"]
        shown = [message["params"] for message in client.told if message["method"] == "$/progress"]
        assert {progress["token"] for progress in shown} == {created["params"]["token"]}
        kinds = progress_kinds(client)
        assert kinds[0] == "begin"
        assert kinds[-1] == "end"
        assert set(kinds[1:-1]) <= {"report"}


@pytest.mark.parametrize("loads", [True, False])
async def test_loading_the_edit_model_shows_progress_and_how_it_ended(brake: Brake, loads: bool) -> None:
    """Its own progress, and a note in the status, beside completions; also where the user types on meanwhile."""
    options: Json = {"edits.model": "sweep-next-edit-toy"}
    arguments = ("--edits-load-ms", "60000", "--until", str(brake.path), *(("--replaces", "a", "b") if loads else ()))
    capabilities = {"window": {"workDoneProgress": True}}
    async with initialized(*arguments, initializationOptions=options, capabilities=capabilities) as client:
        client.open(URI, "x = 1\n")
        assert await client.inline(URI, 0, 5)
        await client.until(lambda: progress_kinds(client)[-1:] == ["end"])
        client.change(URI, 2, [{"text": "y = 1\n"}])
        place = {"textDocument": {"uri": URI, "version": 2}, "position": {"line": 0, "character": 1}}
        asked = client.ask("textDocument/copilotInlineEdit", place)
        note = "no edits until their model is loaded (50 %: weights)"
        await client.until(lambda: any(note in str(message) for message in client.told))
        await client.until(lambda: progress_kinds(client)[-1] in {"begin", "report"})
        client.change(URI, 3, [{"text": "z = 1\n"}])
        assert (await client.answer(asked))["result"] == {"edits": []}
        why = await client.call("fastcoder/why", {"textDocument": {"uri": URI}})
        assert f"N{note[1:]}." in why["text"]
        assert await client.inline(URI, 0, 5)
        brake.release()
        await client.until(lambda: progress_kinds(client)[-1] == "end")
        assert [("sweep-next-edit-toy" in notice) for notice in client.notices()] == [] if loads else [True]
        tokens = [one["params"]["token"] for one in client.told if one["method"] == "$/progress"]
        assert tokens[-1].startswith("fastcoder/edits/")


async def test_a_missing_model_is_one_notice_with_what_to_do() -> None:
    async with initialized(initializationOptions={"model": "the/missing"}) as client:
        client.open(URI, "x = ")
        for _ in range(20):
            assert await client.inline(URI, 0, 4) == []
        [notice] = client.notices()
        assert "the/missing" in notice
        assert "fastcoder-lsp model pull" in notice
        last = [message["params"] for message in client.told if message["method"] == "fastcoder/status"][-1]
        assert last["state"] == "error"
        assert last["hint"]
        assert last["host"] is None


async def test_a_client_that_shows_the_status_is_told_by_it_alone() -> None:
    shows: Json = {"client": {"showsStatus": True}}
    for options in ({}, {"model": "the/missing"}):
        async with running() as client:
            await client.initialize(
                initializationOptions=shows | options, capabilities={"window": {"workDoneProgress": True}}
            )
            client.open(URI, "x = ")
            assert bool(await client.inline(URI, 0, 4)) == (options == {})
            await client.until(lambda: client.statuses()[-1] == ("error" if options else "ready"))  # noqa: B023
            assert client.notices() == []
            assert [asked for asked in client.asked if asked["method"] == "window/workDoneProgress/create"] == []


async def test_off_is_off_until_it_is_toggled() -> None:
    async with initialized(initializationOptions={"enabled": False}) as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4) == []
        await client.until(lambda: client.statuses()[-1] == "off")
        assert "loading" not in client.statuses()
        assert await client.call("workspace/executeCommand", {"command": "fastcoder.toggle"}) == {"enabled": True}
        assert await client.inline(URI, 0, 4)
        assert await client.call("workspace/executeCommand", {"command": "fastcoder.toggle"}) == {"enabled": False}
        assert await client.inline(URI, 0, 4) == []
        await client.until(lambda: client.statuses()[-1] == "off")
        assert (await stats(client))["engine"] is None


async def test_reload_loads_the_model_again() -> None:
    async with initialized() as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4)
        assert await client.call("workspace/executeCommand", {"command": "fastcoder.reload"}) is None
        assert await client.inline(URI, 0, 4)
        assert client.statuses().count("loading") == 2 * client.statuses()[: client.statuses().index("ready")].count(
            "loading"
        )


async def test_commands_are_unique_by_the_clients_suffix() -> None:
    """VS Code registers commands for the whole window: two servers with equal names could not both start."""
    async with running() as client:
        result = await client.initialize(initializationOptions={"client": {"commandSuffix": ".2"}})
        commands = result["capabilities"]["executeCommandProvider"]["commands"]
        assert commands
        assert all(command.endswith(".2") for command in commands)
        client.open(URI, "x = ")
        [item] = await client.inline(URI, 0, 4)
        assert item["command"]["command"] in commands
        assert "requests" in await client.call("workspace/executeCommand", {"command": "fastcoder.stats.2"})


async def test_an_accept_is_counted_from_the_text_that_follows() -> None:
    async with initialized() as client:
        client.open(URI, "x = \n\n")
        [item] = await client.inline(URI, 0, 4)
        client.change(URI, 2, [inserted(0, 4, SAYS[0])])
        client.change(URI, 3, [inserted(0, 5, SAYS[1])])
        assert (await stats(client))["suggestions"] == {"shown": 1, "accepted": 0, "accepted_characters": 0}
        await client.inline(URI, 0, 6)
        client.change(URI, 4, [inserted(0, 6, SAYS[2:9])])  # a word, by "accept word"
        assert (await stats(client))["suggestions"] == {"shown": 1, "accepted": 1, "accepted_characters": 7}
        client.change(URI, 5, [inserted(0, 13, SAYS[9:])])
        await client.call("workspace/executeCommand", item["command"])
        assert (await stats(client))["suggestions"] == {"shown": 1, "accepted": 1, "accepted_characters": 11}
        [other] = await client.inline(URI, 1, 0)
        await client.call("workspace/executeCommand", other["command"])
        counted = await stats(client)
        assert counted["suggestions"] == {"shown": 2, "accepted": 2, "accepted_characters": 11}
        assert counted["rates"]["accepted"] == 1.0


async def test_statistics_are_complete() -> None:
    """Before loading, names are null: panels would show an empty one."""
    async with initialized() as client:
        told = await stats(client)
        assert (told["model"], told["engine"]) == (None, None)
        client.open(URI, "x = ")
        await client.inline(URI, 0, 4)
        told = await stats(client)
        assert {"queue", "prompt", "prefill", "draft", "verify", "post", "total"} <= told["ms"].keys()
        assert all({"p50", "p95"} == spans.keys() for spans in told["ms"].values())
        assert told["memory"]["resident_bytes"] > 1_000_000
        assert told["host"]["fronts"] == 1
        assert not told["host"]["shared"]
        assert told["model"] == told["engine"] == "scripted"
        assert set(told["rates"]) == {"accepted", "typed_through", "prompt_cache"}


async def test_a_completion_can_be_traced() -> None:
    async with initialized() as client:
        client.open(URI, "x = ")
        assert await client.call("fastcoder/trace", {"uri": URI}) is None
        await client.inline(URI, 0, 4)
        traced = await client.call("fastcoder/trace", {"uri": URI})
        assert traced["text"] == SAYS
        said = [token for step in traced["steps"] for token in step["tokens"]]
        assert "".join(token["text"] for token in said) == SAYS
        assert {token["source"] for token in said} == {"model"}
        assert traced["accepted_by_source"] == (await stats(client))["accepted_by_source"] == {}
        client.change(URI, 2, [inserted(0, 4, SAYS[0])])
        await client.inline(URI, 0, 5)
        assert await client.call("fastcoder/trace", {"uri": URI}) == traced
        client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        client.open(URI, f"x = {SAYS[0]}")
        assert await client.call("fastcoder/trace", {"uri": URI}) == traced
        answer = await client.answer(client.ask("fastcoder/trace", {"uri": 5}))
        assert answer["error"]["code"] == -32602


async def test_the_log_file_tells_times_and_no_code(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "fastcoder.log"
    async with initialized(initializationOptions={"log": {"file": str(log)}}) as client:
        client.open(URI, "private_name = ")
        assert await client.inline(URI, 0, 15)
        client.notify("textDocument/didChange", {"textDocument": "private_name", "contentChanges": 5})
        client.ask("textDocument/inlineCompletion", {"position": "private_name"})
        client.send_bytes(b'Content-Length: 14\r\n\r\n{"private_name')
        await client.answer(None)
        assert await client.leave() == 0
    text = log.read_text()
    assert "verify=" in text
    assert "finish=stop" in text or "finish=eos" in text
    assert "private_name" not in text
    assert "suggested" not in text
    assert b"private_name" not in client.stderr


async def test_a_log_that_cannot_be_written_is_no_harm(tmp_path: Path) -> None:
    async with initialized(initializationOptions={"log.file": str(tmp_path)}) as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4)
        assert await client.leave() == 0
    await asyncio.sleep(0)
    assert b"cannot be written" in client.stderr


async def test_a_client_that_asks_gets_the_origin_of_answers() -> None:
    async with initialized(initializationOptions={"client": {"reportsAnswers": True}}) as client:
        client.open(URI, "x = ", version=7)
        await client.inline(URI, 0, 4)
        [told] = [message["params"] for message in client.told if message["method"] == "fastcoder/answered"]
        assert (told["uri"], told["version"]) == (URI, 7)
        assert told["tokens"] == len(SAYS) <= told["steps"]
        assert told["ms"]["verify"] <= told["ms"]["total"]
    async with initialized() as client:
        client.open(URI, "x = ")
        await client.inline(URI, 0, 4)
        assert "fastcoder/answered" not in {message["method"] for message in client.told}
