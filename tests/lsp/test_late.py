"""`fastcoder/late`: a client that knows it is told when a suggestion is made that was too late for its question."""

import asyncio

import pytest

from tests.lsp.raw_client import WAIT_S, Brake, Json, RawClient, initialized

URI = "file:///project/a.py"
SAYS = "suggested = 1"
TOO_LONG = ("--budget-ms", "100", "--says", SAYS + 200 * " ")
"""Blanks at the end of a line are not shown."""
STEP_MS = 300
KNOWS: Json = {"initializationOptions": {"client": {"showsLate": True}}}
TEXT = "🦀 = 1\n🦀 "


def told_late(client: RawClient) -> list[Json]:
    return [message["params"] for message in client.told if message["method"] == "fastcoder/late"]


@pytest.mark.parametrize(
    "wish",
    [KNOWS, {"capabilities": {"textDocument": {"inlineCompletion": {}}, "experimental": {"fastcoderLate": True}}}],
)
async def test_it_is_told_once_and_who_asks_again_gets_it(wish: Json, brake: Brake) -> None:
    async with initialized(*TOO_LONG, *brake.steps(STEP_MS), **wish) as client:
        client.open(URI, TEXT, version=7)
        assert await client.inline(URI, 1, 3) == []
        brake.release()
        await client.until(lambda: told_late(client))
        place = {"textDocument": {"uri": URI, "version": 7}, "position": {"line": 1, "character": 3}}
        assert told_late(client) == [place]
        [item] = await client.inline(URI, 1, 3)
        assert item["insertText"].endswith(SAYS)
        await asyncio.sleep(0.3)
        assert told_late(client) == [place]


async def test_a_client_that_does_not_know_it_is_told_nothing(brake: Brake) -> None:
    """A generic client may show every unknown notification as an error."""
    async with initialized(*TOO_LONG, *brake.steps(STEP_MS)) as client:
        client.open(URI, TEXT)
        assert await client.inline(URI, 1, 3) == []
        brake.release()
        async with asyncio.timeout(WAIT_S):
            while not (await client.call("fastcoder/stats"))["requests"]["background"]:
                pass
        assert await client.inline(URI, 1, 3)
        assert told_late(client) == []


async def test_what_was_typed_meanwhile_makes_it_outdated(brake: Brake) -> None:
    async with initialized(*TOO_LONG, *brake.steps(STEP_MS), **KNOWS) as client:
        client.open(URI, TEXT)
        assert await client.inline(URI, 1, 3) == []
        place = {"line": 0, "character": 0}
        client.change(URI, 2, [{"range": {"start": place, "end": place}, "text": "#"}])
        client.open("file:///project/b.py", "x = ")
        assert await client.inline("file:///project/b.py", 0, 4) == []
        client.notify("textDocument/didClose", {"textDocument": {"uri": "file:///project/b.py"}})
        await client.call("fastcoder/stats")  # by now it has been told
        brake.release()
        async with asyncio.timeout(WAIT_S):
            while not await client.inline(URI, 1, 3):
                pass  # it was stalled for longer than its budget
        assert [place for place in told_late(client) if place["textDocument"]["version"] != 2] == []
