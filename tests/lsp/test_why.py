"""`fastcoder/why`: every empty answer has a reason, and the user gets it in words."""

from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.lsp.requests.reports import _described
from tests.lsp.raw_client import Brake, Json, RawClient, initialized, running

URI = "file:///project/a.py"
KEY = 'api_key = "sk-live-0123456789abcdefghij'


async def why(client: RawClient, uri: str = URI) -> Json:
    result: Json = await client.call("fastcoder/why", {"textDocument": {"uri": uri}})
    return result


def codes(answer: Json) -> list[str]:
    return [item["code"] for item in answer["items"]]


async def test_what_is_said_before_a_question() -> None:
    """The editor's own settings may be why nobody asked. Neovim names a buffer without a name `file://`."""
    async with initialized() as client:
        client.open(URI, "x = ")
        answer = await why(client)
        assert answer["items"] == []
        assert "not requested a suggestion in a.py" in answer["text"]
        assert "inlineSuggest" in answer["text"]
        client.open("file://", "x = ")
        assert "not requested a suggestion in this document yet" in (await why(client, "file://"))["text"]
        answer = await why(client, "git:/a.py")
        assert "not opened this document" in answer["text"]
        assert answer["items"] == []


async def test_too_slow_says_by_how_much_and_what_to_do() -> None:
    async with initialized("--step-ms", "100", "--budget-ms", "150") as client:
        client.open(URI, "🦀\nx = ")
        assert await client.inline(URI, 1, 4) == []
        answer = await why(client)
        [item] = answer["items"]
        assert (item["code"], item["line"], item["character"]) == ("slow", 1, 4)
        assert item["secondsAgo"] >= 0
        first, hint, *_ = answer["text"].split("\n")
        assert "a.py, line 2" in first
        assert "150 ms" in first
        assert hint == item["hint"] != ""
        client.change(URI, 2, [{"text": KEY}])
        assert await client.inline(URI, 0, len(KEY)) == []
        before = (await why(client))["text"].partition("Before:\n")[2]
        assert before.startswith("- line 2, ")
        assert before.endswith(f"{item['text']} {hint}")


async def test_after_a_suggestion_that_is_said_first() -> None:
    async with initialized() as client:
        client.open(URI, "x = ")
        client.ask_inline(URI, 0, 0)
        assert await client.inline(URI, 0, 4)
        answer = await why(client)
        assert answer["text"].startswith("The last answer in a.py was a suggestion, in line 1")
        assert "No code of other files was in the prompt." in answer["text"]
        assert "Now: " in answer["text"]


@pytest.mark.parametrize(
    ("options", "uri", "text", "code", "words"),
    [
        ({"enabled": False}, URI, "x = ", "off", "off"),
        ({"languages": {"exclude": ["python"]}}, URI, "x = ", "ignored", "language"),
        ({"read": {"max_line_length": 200}}, URI, "x" * 201, "large", "read.max_line_length"),
        ({}, "file:///project/.env", "KEY=", "secret", "secret"),
        ({}, URI, KEY, "secret", "secret"),
        ({"model": "the/missing"}, URI, "x = ", "error", "model pull"),
    ],
)
async def test_the_front_and_the_service_tell_their_reasons(
    options: Json, uri: str, text: str, code: str, words: str
) -> None:
    async with initialized(initializationOptions=options) as client:
        client.open(uri, text)
        assert await client.inline(uri, 0, len(text)) == []
        answer = await why(client, uri)
        assert codes(answer) == [code]
        assert words in answer["text"]


async def test_a_file_that_a_rule_excludes_is_told_without_a_question(tmp_path: Path) -> None:
    (tmp_path / ".fastcoderignore").write_text("a.py\n")
    uri = (tmp_path / "a.py").as_uri()
    async with initialized(rootUri=tmp_path.as_uri()) as client:
        client.open(uri, "x = ")
        assert ".fastcoderignore" in (await why(client, uri))["text"]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status("ready"), "ready"),
        (Status("loading", 7, "reading weights"), "loading 7 %: reading weights"),
        (Status("error", message="It broke.", hint="Try again."), "error: It broke. Try again."),
        (Status("error", message="no memory", hint="Close programs."), "error: no memory. Close programs."),
    ],
)
def test_the_state_is_told_in_sentences(status: Status, text: str) -> None:
    assert _described(status) == text


async def test_overtaken_taken_back_and_outdated_questions_have_reasons(brake: Brake) -> None:
    async with initialized(*brake.held) as client:
        client.open(URI, "x = ")
        client.ask_inline(URI, 0, 2)
        await client.until(lambda: "thinking" in client.statuses())  # the model is loaded
        first = client.ask_inline(URI, 0, 0)
        second = client.ask_inline(URI, 0, 4)
        await client.answer(first)
        client.notify("$/cancelRequest", {"id": second})
        assert "error" in await client.answer(second)
        told = await why(client)
        assert codes(told)[:2] == ["cancelled", "superseded"]
        assert "kept typing" in told["items"][0]["text"]
        by_key = client.ask_inline(URI, 0, 3, triggerKind=1)
        client.notify("$/cancelRequest", {"id": by_key})
        await client.answer(by_key)
        item = (await why(client))["items"][0]
        assert (item["code"], item["times"]) == ("cancelled", 1)
        assert "typing" not in item["text"]
        third = client.ask_inline(URI, 0, 3)
        place = {"line": 0, "character": 0}
        client.change(URI, 2, [{"range": {"start": place, "end": place}, "text": "y"}])
        await client.call("fastcoder/stats")  # by now it has been told
        brake.release()
        assert (await client.answer(third))["result"]["items"] == []
        assert codes(await why(client))[0] == "changed"


async def test_bad_params_get_a_clear_error() -> None:
    async with initialized() as client:
        bad: tuple[Any, ...] = (None, {}, [], {"uri": URI}, {"textDocument": {"uri": 7}}, {"textDocument": []})
        for params in bad:
            answer = await client.answer(client.ask("fastcoder/why", params))
            assert answer["error"]["code"] == -32602
            assert "textDocument.uri" in answer["error"]["message"]


async def test_the_command_shows_it_as_a_message() -> None:
    """For editors without a client of ours (Helix): without arguments the document that was asked about last."""
    async with running() as client:
        result = await client.initialize(initializationOptions={"languages": {"exclude": ["python"]}})
        assert "fastcoder.why" in result["capabilities"]["executeCommandProvider"]["commands"]
        told = await client.call("workspace/executeCommand", {"command": "fastcoder.why"})
        assert "not requested a suggestion" in told["text"]
        client.open(URI, "x = ")
        await client.inline(URI, 0, 4)
        for arguments in ([], [URI], [{"textDocument": {"uri": URI}}]):
            await client.call("workspace/executeCommand", {"command": "fastcoder.why", "arguments": arguments})
        assert all("language" in notice.split("\n")[0] for notice in client.notices()[1:])
        assert len(client.notices()) == 4
        bad = client.ask("workspace/executeCommand", {"command": "fastcoder.why", "arguments": [7]})
        assert (await client.answer(bad))["error"]["code"] == -32602


async def test_reasons_go_along_with_a_rename_and_away_with_the_document() -> None:
    other = "file:///project/b.py"
    async with initialized("--says", "") as client:
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4) == []
        assert codes(await why(client)) == ["end"]
        client.notify("workspace/didRenameFiles", {"files": [{"oldUri": URI, "newUri": other}]})
        client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        client.open(other, "x = ")
        assert codes(await why(client, other)) == ["end"]
        assert codes(await why(client)) == []
