"""A front whose model lives elsewhere is light: it imports nothing that computes."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.lsp.raw_client import running

HEAVY = {"numba", "numpy", "llvmlite", "torch", "transformers", "tokenizers", "safetensors", "watchdog"}
OURS = {"draft", "engine", "index", "kernels", "model", "prompt", "runtime", "scheduling", "tokenizer"}


async def _complete(server: tuple[str, ...], root: Path) -> str:
    document = {"uri": (root / "a.py").as_uri(), "languageId": "python", "version": 1, "text": "value = other\n"}
    async with running(command=server) as client:
        folders = [{"uri": root.as_uri(), "name": "project"}]
        capabilities: dict[str, Any] = {"textDocument": {"inlineCompletion": {}}}
        params = {"processId": None, "capabilities": capabilities, "workspaceFolders": folders}
        await client.call("initialize", params)
        client.notify("initialized", {})
        client.notify("textDocument/didOpen", {"textDocument": document})
        where = {"textDocument": {"uri": document["uri"]}, "position": {"line": 0, "character": 13}}
        answer = await client.call("textDocument/inlineCompletion", where | {"context": {"triggerKind": 1}})
        await client.call("shutdown")
        client.notify("exit")
        await asyncio.wait_for(client.process.wait(), 30)
    return str(answer["items"][0]["insertText"])


def test_a_front_from_start_to_end_imports_nothing_that_computes(tmp_path: Path) -> None:
    """It is asked, answers, and ends; what it has imported by then are values, documents and the protocol."""
    imported = tmp_path / "imported"
    server = (sys.executable, "-m", "tests.lsp.light_server", str(imported))
    assert asyncio.run(_complete(server, tmp_path))
    modules = imported.read_text(encoding="utf-8").split()
    assert "fastcoder_lsp.completion.service" in modules
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert not OURS & {name.split(".")[1] for name in modules if name.startswith("fastcoder_lsp.")}
