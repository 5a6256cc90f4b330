"""Damaged cache files and those of another format: made anew, with one message."""

import base64
import hashlib
import io
import json
import logging
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastcoder_lsp.cli.doctor import check_last_start
from fastcoder_lsp.config import Settings
from fastcoder_lsp.draft.auto.evidence import EvidenceCounts
from fastcoder_lsp.draft.frozen_table import FrozenTable
from fastcoder_lsp.engine.int8.dot import AVX2
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.kernels import folder as files
from fastcoder_lsp.model import skip_sets
from fastcoder_lsp.model.choice import read_measured
from fastcoder_lsp.model.store import remembered_sha256
from fastcoder_lsp.runtime.costs import step_costs
from fastcoder_lsp.runtime.start_record import read_start
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.common_code import STANDARD_LIBRARY
from fastcoder_lsp.workspace.datastore import Datastore
from fastcoder_lsp.workspace.shared_stores import SharedStores
from tests.engine.tiny_models import shape_of
from tests.fake_engine import silent
from tests.faults.small_model import write_model
from tests.faults.stranger import Stranger
from tests.index.test_datastore import library
from tests.index.toy_encoder import ToyEncoder
from tests.runtime.test_costs import Clocked
from tests.runtime.test_folder_words import kept_at

__all__ = ["library"]

COSTS = b'{"widths": [1, 2, 4, 8], "ms": [14.2, 16.2, 20.8, 28.9], "prefill_ms": 3.4}'
START = json.dumps({
    "model": "auto", "began": 1795649910.2, "process": 23470, "version": "0.1.0", "format": 1, "engine": "cpu-int8",
    "state": "ready", "stage": "", "stages": [{"name": "weights", "seconds": 1.5, "cpu_seconds": 0.6, "what": ""}],
    "seconds": 2.4, "cpu_seconds": 2.5, "compiled": 0, "reason": "", "hint": "", "notes": [],
}).encode()  # fmt: skip

SEGMENT = zlib.decompress(base64.b64decode(
    "eNpzc/YJDgh2dWdkgABWKM0EpWHiJlC6JL+SgRJQIe35lGEQAXR//wcCdiDNAcScUD4oLJiBODpaKVGvoFJJR0HJgAAAqjHUUTCKjQUAH3oYhA=="
))  # fmt: skip
"""A segment of another format."""
INT8 = "81455e8f4dae5a0d5fe1e8312d2cceb30f68f184083b0df6f0087ba12d784d46"
"""SHA-256 of the packed weights of `write_model`."""


@dataclass(frozen=True)
class Kept:
    """A kind of cache file at `where`, a pattern: `read` uses it as a start does, `used` says whether it did.

    `whole` is the whole file; None: as `read` writes it.
    """

    where: str
    whole: bytes | None
    read: Callable[[Path], Any]
    used: Callable[[Any], bool]

    def put(self, cache: Path, damage: Callable[[bytes], bytes]) -> None:
        """Put the file, damaged, where `read` looks for it."""
        self.read(cache)
        path = next(cache.glob(self.where), cache / self.where)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(damage(path.read_bytes() if self.whole is None else self.whole))


def archive(*, compressed: bool = False, **arrays: Any) -> bytes:
    content = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(content, **arrays)
    return content.getvalue()


def costs(cache: Path) -> Any:
    engine = Clocked()
    return step_costs(engine, "model", cache, silent, engine.clock)


def last_start(cache: Path) -> Any:
    """What `doctor` says of it, too."""
    found = read_start(cache)
    return found, list(check_last_start(Settings()))[:1] if found else []


def tokens(cache: Path) -> Any:
    return Tokenizer.load(write_model(cache / "model"), cache / "tokenizers").encode("ab")


def packed(cache: Path) -> Any:
    folder = write_model(cache / "model")
    load_arrays(WeightsRequest(folder, shape_of(folder), AVX2, "digest", cache), silent, note=logging.warning)
    [path] = (cache / "int8").glob("0bf474896363505e5ea5e5d6ace8ebfb-v1-x1-f16.safetensors")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def words(cache: Path) -> Any:
    (cache / "repository").mkdir(exist_ok=True)
    (cache / "repository" / "a.py").write_text("word = 1\n", encoding="utf-8")
    return len(kept_at(cache / "repository", cache / "words.bin").index)


