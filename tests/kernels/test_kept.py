"""Machine code on disk: what is kept is found again, and nothing is read that is damaged or that others could write."""

import ast
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.kernels import files
from fastcoder_lsp.kernels.cache import compiled_sources
from fastcoder_lsp.kernels.folder import trusted_folder

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
    """A folder into which one process has compiled the kernel."""
    folder = tmp_path_factory.mktemp("compiled") / "kernels"
    assert compiled(folder) == 1
    return folder


@pytest.fixture
def folder(compiled_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled_once, tmp_path / "kernels")


def kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


def test_a_second_start_compiles_nothing(folder: Path) -> None:
    """What one process compiled, the next one loads; the files are the user's alone."""
    assert compiled(folder) == 0
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.ci
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "flipped", "folder", "link", "fifo"])
def test_what_is_damaged_is_compiled_anew(folder: Path, tmp_path: Path, damage: str) -> None:
    """A file that is not what was written is dropped without a word, and the next start finds a good one."""
    (path,) = kept(folder)
    whole = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "link":
        (tmp_path / "elsewhere").write_bytes(whole)
        path.symlink_to(tmp_path / "elsewhere")
    elif damage == "fifo":
        os.mkfifo(path, 0o600)
    else:
        broken = {"empty": b"", "cut": whole[: len(whole) // 2], "garbage": os.urandom(5000)}
        flipped = whole[:-1] + bytes([whole[-1] ^ 1])
        path.write_bytes(broken.get(damage, flipped))
        path.chmod(0o600)
    assert compiled(folder) == 1
    if damage != "folder":
        assert compiled(folder) == 0


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


def test_where_nothing_can_be_written_kernels_are_compiled(tmp_path: Path) -> None:
    """No folder at all is to be had, in the home or beside: it starts, each time as if it were the first."""
    (tmp_path / "file").write_text("")
    (tmp_path / f"fastcoder-lsp-{os.geteuid()}").write_text("in the way")
    for _ in range(2):
        assert compiled(tmp_path / "file" / "kernels", TMPDIR=str(tmp_path)) == 1


def test_old_versions_go(tmp_path: Path) -> None:
    """Each version has a folder; the latest few stay, and what the first version left beside them goes."""
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    for age in range(9):
        old = folder / f"0.0.{age}-{age:016x}"
        old.mkdir()
        os.utime(old, (1e9 - age, 1e9 - age))
    (folder / "forward-avx2-7-64-ab.kernel").write_bytes(b"old")
    compiled(folder)
    assert sorted(entry.name[:5] for entry in folder.iterdir() if entry.is_dir())[:3] == ["0.0.0", "0.0.1", "0.0.2"]
    assert len([entry for entry in folder.iterdir() if entry.is_dir()]) == 4
    assert not list(folder.glob("*.kernel"))


def test_two_starts_at_once_compile_once(tmp_path: Path) -> None:
    """Who finds that another process compiles the same waits for it; one that is killed there holds up nobody."""
    folder = tmp_path / "kernels"
    command = [sys.executable, "-P", "-c", SQUARE, str(folder)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(process.communicate()[0].strip() for process in both) == ["0", "1"]


def test_a_full_disk_keeps_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written whole is not there, and nothing is left of the attempt."""
    path = tmp_path / "version" / "name.kernel"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    files.write(path, b"code")
    assert list(path.parent.iterdir()) == []


def test_every_constant_of_compiled_code_is_in_its_name() -> None:
    """A constant that compiled code has from another file of ours decides the machine code, too: that file counts."""
    package, counted = Path(__file__).parents[2] / "fastcoder_lsp", compiled_sources()
    kernels = re.compile(r"^@(?:kernel|inner|inlined|unkept)", re.MULTILINE)
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


def test_a_home_that_cannot_be_written_keeps_code_among_temporary_files(tmp_path: Path) -> None:
    """As a read-only home has it: the second start compiles nothing, in a folder that is the user's alone."""
    (tmp_path / "file").write_text("")
    assert compiled(tmp_path / "file" / "kernels", TMPDIR=str(tmp_path)) == 1
    assert compiled(tmp_path / "file" / "kernels", TMPDIR=str(tmp_path)) == 0
