"""Edits of other files over the wire: one by one, as one preview, as a code action, and made only when asked."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.raw_client import WAIT_S, Json, RawClient, initialized

DEFINES = "def load(url, time=1):\n    return url\n"
RENAMED = DEFINES.replace("load", "fetch")
USES = "from shop.net import load\n\n\ndef run():\n    é = '🦀'; return load(1, time=2)\n"
ANNOTATES = {"workspace": {"workspaceEdit": {"documentChanges": True, "changeAnnotationSupport": {}}}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A package of three files, one of them with CRLF, and files that must not be read."""
    root = tmp_path / "repository"
    for name, text in {
        "shop/__init__.py": "",
        "shop/net.py": DEFINES,
        "shop/cart.py": USES,
        "shop/wind.py": USES.replace("\n", "\r\n"),
        "tests/test_net.py": "import shop.net\n\nshop.net.load(1)\nother.load(2)\n",
        "hidden.py": USES,
        ".env.py": USES,
        "secrets/id_rsa": USES,
        ".gitignore": "hidden.py\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


@asynccontextmanager
async def renaming(root: Path, *, after: str = RENAMED, **more: Any) -> AsyncIterator[RawClient]:
    """A client that has changed the definition."""
    folder = {"uri": root.as_uri(), "name": "repository"}
    wishes: Json = {"edits.model": "", **more.pop("options", {})}
    async with initialized(initializationOptions=wishes, workspaceFolders=[folder], **more) as client:
        client.open(uri(root, "shop/net.py"), DEFINES)
        client.change(uri(root, "shop/net.py"), 2, [{"text": after}])
        yield client


def uri(root: Path, path: str) -> str:
    return (root / path).as_uri()


def place(root: Path, path: str = "shop/net.py", version: int = 2, line: int = 0) -> Json:
    return {"textDocument": {"uri": uri(root, path), "version": version}, "position": {"line": line, "character": 4}}


async def next_edit(client: RawClient, root: Path, *there: Any, **more: Any) -> Json:
    """The answer, once the folder has been read."""
    async with asyncio.timeout(WAIT_S):
        while True:
            answer: Json = await client.call("textDocument/copilotInlineEdit", place(root, *there) | more)
            if answer["edits"]:
                return answer
            await asyncio.sleep(0.05)


async def everywhere(client: RawClient, root: Path, version: int = 2) -> Json:
    """The first answer, which is about all three files."""
    answer: Json = await client.call("fastcoder/editsElsewhere", place(root, version=version))
    assert "3 files" in answer["title"]
    return answer


def applied(text: str, edits: Sequence[Json]) -> str:
    """The text with edits whose columns are UTF-16 units."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda one: one["range"]["start"]["line"], reverse=True):
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert start["line"] == end["line"]
        line = lines[start["line"]].encode("utf-16-le")
        new = edit["newText" if "newText" in edit else "text"].encode("utf-16-le")
        lines[start["line"]] = (line[: 2 * start["character"]] + new + line[2 * end["character"] :]).decode("utf-16-le")
    return "\n".join(lines)


async def test_a_renamed_definition_is_offered_in_the_next_file_that_imports_it(root: Path) -> None:
    """It is closed, so it has no version; after it was made there, the next file follows."""
    async with renaming(root) as client:
        answer = await next_edit(client, root)
        while "elsewhere" not in answer:  # until the other files have been read, too
            answer = await next_edit(client, root)
        assert answer["elsewhere"] is True
        first = answer["edits"][0]
        assert first["textDocument"] == {"uri": uri(root, "shop/cart.py"), "version": None}
        made = applied(USES, answer["edits"])
        assert made == USES.replace("load", "fetch")
        client.open(uri(root, "shop/cart.py"), USES)
        client.change(uri(root, "shop/cart.py"), 2, [{"text": made}])
        await client.call("workspace/executeCommand", first["command"])
        answer = await next_edit(client, root, "shop/cart.py")
        assert answer["edits"][0]["textDocument"]["uri"] == uri(root, "shop/wind.py")
        assert (root / "shop/cart.py").read_text() == USES, "the server writes nothing"


async def test_a_preview_has_all_files_that_may_be_read(root: Path) -> None:
    async with renaming(root, capabilities=ANNOTATES) as client:
        client.open(uri(root, "shop/cart.py"), USES + "load(3)\n", version=7)
        edit = (await everywhere(client, root))["edit"]
        [(name, annotation)] = edit["changeAnnotations"].items()
        assert annotation["needsConfirmation"] is True
        files = {one["textDocument"]["uri"]: one for one in edit["documentChanges"]}
        assert set(files) == {uri(root, one) for one in ("shop/cart.py", "shop/wind.py", "tests/test_net.py")}
        assert files[uri(root, "shop/cart.py")]["textDocument"]["version"] == 7
        assert {one["annotationId"] for file in files.values() for one in file["edits"]} == {name}
        for path, text in (("shop/cart.py", USES + "load(3)\n"), ("shop/wind.py", USES)):
            assert applied(text, files[uri(root, path)]["edits"]) == text.replace("load", "fetch")
        [only] = files[uri(root, "tests/test_net.py")]["edits"]
        assert only["range"]["start"] == {"line": 2, "character": 9}


async def test_a_file_that_a_new_rule_ignores_drops_out_at_once(root: Path) -> None:
    async with renaming(root) as client:
        client.open(uri(root, "shop/cart.py"), USES)
        await everywhere(client, root)
        (root / ".gitignore").write_text("hidden.py\ncart.py\nwind.py\n")
        answer: Json = await client.call("fastcoder/editsElsewhere", place(root))
        assert "1 file" in answer["title"]


async def test_a_file_that_changed_meanwhile_drops_out(root: Path) -> None:
    """One on the disk, one in the editor; the third is sent to the editor, which makes it."""
    async with renaming(root, capabilities=ANNOTATES) as client:
        client.open(uri(root, "shop/wind.py"), USES)
        offered = await everywhere(client, root)
        (root / "shop/cart.py").write_text("# another one\n" + USES)
        client.change(uri(root, "shop/wind.py"), 2, [{"text": "\n" + USES}])
        command = {"command": "fastcoder.applyEdits", "arguments": [offered["id"]]}
        asked = client.ask("workspace/executeCommand", command)
        await client.until(lambda: any(one["method"] == "workspace/applyEdit" for one in client.asked))
        request = next(one for one in client.asked if one["method"] == "workspace/applyEdit")
        [file] = request["params"]["edit"]["documentChanges"]
        assert file["textDocument"] == {"uri": uri(root, "tests/test_net.py"), "version": None}
        assert any("2 files changed meanwhile" in one for one in client.notices())
        assert (await client.answer(asked))["result"] == {"applied": True}
        again = await client.answer(client.ask("workspace/executeCommand", command))
        assert "error" in again, "they were made"


async def test_a_renamed_parameter_is_offered_where_calls_name_it(root: Path) -> None:
    async with renaming(root, after=DEFINES.replace("time", "wait")) as client:
        answer = await next_edit(client, root)
        assert applied(USES, answer["edits"]) == USES.replace("time=2", "wait=2")


async def test_a_preview_has_the_calls_of_the_own_file_beside_the_other_places_there(root: Path) -> None:
    text = "def load(url, time=1):\n    return url, time\n\n\ndef other():\n    return load(1, time=2)\n"
    (root / "shop/net.py").write_text(text)
    async with renaming(root, capabilities=ANNOTATES) as client:
        client.change(uri(root, "shop/net.py"), 3, [{"text": text}])
        after = text.replace("time=1", "wait=1")
        client.change(uri(root, "shop/net.py"), 4, [{"text": after}])
        answer = await everywhere(client, root, 4)
        files = {one["textDocument"]["uri"]: one["edits"] for one in answer["edit"]["documentChanges"]}
        assert applied(after, files[uri(root, "shop/net.py")]) == text.replace("time", "wait")


async def test_editors_without_a_plugin_get_a_code_action(root: Path) -> None:
    async with renaming(root, follows_status=False) as client:
        here = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 4}}
        params = {"textDocument": {"uri": uri(root, "shop/net.py")}, "range": here, "context": {"diagnostics": []}}
        await everywhere(client, root)
        [action] = await client.call("textDocument/codeAction", params)
        assert action["kind"] == "refactor.rewrite"
        assert action["command"]["command"] == "fastcoder.applyEdits"
        only = {"diagnostics": [], "only": ["quickfix"]}
        assert await client.call("textDocument/codeAction", params | {"context": only}) == []


async def test_two_rejections_in_a_row_silence_them_until_the_user_asks(root: Path) -> None:
    async with renaming(root) as client:
        for _ in range(2):
            answer = await next_edit(client, root, context={"triggerKind": 1})
            client.notify("fastcoder/editRejected", {"item": {"command": answer["edits"][0]["command"]}})
        client.change(uri(root, "shop/net.py"), 3, [{"text": RENAMED.replace("fetch", "fetch_all")}])
        answer = await client.call("textDocument/copilotInlineEdit", place(root, version=3))
        assert answer["edits"] == []
        assert (await next_edit(client, root, "shop/net.py", 3, context={"triggerKind": 1}))["edits"]


@pytest.mark.parametrize("options", [{"edits.analogy": False}, {"context.enabled": False}])
async def test_settings_keep_other_files_unread(root: Path, options: Json) -> None:
    async with renaming(root, options={"edits.model": "sweep-next-edit-toy", **options}) as client:
        answer = await client.call("textDocument/copilotInlineEdit", place(root))
        assert all(one["textDocument"]["uri"] == uri(root, "shop/net.py") for one in answer["edits"])
