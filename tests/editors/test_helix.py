"""Helix's side of the protocol, replayed: Helix itself is in no package registry that the tests can use.

What is sent follows helix-lsp/src/client.rs: bytes as positions, `config` of languages.toml as initialization options,
no context in completion requests, and no inline completion.
"""

import os
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.config import SettingsLayer, resolve
from tests.editors.conftest import ANSWER_S, ROOT, Server
from tests.lsp.raw_client import RawClient, running

CONFIGURATION = tomllib.loads((ROOT / "editors/helix/languages.toml").read_text())["language-server"]["fastcoder"]
COMPLETION_ITEM = {
    "snippetSupport": True,
    "resolveSupport": {"properties": ["documentation", "detail", "additionalTextEdits"]},
    "insertReplaceSupport": True,
    "deprecatedSupport": True,
    "tagSupport": {"valueSet": [1]},
}
CAPABILITIES = {
    "workspace": {
        "configuration": True,
        "didChangeConfiguration": {"dynamicRegistration": False},
        "workspaceFolders": True,
        "applyEdit": True,
        "executeCommand": {"dynamicRegistration": False},
        "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": False},
        "fileOperations": {"willRename": True, "didRename": True},
    },
    "textDocument": {"completion": {"completionItem": COMPLETION_ITEM, "completionItemKind": {}}},
    "window": {"workDoneProgress": True},
    "general": {"positionEncodings": ["utf-8", "utf-32", "utf-16"]},
}


class Helix:
    """A document in Helix: positions count bytes, edits are sent as they are made."""

    def __init__(self, client: RawClient, file: Path) -> None:
        self.client, self.uri, self.text, self.version = client, file.as_uri(), file.read_text(), 0
        self.client.open(self.uri, self.text, version=0)

    def insert(self, at: int, text: str) -> int:
        self._replace(at, at, text)
        return at + len(text)

    async def complete(self, at: int) -> dict[str, Any]:
        return dict(
            await self.client.call(
                "textDocument/completion", {"textDocument": {"uri": self.uri}, "position": self._position(at)}
            )
        )

    def accept(self, item: dict[str, Any]) -> None:
        edit = item["textEdit"]
        place = edit.get("range") or edit["insert"]
        self._replace(self._offset(place["start"]), self._offset(place["end"]), edit["newText"])

    def _replace(self, start: int, end: int, text: str) -> None:
        change = {"range": {"start": self._position(start), "end": self._position(end)}, "text": text}
        self.version += 1
        self.client.change(self.uri, self.version, [change])
        self.text = self.text[:start] + text + self.text[end:]

    def _position(self, offset: int) -> dict[str, int]:
        before = self.text[:offset]
        return {"line": before.count("\n"), "character": len(before.rpartition("\n")[2].encode())}

    def _offset(self, position: dict[str, int]) -> int:
        lines = self.text.split("\n")
        into = lines[position["line"]].encode()[: position["character"]].decode()
        return sum(len(line) + 1 for line in lines[: position["line"]]) + len(into)


@pytest.fixture
async def helix(server: Server, workspace: Path) -> AsyncIterator[Helix]:
    command = (str(server.folder / CONFIGURATION["command"]), *CONFIGURATION["args"])
    async with running(command=command) as client:
        answer = await client.initialize(
            processId=os.getpid(),
            rootPath=str(workspace),
            rootUri=workspace.as_uri(),
            workspaceFolders=[{"name": workspace.name, "uri": workspace.as_uri()}],
            clientInfo={"name": "helix", "version": "25.07.1"},
            initializationOptions=CONFIGURATION["config"],
            capabilities=CAPABILITIES,
        )
        assert answer["capabilities"]["positionEncoding"] == "utf-8"
        assert answer["capabilities"]["completionProvider"]
        yield Helix(client, workspace / "expenses/reports.py")
        assert not client.notices()
        assert await client.leave() == 0


async def complete_until_suggested(helix: Helix, at: int) -> dict[str, Any]:
    """The item, asked for again as Helix does while the list is incomplete: the first request loads the model."""
    await helix.complete(at)
    await helix.client.until(lambda: "ready" in helix.client.statuses(), ANSWER_S)
    for _ in range(20):
        answer = await helix.complete(at)
        assert answer["isIncomplete"]
        if answer["items"]:
            return dict(answer["items"][0])
    raise AssertionError("the menu stayed empty")


@pytest.mark.ci
@pytest.mark.parametrize("typed", ["    return sort", "    crabs = ['🦀', '𝔘'] + list(expenses)[:"])
async def test_menu_entry_is_accepted(helix: Helix, typed: str) -> None:
    start = helix.text.index('largest first."""\n') + len('largest first."""\n')
    end = helix.insert(start, typed)
    item = await complete_until_suggested(helix, end)
    helix.accept(item)
    assert helix.text[start:].startswith(typed)
    assert len(helix.text[start:].partition("\n")[0]) > len(typed)
    assert (await helix.client.text(helix.uri))["text"] == helix.text


def test_fastcoder_stands_beside_other_servers() -> None:
    file = tomllib.loads((ROOT / "editors/helix/languages.toml").read_text())
    for language in file["language"]:
        assert len(language["language-servers"]) > 1
        assert language["language-servers"][-1] == "fastcoder"
    settings, problems = resolve([SettingsLayer("languages.toml", CONFIGURATION["config"], trusted=True)])
    assert problems == ()
    assert settings.popup_budget_ms == CONFIGURATION["config"]["popup"]["budget_ms"]
