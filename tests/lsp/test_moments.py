"""Files that are renamed and documents that are closed at the worst moment: everybody is answered, nothing is lost."""

import pytest

from tests.lsp.raw_client import Brake, RawClient, initialized

URI, OTHER = "file:///project/a.py", "file:///project/b.py"
CLOSE = {"textDocument": {"uri": URI}}
RENAME = {"files": [{"oldUri": URI, "newUri": OTHER}]}


async def goes_on(client: RawClient, uri: str) -> None:
    """The next question gets its text, and nothing went wrong."""
    assert await client.inline(uri, 0, 4)
    assert await client.leave() == 0
    assert b"Traceback" not in client.stderr
    assert b"internal" not in client.stderr.lower()


async def test_a_rename_while_a_question_is_open(brake: Brake) -> None:
    """The open question is answered without an error, and what was begun is there under the new name."""
    async with initialized(*brake.held) as client:
        client.open(URI, "x = ")
        asked = client.ask_inline(URI, 0, 4)
        await client.until(lambda: "thinking" in client.statuses())
        client.notify("workspace/didRenameFiles", RENAME)
        await client.call("fastcoder/stats")  # by now it has been told
        brake.release()
        answer = await client.answer(asked)
        assert "error" not in answer
        client.notify("textDocument/didClose", CLOSE)
        client.open(OTHER, "x = ")
        await goes_on(client, OTHER)


async def test_a_rename_by_closing_and_opening_while_a_question_is_open(brake: Brake) -> None:
    """As editors do that do not tell of renames."""
    async with initialized(*brake.held) as client:
        client.open(URI, "x = ")
        asked = client.ask_inline(URI, 0, 4)
        await client.until(lambda: "thinking" in client.statuses())
        client.notify("textDocument/didClose", CLOSE)
        client.open(OTHER, "x = ")
        await client.call("fastcoder/stats")
        brake.release()
        assert "error" not in await client.answer(asked)
        await goes_on(client, OTHER)


@pytest.mark.ci
@pytest.mark.parametrize("dropped", ["before", "after"])
async def test_a_document_is_closed_while_the_model_is_loaded(dropped: str, brake: Brake) -> None:
    """Its question is answered empty, whether it is dropped (after a second) before or after the model is there."""
    async with initialized(*brake.loading) as client:
        client.open(URI, "x = ")
        client.open(OTHER, "x = ")
        asked = client.ask_inline(URI, 0, 4)
        await client.until(lambda: "loading" in client.statuses())
        client.notify("textDocument/didClose", CLOSE)
        await client.call("fastcoder/stats")
        if dropped == "after":
            brake.release()
        answer = await client.answer(asked)
        assert answer["result"]["items"] == []
        brake.release()
        await goes_on(client, OTHER)


@pytest.mark.parametrize("method", ["textDocument/didClose", "workspace/didRenameFiles"])
async def test_of_a_document_that_nobody_opened(method: str) -> None:
    async with initialized() as client:
        client.notify(method, CLOSE if method.endswith("Close") else RENAME)
        client.open(URI, "x = ")
        await goes_on(client, URI)


async def test_everything_at_once() -> None:
    """Questions, renames there and back, closing and opening, without waiting: each question is answered once."""
    async with initialized("--step-ms", "5", "--load-ms", "300") as client:
        client.open(URI, "x = ")
        asked = []
        for version in range(20):
            old, new = (URI, OTHER) if version % 2 == 0 else (OTHER, URI)
            asked.append(client.ask_inline(old, 0, 4))
            client.notify("workspace/didRenameFiles", {"files": [{"oldUri": old, "newUri": new}]})
            client.notify("textDocument/didClose", {"textDocument": {"uri": old}})
            client.open(new, "x = ")
        for number in asked:
            assert "error" not in await client.answer(number)
        await goes_on(client, URI)
        assert all(len(client.answers[number]) == 1 for number in asked)
