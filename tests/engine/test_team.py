"""Threads of the engine: as many as there are fast cores."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from fastcoder_lsp.engine.int8 import team
from fastcoder_lsp.engine.int8.team import default_threads, fast_by_capacity, fast_cores


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        ([], None),
        ([1024] * 4, None),  # one kind
        ([446] * 4 + [1024] * 2, 2),  # RK3399: little ones first
        ([1024, 871, 871, 871, 323, 323, 323, 323], 4),  # one prime core, three large ones, four small ones
    ],
)
def test_small_cores_do_not_count(capacities: list[int], expected: int | None) -> None:
    """As the kernel compares them; one kind of core says nothing."""
    assert fast_by_capacity(capacities) == expected


def test_capacities_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every core that says it; a core that is switched off may say nothing."""
    monkeypatch.setattr(team, "is_arm", lambda: True)
    monkeypatch.setattr(sys, "platform", "linux")
    for number, text in enumerate(["446\n", "446\n", "1024\n", "odd"]):
        (tmp_path / f"cpu{number}").mkdir()
        (tmp_path / f"cpu{number}" / "cpu_capacity").write_text(text)
    (tmp_path / "cpufreq").mkdir()
    assert fast_cores(tmp_path) == 1
    assert fast_cores(tmp_path / "absent") is None


def test_macos_counts_them_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Level 0 is the performance cores'; a Mac of one kind, and one that does not say, has no such level."""
    monkeypatch.setattr(team, "is_arm", lambda: True)
    monkeypatch.setattr(sys, "platform", "darwin")
    for levels, cores, expected in ((2, 4, 4), (1, 8, None), (0, 0, None)):
        said = {b"hw.nperflevels": levels, b"hw.perflevel0.physicalcpu": cores}
        monkeypatch.setattr(team, "sysctl", said.__getitem__)
        assert fast_cores() == expected


def test_threads_are_at_most_the_fast_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """And at most what the process may use; other CPUs count as before."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: range(8), raising=False)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 6)
    monkeypatch.setattr(team, "fast_cores", lambda: 2)
    assert default_threads() == 2
    monkeypatch.setattr(team, "fast_cores", lambda: None)
    assert default_threads() == 6
