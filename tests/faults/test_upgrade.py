"""Caches, settings and shared processes of version 0.1: used, or put aside with one message; never a fault."""

import base64
import hashlib
import io
import json
import logging
import random
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastcoder_lsp.cli.doctor import check_last_start
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.config import Settings, SettingsLayer, resolve
from fastcoder_lsp.draft import self_model
from fastcoder_lsp.draft.auto.evidence import EvidenceCounts
from fastcoder_lsp.draft.frozen_table import FrozenTable
from fastcoder_lsp.draft.registry import SPECIFICATIONS, change
from fastcoder_lsp.engine.int8.dot import AVX2
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.address import address_of, cache_part
from fastcoder_lsp.host.control import find_hosts
from fastcoder_lsp.host.spawn import FindOrStart
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.kernels import folder as files
from fastcoder_lsp.model.choice import read_measured
from fastcoder_lsp.model.store import remembered_sha256
from fastcoder_lsp.runtime import first_hour
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
from tests.host.test_process import Machine, gone, machine
from tests.index.test_datastore import library
from tests.index.toy_encoder import ToyEncoder
from tests.runtime.test_costs import Clocked
from tests.runtime.test_folder_words import kept_at

__all__ = ["library", "machine"]

COSTS = b'{"widths": [1, 2, 4, 8], "ms": [14.2, 16.2, 20.8, 28.9], "prefill_ms": 3.4}'
START = json.dumps({
    "model": "auto", "began": 1795649910.2, "process": 23470, "version": "0.1.0", "format": 1, "engine": "cpu-int8",
    "state": "ready", "stage": "", "stages": [{"name": "weights", "seconds": 1.5, "cpu_seconds": 0.6, "what": ""}],
    "seconds": 2.4, "cpu_seconds": 2.5, "compiled": 0, "reason": "", "hint": "", "notes": [],
}).encode()  # fmt: skip

SEGMENT = zlib.decompress(base64.b64decode(
    "eNpzc/YJDgh2dWdkgABWKM0EpWHiJlC6JL+SgRJQIe35lGEQAXR//wcCdiDNAcScUD4oLJiBODpaKVGvoFJJR0HJgAAAqjHUUTCKjQUAH3oYhA=="
))  # fmt: skip
"""A segment that 0.1 wrote; its format is older than ours."""
INT8 = "81455e8f4dae5a0d5fe1e8312d2cceb30f68f184083b0df6f0087ba12d784d46"
"""SHA-256 of the packed weights of `write_model` that 0.1 wrote."""
ENGINES = "auto cpu-int8 cpu-fp32 cpu-bf16 cpu-graphs cuda-bf16 cuda-graphs cuda-int8 cuda-int4 mps-bf16"
SETTINGS = f"""
enabled bool|model str|engine {ENGINES}|threads 0-256|gpu.memory_percent 1-100|gpu.strict bool
context_tokens 512-32768|drafter str|completion.max_tokens 1-1024|languages.include list|languages.exclude list
popup.enabled bool|popup.budget_ms 20-20000|budget.automatic_ms 0-60000|budget.invoked_ms 0-60000
budget.background_ms 0-60000|power normal saver|where.middle_of_word bool|where.secrets bool|where.rejections 0-1000
context.enabled bool|read.max_file_bytes 1-100000000|read.max_line_length 80-10000000|read.max_files 0-10000000
read.exclude list|index.enabled bool|index.dependencies bool|log.file str|log.level debug info warning error
"""
"""Names of 0.1's settings, each with its kind, limits or choices."""
DRAFTERS = """
none|lookup n_max=3|suffix factor=1.5|rest draft_tokens=32|fastcoder cut=5,skip=true|fastcoder-paper cache=false
cacheback follower_length=4|cacheback-dynamic|cacheback-frozen|recycling shares=0.5/0.2|recycling-paper k=4
jacobi length=8|auto width=cost,without=cache|sdsat k=3|lookahead window=10|lookahead-paper gram=4
"""
OLD_HOST = """
import os, socket, struct, sys
import msgspec
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print(flush=True)
fronts = [[21, [b"/w"], False, 3.0, False]]
replies = {"Hello": ["Welcome", 6, "0.1.0+old", os.getpid()],
           "AskFronts": ["Fronts", os.getpid(), "0.1.0+old", "old model", "cpu-int8", 2**20, 60.0, fronts, 0]}
while True:
    connected = listening.accept()[0]
    while head := connected.recv(4):
        name = msgspec.msgpack.decode(connected.recv(struct.unpack("!I", head)[0]))[0]
        if name == "Stop":
            sys.exit()
        data = msgspec.msgpack.encode(replies[name])
        connected.sendall(struct.pack("!I", len(data)) + data)
"""
"""The side of a shared process of 0.1 that speaks: protocol 6."""


