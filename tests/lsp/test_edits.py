"""Next edits over the wire: what an editor asks, gets, shows, accepts and rejects."""

import asyncio
from typing import Any

import pytest

from tests.lsp.raw_client import Brake, Json, RawClient, initialized

URI = "file:///project/shop/cart.py"
BEFORE = "def total(price):\n    é = '🦀'; return price * 2\n\nprint(total(1))\n"
TEXT = BEFORE.replace("(price)", "(amount)")
RENAMES = ("price ", "amount ")
OPTIONS: Json = {"edits.model": "sweep-next-edit-toy", "edits.threshold": 0, "edits.analogy": False}
FOLDER = {"uri": "file:///project", "name": "project"}
WORD = {"start": {"line": 1, "character": 21}, "end": {"line": 1, "character": 26}}


def editing(*arguments: str, replaces: tuple[str, str] = RENAMES, **options: Any) -> Any:
    wishes = OPTIONS | options
    return initialized("--replaces", *replaces, *arguments, initializationOptions=wishes, workspaceFolders=[FOLDER])


def change_word(client: RawClient, text: str = TEXT) -> None:
    client.open(URI, BEFORE)
    client.change(URI, 2, [{"text": text}])


def ask(client: RawClient, version: int = 2, line: int = 0, character: int = 16, **more: Any) -> int:
    document, position = {"uri": URI, "version": version}, {"line": line, "character": character}
    return client.ask("textDocument/copilotInlineEdit", {"textDocument": document, "position": position} | more)


async def edits(client: RawClient, *place: int, **more: Any) -> list[Json]:
    answer = await client.answer(ask(client, *place, **more))
    assert list(answer["result"]) == ["edits"]
    found: list[Json] = answer["result"]["edits"]
    return found


async def why(client: RawClient) -> str:
    said: str = (await client.call("fastcoder/why", {"textDocument": {"uri": URI}}))["text"]
    return said


async def test_an_edit_is_a_word_of_the_version_that_was_asked_about() -> None:
    """UTF-16 where nothing was negotiated. The same question again gets an edit of another id at once."""
    async with editing() as client:
        change_word(client)
        [edit] = await edits(client)
        [again] = await edits(client)
        name = edit["command"]["arguments"][0]
        assert edit == {
            "text": "amount",
            "range": WORD,
            "textDocument": {"uri": URI, "version": 2},
            "command": {
                "title": "Accept the edit",
                "command": "github.copilot.didAcceptCompletionItem",
                "arguments": [name],
            },
        }
        assert again["command"]["arguments"] != [name]
        assert "The last edit was suggested" in await why(client)


async def test_shown_accepted_and_rejected_edits_are_counted() -> None:
    async with editing() as client:
        change_word(client)
        [edit] = await edits(client)
        item = {"item": {"command": edit["command"]}}
        client.notify("textDocument/didShowInlineEdit", item)
        client.notify("textDocument/didFocus", {"textDocument": {"uri": URI}})
        client.notify("fastcoder/editRejected", item)
        assert await edits(client) == []
        assert "you rejected the last edit" in await why(client)
        [edit] = await edits(client, context={"triggerKind": 1})
        client.change(URI, 3, [{"range": edit["range"], "text": edit["text"]}])
        client.notify("workspace/executeCommand", edit["command"])  # as copilot.el does
        assert await client.call("workspace/executeCommand", edit["command"]) is None
        counts = (await client.call("fastcoder/stats"))["edits"]
        del counts["ms"]
        assert counts == {"requests": 3, "suggested": 2, "shown": 1, "accepted": 1, "rejected": 1}


async def test_a_document_that_has_changed_meanwhile_gets_none(brake: Brake) -> None:
    async with editing(*brake.steps(60_000)) as client:
        change_word(client)
        older, newer = ask(client), ask(client, 2, 0, 3)
        client.change(URI, 3, [{"text": TEXT + "#"}])
        assert (await client.answer(older))["result"] == {"edits": []}
        assert (await client.answer(newer))["result"] == {"edits": []}
        cancelled = ask(client, 3)
        client.notify("$/cancelRequest", {"id": cancelled})
        assert "error" in await client.answer(cancelled)
        brake.release()
        assert await edits(client, 2) == [], "the request's version is not the document's"
        assert await edits(client, 3)


