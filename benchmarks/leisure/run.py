"""`bench leisure` at work: every place asked of the server, then of what answers in it, in the same tree.

The two have the machine to themselves: what `complete` says is asked for when the server has ended.
"""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.product import FullAnswer
from benchmarks.common.progress import shown
from benchmarks.common.server import Server, fresh_workspace, server_command, server_settings
from benchmarks.datasets import histories
from benchmarks.leisure.asked import Asked, summed
from benchmarks.leisure.places import Place, choose
from fastcoder_lsp.bench import report
from fastcoder_lsp.client.client import Client
from fastcoder_lsp.client.ghost import ghost_of
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.errors import UsageError

AGAIN_S = 1.0
"""Between two asks at a place that shows nothing yet."""
GIVEN_UP_S = 6.0
"""A place that shows nothing for so long is empty."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What the server showed at a place: at first, after so many seconds, and after the rest."""

    text: str
    seconds: float
    rested: str


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.places < 1:
        raise UsageError("--places wants at least one")
    folder, name = histories.named(arguments.base)
    files = histories.base(folder, name)
    places = choose(files, arguments.places, arguments.seed)
    settings = server_settings(arguments.model, arguments.engine, arguments.set)
    command = server_command(arguments.server, arguments.here)
    with fresh_workspace() as (root, environment):
        for path, text in files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        with shown("the server", len(places)) as on_place:
            serving = _served(command, root, settings, environment, places, arguments.rest, on_place)
            answers = asyncio.run(serving)
        with shown("complete", len(places)) as on_place:
            said = complete(settings, root, places, on_place)
    asked = [
        Asked(place.path, place.offset, place.rest, answer.text, answer.seconds, answer.rested, text)
        for place, answer, text in zip(places, answers, said, strict=True)
    ]
    found = summed(asked)
    report.print_table(
        f"{name}, {len(asked)} places",
        ("", "exact", "empty", "median s", f"as `complete` after {arguments.rest:g} s, %"),
        [(arguments.server or "this server", found["exact"], found["empty"], found["median_s"], 100 * found["parity"])],
    )
    if arguments.json:
        told = ("places", "rest", "seed", "model", "engine", "set", "server")
        rows = {"history": name, "asked": [one.to_json() for one in asked]}
        report.write_json(arguments.json, "leisure", {one: getattr(arguments, one) for one in told}, found | rows)
    return 0


async def _served(
    command: Sequence[str],
    root: Path,
    settings: Mapping[str, Any],
    environment: Mapping[str, str],
    places: Sequence[Place],
    rest_s: float,
    on_place: Callable[[int], None],
) -> list[Answered]:
    """Start the server, ask at every place, end it."""
    server = Server("leisure")
    await server.start(command, root, settings, environment)
    try:
        await server.ready()
        answers = []
        for count, place in enumerate(places, 1):
            answers.append(await ask(server.client, (root / place.path).as_uri(), place, count, rest_s))
            server.check()
            on_place(count)
        return answers
    finally:
        await server.client.stop()


async def ask(client: Client, uri: str, place: Place, version: int, rest_s: float) -> Answered:
    """Open the file, ask by key until a text is there, rest, ask again, close."""
    now = asyncio.get_running_loop().time

    async def text() -> str:
        ghost = ghost_of(await client.suggest(uri, place.text, place.offset, invoked=True), place.text, place.offset)
        return ghost.text if ghost is not None else ""

    client.open(uri, place.language, version, place.text)
    begun = now()
    while not (first := await text()) and now() - begun + AGAIN_S <= GIVEN_UP_S:  # noqa: ASYNC110 no event to wait for
        await asyncio.sleep(AGAIN_S)
    seconds = now() - begun
    await asyncio.sleep(rest_s)
    rested = await text()
    client.close(uri)
    return Answered(first, seconds, rested)


def complete(
    settings: Mapping[str, Any], root: Path, places: Sequence[Place], on_place: Callable[[int], None]
) -> list[str]:
    """What `complete` says at each place: a fresh question each, with no budget."""
    model = FullAnswer(settings, root)
    said = []
    try:
        for count, place in enumerate(places, 1):
            path = root / place.path
            snapshot = Snapshot(path.as_uri(), str(path), place.language, 0, place.text)
            model.forget(snapshot.uri)
            said.append(model.text(CompletionRequest(snapshot, place.offset, invoked=True)))
            on_place(count)
        return said
    finally:
        model.close()
