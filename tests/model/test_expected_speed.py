"""What a model will take is told before it is fetched: by what is read, larger models in proportion."""

import tracemalloc

import pytest

from fastcoder_lsp.model import expected_speed
from fastcoder_lsp.model.expected_speed import ABOVE_LIMIT, WEIGHTS, expectation, expected_ms, read_speed


def test_a_token_takes_what_is_read() -> None:
    """A gigabyte at ten a second takes a tenth of one, and a little more; four bits a little over half of that."""
    found = expected_ms(1_000_000_000, 10e9)
    assert found["eight bits"] == pytest.approx(100 * ABOVE_LIMIT)
    assert found["four bits"] == pytest.approx(57.8125 * ABOVE_LIMIT)


def test_every_size_is_told() -> None:
    """One line, all of the family, from the smallest on."""
    told = expectation(40e9, 5_000_000_000)
    assert told.count("\n") == 0
    assert [told.index(name.rpartition("-")[2]) for name in WEIGHTS] == sorted(
        told.index(name.rpartition("-")[2]) for name in WEIGHTS
    )
    assert "0.5B 15 ms (in four bits 9) and 0.8 GB (0.6)" in told
    assert "7B 212 ms (in four bits 123) and 7.3 GB (4.4)" in told
    assert told.endswith(" 5.0 GB are free.")


def test_memory_is_measured() -> None:
    """A speed that memory can have: more than a disk's, less than a cache's."""
    assert 1e7 < read_speed() < 1e13


def test_measuring_takes_a_part_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with many cores and little memory, what is read by all of them would be too much."""
    free = 64_000_000
    monkeypatch.setattr(expected_speed, "available_bytes", lambda: free)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    tracemalloc.start()
    try:
        assert read_speed() > 0
        assert tracemalloc.get_traced_memory()[1] < free / 2
    finally:
        tracemalloc.stop()
