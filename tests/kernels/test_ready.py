"""Ready means ready: after it, nothing is compiled in any thread, whatever is typed and stored."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.runtime.compile_ahead import CompileAhead
from fastcoder_lsp.runtime.start_record import read_start
from tests.engine.tiny_models import make_model
from tests.faults.small_model import write_model
from tests.lsp.raw_client import RawClient, running

SOURCE = '''\
def total(prices: list[float], tax: float) -> float:
    """The sum of all prices with tax."""
    result = 0.0
    for price in prices:
        result += price * (1 + tax)
    return result
'''
TYPED = (
    "def mean(prices: list[float], tax: float) -> float:\n",
    '    """The mean of all prices with tax."""\n',
    "    result = 0.0\n    for pri",
    "ce in prices:\n        result += price * (1 + tax)\n",
    "    return result / len(",
    "prices)\n\n\ndef largest(prices: list[float]) -> float:\n    ret",
)
OPTIONS = {"budget": {"automatic_ms": 60000}, "host": {"enabled": False}}
"""The listener hears its own process."""
READY_S, ANSWER_S = 280.0, 120.0


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "model", [pytest.param("small", marks=pytest.mark.long), pytest.param("auto", marks=pytest.mark.model)]
)
async def test_nothing_is_compiled_after_ready(model: str, tmp_path: Path) -> None:
    """Empty caches, a live datastore that grows, is searched, changed and merged, keys, words cut short, whole blocks.

    Until the status is ready everything may be compiled, and then nothing.
    """
    root, cache, heard = tmp_path / "project", tmp_path / "cache", tmp_path / "compiled"
    root.mkdir()
    cache.mkdir(mode=0o700)
    heard.touch()
    (cache / "models").symlink_to(cache_folder() / "models")
    if model == "small":
        model = str(write_model(tmp_path / "model"))
    for number in range(40):
        (root / f"prices{number}.py").write_text(SOURCE.replace("total", f"total{number}"), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "FASTCODER_KERNELS"}
    environment |= {"FASTCODER_CACHE": str(cache)}
    command = (sys.executable, "-P", "-c", RUN, str(Path(__file__).parents[2]), str(heard), "--model", model)
    async with running(command=command, environment=environment) as client:
        folders = [{"uri": root.as_uri(), "name": "project"}]
        await client.initialize(workspaceFolders=folders, initializationOptions=OPTIONS)
        uri = (root / "typed.py").as_uri()
        client.open(uri, "")
        client.ask_inline(uri, 0, 0)
        await client.until(lambda: "ready" in client.statuses(), READY_S)
        before = heard.read_text(encoding="utf-8").splitlines()
        # Perhaps all of ours was compiled by the process beside: then it lies in the cache.
        assert any(".probe(" in line for line in before)
        assert any(path.name.startswith("forward-") for path in (cache / "kernels").rglob("*"))
        await type_on(client, uri, root)
        after = heard.read_text(encoding="utf-8").splitlines()[len(before) :]
        assert after == []
        client.ask("shutdown")
    start = read_start(cache)
    assert start is not None
    assert start.state == "ready"
    assert start.compiled <= len(before)


async def type_on(client: RawClient, uri: str, root: Path) -> None:
    """Type in pieces, each with a suggestion asked for; other files are written, changed and deleted meanwhile."""
    text = ""
    for version, piece in enumerate(TYPED, 2):
        text += piece
        client.change(uri, version, [{"text": text}])
        lines = text.split("\n")
        number = client.ask_inline(uri, len(lines) - 1, len(lines[-1]))
        await client.until(lambda number=number: number in client.answers, ANSWER_S)
        changed = root / f"prices{version}.py"
        changed.write_text(SOURCE.replace("tax", f"tax{version}"), encoding="utf-8")
        (root / f"prices{version + 20}.py").unlink()
        uris = [(changed.as_uri(), 2), ((root / f"prices{version + 20}.py").as_uri(), 3)]
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": u, "type": kind} for u, kind in uris]})
        await asyncio.sleep(0.5)


RUN = """
import runpy, sys
sys.path.append(sys.argv[1])
sys.argv = sys.argv[1:]
runpy.run_module("tests.kernels.listening_server", run_name="__main__", alter_sys=False)
"""


def test_a_compiling_process_that_is_killed_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, or not to be started at all: whoever waits goes on, and compiles by itself."""
    monkeypatch.setenv("FASTCODER_KERNELS", str(tmp_path / "kernels"))
    with CompileAhead() as ahead:
        ahead.begin()
        assert ahead._process is not None
        ahead._process.kill()
        assert not ahead.wait(lambda _share, _what: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with CompileAhead() as ahead:
        ahead.begin()
        assert not ahead.wait(lambda _share, _what: None)


AHEAD = """
import sys
from pathlib import Path
from numba.core import event
from fastcoder_lsp import engine
from fastcoder_lsp.engine.int8.ahead import compile_ahead

class Heard(event.Listener):
    names = []
    def on_start(self, event): Heard.names.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event): pass

event.register("numba:compile", Heard())
what, folder, kernels, cache = sys.argv[1:]
if what == "ahead":
    compile_ahead(2, 16, 4, Path(kernels))
else:
    options = engine.EngineOptions(kind="cpu-int4", context=64, threads=1)
    engine.load(
        Path(folder), name="", source="", digest="x", options=options, cache=Path(cache),
        progress=lambda share, what: None, kernels=Path(kernels),
    ).close()
print(len(Heard.names), *Heard.names)
"""


@pytest.mark.ci
def test_a_pass_in_four_bits_is_compiled_ahead(tmp_path: Path) -> None:
    """What is compiled before a model is there is all that converting and loading it in four bits would compile."""
    folder, kernels = make_model(tmp_path / "model", "qwen2"), tmp_path / "kernels"

    def compiled(what: str) -> list[str]:
        command = [sys.executable, "-P", "-c", AHEAD, what, str(folder), str(kernels), str(tmp_path)]
        environment = os.environ | {"FASTCODER_KERNELS": str(kernels)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()

    assert any("forward" in name for name in compiled("ahead"))
    assert compiled("engine") == ["0"]
