"""Editors' clients, replayed: what each declares, and what it makes of an answer.

`RECORDED` is excerpts of their `initialize`, read from the sources of the named versions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.lsp.known_clients import KNOWN, MenuText
from fastcoder_lsp.lsp.requests.completion import written
from tests.lsp.raw_client import Brake, Json, RawClient, initialized, running

URI = "file:///project/a.py"
TEXT = "class A:\n    def f(self):\n        x = "
SAYS = "[\n            1,\n        ]"
AS_IS = f"{SAYS}"
ADJUSTED = "[\n    1,\n]"
ONE_LINE = "["


def menus(**item: Any) -> Json:
    """The capabilities of a client with a completion menu."""
    return {"textDocument": {"completion": {"completionItem": item}}}


def modes(*values: int) -> Json:
    return {"insertTextModeSupport": {"valueSet": list(values)}}


@dataclass(frozen=True)
class Recorded:
    """A client's name in `clientInfo`, its capabilities, and the text and mode that it can insert."""

    source: str
    name: str | None
    capabilities: Json
    text: str
    mode: int = 1


RECORDED = (
    Recorded("vim-lsp 474c656, lsp#default_get_supported_capabilities", "vim-lsp", menus(snippetSupport=False), "["),
    Recorded("yegappan/lsp 33aef9d, capabilities.vim", "Vim", menus(**modes(1, 2)), ONE_LINE),
    Recorded("Neovim 0.11.4 and 0.12, protocol.lua", "Neovim", menus(deprecatedSupport=True), ONE_LINE),
    Recorded("Neovim page, lines for a menu", "Neovim", menus(deprecatedSupport=True, **modes(2)), ADJUSTED, 2),
    Recorded("mini.nvim b5bae7d, get_lsp_capabilities", "Neovim", menus(deprecatedSupport=False, **modes(1)), ADJUSTED),
    Recorded("blink.cmp 1.8, get_lsp_capabilities", "Neovim", menus(deprecatedSupport=True, **modes(1)), AS_IS),
    Recorded("cmp-nvim-lsp cbc7b02", "Neovim", menus(deprecatedSupport=True, **modes(1, 2)), AS_IS),
    Recorded("Sublime LSP 2.9", "Sublime Text LSP", menus(deprecatedSupport=True, **modes(2)), ADJUSTED, 2),
    Recorded(
        "vscode-languageclient 8, its default mode",
        "Theia",
        {"textDocument": {"completion": {"completionItem": {}, "insertTextMode": 2}}},
        ADJUSTED,
        2,
    ),
    Recorded("vscode-languageclient 9", "Monaco", menus(deprecatedSupport=True, **modes(1, 2)), AS_IS),
    Recorded("coc.nvim 0.0.82", "coc.nvim", menus(deprecatedSupport=True, **modes(1, 2)), AS_IS),
    Recorded("lsp-mode 10.0.0", "emacs", menus(deprecatedSupport=True, **modes(1, 2)), AS_IS),
    Recorded("Kate 26.08, lspclientserver.cpp", None, menus(labelDetailsSupport=True), AS_IS),
    Recorded("kakoune-lsp 18", "kakoune-lsp", menus(), AS_IS),
)
MENU: Json = {"popup": {"enabled": True, "budget_ms": 10_000}}


def at(line: int, character: int) -> Json:
    return {"textDocument": {"uri": URI}, "position": {"line": line, "character": character}}


@pytest.mark.parametrize("client", RECORDED, ids=lambda client: client.source)
async def test_a_menu_has_the_text_that_its_client_can_insert(client: Recorded) -> None:
    async with running("--says", SAYS) as server:
        info: Json = {} if client.name is None else {"clientInfo": {"name": client.name, "version": "1"}}
        result = await server.initialize(initializationOptions=MENU, capabilities=client.capabilities, **info)
        assert ("inlineCompletionProvider" in result["capabilities"]) == (client.name != "vim-lsp")
        server.open(URI, TEXT)
        [item] = (await server.call("textDocument/completion", at(2, 12)))["items"]
        assert (item["textEdit"]["newText"], item["insertTextMode"]) == (client.text, client.mode)
        assert item["filterText"] == client.text
        assert item["label"] == "["


ADJUSTED_CASES = (
    ("y = 1\n    z\n", "        ", "y = 1"),  # the client could not write the next line, which has less indentation
    ("a\n\n        b\n", "        ", "a\n\nb"),
    ("\tif b {\n\t\tc()\n\t}", "", "\tif b {\n\tc()\n}"),
    ("f(\n    a,\n)", "x = ", "f(\n    a,\n)"),
    ("\n        b", "    if a:", "\n    b"),
)


@pytest.mark.parametrize(("text", "before", "adjusted"), ADJUSTED_CASES)
def test_further_lines_lose_the_first_lines_indentation(text: str, before: str, adjusted: str) -> None:
    assert written(text, before, MenuText.ADJUSTED) == adjusted
    assert written(text, before, MenuText.AS_IS) == text


