"""The live index where the disk refuses: it is told once, nothing grows, and all is made up for."""

import errno
import shutil
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.background import MAX_PAUSE_S, MIN_PAUSE_S, RetryPolicy, each_once
from fastcoder_lsp.workspace.folders import store_folder
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.index.live import SETTINGS, Begin, expected, held, holds, until, write
from tests.index.toy_encoder import ToyEncoder


def test_a_full_disk_is_told_once_and_made_up_for(
    root: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(root, {f"f{number}.py": f"x = {number}\n" for number in range(40)})
    usage, full, said, tried = shutil.disk_usage, threading.Event(), list[str](), list[float]()

    def disk_usage(path: Path) -> object:
        tried.append(time.monotonic())
        total, used, free = usage(path)
        return shutil._ntuple_diskusage(total, total if full.is_set() else used, 0 if full.is_set() else free)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    full.set()
    live = begin(said)
    until(lambda: bool(said))
    live.document_changed(root / "open.py", "being = edited\n")
    until(lambda: str(root / "open.py") in held(live))
    time.sleep(1.5)
    assert len(tried) < 20 + 4 * (tried[-1] - tried[0])  # it looks once a second whether there is room
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.suffix in (".seg", ".tmp")]
    full.clear()
    until(lambda: len(held(live)) == 41)
    until(lambda: bool(list((tmp_path / "cache").rglob("*.seg"))))
    assert len(said) == 1
    assert "disk is full" in said[0]
    assert "Free some space" in said[0]


@pytest.mark.parametrize("kind", ["a file is in the way", "the lock is a folder"])
def test_without_a_usable_store_nothing_grows(kind: str, root: Path, begin: Begin, tmp_path: Path) -> None:
    cache, said = tmp_path / "cache", list[str]()
    if kind == "a file is in the way":
        cache.write_bytes(b"")
    else:
        (store_folder(cache, root, "toy") / "writer.lock").mkdir(parents=True)
    live = begin(said, cache)
    text = "value = compute(argument)\n" * 4_600
    live.document_changed(root / "a.py", text)
    until(lambda: bool(held(live)))
    tracemalloc.start()
    try:
        for number in range(3_000):
            live.document_changed(root / "a.py", f"{text}{number}\n")
        until(lambda: held(live) == expected(root, {"a.py": f"{text}2999\n"}), 60)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 10_000_000
    assert len(said) == 1
    assert str(cache) in said[0]


@pytest.mark.ci
def test_a_store_that_opens_late_has_all_documents(root: Path, begin: Begin, tmp_path: Path) -> None:
    cache, said = tmp_path / "cache", list[str]()
    cache.write_bytes(b"")
    write(root, {"a.py": "a = 1\n"})
    live = begin(said, cache)
    live.document_changed(root / "b.py", "b = 2\n")
    until(lambda: bool(said) and bool(held(live)))
    cache.unlink()
    until(holds(live, root, {"a.py": "a = 1\n", "b.py": "b = 2\n"}), 30)
    until(lambda: [store.writable for store in live.stores()] == [True])
    assert len(said) == 1


def test_a_folder_that_cannot_be_looked_at_hinders_no_other(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, real = tmp_path / "closed", ReadingRules.__init__
    write(root, {"a.py": "a = 1\n"})
    write(other, {"b.py": "b = 1\n"})

    def rules(self: ReadingRules, roots: tuple[Path, ...], settings: Settings) -> None:
        if settings.read_max_files == 7:
            raise PermissionError(errno.EACCES, "Permission denied", str(other))
        real(self, roots, settings)

    monkeypatch.setattr(ReadingRules, "__init__", rules)
    folders = {root: SETTINGS, other: replace(SETTINGS, read_max_files=7)}
    stores = {folder: Store.open(tmp_path / folder.name / "store", "toy") for folder in folders}
    intake, encoder = Intake(folders, stores), ChunkedEncoder(ToyEncoder())
    intake.store_few([root / "a.py", other / "b.py"], encoder)
    intake.overlay(other / "b.py", "unsaved = 1\n", encoder)
    assert set(stores[root].pin().files()) == {str(root / "a.py")}
    assert stores[other].pin().files() == {}
    for store in stores.values():
        store.close()


def test_trouble_is_tried_ever_less_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now, free, said = 1000.0, 0, list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - free, free))
    retry, pauses = RetryPolicy(tmp_path, each_once(said.append)), []
    for _ in range(10):
        assert retry.may_try()
        retry.failed(OSError(errno.ENOSPC, "No space left on device"))
        began = now
        while not retry.may_try():
            now += 1.0
        pauses.append(now - began)
    assert pauses[:3] == [MIN_PAUSE_S, 2 * MIN_PAUSE_S, 4 * MIN_PAUSE_S]
    assert pauses[-1] == MAX_PAUSE_S
    retry.failed(OSError(errno.ENOSPC, "No space left on device"))
    assert not retry.may_try()
    free = 50_000_000
    assert retry.may_try()
    retry.succeeded()
    retry.failed(OSError(errno.EROFS, "Read-only file system"))
    now += MIN_PAUSE_S
    assert retry.may_try()
    assert len(said) == 2
