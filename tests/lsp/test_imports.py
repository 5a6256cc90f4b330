"""Missing imports over the wire: a real folder, its files on the disk, and a document that is typed in."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.raw_client import Json, RawClient, initialized

FILES = {
    "shop/__init__.py": "",
    "shop/money.py": "def format_money(amount):\n    return amount\n",
    "shop/cart.py": "from shop.money import format_money\n",
    "hidden/.gitignore": "*\n",
    "hidden/secret.py": "def only_hidden(amount):\n    return amount\n",
}
TEXT = "import os\n\n\ndef line(item):\n    return \n"
HERE = {"start": {"line": 4, "character": 11}, "end": {"line": 4, "character": 11}}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def editing(shop: Path, **options: Any) -> Any:
    folder = {"uri": shop.as_uri(), "name": "shop"}
    return initialized(initializationOptions={"edits.model": ""} | options, workspaceFolders=[folder])


async def answer(client: RawClient, uri: str, version: int, *, asked: bool = False) -> Json:
    params: Json = {"textDocument": {"uri": uri, "version": version}, "position": {"line": 5, "character": 0}}
    context = {"context": {"triggerKind": 1}} if asked else {}
    found: Json = await client.call("textDocument/copilotInlineEdit", params | context)
    return found


async def edits(client: RawClient, uri: str, version: int, *, asked: bool = False) -> list[Json]:
    found: list[Json] = (await answer(client, uri, version, asked=asked))["edits"]
    return found


async def until_offered(client: RawClient, uri: str, version: int) -> Json:
    """The edit, once the files have been read."""
    for _ in range(200):
        if found := await edits(client, uri, version):
            return found[0]
        await asyncio.sleep(0.05)
    raise AssertionError("no edit")


async def test_a_typed_name_gets_its_import_without_a_key(shop: Path) -> None:
    uri = (shop / "shop" / "report.py").as_uri()
    async with editing(shop) as client:
        client.open(uri, TEXT)
        client.change(uri, 2, [{"range": HERE, "text": "format_money(item)"}])
        edit = await until_offered(client, uri, 2)
        assert edit["text"] == "from shop.money import format_money\n\n"
        assert edit["range"]["start"] == {"line": 2, "character": 0}
        client.notify("fastcoder/editRejected", {"item": {"command": edit["command"]}})
        assert await edits(client, uri, 2) == []


async def test_pasted_text_gets_its_import_too(shop: Path) -> None:
    uri = (shop / "shop" / "report.py").as_uri()
    async with editing(shop) as client:
        client.open(uri, TEXT)
        client.change(uri, 2, [{"range": HERE, "text": "format_money(item)\n" + "    x = 1\n" * 40}])
        assert (await until_offered(client, uri, 2))["text"].startswith("from shop.money")


async def test_a_saved_file_is_followed_and_files_that_may_not_be_read_are_not(shop: Path) -> None:
    uri, new = (shop / "shop" / "report.py").as_uri(), shop / "shop" / "tax.py"
    async with editing(shop) as client:
        client.open(uri, TEXT)
        client.change(uri, 2, [{"range": HERE, "text": "only_hidden(item)"}])
        new.write_text("def tax_of(item):\n    pass\n")
        client.notify("textDocument/didSave", {"textDocument": {"uri": new.as_uri()}})
        client.change(uri, 3, [{"text": TEXT.replace("return ", "return tax_of(only_hidden(item))")}])
        assert (await until_offered(client, uri, 3))["text"] == "from shop.tax import tax_of\n\n"


async def test_a_file_that_a_new_rule_ignores_is_no_source_any_more(shop: Path) -> None:
    """At once, though no editor reports the rule and the table still has the file."""
    uri = (shop / "shop" / "report.py").as_uri()
    async with editing(shop) as client:
        client.open(uri, TEXT)
        client.change(uri, 2, [{"range": HERE, "text": "format_money(item)"}])
        await until_offered(client, uri, 2)
        (shop / ".gitignore").write_text("money.py\ncart.py\n")
        assert await edits(client, uri, 2) == []
        (shop / ".gitignore").write_text("cart.py\n")
        assert (await edits(client, uri, 2))[0]["text"].startswith("from shop.money"), "money.py defines it"


async def test_the_setting_turns_it_off(shop: Path) -> None:
    uri = (shop / "shop" / "report.py").as_uri()
    off: Json = {"edits.imports": False}
    async with editing(shop, **off) as client:
        client.open(uri, TEXT)
        client.change(uri, 2, [{"range": HERE, "text": "format_money(item)"}])
        for _ in range(20):
            assert await edits(client, uri, 2, asked=True) == []


async def test_the_answer_says_which_names_it_imports_and_where_they_are_used(shop: Path) -> None:
    uri, crab = (shop / "shop" / "report.py").as_uri(), "'🦀', "
    async with editing(shop) as client:
        client.open(uri, TEXT)
        client.change(uri, 2, [{"range": HERE, "text": f"{crab}format_money(item)"}])
        await until_offered(client, uri, 2)
        (one,) = (await answer(client, uri, 2))["imports"]
        column = 11 + len(crab.encode("utf-16-le")) // 2
        assert one["name"] == "format_money"
        assert one["range"]["start"] == {"line": 4, "character": column}
        assert one["range"]["end"] == {"line": 4, "character": column + len("format_money")}