def test_the_docs_list_every_client_that_is_known_by_name() -> None:
    page = (Path(__file__).parents[2] / "docs/editors/README.md").read_text(encoding="utf-8")
    for row in KNOWN:
        inline = "; no ghost text" if row.misreads_inline else ""
        assert f"| {row.client} | {row.version} | {row.menu_text.value}{inline} | {row.reason} |" in page


async def test_only_a_client_that_asks_for_the_status_gets_it() -> None:
    asks: tuple[Json, ...] = (
        {},
        {"capabilities": {"experimental": {"fastcoderStatus": True}}},
        {"initializationOptions": {"client": {"showsStatus": True}}},
    )
    for wish, told in zip(asks, (False, True, True), strict=True):
        async with running() as server:
            await server.initialize(follows_status=False, **wish)
            server.open(URI, "x = ")
            assert await server.inline(URI, 0, 4)
            own = {message["method"] for message in server.told if not message["method"].startswith(("window/", "$/"))}
            assert own == ({"fastcoder/status"} if told else set())


async def by_key(server: RawClient, uri: str, kind: object) -> bool:
    """Whether the server takes the trigger for a key: only then it answers if `quiet.mode` is `invoked`."""
    server.open(uri, "x = ")
    place: Json = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 4}}
    params = place | ({} if kind == "none" else {"context": {"triggerKind": kind, "selectedCompletionInfo": None}})
    answer = await server.call("textDocument/inlineCompletion", params)
    return bool(answer["items"])


TRIGGERS: tuple[tuple[tuple[object, ...], tuple[bool, ...]], ...] = (
    ((1, 2, 1), (True, False, True)),  # LSP 3.18
    ((0, 1, 0, 1), (True, False, True, False)),  # vscode-languageclient 9
    ((1, 0, 1), (True, True, False)),
    ((7, None, "1", "none"), (False, False, False, False)),
)


@pytest.mark.parametrize(("kinds", "keys"), TRIGGERS)
async def test_triggers_are_read_in_the_clients_own_numbers(kinds: tuple[object, ...], keys: tuple[bool, ...]) -> None:
    async with initialized(initializationOptions={"quiet": {"mode": "invoked"}}) as server:
        assert [await by_key(server, f"untitled:{number}", kind) for number, kind in enumerate(kinds)] == list(keys)


MARKED: Json = {"general": {"markdown": {"parser": "marked", "version": "1.1.0"}}}
INLINE: Json = {"textDocument": {"inlineCompletion": {"dynamicRegistration": True}}}
LIBRARIES: tuple[tuple[Json, bool], ...] = (
    (MARKED | INLINE, False),  # vscode-languageclient 9
    (MARKED | INLINE | {"workspace": {"textDocumentContent": {"dynamicRegistration": True}}}, True),  # 10 and 11
    ({"general": {"markdown": {"parser": "marked", "version": "7.0.5"}}} | INLINE, True),
    (INLINE, True),
)


@pytest.mark.parametrize(("capabilities", "key"), LIBRARIES)
async def test_the_first_1_is_read_by_what_its_client_declares(capabilities: Json, key: bool) -> None:
    options: Json = {"quiet": {"mode": "invoked"}}
    async with initialized(initializationOptions=options, capabilities=capabilities) as server:
        assert await by_key(server, "untitled:1", 1) == key


TYPED = (("s", True), ("sugg", True), ("suggested = 1", False), ("q", False))


@pytest.mark.parametrize(("typed", "agrees"), TYPED)
async def test_typing_along_does_not_empty_a_menu(typed: str, agrees: bool, brake: Brake) -> None:
    async with initialized(*brake.held, initializationOptions=MENU, capabilities=menus()) as server:
        server.open(URI, "x =  # five")
        asked = server.ask("textDocument/completion", at(0, 4))
        await server.until(lambda: "thinking" in server.statuses())
        place = {"line": 0, "character": 4}
        server.change(URI, 2, [{"range": {"start": place, "end": place}, "text": typed}])
        await server.text(URI)
        brake.release()
        items = (await server.answer(asked))["result"]["items"]
        assert len(items) == agrees
        if agrees:
            assert items[0]["textEdit"] == {"newText": "suggested = 1", "range": {"start": place, "end": place}}


async def test_another_change_empties_the_menu(brake: Brake) -> None:
    async with initialized(*brake.held, initializationOptions=MENU, capabilities=menus()) as server:
        server.open(URI, "x = ")
        asked = server.ask("textDocument/completion", at(0, 4))
        await server.until(lambda: "thinking" in server.statuses())
        server.change(URI, 2, [{"text": "y = s"}])
        await server.text(URI)
        brake.release()
        assert (await server.answer(asked))["result"]["items"] == []


