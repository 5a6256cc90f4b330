"""The server in hostile repositories: whatever is in them, it answers, indexes what is good, runs nothing, and ends.

The model says the same text at every place; the server around it, its rules and its index are the real ones.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.folders import store_folder
from tests.lsp.raw_client import RawClient, running
from tests.security import hostile

ROOT = Path(__file__).parents[2]
START = (
    "import runpy, sys; from fastcoder_lsp.cli.start import leave_folder; leave_folder(); sys.argv.pop(0); "
    "runpy.run_module(sys.argv[0], run_name='__main__')"
)
"""A test's server, begun as our commands begin."""
INDEXING = (sys.executable, "-P", "-c", START, "tests.index.indexing_server", "fastcoder")
SCRIPTED = (sys.executable, "-P", "-c", START, "tests.lsp.scripted_server")
SERVE = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve")
WAIT_S = 250.0
"""Far above what it takes: indexing yields to whoever else computes, and some machines have much to do."""


@pytest.fixture
def root() -> Iterator[Path]:
    """An empty folder; not pytest's, for Python's own way to delete folders cannot delete the deepest of ours."""
    folder = Path(tempfile.mkdtemp(prefix="fastcoder-hostile-"))
    (folder / "repository").mkdir()
    yield folder / "repository"
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What servers keep: compiled code and the standard library's corpus are made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@asynccontextmanager
async def opened(root: Path, cache: Path, command: Sequence[str] = INDEXING) -> AsyncIterator[RawClient]:
    """A server that an editor started in the repository, and opened it."""
    # Its own modules by a whole path, as an installation has them.
    environment = {**os.environ, "FASTCODER_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    async with running(command=command, environment=environment, root=root) as client, asyncio.timeout(WAIT_S):
        await client.initialize(
            workspaceFolders=[{"uri": root.as_uri(), "name": "repository"}],
            initializationOptions={"budget": {"automatic_ms": 60_000, "invoked_ms": 60_000}},
        )
        yield client


async def suggests(client: RawClient, uri: str, text: str = hostile.MAIN) -> bool:
    client.open(uri, text)
    lines = text.split("\n")
    for _ in range(20):  # on a busy machine what is late is shown at the next question
        if await client.inline(uri, len(lines) - 1, len(lines[-1]), triggerKind=1):
            return True
        await asyncio.sleep(0.5)
    return False


def _indexed(place: Path) -> frozenset[str]:
    if not place.is_dir():
        return frozenset()
    store = Store.open(place, "toy", reader=True)
    try:
        return frozenset(store.records())
    finally:
        store.close()


def sprung(canary: Path) -> str:
    return canary.read_text() or "a command" if canary.exists() else ""


async def survives(
    root: Path,
    cache: Path,
    canary: Path,
    *documents: Path,
    excluded: Path | None = None,
    late: Callable[[], Path] | None = None,
) -> None:
    """The whole life of a server in `root`: it suggests in all documents, its index holds `main.py`, and it ends.

    `late` puts more into the repository once that is so, and a file last that the index is to hold too.
    """
    async with opened(root, cache) as client:
        for path in (root / "main.py", *documents):
            assert await suggests(client, path.as_uri()), path
        if excluded:
            document = {"uri": excluded.as_uri()}
            client.open(document["uri"], hostile.MAIN)
            assert await client.inline(document["uri"], 4, 8) == []
            assert "This file is excluded" in (await client.call("fastcoder/why", {"textDocument": document}))["text"]
        # A repository's own rules name its place.
        among = store_folder(cache, root, "toy").parent
        for make in (lambda: root / "main.py", *((late,) if late else ())):
            key = str(make())
            changes = [{"uri": Path(key).as_uri(), "type": 1}]  # the editor sees it too
            client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
            while not any(key in _indexed(place) for place in among.glob("toy*")):  # noqa: ASYNC110 another process's disk tells nobody
                await asyncio.sleep(0.1)
        assert await client.leave() == 0
    assert sprung(canary) == ""


@pytest.mark.parametrize(
    "make",
    [
        hostile.pipes,
        # All others are in the repository with everything too.
        *(pytest.param(make, marks=pytest.mark.ci) for make in hostile.ALL if make is not hostile.shapes),
    ],
)
async def test_a_trap_of_one_kind(root: Path, cache: Path, canary: Path, make: hostile.Maker) -> None:
    hostile.repository(root, canary, make)
    await survives(root, cache, canary, root / hostile.LONG_NAME)


async def test_trees_without_end(root: Path, cache: Path, canary: Path) -> None:
    """A document far down in one is completed in like any other, one below too many folders is excluded.

    A tree that comes later stops nothing either.
    """
    hostile.repository(root, canary, hostile.shapes)

    def more() -> Path:
        hostile.dig(hostile.folder(root / "late"), 1_500)
        return hostile.write(root / "after.py", hostile.MAIN)

    await survives(root, cache, canary, root / hostile.DEEP, excluded=root / hostile.TOO_DEEP, late=more)


async def test_installed_packages(root: Path, cache: Path, canary: Path) -> None:
    """They are read unasked, by a thread that would wait for ever."""
    hostile.repository(root, canary, hostile.installed)
    await survives(root, cache, canary)


async def test_everything_at_once(root: Path, cache: Path, canary: Path) -> None:
    """Traps may help each other. A document beside ignore files that are too long to heed is excluded."""
    hostile.repository(root, canary, *hostile.ALL)
    documents = (root / hostile.LONG_NAME, root / "new\nline.py", root / "pointed/a.py")
    await survives(root, cache, canary, *documents, excluded=root / "many" / hostile.LONG_NAME)


async def test_settings_files(root: Path, cache: Path, canary: Path, tmp_path: Path) -> None:
    """One server, folder after folder: each is added, with a settings file that costs its reader more than it is worth.

    What is told of it is short, and nothing in it but letters. A file outside the folder sets nothing.
    """
    hostile.repository(root, canary)
    outside = hostile.write(tmp_path / "outside.toml", "enabled = false\n")
    async with opened(root, cache, SCRIPTED) as client:
        for number, name in enumerate((*hostile.SETTINGS, *hostile.SETTINGS_LINKS, str(outside))):
            folder = tmp_path / f"folder_{number}"
            main = hostile.repository(folder, canary)
            if name in hostile.SETTINGS:
                hostile.write(folder / "fastcoder.toml", hostile.SETTINGS[name])
            else:
                (folder / "fastcoder.toml").symlink_to(name)
            added = {"added": [{"uri": folder.as_uri(), "name": folder.name}], "removed": []}
            client.notify("workspace/didChangeWorkspaceFolders", {"event": added})
            assert await suggests(client, main.as_uri()), name
        notices = client.notices()
        assert await client.leave() == 0
    assert len(notices) > 0
    assert sum(map(len, notices)) < 50_000
    assert all(line.isprintable() for notice in notices for line in notice.split("\n"))


@pytest.mark.parametrize("target", ["pipe", "/proc/self/fd/3"])
async def test_a_settings_file_that_is_none(root: Path, cache: Path, canary: Path, target: str) -> None:
    """`initialize` is answered: nothing waits for a pipe, nothing reads from the protocol's own wire."""
    os.mkfifo(root.parent / "pipe")
    (root / "fastcoder.toml").symlink_to(root.parent / target)
    hostile.repository(root, canary)
    async with opened(root, cache, SCRIPTED) as client:
        assert await suggests(client, (root / "main.py").as_uri())
        assert await client.leave() == 0


URIS = (
    "file:///" + "a/" * 200_000 + "x.py",
    "file:///tmp/" + "a" * 5_000 + ".py",
    "file:///half\ud800.py",
    "file:///bytes%FF%FE%ED%A0%80.py",
    "file:///zero%00.py",
    "file://" + "%2e%2e/" * 3_000,
    "file://[::1/x.py",
    "file:///proc/self/fd/0",
    "file:///dev/zero",
    "file://nowhere.invalid/share/x.py",
)


async def test_documents_under_any_name(root: Path, cache: Path, canary: Path) -> None:
    """The answer comes, with a suggestion: what the name may mean on the disk is nothing to wait for."""
    hostile.repository(root, canary)
    async with opened(root, cache) as client:
        for uri in URIS:
            assert await suggests(client, uri), uri[:40]
        assert await client.leave() == 0


async def test_the_real_command_leaves_where_it_is_started(root: Path, cache: Path, canary: Path) -> None:
    hostile.repository(root, canary, hostile.modules, hostile.programs)
    async with opened(root, cache, SERVE) as client:
        client.open((root / "main.py").as_uri(), hostile.MAIN)
        place = {"uri": (root / "main.py").as_uri()}
        await client.answer(client.ask_inline(place["uri"], 4, 8))  # there is no model: it says so
        assert psutil.Process(client.process.pid).cwd() != str(root)
        assert await client.leave() == 0
    assert sprung(canary) == ""