@dataclass(frozen=True)
class Kept:
    """A kind of cache file at `where`, a pattern: `read` uses it as a start does, `used` says whether it did.

    `whole` is the file as 0.1 wrote it; None: as `read` writes it, for kinds of the same form or that 0.1 had not.
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
    return found, list(check_last_start())[:1] if found else []


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
        lambda cache: self_model.kept(cache, "digest"),
        lambda found: found.speed == 1.5,
    ),
    "digest": Kept(
        "digests/*", None, lambda cache: remembered_sha256(write_model(cache) / "config.json", cache / "digests"), bool
    ),
    "measured": Kept(
        "tuning/speeds.json", b'{"format": 1, "version": "0.0.9"}', read_measured, lambda found: found is None
    ),
    "use": Kept("tuning/use.json", b'{"offered": {"m": {"instead_of": "n"}}}', first_hour._read, bool),
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


@pytest.mark.parametrize("kind", ["costs", "last start", "learnt", "table", "skipped", "use"])
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


def test_kernels_of_the_first_layout_are_deleted(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    (cache / "move-dc4660218b600d6f10d00e27977aa8ea.kernel").write_bytes(b"a pickle")
    files.write(cache / "0.1.0-new" / "f.kernel", b"code")
    assert [path.name for path in cache.iterdir()] == ["0.1.0-new"]
    assert len(warned(caplog)) == 1


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
        assert datastore.settle(60)
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


def old_settings() -> Iterator[tuple[str, object]]:
    """Every setting of 0.1 with values of every form."""
    for row in SETTINGS.strip().replace("\n", "|").split("|"):
        name, kind, *more = row.split()
        low, dash, high = kind.partition("-")
        if dash and low.isdigit():
            yield from ((name, value) for value in (int(low), int(high), float(high)))
        else:
            forms: dict[str, list[object]] = {"bool": [True, False], "str": ["auto"], "list": [[], ["python"]]}
            yield from ((name, value) for value in forms.get(kind, [kind, *more]))
        yield name, None


def test_every_setting_is_still_taken() -> None:
    for name, value in old_settings():
        section, _, rest = name.partition(".")
        for values in ({name: value}, {section: {rest: value}} if rest else {}):
            settings, problems = resolve([SettingsLayer("settings", values, trusted=True)])
            assert not problems, name
            if values and value is not None:
                found = getattr(settings, name.replace(".", "_"))
                assert found == (tuple(value) if isinstance(value, list) else value)
    for row in DRAFTERS.strip().replace("\n", "|").split("|"):
        name, _, parameters = row.partition(" ")
        changes = dict(one.split("=") for one in parameters.split(",") if one)
        change(SPECIFICATIONS[name].parameters, name, changes)


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
def test_a_shared_process_is_left_alone_shown_and_stopped(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.folder.parent))
    machine.folder = machine.folder.parent / "fastcoder-lsp"
    machine.folder.mkdir(mode=0o700)
    machine.settings = replace(machine.settings, host_linger_s=60)
    own = address_of(replace(machine.settings, threads=3), "test", [machine.folder])
    places = [machine.folder / f"{cache_part()}{'0' * 10}.sock", machine.folder / f"{own.key}.sock"]
    old = [
        subprocess.Popen([sys.executable, "-c", OLD_HOST, str(place)], stdout=subprocess.PIPE, text=True)
        for place in places
    ]
    for process in old:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
    with pytest.raises(UsageError, match="updated after this editor started"):
        FindOrStart([machine.folder], machine.command, "test")(replace(machine.settings, threads=3))
    _, front = machine.asked()
    new = front.facts().process_id
    assert {host.process_id for host in find_hosts([machine.folder])} == {new, *(process.pid for process in old)}
    assert main(["host", "status"]) == 0
    said = capsys.readouterr().out
    assert f"process {old[0].pid}: old model on cpu-int8" in said
    assert "version 0.1.0+old" in said
    assert f"process {new}: scripted on none" in said
    front.close(1)
    assert main(["host", "stop"]) == 0
    said = capsys.readouterr().out
    assert all(f"process {process_id}: ended" in said for process_id in (new, *(process.pid for process in old)))
    assert [process.wait(10) for process in old] == [0, 0]
    assert gone(new)