@pytest.mark.parametrize("version", [None, "3", 1.5, True, 1_795_899_743_000, "none"])
async def test_a_change_without_a_version_is_taken(version: object) -> None:
    number = {} if version == "none" else {"version": version}
    async with initialized() as server:
        item = {"uri": URI, "languageId": "python", "text": "x"} | number
        server.notify("textDocument/didOpen", {"textDocument": item})
        for text in ("x = ", "y = "):
            changes = [{"text": text}]
            server.notify("textDocument/didChange", {"textDocument": {"uri": URI} | number, "contentChanges": changes})
            assert (await server.text(URI))["text"] == text
            assert await server.inline(URI, 0, 4)
        server.change(URI, 9, [{"text": "z = "}])
        assert await server.text(URI) == {"version": 9, "text": "z = "}


SPELLINGS = (
    ("file:///p/caf%C3%A9.py", "file:///p/caf%c3%a9.py", "file:///p/café.py", "file://localhost/p/caf%C3%A9.py"),
    ("file:///c%3A/a.py", "file:///c:/a.py", "file:///C:/a.py", "FILE:///c%3a/a.py"),
    ("file:///p/a%20b%2Bc.py", "file:///p/a b+c.py", "file:///p/%61%20b+c.py"),
    ("untitled:Unnamed%201", "untitled:Unnamed 1"),
    ("jdt://contents/a%20b.java?x=%3D", "jdt://contents/a b.java?x=="),
    ("vscode-remote://ssh-remote%2Bhost/p/a.py", "vscode-remote://ssh-remote+host/p/a.py"),
)


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda spellings: spellings[0])
async def test_a_document_is_the_same_however_its_uri_is_spelt(spellings: tuple[str, ...]) -> None:
    async with initialized() as server:
        for number, opened in enumerate(spellings):
            server.open(opened, "x")
            for version, other in enumerate(spellings, start=2):
                server.change(other, version, [{"text": f"x{version} = "}])
                assert (await server.text(opened))["text"] == f"x{version} = "
                assert await server.inline(other, 0, 5)
                assert (await server.call("fastcoder/trace", {"uri": other})) is not None
                told = {"command": "fastcoder.why", "arguments": [other]}
                assert "last answer" in (await server.call("workspace/executeCommand", told))["text"]
            server.notify("textDocument/didClose", {"textDocument": {"uri": spellings[number - 1]}})
            assert (await server.call("fastcoder/stats"))["open_documents"] == 0


@pytest.mark.parametrize(
    ("opened", "renamed"), [("file:///p/é.py", "file:///p/%C3%A9.py"), ("file:///c%3A/é.py", "file:///C:/%c3%A9.py")]
)
async def test_a_renamed_document_takes_its_state_along(opened: str, renamed: str) -> None:
    new = "file:///p/new.py"
    async with initialized() as server:
        server.open(opened, "x = ")
        assert await server.inline(opened, 0, 4)
        server.notify("textDocument/didClose", {"textDocument": {"uri": opened}})
        server.notify("workspace/didRenameFiles", {"files": [{"oldUri": renamed, "newUri": new}]})
        server.open(new, "y = ")  # another text: only the renaming tells
        told = await server.call("fastcoder/why", {"textDocument": {"uri": new}})
        assert "last answer" in told["text"]


async def test_a_wrong_length_does_not_lose_an_edit() -> None:
    async with initialized() as server:
        server.open(URI, "x = ")
        place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
        for version, length in enumerate((-1, 2**40, "x", None, 1.5), start=2):
            change = {"range": place, "rangeLength": length, "text": str(version)}
            server.change(URI, version, [change])
            assert (await server.text(URI))["text"] == f"{version} = "


@pytest.mark.parametrize("entry", [{}, "x", {"text": 5}, {"range": None, "text": "x"}])
async def test_a_malformed_menu_entry_is_no_entry(entry: object) -> None:
    async with initialized() as server:
        server.open(URI, "x = ")
        assert await server.inline(URI, 0, 4, selectedCompletionInfo=entry)


async def test_different_documents_stay_apart() -> None:
    uris = (
        "file:///p/a%23b.py",
        "file:///p/a#b.py",
        "file:///p/A%23b.py",
        "file://host/p/a%23b.py",
        "other:/p/a%23b.py",
    )
    async with initialized() as server:
        for uri in uris:
            server.open(uri, uri)
        for uri in uris:
            assert (await server.text(uri))["text"] == uri


async def test_a_folder_is_removed_however_its_uri_is_spelt(tmp_path: Path) -> None:
    folder = tmp_path / "é"
    folder.mkdir()
    (folder / "fastcoder.toml").write_text("enabled = false\n", encoding="utf-8")
    uri = (folder / "a.py").as_uri()
    for removed in (f"{folder.as_uri()}/", folder.as_uri().replace("%C3%A9", "é"), folder.as_uri().lower()):
        async with initialized(workspaceFolders=[{"uri": folder.as_uri(), "name": "é"}]) as server:
            server.open(uri, "x = ")
            assert not await server.inline(uri, 0, 4)
            event = {"added": [], "removed": [{"uri": removed.replace("%c3", "%C3"), "name": "é"}]}
            server.notify("workspace/didChangeWorkspaceFolders", {"event": event})
            assert await server.inline(uri, 0, 4)
