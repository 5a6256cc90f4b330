"""JetBrains IDEs through LSP4IJ: no IDE is to be had here, so the server gets its template and its requests.

What is sent follows LSP4IJ 0.20.1: ClientCapabilitiesFactory, LSPInlineCompletionSupport (always "automatic", an older
request cancelled once the cursor has moved) and LSPInlineCompletionProvider (draws the text behind the part of the
range before the cursor, skips the part after it, runs no command).
"""

import json
from pathlib import Path
from typing import Any

from fastcoder_lsp.cli.main import parser
from fastcoder_lsp.config import SettingsLayer, resolve
from tests.lsp.raw_client import running

CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"], "staleRequestSupport": {"cancel": True, "retryOnContentModified": []}},
    "textDocument": {
        "completion": {"dynamicRegistration": True, "completionItem": {"snippetSupport": True}},
        "inlineCompletion": {"dynamicRegistration": True},
        "synchronization": {"dynamicRegistration": True, "didSave": True, "willSave": True, "willSaveWaitUntil": True},
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    "workspace": {"applyEdit": True, "configuration": True, "workspaceFolders": True},
}
TYPED = "    crabs = '🦀'; return sorted("
TEMPLATE = Path(__file__).parents[2] / "editors" / "jetbrains" / "fastcoder"


def read(name: str) -> dict[str, Any]:
    content = json.loads((TEMPLATE / name).read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def test_the_command_is_one_that_the_program_takes() -> None:
    for command in read("template.json")["programArgs"].values():
        program, *arguments = command.split()
        assert program.removesuffix(".exe") == "fastcoder-lsp"
        assert parser(arguments[0]).parse_args(arguments).run


def test_each_pattern_stands_for_one_language() -> None:
    mappings = read("template.json")["fileTypeMappings"]
    patterns = [pattern for mapping in mappings for pattern in mapping["fileType"]["patterns"]]
    assert len(patterns) == len(set(patterns)) > 10
    assert all(mapping["languageId"] for mapping in mappings)


def test_the_settings_are_ones_that_the_server_takes() -> None:
    _, problems = resolve([SettingsLayer("template", read("initializationOptions.json"), trusted=True)])
    assert not problems


async def test_its_ghost_text(tmp_path: Path) -> None:
    uri, at = (tmp_path / "reports.py").as_uri(), len(TYPED.encode("utf-16-le")) // 2
    async with running() as client:
        told = await client.initialize(
            rootUri=tmp_path.as_uri(),
            clientInfo={"name": "IntelliJ IDEA", "version": "2026.1"},
            capabilities=CAPABILITIES,
            initializationOptions=read("initializationOptions.json"),
        )
        assert told["capabilities"]["inlineCompletionProvider"] is not None
        assert "completionProvider" not in told["capabilities"]
        client.open(uri, "def longest(expenses):\n\n", version=0)
        start = {"line": 1, "character": 0}
        client.change(uri, 1, [{"range": {"start": start, "end": start}, "text": TYPED[:-1]}])
        older = client.ask_inline(uri, 1, at - 1)
        end = {"line": 1, "character": at - 1}
        client.change(uri, 2, [{"range": {"start": end, "end": end}, "text": TYPED[-1]}])
        client.notify("$/cancelRequest", {"id": older})
        (item,) = await client.inline(uri, 1, at)
        await client.answer(older)
        first, last = (item["range"][side]["character"] for side in ("start", "end"))
        assert first <= at <= last, "it takes the letters before the cursor off the text"
        assert len(item["insertText"]) > at - first
        assert item["insertText"].startswith(TYPED.encode("utf-16-le")[2 * first :].decode("utf-16-le"))
        assert await client.leave() == 0
