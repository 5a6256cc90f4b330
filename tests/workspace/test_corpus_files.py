"""Corpora from folders and archives that somebody made to be read for ever."""

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace import corpus_files
from fastcoder_lsp.workspace.corpus_files import dependencies, installed, texts_of

CODE = "def add(a, b):\n    return a + b\n"
LONG = "".join(f"def f{number}(x):\n    return x + {number * 7919 % 1000}\n" for number in range(3_000))
"""So long that damage in its middle is met while it is read, not when the archive is opened."""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """What is installed in a workspace: one good package."""
    folder = tmp_path / "work/.venv/lib/python3.11/site-packages"
    (folder / "good").mkdir(parents=True)
    (folder / "good/a.py").write_text(CODE)
    return folder


def test_traps_among_installed_packages_are_passed_over(packages: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.py").write_text(CODE)
    (packages / "trap").mkdir()
    os.mkfifo(packages / "trap/pipe.py")
    os.mkfifo(packages / "pipe.py")
    os.mkfifo(packages / "@pipe")
    for name, target in (("zero.py", "/dev/zero"), ("fd.py", "/proc/self/fd/0"), ("out", outside), ("loop", "loop")):
        (packages / "trap" / name).symlink_to(target)
        (packages / name).symlink_to(target)
    for base, name in ((packages / "trap", "d"), (packages, "@d")):
        deep = base
        for _ in range(600):
            deep /= name
            deep.mkdir()
        (deep / "deep.py").write_text(CODE)
    assert [Path(key).name for key, _ in dependencies([tmp_path / "work"])] == ["a.py"]


@pytest.mark.parametrize("part", [".venv", ".venv/lib", ".venv/lib/python3.11", ".venv/lib/python3.11/site-packages"])
def test_an_environment_elsewhere_is_not_the_workspaces(packages: Path, tmp_path: Path, part: str) -> None:
    work = tmp_path / "work"
    assert installed(work) == [packages]
    (work / part).rename(tmp_path / "elsewhere")
    (work / part).symlink_to(tmp_path / "elsewhere")
    assert installed(work) == []


def _flip(content: bytes) -> bytes:
    return bytes(byte ^ 0x55 if index % 7 == 0 else byte for index, byte in enumerate(content))


def zipped(**options: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"a{number}.py", CODE * 100)
        for name, value in options.items():
            for entry in archive.infolist():
                setattr(entry, name, value)
    return file.getvalue()


def tarred(kind: Literal["w:gz", "w:xz", "w:bz2"], code: str = CODE) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=kind) as archive:
        entry = tarfile.TarInfo("a.py")
        entry.size = len(code)
        archive.addfile(entry, io.BytesIO(code.encode()))
        link = tarfile.TarInfo("../../b.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("pipe.py"))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("bits.zip", lambda: zipped()[:40] + _flip(zipped()[40:200]) + zipped()[200:]),
        ("half.zip", lambda: zipped()[: len(zipped()) // 2]),
        ("encrypted.zip", lambda: zipped(flag_bits=1)),
        ("method.zip", lambda: zipped(compress_type=93)),
        ("bits.tar.gz", lambda: tarred("w:gz")[:20] + _flip(tarred("w:gz")[20:])),
        ("half.tar.gz", lambda: tarred("w:gz")[:60]),
        ("bits.tar.xz", lambda: tarred("w:xz", LONG)[:5_000] + _flip(tarred("w:xz", LONG)[5_000:])),
        ("half.tar.xz", lambda: tarred("w:xz")[:100]),
        ("bits.tar.bz2", lambda: tarred("w:bz2", LONG)[:5_000] + _flip(tarred("w:bz2", LONG)[5_000:])),
        ("half.tar.bz2", lambda: tarred("w:bz2")[:60]),
        ("nothing.whl", lambda: b""),
        ("text.tar", lambda: b"no archive" * 200),
    ],
)
def test_a_damaged_archive_is_said_to_be_one(tmp_path: Path, name: str, make: Callable[[], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(make())
    with pytest.raises(UsageError, match="cannot be read") as told:
        list(texts_of([path]))
    assert str(path) in told.value.message
    assert told.value.hint


def test_an_archive_that_says_it_is_endless_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_files, "MAX_BYTES", 5_000)
    monkeypatch.setattr(corpus_files, "MAX_MEMBERS", 5)
    many, large = tmp_path / "many.tar", tmp_path / "large.tar.gz"
    with tarfile.open(many, "w") as archive:
        for number in range(9):
            archive.addfile(tarfile.TarInfo(f"a{number}.py"))
    with tarfile.open(large, "w:gz") as archive:
        entry = tarfile.TarInfo("zeros.bin")
        entry.size = 10_000
        archive.addfile(entry, io.BytesIO(b"\0" * 10_000))
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(4):
            packed.writestr(f"a{number}.py", CODE * 60)
    for path in (many, large, bomb):
        with pytest.raises(UsageError, match="holds more than"):
            list(texts_of([path]))


def test_what_is_named_has_to_be_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("pipe.zip", "pipe.py"):
        with pytest.raises(UsageError):
            list(texts_of([tmp_path / name]))
