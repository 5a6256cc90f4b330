"""What the default model suggests, token by token, by plain and by drafted decoding in one server: greedy, so exact.

A token's text stands for its id: in a byte-level vocabulary no two tokens share one. Of a token that begins in the text
before the cursor, the rest stands.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.goldens.golden import Goldens, command, sample_files
from tests.lsp.raw_client import Json, RawClient, running

ABOVE, BELOW = 7, 4
"""Lines around a place: a prompt of fewer than 192 tokens is never shortened on a slow or busy machine."""
QUICK = slice(2, 58, 7)
"""Eight of all places."""
BOTH = ("auto", "none")
SETTINGS: Json = {
    "host.enabled": False,
    "power": "saver",
    "index.enabled": False,
    "context.enabled": False,
    "budget.automatic_ms": 60_000,
    "budget.invoked_ms": 60_000,
    "budget.background_ms": 1,
    "client": {"protectsMachineSettings": True},
}


def places() -> Iterator[tuple[str, str, int, int]]:
    """Some sixty places in a few lines each: name, text, line and column; the rest of the line is cut off.

    By turns at a line's indentation and in its middle.
    """
    for name, _, text in sample_files():
        lines = text.split("\n")
        full = [number for number, line in enumerate(lines) if len(line.strip()) > 12]
        for turn, number in enumerate(full[1::3]):
            line, first = lines[number], max(0, number - ABOVE)
            indent, blank = len(line) - len(line.lstrip()), line.rfind(" ", 0, len(line) * 2 // 3) + 1
            column = (max(blank, indent), indent)[turn % 2]
            window = [*lines[first:number], line[:column], *lines[number + 1 : number + BELOW]]
            yield name, "\n".join(window), number - first, column


@pytest.mark.model
async def test_eight_places(goldens: Goldens, model_folder: Path) -> None:
    goldens.check("suggestions_quick", await suggestions(model_folder, list(places())[QUICK]))


@pytest.mark.ci
@pytest.mark.model
async def test_all_places(goldens: Goldens, model_folder: Path) -> None:
    """Drafted decoding alone, against what plain decoding said when it was recorded: that takes half the time."""
    drafters = BOTH if goldens.record else BOTH[:1]
    goldens.check("suggestions_all", await suggestions(model_folder, list(places()), 16, drafters))


async def suggestions(
    model: Path, asked: list[tuple[str, str, int, int]], tokens: int = 128, drafters: tuple[str, ...] = BOTH
) -> list[Any]:
    """What these ways of decoding say at these places, in so many tokens at most."""
    common = {**SETTINGS, "model": str(model), "completion.max_tokens": tokens}
    rows: dict[str, list[Any]] = {}
    async with running(command=(command(), "serve")) as client:
        await client.initialize(initializationOptions=common | {"drafter": "auto"})
        for drafter in drafters:
            settings = {"fastcoder": common | {"drafter": drafter}}
            client.notify("workspace/didChangeConfiguration", {"settings": settings})
            rows[drafter] = [await suggestion(client, drafter, number, *one) for number, one in enumerate(asked)]
        await client.leave()
    drafted = [row.pop("drafted") for row in rows["auto"]]
    assert any(drafted)
    assert not any(row.pop("drafted") for row in rows.get("none", []))
    assert rows["auto"] == rows.get("none", rows["auto"])
    return rows["auto"]


async def suggestion(
    client: RawClient, drafter: str, number: int, name: str, text: str, line: int, column: int
) -> Json:
    """One suggestion in a document of its own: its text, the texts of its tokens, and how many of them were drafted."""
    uri = f"file:///{drafter}/{number}/{name}"
    client.open(uri, text, "python" if name.endswith(".py") else "typescript")
    items = await client.inline(uri, line, column, triggerKind=1)
    trace = await client.call("fastcoder/trace", {"uri": uri})
    silences = (await client.call("fastcoder/why", {"textDocument": {"uri": uri}}))["items"]
    tokens = [token for step in trace["steps"] for token in step["tokens"]] if trace else []
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    return {
        "at": f"{name}:{line + 1}:{column + 1}",
        "shown": items[0]["insertText"] if items else [one["code"] for one in silences],
        "finish": trace and trace["finish"],
        "tokens": [token["text"] for token in tokens],
        "drafted": sum(token["source"] != "model" for token in tokens),
    }