KINDS = {
    "costs": Kept("costs/*.json", COSTS, costs, lambda found: found.ms[0] == 14.2),
    "last start": Kept("starts/last.json", START, last_start, lambda found: found[0].seconds == 2.4),
    "learnt": Kept(
        "learnt.npz",
        archive(compressed=True, version=np.int64(2), counts=np.ones((3, 9, 136), np.float32)),
        lambda cache: EvidenceCounts.load(cache / "learnt.npz"),
        lambda found: found.tried_SC.all(),
    ),
    "table": Kept(
        "table.npz",
        archive(
            shape=np.array([1, 1, 4]),
            identity=np.frombuffer(b"toy", np.uint8),
            keys=np.array([5]),
            starts=np.array([0, 1]),
            followers=np.array([[6, 7, 8]], np.int32),
        ),
        lambda cache: FrozenTable.load(cache / "table.npz", "toy"),
        lambda found: list(found.query((5,))) == [(6, 7, 8)],
    ),
    "tokenizer": Kept("tokenizers/*.npz", None, tokens, lambda found: len(found) == 2),
    "int8": Kept("int8/*.safetensors", None, packed, lambda found: found == INT8),
    "words": Kept("words.bin", None, words, lambda found: found == 1),
    "kernel": Kept(
        "kernels/v/f.kernel",
        files.MAGIC + hashlib.sha256(b"code").digest() + b"code",
        lambda cache: files.read(cache / "kernels" / "v" / "f.kernel"),
        lambda found: found == b"code",
    ),
    "skipped": Kept(
        "skipped/digest.json",
        b'{"format": 1, "digest": "digest", "skipped": [3], "speed": 1.5}',
        lambda cache: skip_sets.kept(cache, "digest"),
        lambda found: found.speed == 1.5,
    ),
    "digest": Kept(
        "digests/*", None, lambda cache: remembered_sha256(write_model(cache) / "config.json", cache / "digests"), bool
    ),
    "measured": Kept(
        "tuning/speeds.json", b'{"format": 1, "version": "0.0.9"}', read_measured, lambda found: found is None
    ),
}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda whole: whole[: len(whole) // 2],
    "garbage": lambda _: b"\0\xff{[",
    "deep": lambda _: b"[" * 100_000,
    "no table": lambda _: b"[]",
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    return tmp_path


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_file_is_used_or_replaced_once_told(kind: str, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = KINDS[kind]
    kept.put(cache, lambda whole: whole)
    assert kept.used(kept.read(cache))
    assert warned(caplog) == [] or kind == "measured"
    for name, damage in DAMAGES.items():
        kept.put(cache, damage)
        caplog.clear()
        kept.read(cache)
        assert len(warned(caplog)) == 1, (name, caplog.text)


@pytest.mark.parametrize("kind", ["costs", "last start", "learnt", "table", "skipped"])
def test_a_byte_that_was_changed_is_no_fault(kind: str, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Archives with one wrong bit raise eight kinds of errors, of zlib and struct too."""
    kept, chance = KINDS[kind], random.Random(kind)

    def changed(whole: bytes) -> bytes:
        place = chance.randrange(len(whole))
        return whole[:place] + bytes([whole[place] ^ chance.randrange(1, 256)]) + whole[place + 1 :]

    for _ in range(300):
        kept.put(cache, changed)
        caplog.clear()
        kept.read(cache)
        assert len(warned(caplog)) <= 1


@pytest.mark.usefixtures("library")
def test_an_index_and_common_code_are_built_again(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    body = '{"identity":"toy","source":"","generation":1,"complete":true,"segments":[{"name":"a.seg","dead":[]}]}'
    frame = {"version": 1, "crc": zlib.crc32(body.encode()), "body": body}
    (cache / "manifest.json").write_text(json.dumps(frame))
    (cache / "a.seg").write_bytes(SEGMENT)
    Store.open(cache, "toy").close()
    assert len(warned(caplog)) == 1
    (cache / "project").mkdir()
    for expected in (0, 1, 0):
        caplog.clear()
        datastore = Datastore({cache / "project": Settings()}, SharedStores(cache))
        datastore.start(ToyEncoder())
        assert datastore.wait_idle(60)
        datastore.stop()
        assert len(warned(caplog)) == expected, caplog.text
        [stored] = (cache / "corpora" / STANDARD_LIBRARY).rglob("*.seg")
        assert stored.read_bytes() != SEGMENT
        if not expected:
            stored.write_bytes(SEGMENT)


@pytest.mark.ci
def test_a_start_uses_nothing_of_a_damaged_cache(stranger: Stranger) -> None:
    options = ("--engine", "cpu-int8", "--drafter", "auto")
    stranger.works(*options)
    damaged = [path for path in stranger.cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert {"costs", "int8", "starts", "tokenizers"} <= {path.relative_to(stranger.cache).parts[0] for path in damaged}
    for number, path in enumerate(damaged):
        path.write_bytes(DAMAGES[("half", "garbage")[number % 2]](path.read_bytes()))
    stranger.works(*options)
