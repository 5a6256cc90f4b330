"""The speed of a download and its remaining time, and the file that tells other processes."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

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

NOBODY = Dialogue(lambda _: None, lambda _: True, lambda _: None, lambda _: None)


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
    with recorded(tmp_path, "some/model", NOBODY) as told:
        told.advance(ProgressStep("some/model", 10, 40))
        told.advance(ProgressStep("converting", 1, 2, in_bytes=False))
        found = read_download(tmp_path, "some/model")
        assert found is not None
        assert (found.percent, found.process, found.under_way) == (25, os.getpid(), True)
        assert downloads(tmp_path) == [found]
    assert downloads(tmp_path) == []


def test_a_download_that_failed_is_not_under_way_although_its_process_runs(tmp_path: Path) -> None:
    """`model pull` may go on with a replacement from the package index."""
    with suppress(OSError), recorded(tmp_path, "some/model", NOBODY) as told:
        told.advance(ProgressStep("some/model", 10, 40))
        raise OSError
    found = read_download(tmp_path, "some/model")
    assert found is not None
    assert (found.done, found.under_way) == (10, False)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"name": "x", "done": 9, "total": 1}', b"\xff" * 50])
def test_a_damaged_file_is_none(tmp_path: Path, content: bytes) -> None:
    with recorded(tmp_path, "some/model", NOBODY) as told:
        told.advance(ProgressStep("some/model", 1, 2))
        (path,) = (tmp_path / "downloads").iterdir()
        path.write_bytes(content)
        assert read_download(tmp_path, "some/model") is None


def test_a_download_that_broke_off_has_no_speed() -> None:
    assert Download("some/model", 1_000_000, 4_000_000, 2e6, process=1 << 22).told == "1 MB of 4 MB"
