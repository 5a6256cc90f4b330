"""Suggestions in the completion menu, for clients without ghost text or for users who ask."""

import time

from tests.lsp.raw_client import Brake, Json, RawClient, initialized, running

URI = "file:///project/a.py"
HELIX: Json = {
    "capabilities": {
        "general": {"positionEncodings": ["utf-8", "utf-32", "utf-16"]},
        "textDocument": {"completion": {"completionItem": {"documentationFormat": ["markdown"]}}},
    }
}
PATIENT: Json = {"popup": {"budget_ms": 10_000}}
"""Where it is tested what the menu says, and not how soon."""
WITH_GHOST: Json = {"textDocument": {"inlineCompletion": {}, "completion": {"dynamicRegistration": True}}}


async def menu(client: RawClient, line: int, character: int) -> Json:
    place = {"line": line, "character": character}
    result: Json = await client.call("textDocument/completion", {"textDocument": {"uri": URI}, "position": place})
    assert result["isIncomplete"] is True
    return result


async def test_a_client_without_ghost_text_gets_a_menu() -> None:
    """Replayed from Helix: UTF-8 positions; the item replaces the word before the cursor, and begins with it."""
    async with running("--says", "gested = [\n        1,\n    ]") as client:
        result = await client.initialize(initializationOptions=PATIENT, **HELIX)
        assert result["capabilities"]["completionProvider"]["triggerCharacters"]
        client.open(URI, "if é:\n    é = sug\n")
        [item] = (await menu(client, 1, 12))["items"]
        assert item["filterText"].startswith("sug")
        assert item["label"] == "suggested = ["
        assert item["textEdit"]["newText"] == "suggested = [\n        1,\n    ]"
        assert item["textEdit"]["range"] == {"start": {"line": 1, "character": 9}, "end": {"line": 1, "character": 12}}
        assert item["documentation"]["kind"] == "markdown"
        assert item["documentation"]["value"].startswith("```python\n")


async def test_a_client_with_ghost_text_gets_none_unless_asked() -> None:
    async with running() as client:
        result = await client.initialize(capabilities=WITH_GHOST)
        assert "completionProvider" not in result["capabilities"]
        client.open(URI, "x = ")
        assert (await menu(client, 0, 4))["items"] == []
        patient = {"popup": {"enabled": True, **PATIENT["popup"]}}
        client.notify("workspace/didChangeConfiguration", {"settings": {"fastcoder": patient}})
        assert len((await menu(client, 0, 4))["items"]) == 1
        await client.until(lambda: "client/registerCapability" in [asked["method"] for asked in client.asked])
        client.notify("workspace/didChangeConfiguration", {"settings": {"fastcoder": {"popup": {"enabled": False}}}})
        await client.until(lambda: "client/unregisterCapability" in [asked["method"] for asked in client.asked])
        assert (await menu(client, 0, 4))["items"] == []
    async with running() as client:
        result = await client.initialize(capabilities=WITH_GHOST, initializationOptions={"popup.enabled": True})
        assert result["capabilities"]["completionProvider"]


async def test_the_menu_never_waits_longer_than_its_budget(brake: Brake) -> None:
    async with running(*brake.steps(40), "--says", "suggested = 1" + 200 * " ") as client:
        await client.initialize(initializationOptions={"popup": {"budget_ms": 100}}, **HELIX)
        client.open(URI, "x = ")
        begun = time.monotonic()
        assert (await menu(client, 0, 4))["items"] == []
        waited_s = time.monotonic() - begun
        assert waited_s >= 0.1
        brake.release()
        await client.until(lambda: client.statuses().count("ready") >= 2)
        while not (items := (await menu(client, 0, 4))["items"]):
            pass  # it was stalled for longer than its budget
        [item] = items
        assert item["textEdit"]["newText"] == "suggested = 1"


async def test_a_cancelled_menu_stops_the_work(brake: Brake) -> None:
    async with initialized(*brake.held, initializationOptions={"popup": {"budget_ms": 20_000}}, **HELIX) as client:
        client.open(URI, "x = ")
        params = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 4}}
        asked = client.ask("textDocument/completion", params)
        await client.until(lambda: "thinking" in client.statuses())
        client.notify("$/cancelRequest", {"id": asked})
        assert (await client.answer(asked))["error"]["code"] == -32800
        brake.release()
        await client.until(lambda: client.statuses()[-1] == "ready")
        assert (await client.call("fastcoder/stats"))["requests"]["cancelled"] == 1


async def test_every_trigger_is_answered() -> None:
    async with initialized(initializationOptions=PATIENT, **HELIX) as client:
        client.open(URI, "x = y.")
        params: Json = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 6}}
        for context in (None, {"triggerKind": 2, "triggerCharacter": "."}, {"triggerKind": 3}):
            more = {"context": context} if context else {}
            [item] = (await client.call("textDocument/completion", params | more))["items"]
            assert item["textEdit"]["newText"] == "suggested = 1"
