"""Neovim 0.12's own inline completion, replayed: that version is in no package registry that the tests can use.

What is sent follows runtime/lua/vim/lsp/inline_completion.lua: a request 200 ms after the cursor has moved, the older
one not cancelled, whatever comes last is shown, `null` keeps what is shown and an empty list clears it.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.editors.conftest import ANSWER_S, Server
from tests.lsp.raw_client import RawClient, running

CAPABILITIES = {
    "general": {"positionEncodings": ["utf-8", "utf-16", "utf-32"]},
    "textDocument": {
        "inlineCompletion": {"dynamicRegistration": False},
        "synchronization": {"dynamicRegistration": False, "didSave": True, "willSave": True},
    },
    "window": {"workDoneProgress": True, "showMessage": {}, "showDocument": {"support": True}},
    "workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": False}},
}
TYPED = "    crabs = '🦀'; return sorted("


@pytest.fixture
async def client(server: Server, workspace: Path) -> AsyncIterator[RawClient]:
    """Neovim 0.12's side of a connection, in the sample workspace."""
    async with running(command=(str(server.program), "serve")) as client:
        answer = await client.initialize(
            rootPath=str(workspace),
            rootUri=workspace.as_uri(),
            workspaceFolders=[{"name": workspace.name, "uri": workspace.as_uri()}],
            clientInfo={"name": "Neovim", "version": "0.12.0"},
            capabilities=CAPABILITIES,
        )
        assert answer["capabilities"]["positionEncoding"] == "utf-8"
        assert answer["capabilities"]["inlineCompletionProvider"] is not None
        yield client
        assert not client.notices()
        assert await client.leave() == 0


async def test_requests_that_overtake_each_other(client: RawClient, workspace: Path) -> None:
    file = workspace / "expenses/reports.py"
    text, uri = file.read_text(), file.as_uri()
    lines = text.split("\n")
    line = next(i for i, content in enumerate(lines) if "largest first" in content) + 1
    client.open(uri, text, version=0)
    asked = []
    for version, typed in enumerate((TYPED[:-2], TYPED[:-1], TYPED), start=1):
        start = {"line": line, "character": 0}
        end = {"line": line, "character": 0 if version == 1 else len(TYPED[: -4 + version].encode())}
        client.change(uri, version, [{"range": {"start": start, "end": end}, "text": typed}])
        # As 0.12 sends it: nothing is cancelled, and there is no selected entry.
        asked.append(client.ask_inline(uri, line, len(typed.encode()), triggerKind=2))
    answers = [await client.answer(number) for number in asked]
    assert [answer["result"] for answer in answers[:-1]] == [{"items": []}] * 2
    (item,) = answers[-1]["result"]["items"]
    # 0.12 draws from the start of the range on what differs from the line, and puts the text in there.
    assert item["range"]["start"]["line"] == item["range"]["end"]["line"] == line
    assert item["range"]["start"]["character"] <= len(TYPED.encode()) <= item["range"]["end"]["character"]
    typed_part = TYPED.encode()[item["range"]["start"]["character"] :].decode()
    assert item["insertText"].startswith(typed_part)
    assert len(item["insertText"]) > len(typed_part)
    assert (await client.text(uri))["text"].split("\n")[line] == TYPED
    await client.until(lambda: "ready" in client.statuses(), ANSWER_S)
