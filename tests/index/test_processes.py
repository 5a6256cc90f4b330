"""Several processes on one store, and processes that are killed while they write."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.index.part import FileRecord, IndexedFile
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.index.stored import SUFFIX
from tests.index import naive

KILLS, ALL_KILLS = 12, 200
# A file's tokens are a function of its name and version, so that any state can be checked.
WRITER = """
import itertools, random, sys
from pathlib import Path
from tests.index.test_processes import made
from fastcoder_lsp.index.store import Store

store = Store.open(Path(sys.argv[1]), "toy")
assert store.writable
chance = random.Random(int(sys.argv[2]))
print("ready", flush=True)
for version in itertools.count(1):
    names = chance.sample(range(40), 8)
    store.save([made(f"file{name}", version) for name in names[:3]])
    store.add_segment([made(f"file{name}", version) for name in names[3:]])
    store.remove([f"file{chance.randrange(40)}"])
    store.seal()
    while store.merge():
        pass
"""


def made(key: str, version: int) -> IndexedFile:
    tokens = np.random.default_rng([version, *key.encode()]).integers(0, 50, 400, dtype=np.int32)
    return IndexedFile(FileRecord(key, str(version), version, 400), tokens)


@pytest.mark.ci
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("kills", [KILLS, pytest.param(ALL_KILLS, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_killed_at_any_moment(kills: int, tmp_path: Path) -> None:
    chance, notices = random.Random(0), list[str]()
    for number in range(kills):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(chance.random() * 0.15)
            writer.send_signal(signal.SIGKILL)
        store = Store.open(tmp_path, "toy", notice=notices.append)
        assert (store.writable, notices, naive.faults(store.folder)) == (True, [], [])
        records = store.records()
        for key, tokens in store.pin().files().items():
            assert tokens.tolist() == made(key, records[key].modified_ns).tokens.tolist()
        # What the manifest does not name is gone, and so is what was half written.
        segments = len(store.status().segments)
        assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == segments
        assert not list(tmp_path.glob("*.tmp"))
        store.close()


def test_one_writes_and_the_other_follows(tmp_path: Path) -> None:
    first = Store.open(tmp_path, "toy")
    first.save([made("a", 1), made("b", 1)])
    second = Store.open(tmp_path, "toy")
    assert (first.writable, second.writable) == (True, False)
    assert second.pin().files() == {}
    first.seal()
    assert second.follow()
    assert not second.follow()
    assert set(second.pin().files()) == {"a", "b"}
    second.overlay(made("a", 5))
    second.save([made("c", 1)])
    second.seal()
    assert not second.merge()
    pinned = second.pin()
    first.save([made("a", 2), made("b", 2)])
    first.remove(["b"])
    first.seal()
    while first.merge():
        pass
    assert second.follow()
    assert {key: tokens.tolist() for key, tokens in second.pin().files().items()} == {
        "a": made("a", 5).tokens.tolist(),
        "c": made("c", 1).tokens.tolist(),
    }
    # What was pinned before is as it was, though its segments are deleted.
    assert pinned.files()["b"].tolist() == made("b", 1).tokens.tolist()
    second.drop_overlay("a")
    assert second.pin().files()["a"].tolist() == made("a", 2).tokens.tolist()
    assert not second.take_over()
    first.close()
    assert second.take_over()
    second.close()
    third = Store.open(tmp_path, "toy")
    assert set(third.pin().files()) == {"a", "c"}
    third.close()


def test_a_reader_while_the_writer_merges(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            reader = Store.open(tmp_path, "toy", reader=True)
            end, changes = time.monotonic() + 60, 0
            while changes < 40 and time.monotonic() < end:
                changes += reader.follow()
                records = reader.records()
                for key, tokens in reader.pin().files().items():
                    assert tokens.tolist() == made(key, records[key].modified_ns).tokens.tolist()
            assert changes == 40
        finally:
            writer.kill()
