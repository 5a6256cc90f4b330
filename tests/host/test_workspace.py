"""A front's workspace: what changes on the disk is in the words of its folders, as a new scan would find it."""

import math
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fastcoder_lsp.completion.protocol import FilesChanged
from fastcoder_lsp.config import Settings
from fastcoder_lsp.host.workspace import FrontWorkspace
from fastcoder_lsp.runtime import folder_words
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.shared_stores import SharedStores
from tests.index.live import until, write
from tests.index.toy_encoder import ToyEncoder
from tests.opened import opening

SETTINGS = Settings()


class Front:
    """A front with folders, whose words are looked at once."""

    def __init__(self, stores: SharedStores, *roots: Path, drafted_from: bool = True) -> None:
        self.roots = roots
        self.workspace = FrontWorkspace(
            dict.fromkeys(roots, SETTINGS), stores, OpenTexts(), lambda _: None, lambda _: None
        )
        self.workspace.surroundings(drafted_from=drafted_from)
        self.workspace.begin(ToyEncoder())
        for root in roots:
            assert self.words(root).wait_idle(60)
        if drafted_from:
            until(self.workspace._reports_changes)
            assert self.workspace._datastore is not None
            assert self.workspace._datastore.wait_idle(60)

    def words(self, root: Path) -> FolderWords:
        words = self.workspace._repository.words_at(root / "main.py")
        assert words is not None
        return words

    def stamps(self, root: Path) -> dict[str, int | None]:
        index = self.words(root).index
        return {key: index.stamp(key) for key in index.known()}

    def agrees(self) -> bool:
        """Whether the words are those that a new scan finds, without one."""
        return all(self.stamps(root) == scanned(root, self.roots) for root in self.roots)


Open = Callable[..., Front]


def scanned(root: Path, roots: tuple[Path, ...]) -> dict[str, int | None]:
    words = FolderWords(root, ReadingRules(roots, SETTINGS))
    words.follow(words.rules)
    assert words.wait_idle(60)
    return {key: words.index.stamp(key) for key in words.index.known()}


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedStores:
    write(tmp_path / "stdlib", {"module.py": "common = 1\n"})
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path / "stdlib"))
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    for name in ("LEAST_BETWEEN_S", "LEAST_REPORTED_S"):
        monkeypatch.setattr(folder_words, name, math.inf)
    return SharedStores(tmp_path / "cache")


@pytest.fixture
def fronts(stores: SharedStores) -> Iterator[Open]:
    yield from opening(partial(Front, stores), lambda front: front.workspace.close(10))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, {"a.py": "a = 1\n", "pack/b.py": "b = 1\n", ".gitignore": "hidden.py\n", "hidden.py": "h = 1\n"})
    return folder


def test_every_kind_of_change_arrives(fronts: Open, root: Path, tmp_path: Path) -> None:
    front = fronts(root)

    def holds(*names: str) -> None:
        until(lambda: set(front.stamps(root)) == {".gitignore", *names})
        until(front.agrees)

    holds("a.py", "pack/b.py")
    write(root, {"new.py": "n = 1\n", "deep/er/new.py": "d = 1\n", "a.py": "a = 22\n"})
    holds("a.py", "pack/b.py", "new.py", "deep/er/new.py")
    (root / "deep").rename(root / "moved")
    holds("a.py", "pack/b.py", "new.py", "moved/er/new.py")
    (root / "moved").rename(tmp_path / "away")
    (root / "new.py").rename(root / ".env")
    holds("a.py", "pack/b.py")
    (tmp_path / "away").rename(root / "back")
    holds("a.py", "pack/b.py", "back/er/new.py")
    shutil.rmtree(root / "back")
    write(root, {".gitignore": "pack/\n"})
    holds("a.py", "hidden.py")
    write(root, {".fastcoderignore": "a.py\n", "sub/.gitignore": "*.log\n", "sub/c.log": "c\n", "sub/c.py": "c = 1\n"})
    holds("hidden.py", "sub/c.py", "sub/.gitignore", ".fastcoderignore")
    (root / ".gitignore").write_text("")
    (root / "sub/.gitignore").unlink()
    holds("hidden.py", "pack/b.py", "sub/c.py", "sub/c.log", ".fastcoderignore")


def test_a_file_that_gets_a_private_key_has_no_words(fronts: Open, root: Path) -> None:
    front = fronts(root)
    write(root, {"a.py": f"unheard_of = 1\n-----BEGIN RSA PRIVATE KEY-----\n{'x' * 64}\n"})
    until(front.agrees)
    words = front.words(root)
    assert words.index.best(words.terms.of("unheard_of"), 9) == []


@pytest.mark.parametrize("seed", range(3))
def test_any_changes_leave_what_a_scan_finds(fronts: Open, root: Path, seed: int) -> None:
    """In two folders, one of them inside the other."""
    chance, inner = random.Random(seed), root / "inner"
    write(inner, {"c.py": "c = 1\n"})
    front = fronts(root, inner)
    places = [root, root / "pack", root / "x", root / "x/y", inner, inner / "z"]
    names = ["a.py", "b.py", "data.json", ".env", "server.key", "hidden.py"]
    for number in range(60):
        path = chance.choice(places) / chance.choice(names)
        match chance.randrange(8):
            case 0:
                write(path.parent, {chance.choice((".gitignore", ".fastcoderignore")): f"# {number}\n{path.name}\n"})
            case 1 | 2:
                path.unlink(missing_ok=True)
            case 3 if (moved := chance.choice(places[1:4])).is_dir() and not path.is_relative_to(moved):
                target = path.parent / f"moved{number}"
                if target.parent.is_dir():
                    moved.rename(target)
            case 4 if chance.choice(places[2:4]).is_dir():
                shutil.rmtree(root / "x", ignore_errors=True)
            case _:
                write(path.parent, {path.name: f"value_{number} = {number}\n" * chance.randrange(1, 9)})
    until(front.agrees)


def test_fronts_and_folders_have_words_of_their_own(fronts: Open, root: Path, tmp_path: Path) -> None:
    write(tmp_path / "other", {"o.py": "o = 1\n"})
    one, two = fronts(root), fronts(tmp_path / "other", root)
    write(root, {"new.py": "n = 1\n"})
    write(tmp_path / "other", {"p.py": "p = 1\n"})
    until(one.agrees)
    until(two.agrees)
    assert "new.py" not in two.stamps(tmp_path / "other")
    one.workspace.close(10)
    write(root, {"later.py": "n = 1\n"})
    until(two.agrees)
    assert "later.py" not in one.stamps(root), "it is closed"


def test_other_rules_hold_at_once(fronts: Open, root: Path) -> None:
    front = fronts(root)
    words = front.words(root)
    front.workspace.change({root: replace(SETTINGS, context_enabled=False)})
    write(root, {"new.py": "n = 1\n"})
    front.workspace._repository.changed([root / "new.py"])
    assert words._thread is None, "code of this folder is never requested"
    front.workspace.change({root: SETTINGS})
    until(front.agrees)


def test_without_a_datastore_the_client_tells(fronts: Open, root: Path) -> None:
    front = fronts(root, drafted_from=False)
    write(root, {"new.py": "n = 1\n"})
    front.workspace.follow(FilesChanged((root / "new.py",)))
    until(front.agrees)
