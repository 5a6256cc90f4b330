"""Counts what the server's processes do in a minute in which nobody types; `scripts/test-idle` runs it.

Four editors open a file of their own folder, ask for some texts by key, and then say nothing. A wake-up is a voluntary
context switch of any thread.
"""

import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.client.client import LanguageClient

SERVER = [sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve"]
EDITORS, MINUTE_S = 4, 60.0
MOST_WAKES, MOST_CPU_S = 60, 0.1
MOST_ASKS = 60
TEXT = "def area(width, height):\n    return "


@dataclass(frozen=True, slots=True)
class Used:
    """What a thread has used since its start."""

    wakes: int
    cpu_s: float


async def measured(rest_s: float, runtime: Path, root: Path) -> int:
    """0 if the minute stays below the limits."""
    clients = [await opened(written(root / f"project{number}")) for number in range(EDITORS)]
    await asyncio.sleep(rest_s)
    before = threads(runtime)
    await asyncio.sleep(MINUTE_S)
    after = threads(runtime)
    nothing = Used(0, 0.0)
    used = {
        name: Used(now.wakes - before.get(name, nothing).wakes, now.cpu_s - before.get(name, nothing).cpu_s)
        for name, now in after.items()
    }
    for name, one in sorted(used.items(), key=lambda entry: -entry[1].wakes):
        if one.wakes:
            print(f"{one.wakes:6} wake-ups {one.cpu_s:8.4f} s  process {name[0]}, thread {name[1]}")
    wakes, cpu_s = sum(one.wakes for one in used.values()), sum(one.cpu_s for one in used.values())
    print(f"{wakes} wake-ups and {cpu_s:.3f} CPU seconds in {MINUTE_S:.0f} s: {len(after)} threads")
    for client in clients:
        await client.stop()
    return 0 if wakes <= MOST_WAKES and cpu_s <= MOST_CPU_S else 1


def written(folder: Path) -> Path:
    """A file in a new folder."""
    folder.mkdir()
    path = folder / "shapes.py"
    path.write_text(TEXT, encoding="utf-8")
    return path


async def opened(path: Path) -> LanguageClient:
    """An editor that has shown a text in this file."""
    client = LanguageClient(lambda _status: None, print, print, on_told=lambda _method, _params: None, name="idle")
    await client.start(SERVER, path.parent, {})
    client.open(path.as_uri(), "python", 1, TEXT)
    for _ in range(MOST_ASKS):
        if await client.suggest(path.as_uri(), TEXT, len(TEXT), invoked=True) is not None:
            return client
        await asyncio.sleep(1.0)
    raise SystemExit("no text appears")


def threads(runtime: Path) -> dict[tuple[int, int], Used]:
    """All threads of processes with this XDG_RUNTIME_DIR, this one excepted, by their process and their own number."""
    found, mark = dict[tuple[int, int], Used](), f"XDG_RUNTIME_DIR={runtime}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) == os.getpid() or mark not in (process / "environ").read_bytes():
                continue
            for thread in (process / "task").iterdir():
                lines = (thread / "status").read_text(encoding="utf-8").splitlines()
                wakes = next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
                nanoseconds = int((thread / "schedstat").read_text(encoding="ascii").split()[0])
                found[int(process.name), int(thread.name)] = Used(wakes, nanoseconds / 1e9)
        except OSError:  # it has ended, or belongs to another user
            continue
    return found


def main(rest_s: float) -> int:
    """0 if the minute stays below the limits."""
    with tempfile.TemporaryDirectory() as runtime, tempfile.TemporaryDirectory() as root:
        os.environ["XDG_RUNTIME_DIR"] = runtime  # a shared process of its own, found by this mark
        return asyncio.run(measured(rest_s, Path(runtime), Path(root).resolve()))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
