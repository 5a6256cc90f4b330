"""What is known of the store at one size: plain values, for the table and the report."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastcoder_lsp.observe import percentile


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The percentiles of one measurement."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Growth:
    """One size of the store: how it is built and searched, and what an update costs, settled and during a merge.

    `merge_tokens_per_s` is for the whole store woven from two halves; `segments` after all merges.
    """

    tokens: int
    segments: int
    build_tokens_per_s: float
    merge_tokens_per_s: float
    search_us: Percentiles
    search_merging_us: Percentiles
    update_ms: Percentiles
    update_merging_ms: Percentiles
    first_update_ms: float
    bytes_per_token: float
    resident_bytes_per_token: float


def percentiles(seconds: Sequence[float], scale: float) -> Percentiles:
    """p50 and p99, in another unit."""
    values = [value * scale for value in seconds]
    return Percentiles(percentile(values, 0.50), percentile(values, 0.99))
