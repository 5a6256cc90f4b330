"""`bench leisure`: texts asked for by key with ample time, and whether they are what `complete` says.

The server and `complete` have the machine to themselves: the second is asked when the first has ended.
"""

import asyncio
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets import histories
from benchmarks.harness import write
from benchmarks.product import BenchmarkServer, FullAnswer, ServerOptions, fresh_workspace
from fastcoder_lsp.bench.report import print_table, shown
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.client.client import LanguageClient, ghost_of
from fastcoder_lsp.core import CompletionRequest, Snapshot
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.languages import language_of

EXAMPLE = "leisure --base ../shared/data/replay/svcs.base.tar.gz --places 40"
AGAIN_S = 1.0
"""Between two asks at a place that shows nothing yet."""
GIVEN_UP_S = 6.0
"""A place that shows nothing for so long is empty."""
SUFFIXES = (".py", ".ts", ".rs")
FILE_CHARACTERS = range(2001, 60_000)
LINE_CHARACTERS = range(26, 90)
"""Without the blanks around it."""
TOP, BOTTOM = 20, 5
"""Lines of a file that are left out, at its beginning and its end."""
_COMMENTS = ("#", "//", '"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ServerOptions):
    """Cut lines of a tree near their middle and ask the real server there by key, with ample time.

    Report how many first lines are right, how many texts are empty, and how long they take. Then ask once more after a
    rest, and report how many of these first lines are those of `fastcoder-lsp complete` (parity).
    """

    base: Path | None = option(
        "the history whose first tree is asked in, or its archive DIR/NAME.base.tar.gz (default: structlog)",
        None,
        flags=("--base", "--replay"),
        metavar="DIR/NAME",
    )
    places: int = option("how many places", 40, metavar="N")
    rest: float = option("seconds before the second ask", 2.0, metavar="SECONDS")
    cursor: float = option(
        "seconds that the cursor rests at a place before the key, after a letter was typed",
        0.0,
        metavar="SECONDS",
    )
    seed: int = option("seed of the choice of places", 5, metavar="N")


@dataclass(frozen=True, slots=True)
class CutLine:
    """`text` of the file at `path` without `rest`, the end of a line that belongs to character `offset`."""

    path: str
    text: str
    offset: int
    rest: str

    @property
    def language(self) -> str:
        return language_of(Path(self.path))


@dataclass(frozen=True, slots=True)
class ShownTexts:
    text: str
    seconds: float
    rested: str


def run(options: Options) -> int:
    if options.places < 1:
        raise UsageError("--places wants at least one")
    folder, name = histories.named(options.base)
    files = histories.base(folder, name)
    places, settings, command = choose(files, options.places, options.seed), options.settings(), options.command()
    with fresh_workspace() as (root, environment):
        for path, text in files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        with shown("the server", len(places)) as on_place:
            serving = _served(command, root, settings, environment, places, (options.rest, options.cursor), on_place)
            answers = asyncio.run(serving)
        with shown("complete", len(places)) as on_place:
            said = complete(settings, root, places, on_place)
    found = summed(places, answers, said)
    print_table(
        f"{name}, {len(places)} places",
        ("", "exact", "empty", "median s", f"as `complete` after {options.rest:g} s, %"),
        [(options.server or "this server", found["exact"], found["empty"], found["median_s"], 100 * found["parity"])],
    )
    asked = [
        {"path": place.path, "offset": place.offset, "rest": place.rest, "complete": text} | asdict(answer)
        for place, answer, text in zip(places, answers, said, strict=True)
    ]
    write(options, "leisure", found | {"history": name, "asked": asked})
    return 0


async def _served(
    command: Sequence[str],
    root: Path,
    settings: Mapping[str, Any],
    environment: Mapping[str, str],
    places: Sequence[CutLine],
    rests_s: tuple[float, float],
    on_place: Callable[[int], None],
) -> list[ShownTexts]:
    server = BenchmarkServer("leisure")
    await server.start(command, root, settings, environment)
    try:
        await server.ready()
        answers = []
        for count, place in enumerate(places, 1):
            answers.append(await ask(server.client, (root / place.path).as_uri(), place, count, *rests_s))
            server.check()
            on_place(count)
        return answers
    finally:
        await server.client.stop()


async def ask(
    client: LanguageClient, uri: str, place: CutLine, version: int, rest_s: float, cursor_s: float = 0.0
) -> ShownTexts:
    """Open the file, ask by key until a text is there, rest, ask again, close. `cursor_s`: see `Options.cursor`."""
    now = asyncio.get_running_loop().time

    async def text() -> str:
        ghost = ghost_of(await client.suggest(uri, place.text, place.offset, invoked=True), place.text, place.offset)
        return ghost.text if ghost is not None else ""

    opened = place.text[: place.offset - 1] + place.text[place.offset :] if cursor_s else place.text
    client.open(uri, place.language, version, opened)
    if cursor_s:
        client.change(uri, version + 1, opened, place.text)
        client.cursor(uri, version + 1, place.text, place.offset)
        await asyncio.sleep(cursor_s)
    begun = now()
    while not (first := await text()) and now() - begun + AGAIN_S <= GIVEN_UP_S:  # noqa: ASYNC110 no event to wait for
        await asyncio.sleep(AGAIN_S)
    seconds = now() - begun
    await asyncio.sleep(rest_s)
    rested = await text()
    client.close(uri)
    return ShownTexts(first, seconds, rested)


def complete(
    settings: Mapping[str, Any], root: Path, places: Sequence[CutLine], on_place: Callable[[int], None]
) -> list[str]:
    """The text of `complete` at each place, without earlier requests and without a budget.

    The cut text is open, as in the editor: the file on the disk still has the rest of the line.
    """
    opened: dict[Path, str] = {}
    model = FullAnswer(settings, root, lambda: opened)
    said = []
    try:
        for count, place in enumerate(places, 1):
            path = root / place.path
            snapshot = Snapshot(path.as_uri(), str(path), place.language, 0, place.text)
            model.forget(snapshot.uri)
            opened.clear()
            opened[path] = place.text
            said.append(model.text(CompletionRequest(snapshot, place.offset, invoked=True)))
            on_place(count)
        return said
    finally:
        model.close()


def summed(places: Sequence[CutLine], answers: Sequence[ShownTexts], said: Sequence[str]) -> dict[str, Any]:
    """The figures of at least one place; `said`: by `complete`. A first line without text is one, too."""
    exact = [first_line(one.text) == place.rest.rstrip() for one, place in zip(answers, places, strict=True)]
    agree = [first_line(one.rested) == first_line(text) for one, text in zip(answers, said, strict=True)]
    return {
        "places": len(places),
        "exact": sum(exact),
        "empty": sum(not one.text for one in answers),
        "median_s": statistics.median(one.seconds for one in answers),
        "parity": sum(agree) / len(places),
    }


def first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip()


def choose(files: Mapping[str, str], count: int, seed: int) -> list[CutLine]:
    """`count` places in `files` (path → text); raises UsageError where there is no file to ask in."""
    lines_of = {
        path: lines
        for path, text in sorted(files.items())
        if path.endswith(SUFFIXES) and len(text) in FILE_CHARACTERS and _candidates(lines := text.split("\n"))
    }
    if not lines_of:
        raise UsageError("no file of this tree has a line to ask in", f"Name a tree with {', '.join(SUFFIXES)} files.")
    chance, paths = random.Random(seed), list(lines_of)  # noqa: S311 a sample, no secret
    places = []
    for _ in range(count):
        path = chance.choice(paths)
        places.append(_cut(path, lines_of[path], chance.choice(_candidates(lines_of[path]))))
    return places


def _candidates(lines: list[str]) -> list[int]:
    said = [line.strip() for line in lines]
    inside = range(TOP, len(lines) - BOTTOM)
    return [at for at in inside if len(said[at]) in LINE_CHARACTERS and not said[at].startswith(_COMMENTS)]


def _cut(path: str, lines: list[str], at: int) -> CutLine:
    line = lines[at]
    middle = len(line) // 2
    cut = line.find(" ", middle) + 1 or middle
    text = "\n".join([*lines[:at], line[:cut], *lines[at + 1 :]])
    return CutLine(path, text, sum(map(len, lines[:at])) + at + cut, line[cut:])
