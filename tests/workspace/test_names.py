"""Names that a disk takes for the same, asked of a system that is made here: macOS tells the one that it has."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace import paths
from fastcoder_lsp.workspace.paths import disk_spelling
from fastcoder_lsp.workspace.rules import ExclusionReason, ReadingRules, resolved

COMPOSED, APART = "\u00e4.py", "a\u0308.py"
"""One name, as an editor writes it, and as a disk may have it."""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is scripted stands on /proc, and on exact names")


def disk(*real: Path) -> Callable[[int], bytes]:
    """A system that knows these files and folders by these names, as macOS tells them, and others as Linux does."""
    known = {(facts.st_dev, facts.st_ino): path for path in real for facts in [path.stat()]}

    def ask(descriptor: int) -> bytes:
        facts = os.fstat(descriptor)
        found = known.get((facts.st_dev, facts.st_ino)) or Path(f"/proc/self/fd/{descriptor}").readlink()
        return os.fsencode(found) + bytes(100)

    return ask


@pytest.mark.parametrize(("asked", "real"), [("Foo.py", "foo.py"), (COMPOSED, APART), ("STRASSE.py", "straße.py")])
def test_a_name_is_the_disks(tmp_path: Path, asked: str, real: str) -> None:
    (tmp_path / real).touch()
    (tmp_path / asked).hardlink_to(tmp_path / real)  # here it takes another name, there it is the same
    assert disk_spelling(tmp_path / asked, disk(tmp_path / real)) == tmp_path / real


def test_what_is_not_there_lies_in_what_is(tmp_path: Path) -> None:
    folder, named = tmp_path / "src", tmp_path / "SRC"
    folder.mkdir()

    def ask(descriptor: int) -> bytes:
        told = os.fsencode(Path(f"/proc/self/fd/{descriptor}").readlink())
        return told.replace(b"SRC", b"src") + b"\0"

    named.mkdir()
    assert disk_spelling(named / "new" / "a.py", ask) == folder / "new" / "a.py"


def test_another_name_of_a_file_is_another_file(tmp_path: Path) -> None:
    """A system may tell the one of two hard links that it saw last."""
    (tmp_path / "one.py").touch()
    (tmp_path / "two.py").hardlink_to(tmp_path / "one.py")
    assert disk_spelling(tmp_path / "one.py", disk(tmp_path / "two.py")) == tmp_path / "one.py"


def test_pipes_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def ask(descriptor: int) -> bytes:
        assert os.path.isdir(f"/proc/self/fd/{descriptor}")  # noqa: PTH112 a descriptor's own path
        return os.fsencode(tmp_path)

    assert disk_spelling(tmp_path / "pipe", ask) == tmp_path / "pipe"


def test_rules_hold_for_every_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kept.py", "secret.py"):
        (tmp_path / name).touch()
        (tmp_path / name.title()).hardlink_to(tmp_path / name)
    known = disk(tmp_path / "kept.py", tmp_path / "secret.py")
    monkeypatch.setattr(paths, "HAS_DISK_SPELLING", True)
    monkeypatch.setattr(disk_spelling, "__defaults__", (known,))
    rules = ReadingRules([tmp_path], Settings(read_exclude=("secret.py",)))
    assert resolved(tmp_path / "Kept.Py") == tmp_path / "kept.py"
    assert rules.may_read(tmp_path / "Kept.Py") is None
    assert rules.may_read(tmp_path / "Secret.Py") is ExclusionReason.IGNORED
