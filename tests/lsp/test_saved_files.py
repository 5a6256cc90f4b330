"""Files that are not open, changed by another program: the next prompt holds what is on the disk now."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.index.live import write
from tests.lsp.raw_client import Json, RawClient, running

SERVER = (sys.executable, "-m", "tests.index.indexing_server")
USES = "total = compute_total_of_order(order)\n"


class Editor:
    """A document that uses a function of another file, and what the model's prompt holds of it."""

    def __init__(self, client: RawClient, root: Path) -> None:
        self.client, self.uri, self.version = client, (root / "main.py").as_uri(), 1
        client.open(self.uri, USES)

    async def says(self) -> str:
        """The call of the first definition in the prompt of a new place."""
        self.version += 1
        self.client.change(self.uri, self.version, [{"text": f"{USES}\nx{self.version} = 1\n"}])
        items: list[Json] = await self.client.inline(self.uri, 1, 0)
        return str(items[0]["insertText"]) if items else ""

    async def until(self, definition: str) -> None:
        while await self.says() != definition:
            pass


@asynccontextmanager
async def editing(tmp_path: Path) -> AsyncIterator[tuple[Editor, Path]]:
    root = tmp_path / "project"
    write(root, {"other.py": "def compute_nothing():\n    return 0\n"})
    environment = {**os.environ, "FASTCODER_CACHE": str(tmp_path / "cache")}
    async with running("fastcoder", "context", command=SERVER, environment=environment) as client:
        await client.initialize(
            workspaceFolders=[{"uri": root.as_uri(), "name": "project"}],
            initializationOptions={"budget": {"automatic_ms": 60_000, "invoked_ms": 60_000}},
        )
        editor = Editor(client, root)
        await editor.until("compute_nothing()")
        yield editor, root


async def test_a_saved_file_is_in_the_next_prompt(tmp_path: Path) -> None:
    async with editing(tmp_path) as (editor, root):
        write(root, {"orders.py": "def compute_total_of_order(order):\n    return order.total\n"})
        await editor.until("compute_total_of_order(order)")
        write(root, {"orders.py": "def compute_total_of_order(order, tax):\n    return order.total + tax\n"})
        await editor.until("compute_total_of_order(order, tax)")
        write(root, {".gitignore": "orders.py\n"})
        await editor.until("compute_nothing()")