@pytest.mark.parametrize(
    ("options", "text", "more", "words"),
    [
        (
            {"edits.model": "", "edits.analogy": True},
            BEFORE.replace("2", "3"),
            {},
            "no change that you made twice, fits",
        ),
        ({"edits.model": ""}, TEXT, {}, "No edit model is set"),
        ({"edits.automatic": False}, TEXT, {}, "only when you request them by key"),
        ({"power": "saver"}, TEXT, {}, "only when you request them by key"),
        ({"enabled": False}, TEXT, {}, "Suggestions are off"),
        ({"edits.threshold": 1.0}, TEXT.replace("price *", "x *"), {}, "no change"),
        ({}, BEFORE, {}, "made no change lately"),
        ({}, 'api_key = "sk-live-0123456789abcdefghij', {"position": {"line": 0, "character": 36}}, "secret"),
    ],
)
async def test_what_is_not_suggested_is_empty_and_explained(options: Json, text: str, more: Json, words: str) -> None:
    async with editing(**options) as client:
        change_word(client, text)
        assert await edits(client, **more) == []
        assert words in await why(client)


async def test_a_renamed_parameter_needs_no_model() -> None:
    options: Json = {"edits.model": "", "edits.analogy": True}
    async with editing(**options) as client:
        change_word(client)
        [edit] = await edits(client)
        assert (edit["text"], edit["range"]) == ("amount", WORD)


async def test_an_undone_edit_is_not_offered_again_by_itself() -> None:
    async with initialized(workspaceFolders=[FOLDER]) as client:
        change_word(client)
        [edit] = await edits(client)
        client.change(URI, 3, [{"range": edit["range"], "text": edit["text"]}])
        client.change(URI, 4, [{"text": TEXT}])
        assert await edits(client, 4) == []
        assert "undone this edit before" in await why(client)
        assert await edits(client, 4, context={"triggerKind": 1}) != []


async def test_a_key_asks_whatever_is_automatic() -> None:
    options: Json = {"edits.automatic": False}
    async with editing(**options) as client:
        change_word(client)
        assert await edits(client, context={"triggerKind": 1})


@pytest.mark.parametrize("language", ["python", "go"])
async def test_the_settings_of_one_language(language: str) -> None:
    """Suggestions by key only, or of repeated changes only there; the server offers edits as soon as one has them."""
    off = {"edits": {"model": "", "analogy": False}}
    options: Json = off | {"languages": {language: {"edits": {"analogy": True, "automatic": False}}}}
    async with initialized(initializationOptions=options, workspaceFolders=[FOLDER]) as client:
        assert client.answers[1][0]["result"]["capabilities"]["experimental"]["fastcoderEdits"] is True
        change_word(client)
        assert await edits(client) == []
        assert ("only when you request them by key" if language == "python" else "No edit model is set") in await why(
            client
        )


async def test_why_where_only_edits_were_asked_for() -> None:
    """It speaks of edits first, and not of the editor's settings for suggestions; by command it finds the document."""
    async with editing() as client:
        change_word(client, BEFORE)
        assert await edits(client) == []
        said = await why(client)
        assert said.startswith("No edit, line 1, ")
        assert said.count("made no change lately") == 1
        assert "requested a suggestion" not in said
        told = await client.call("workspace/executeCommand", {"command": "fastcoder.why"})
        assert told["text"].startswith("No edit, line 1, ")


async def test_what_ghost_text_shows_is_no_edit() -> None:
    """An insertion at the cursor is left to inline completion; elsewhere it is an edit like any other."""
    async with editing(replaces=("price ", "price + tax ")) as client:
        change_word(client)
        end = WORD["end"]
        assert await edits(client, 2, end["line"], end["character"]) == []
        assert "Ghost text shows such edits" in await why(client)
        [edit] = await edits(client)
        assert edit["text"] == "+ tax "
        assert edit["range"]["start"] == edit["range"]["end"] == end | {"character": end["character"] + 1}


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_change_made_twice_is_suggested_without_an_edit_model(wanted: bool) -> None:
    lines = [f"    {name} = shop.price(item, 2)\n" for name in "abc"]
    options: Json = {"edits.model": "", "edits.analogy": wanted}
    async with editing(**options) as client:
        client.open(URI, "".join(lines))
        for number in (0, 1):
            lines[number] = lines[number].replace("price", "cost")
            client.change(URI, 2 + number, [{"text": "".join(lines)}])
            await asyncio.sleep(1.1)  # a pause begins the next entry of the history
        found = await edits(client, 3, 1, 20, context={"triggerKind": 1})
        if not wanted:
            assert found == []
            assert "No edit model is set" in await why(client)
            return
        [edit] = found
        assert (edit["text"], edit["range"]["start"]) == ("cost", {"line": 2, "character": 13})
        client.notify("fastcoder/editRejected", {"item": {"command": edit["command"]}})
        assert await edits(client, 3, 1, 20) == []
        assert "rejected" in await why(client)


