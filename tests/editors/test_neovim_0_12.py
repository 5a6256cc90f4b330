"""Neovim 0.12's own inline completion, replayed: that version is in no package registry that the tests can use.

What is sent follows runtime/lua/vim/lsp/inline_completion.lua: a request 200 ms after the cursor has moved, the older
one not cancelled, whatever comes last is shown, `null` keeps what is shown and an empty list clears it.
"""

from pathlib import Path

from tests.lsp.raw_client import Brake, running

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


async def test_requests_that_overtake_each_other(tmp_path: Path) -> None:
    """All are sent before the model is loaded."""
    brake, uri = Brake(tmp_path / "go"), (tmp_path / "reports.py").as_uri()
    async with running(*brake.loading) as client:
        answer = await client.initialize(
            clientInfo={"name": "Neovim", "version": "0.12.0"},
            capabilities=CAPABILITIES,
            rootUri=tmp_path.as_uri(),
            workspaceFolders=[{"name": tmp_path.name, "uri": tmp_path.as_uri()}],
        )
        assert answer["capabilities"]["positionEncoding"] == "utf-8"
        assert answer["capabilities"]["inlineCompletionProvider"] is not None
        client.open(uri, "def longest(expenses):\n\n", version=0)
        asked = []
        for version, typed in enumerate((TYPED[:-2], TYPED[:-1], TYPED), start=1):
            start = {"line": 1, "character": 0}
            end = {"line": 1, "character": 0 if version == 1 else len(TYPED[: -4 + version].encode())}
            client.change(uri, version, [{"range": {"start": start, "end": end}, "text": typed}])
            # As 0.12 sends it: nothing is cancelled, and there is no selected entry.
            asked.append(client.ask_inline(uri, 1, len(typed.encode()), triggerKind=2))
        brake.release()
        answers = [await client.answer(number) for number in asked]
        assert [answer["result"] for answer in answers[:-1]] == [{"items": []}] * 2
        (item,) = answers[-1]["result"]["items"]
        # 0.12 draws from the start of the range on what differs from the line, and puts the text in there.
        assert item["range"]["start"]["line"] == item["range"]["end"]["line"] == 1
        assert item["range"]["start"]["character"] <= len(TYPED.encode()) <= item["range"]["end"]["character"]
        typed_part = TYPED.encode()[item["range"]["start"]["character"] :].decode()
        assert item["insertText"].startswith(typed_part)
        assert len(item["insertText"]) > len(typed_part)
        assert (await client.text(uri))["text"].split("\n")[1] == TYPED
        assert not client.notices()
        assert await client.leave() == 0
