"""What a model will take is told before it is fetched: by what is read, larger models in proportion."""

import tracemalloc

import pytest

from fastcoder_lsp.model import machine
from fastcoder_lsp.model.machine import ABOVE_LIMIT, WEIGHTS, expectation, expected_ms, read_speed


def test_a_token_takes_what_is_read() -> None:
    """A gigabyte at ten a second takes a tenth of one, and a little more; four bits a little over half of that."""
    found = expected_ms(1_000_000_000, 10e9)
    assert found["eight bits"] == pytest.approx(100 * ABOVE_LIMIT)
    assert found["four bits"] == pytest.approx(57.8125 * ABOVE_LIMIT)


def test_every_size_is_told() -> None:
    """A table, all of the family, from the smallest on; its columns stand below each other."""
    free, head, *rows = expectation(40e9, 5_000_000_000).split("\n")
    assert "5.0 GB" in free
    assert head.split() == ["model", "ms", "a", "token", "memory", "in", "four", "bits", "memory"]
    assert [row.split()[0] for row in rows] == list(WEIGHTS)
    assert {len(row) for row in (head, *rows)} == {len(head)}
    assert rows[0].split()[1:] == ["15", "0.8", "GB", "9", "0.6", "GB"]
    assert rows[-1].split()[1:] == ["212", "7.3", "GB", "123", "4.4", "GB"]


def test_memory_is_measured() -> None:
    """A speed that memory can have: more than a disk's, less than a cache's."""
    assert 1e7 < read_speed() < 1e13


def test_measuring_takes_a_part_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with many cores and little memory, what is read by all of them would be too much."""
    free = 64_000_000
    monkeypatch.setattr(machine, "available_bytes", lambda: free)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    tracemalloc.start()
    try:
        assert read_speed() > 0
        assert tracemalloc.get_traced_memory()[1] < free / 2
    finally:
        tracemalloc.stop()
