"""Ghost text and menus over the wire: what is answered, to whom, once, in whose positions, and what comes late."""

import asyncio
import time
from typing import Any

import pytest

from tests.lsp.raw_client import WAIT_S, Brake, Json, RawClient, initialized, running

URI = "file:///project/a.py"
SAYS = "suggested = 1"


def span(line: int, start: int, end: int) -> Json:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


async def started(client: RawClient, text: str, uri: str = URI, **more: Any) -> None:
    await client.initialize(**more)
    client.open(uri, text)


async def test_formatting_options_decide_the_indentation() -> None:
    broken: tuple[Any, ...] = ([], {}, {"tabSize": "2", "insertSpaces": True}, None)
    wide = ({"tabSize": columns, "insertSpaces": True} for columns in (0, -1, 2**40))
    wanted = [
        ({"tabSize": 8, "insertSpaces": False}, "\t"),
        ({"tabSize": 2, "insertSpaces": True}, "  "),
        *((options, "    ") for options in (*broken, *wide)),
    ]
    async with initialized("--says", "def f():\n    return 1") as client:
        for number, (options, unit) in enumerate(wanted):
            uri = f"untitled:{number}"
            client.open(uri, f"x = {number}\n")
            at = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 0}, "context": {"triggerKind": 1}}
            answer = await client.call("textDocument/inlineCompletion", {**at, "formattingOptions": options})
            found = [item["insertText"] for item in answer["items"]]
            assert found == [f"def f():\n{unit}return 1"], options


async def test_a_suggestion_has_a_range_and_a_command() -> None:
    """VS Code's default range reaches to the end of the line; ours is always given, on one line.

    With an entry of the popup selected, VS Code shows only items that replace its range and begin with its text.
    """
    async with running() as client:
        result = await client.initialize()
        assert result["capabilities"]["inlineCompletionProvider"] == {}
        client.open(URI, "x = \ny = 2\n")
        [item] = await client.inline(URI, 0, 4)
        assert item["insertText"] == SAYS
        assert item["range"] == span(0, 4, 4)
        assert item["command"]["command"] in result["capabilities"]["executeCommandProvider"]["commands"]
        client.open("untitled:1", "x = os.pa")
        entry = {"range": span(0, 7, 9), "text": "path"}
        [item] = await client.inline("untitled:1", 0, 9, selectedCompletionInfo=entry)
        assert (item["insertText"], item["range"]) == (f"path{SAYS}", span(0, 7, 9))


@pytest.mark.ci
@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 9), ("utf-16", 6), ("utf-32", 5)])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
async def test_ranges_are_in_the_documents_own_positions(encoding: str, units: int, line_end: str) -> None:
    text = f"a\f\u2028\x85b{line_end}é😀 = {line_end}c"
    async with running() as client:
        await started(client, text, capabilities={"general": {"positionEncodings": [encoding]}})
        [item] = await client.inline(URI, 1, units)
        assert item["range"] == span(1, units, units)
        assert item["insertText"] == SAYS


async def test_typing_through_needs_no_model() -> None:
    async with running() as client:
        await started(client, "x = ")
        await client.inline(URI, 0, 4)
        steps = (await client.call("fastcoder/stats"))["requests"]["steps"]
        text, version = "", 1
        for typed in (*(SAYS[:count] for count in range(1, 6)), SAYS[:3], SAYS[:9]):
            version += 1
            client.change(URI, version, [{"range": span(0, 4, 4 + len(text)), "text": typed}])
            text = typed
            [item] = await client.inline(URI, 0, 4 + len(text))
            assert item["insertText"] == SAYS[len(text) :]
        stats = await client.call("fastcoder/stats")
        assert stats["requests"]["steps"] == steps
        assert stats["requests"]["typed_through"] == 7


async def test_a_request_sees_the_document_as_it_was_when_it_was_sent() -> None:
    async with running() as client:
        await started(client, "x = ")
        await client.inline(URI, 0, 4)
        for version in range(2, 40, 2):
            asked = client.ask_inline(URI, 0, 4)
            client.change(URI, version, [{"range": span(0, 4, 4), "text": "(" * version}])
            client.change(URI, version + 1, [{"text": "x = "}])
            [item] = (await client.answer(asked))["result"]["items"]
            assert item["insertText"] == SAYS


