"""Machine code is kept for the user alone, and is ready before it is needed."""

import ast
import asyncio
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.kernels import folder as files
from fastcoder_lsp.kernels.cache import compiled_sources
from fastcoder_lsp.kernels.folder import trusted_folder
from fastcoder_lsp.runtime.compile_ahead import CompileAhead
from fastcoder_lsp.runtime.start_record import read_start
from tests.engine.tiny_models import make_model
from tests.faults.small_model import write_model
from tests.lsp.raw_client import RawClient, running

SQUARE = """
import sys
from pathlib import Path
import numpy as np
from numba.core import event
from fastcoder_lsp.kernels import KernelCache, unkept

class Heard(event.Listener):
    count = 0
    def on_start(self, event): pass
    def on_end(self, event): Heard.count += 1

event.register("numba:compile", Heard())

@unkept
def square(numbers, out):
    for i in range(len(numbers)):
        out[i] = numbers[i] * numbers[i]

KernelCache.attach(square, lambda: Path(sys.argv[1]), "square")
numbers, out = np.arange(4), np.zeros(4, np.int64)
square(numbers, out)
assert out.tolist() == [0, 1, 4, 9], out
print(Heard.count)
"""


def compiled(folder: Path, **environment: str) -> int:
    """Functions that another process had to compile to square numbers by a kernel that is kept in `folder`."""
    command = [sys.executable, "-P", "-c", SQUARE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment, cwd="/")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled") / "kernels"
    assert compiled(folder) == 1
    return folder


@pytest.fixture
def folder(compiled_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled_once, tmp_path / "kernels")


def kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


def test_a_second_start_compiles_nothing(folder: Path) -> None:
    assert compiled(folder) == 0
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.ci
def test_what_is_damaged_is_compiled_anew(folder: Path, tmp_path: Path) -> None:
    (path,) = kept(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # `tests/faults/test_damaged_caches.py` damages it otherwise
    path.chmod(0o600)
    assert compiled(folder) == 1
    (tmp_path / "elsewhere").write_bytes(whole)
    for link in (True, False):
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere") if link else os.mkfifo(path, 0o600)
        assert compiled(folder) == 1
    assert compiled(folder) == 0
    path.unlink()
    path.mkdir()
    assert compiled(folder) == 1


@pytest.mark.ci
@pytest.mark.parametrize("writable", ["file", "folder"])
def test_what_others_could_write_is_not_read(folder: Path, writable: str) -> None:
    """Machine code is run: a file or folder that a group could write to until now counts as nothing, and is closed."""
    (path,) = kept(folder)
    {"file": path, "folder": folder}[writable].chmod(0o770)
    assert compiled(folder) == 1
    assert compiled(folder) == 0
    assert all(stat.S_IMODE(found.stat().st_mode) & 0o022 == 0 for found in (folder, *folder.rglob("*")))


def test_a_home_that_a_group_shares_keeps_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who can rename the folder above can put another in its place: one among the temporary files is taken instead."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    place = trusted_folder(shared / "cache" / "kernels")
    assert place.folder is not None
    assert place.folder.is_relative_to(tmp_path / "tmp")
    assert str(shared) in place.note


def test_old_versions_go(tmp_path: Path) -> None:
    """Each version has a folder, and the latest few stay."""
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    for age in range(9):
        old = folder / f"0.0.{age}-{age:016x}"
        old.mkdir()
        os.utime(old, (1e9 - age, 1e9 - age))
    compiled(folder)
    assert sorted(entry.name[:5] for entry in folder.iterdir() if entry.is_dir())[:3] == ["0.0.0", "0.0.1", "0.0.2"]
    assert len([entry for entry in folder.iterdir() if entry.is_dir()]) == 4


def test_two_starts_at_once_compile_once(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    command = [sys.executable, "-P", "-c", SQUARE, str(folder)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(process.communicate()[0].strip() for process in both) == ["0", "1"]


def test_a_full_disk_keeps_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "version" / "name.kernel"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    files.write(path, b"code")
    assert list(path.parent.iterdir()) == []


def test_every_constant_of_compiled_code_is_in_its_name() -> None:
    """A constant that kept code has from another file of ours decides the machine code, too: that file counts."""
    package, counted = Path(__file__).parents[2] / "fastcoder_lsp", compiled_sources()
    kernels = re.compile(r"^@(?:kernel|inner|inlined)", re.MULTILINE)
    compiled = [path for path in package.rglob("*.py") if kernels.search(path.read_text(encoding="utf-8"))]
    assert len(compiled) > 10
    assert set(compiled) <= set(counted)
    for path in counted:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.decorator_list]
        used = {name.id for node in functions for name in ast.walk(node) if isinstance(name, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fastcoder_lsp."):
                constants = {alias.name for alias in node.names if alias.name.isupper()} & used
                module = package.parent / (node.module or "").replace(".", "/")
                source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
                assert not constants or source in counted, f"{path.name} has {constants} from {source}"


def test_without_a_writable_home_code_goes_to_a_temporary_folder(tmp_path: Path) -> None:
    """Where nothing can be written there either, kernels are compiled."""
    (tmp_path / "file").write_text("")
    temporary = tmp_path / f"fastcoder-lsp-{os.geteuid()}"
    temporary.write_text("in the way")
    assert compiled(tmp_path / "file" / "kernels", TMPDIR=str(tmp_path)) == 1
    temporary.unlink()
    for count in (1, 0):
        assert compiled(tmp_path / "file" / "kernels", TMPDIR=str(tmp_path)) == count


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


def test_an_empty_folder_needs_compiling(tmp_path: Path) -> None:
    """That is known before a compiler is imported, so that the process beside begins a second earlier."""
    program = (
        "import sys\nimport fastcoder_lsp.runtime.load\nfrom fastcoder_lsp.runtime.compile_ahead import needed\n"
        "print(needed(), 'numba' in sys.modules)"
    )
    environment = os.environ | {"FASTCODER_KERNELS": str(tmp_path / "kernels")}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["True", "False"]


def test_a_compiling_process_that_is_killed_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
from fastcoder_lsp.engine.int8.backend import compile_ahead
from fastcoder_lsp.model.files import ModelFiles

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
    files = ModelFiles("", Path(folder), "", "", "x")
    engine.load(files, options, cache=Path(cache), progress=lambda share, what: None, kernels=Path(kernels)).close()
print(len(Heard.names), *Heard.names)
"""


@pytest.mark.ci
def test_a_pass_in_four_bits_is_compiled_ahead(tmp_path: Path) -> None:
    folder, kernels = make_model(tmp_path / "model", "qwen2"), tmp_path / "kernels"

    def compiled(what: str) -> list[str]:
        command = [sys.executable, "-P", "-c", AHEAD, what, str(folder), str(kernels), str(tmp_path)]
        environment = os.environ | {"FASTCODER_KERNELS": str(kernels)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()

    assert any("forward" in name for name in compiled("ahead"))
    assert compiled("engine") == ["0"]
