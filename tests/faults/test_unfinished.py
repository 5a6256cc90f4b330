"""What killed processes leave is deleted by the next one, and what another one is just writing is not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.engine.int8.dot import kinds_here
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
from fastcoder_lsp.model.store import ModelStore
from tests.engine.tiny_models import shape_of
from tests.fake_engine import silent
from tests.faults.small_model import write_model
from tests.faults.stranger import HANG_S, ROOT

PACK = """
import sys, time
from pathlib import Path
from fastcoder_lsp.engine.architecture import fast_shape, read_config
from fastcoder_lsp.engine.int8.dot import kinds_here
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
folder, cache = Path(sys.argv[1]), Path(sys.argv[2])

def told(share, what):
    if what.startswith('converting'):
        print('converting', flush=True)
        sys.stdin.readline()

load_arrays(WeightsRequest(folder, fast_shape(read_config(folder)), kinds_here()[0], 'digest', cache), told)
print('done', flush=True)
"""


def packing(folder: Path, cache: Path) -> "subprocess.Popen[str]":
    """A process in the middle of writing packed weights: it goes on when a line is written to it."""
    process = subprocess.Popen(
        [sys.executable, "-c", PACK, str(folder), str(cache)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "converting\n"
    return process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def test_a_conversion_that_was_killed_leaves_nothing_for_good(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with packing(folder, cache) as process:
        assert list((cache / "int8").glob("*.partial"))
        os.kill(process.pid, signal.SIGKILL)
    arrays = load_arrays(WeightsRequest(folder, shape_of(folder), kinds_here()[0], "digest", cache), silent)
    assert arrays["norm"].all()
    names = [path.suffix for path in (cache / "int8").iterdir()]
    assert sorted(names) == [".lock", ".safetensors"]


def test_a_conversion_under_way_is_waited_for(folder: Path, tmp_path: Path) -> None:
    cache, said = tmp_path / "cache", list[str]()
    with packing(folder, cache) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def tell(_share: float, what: str) -> None:
            said.append(what)
            if "waiting" in what and process.stdin is not None and not process.stdin.closed:
                assert list((cache / "int8").glob("*.partial")), "it is still being written"
                process.stdin.write("\n" * 1000)
                process.stdin.close()

        load_arrays(WeightsRequest(folder, shape_of(folder), kinds_here()[0], "digest", cache), tell)
        assert "done" in process.stdout.read()
        process.wait(HANG_S)
    assert said[0].startswith("waiting for another process")
    assert not [text for text in said if text.startswith("converting")]


def test_weights_that_cannot_be_kept_are_made_in_memory(folder: Path, tmp_path: Path) -> None:
    shape, kind = shape_of(folder), kinds_here()[0]
    kept = load_arrays(WeightsRequest(folder, shape, kind, "digest", tmp_path / "cache"), silent)
    (tmp_path / "file").touch()
    notes: list[str] = []
    made = load_arrays(WeightsRequest(folder, shape, kind, "digest", tmp_path / "file"), silent, note=notes.append)
    assert {name: (array.dtype.itemsize, array.tobytes()) for name, array in made.items()} == {
        name: (array.dtype.itemsize, array.tobytes()) for name, array in kept.items()
    }
    assert len(notes) == 1
    assert "every start converts them again" in notes[0]


def test_remains_of_a_killed_conversion_are_deleted(tmp_path: Path) -> None:
    """By the lock of whoever makes it, which the system takes from who dies."""
    store = ModelStore.at(tmp_path)
    store.open()
    left, under_way = store.root / "work" / "convert-0123-abcdefgh", store.root / "work" / "convert-4567-abcdefgh"
    for folder in (left, under_way):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(bytes(1000))
    with store.lock("convert-4567", lambda: None):
        store.sweep()
        assert not left.exists()
        assert under_way.exists()
    store.sweep()
    assert not under_way.exists()