async def test_a_changed_document_drops_the_answer(brake: Brake) -> None:
    """The answer to a version that is gone is empty: its range would be of another text."""
    async with running(*brake.held) as client:
        await started(client, "x = ")
        asked = client.ask_inline(URI, 0, 4)
        await client.until(lambda: "thinking" in client.statuses())
        client.change(URI, 2, [{"range": span(0, 0, 0), "text": "y"}])
        await client.call("fastcoder/stats")  # by now it has been told
        brake.release()
        assert (await client.answer(asked))["result"] == {"items": []}


async def test_a_superseded_request_is_answered_empty_at_once(brake: Brake) -> None:
    async with running(*brake.held) as client:
        await started(client, "x = ")
        client.open("untitled:2", "y = ")
        first = client.ask_inline(URI, 0, 4)
        await client.until(lambda: "thinking" in client.statuses())
        second = client.ask_inline("untitled:2", 0, 4)
        assert (await client.answer(first))["result"] == {"items": []}
        assert second not in client.answers
        brake.release()
        assert (await client.answer(second))["result"]["items"]


async def test_a_cancelled_request_is_answered_by_the_cancel_error(brake: Brake) -> None:
    async with running(*brake.held) as client:
        await started(client, "x = ")
        asked = client.ask_inline(URI, 0, 4)
        await client.until(lambda: "thinking" in client.statuses())
        client.notify("$/cancelRequest", {"id": asked})
        assert (await client.answer(asked))["error"]["code"] == -32800
        assert asked in client.answers
        stats = await client.call("fastcoder/stats")
        assert stats["requests"]["cancelled"] == 1
        assert stats["requests"]["steps"] <= 1
        brake.release()
        await client.until(lambda: client.statuses()[-1] == "ready")
        client.open("untitled:2", "y = ")
        assert await client.inline("untitled:2", 0, 4)


async def test_a_cancel_that_arrives_with_its_request_is_answered(brake: Brake) -> None:
    """Both in one read: the request has not begun yet, and what was begun for the last one is far from its end."""
    async with running(*brake.held) as client:
        await started(client, "x = ")
        for _ in range(50):
            asked = client.ask_inline(URI, 0, 4)
            client.notify("$/cancelRequest", {"id": asked})
            assert (await client.answer(asked))["error"]["code"] == -32800
            assert len(client.answers[asked]) == 1


async def test_at_the_deadline_whole_lines_are_shown_then_the_rest(brake: Brake) -> None:
    says = "one()\n    two()\n    three()\nrest()"
    async with running("--says", says, *brake.steps(100), "--budget-ms", "2000") as client:
        await started(client, "if x:\n    ")
        while not (items := await client.inline(URI, 1, 4)):
            pass  # it was stalled for longer than its budget
        whole = "one()\n    two()\n    three()"
        assert whole.startswith(items[0]["insertText"])
        brake.release()
        async with asyncio.timeout(WAIT_S):
            while not (await client.call("fastcoder/stats"))["requests"]["background"]:
                pass
        client.change(URI, 2, [{"range": span(1, 4, 4), "text": "o"}])
        [item] = await client.inline(URI, 1, 5)
        assert item["insertText"] == whole[1:]


SECRET = (
    ("file:///project/.env", "python"),
    ("file:///project/.env.local", "dotenv"),
    ("file:///project/deploy/server.pem", "plaintext"),
    ("file:///project/id_rsa", "plaintext"),
    ("file:///project/credentials.json", "json"),
    ("file:///project/.ssh/config", "plaintext"),
    ("untitled:1", "dotenv"),
)


async def test_nothing_is_suggested_in_secret_files() -> None:
    async with initialized() as client:
        for uri, language in SECRET:
            client.open(uri, "TOKEN = ", language)
            for _ in range(3):
                assert await client.inline(uri, 0, 8) == []
        assert (await client.call("fastcoder/stats"))["requests"]["requests"] == 0
        told = [message["params"]["message"] for message in client.told if message["method"] == "window/logMessage"]
        assert len(told) == len(SECRET)
        assert all("secrets" in why for why in told)


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
async def test_it_is_told_once_and_the_next_request_gets_it(wish: Json, brake: Brake) -> None:
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