def _told_of_edits(client: RawClient) -> list[bool]:
    return [message["params"]["edits"] for message in client.told if message["method"] == "fastcoder/status"]


async def test_only_servers_that_suggest_edits_say_so() -> None:
    """VS Code registers commands for the whole window, where another extension may have the name."""
    name = "github.copilot.didAcceptCompletionItem"
    without: Json = {"edits.analogy": False, "edits.imports": False}
    async with initialized(initializationOptions=without) as client:
        plain = client.answers[1][0]["result"]["capabilities"]
        for on in (False, True):
            client.notify("workspace/didChangeConfiguration", {"settings": {"fastcoder": {"edits": {"analogy": on}}}})
            await client.until(lambda: _told_of_edits(client)[-1:] == [on])  # noqa: B023
    wishes: Json = {"client": {"commandSuffix": ".server"}}
    async with editing(**wishes) as client:
        offered = client.answers[1][0]["result"]["capabilities"]
    assert "fastcoderEdits" not in plain["experimental"]
    assert name not in plain["executeCommandProvider"]["commands"]
    assert offered["experimental"]["fastcoderEdits"] is True
    assert f"{name}.server" in offered["executeCommandProvider"]["commands"]


async def test_secrets_and_unreadable_files_stay_out_of_the_history() -> None:
    """What the model was shown of other files' changes decides what it replaces: here nothing."""
    async with editing() as client:
        for name in ("file:///project/.env", "file:///elsewhere/a.py"):
            client.open(name, "a = 1\n")
            client.change(name, 2, [{"text": "a = 2\n"}])
        client.open("file:///project/unfinished.py", "\n")
        client.change("file:///project/unfinished.py", 2, [{"text": "auth('bob', password='swordfish\n"}])
        client.open(URI, BEFORE)
        assert await edits(client, 1, context={"triggerKind": 1}) == []
        assert "made no change lately" in await why(client)


@pytest.mark.parametrize("context", ["auto", False])
async def test_an_edit_after_another_files_change_needs_context(context: Any) -> None:
    async with editing(**{"context.enabled": context}) as client:
        client.open(URI, BEFORE)
        client.open("file:///project/b.py", "a = 1\n")
        client.change("file:///project/b.py", 2, [{"text": "a = 2\n"}])
        found = await edits(client, 1, context={"triggerKind": 1})
        assert bool(found) is (context == "auto")
        if not found:
            assert "keeps other files out of prompts" in await why(client)


@pytest.mark.parametrize("params", [{}, {"textDocument": {"uri": 7}}, {"textDocument": {"uri": URI}}, [], None])
async def test_params_that_name_no_place_are_refused(params: Any) -> None:
    async with editing() as client:
        answer = await client.answer(client.ask("textDocument/copilotInlineEdit", params))
        assert answer["error"]["code"] == -32602
        for method in ("textDocument/didShowInlineEdit", "textDocument/didFocus", "fastcoder/editRejected"):
            client.notify(method, params)
        client.notify("workspace/executeCommand", params)
        change_word(client)
        assert await edits(client)


async def test_a_question_during_typing_is_answered_after_the_pause() -> None:
    """Clients ask once after a change; a newer question ends the wait of an older one."""
    async with editing() as client:
        client.open(URI, BEFORE)
        for version, name in enumerate(("am", "amo", "amount"), 2):
            client.change(URI, version, [{"text": BEFORE.replace("(price)", f"({name})")}])
        older, newer = ask(client, 4), ask(client, 4)
        assert (await client.answer(older))["result"] == {"edits": []}
        [edit] = (await client.answer(newer))["result"]["edits"]
        assert edit["range"] == WORD
