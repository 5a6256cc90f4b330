"""Spans of time inside one request, and their percentiles over many.

Owns the clock and the arithmetic; decides nothing. Every span of a request is named here, in milliseconds.
"""

import time
from collections import deque
from collections.abc import Mapping

SPANS = ("queue", "prompt", "prefill", "draft", "verify", "post", "total")


class _Measured:
    """The context of one measurement; a class, for a step enters two, and generators take thrice as long."""

    __slots__ = ("_span", "_spans", "_start")

    def __init__(self, spans: "Spans", span: str) -> None:
        self._spans, self._span = spans, span

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *failure: object) -> None:
        self._spans.add(self._span, (time.perf_counter() - self._start) * 1e3)


class Spans:
    """The spans of one request, summed where a span is entered more than once.

    Args:
        waited_ms: how long ago the request came in.
    """

    def __init__(self, waited_ms: float = 0.0) -> None:
        self._ms = dict.fromkeys(SPANS, 0.0)
        self._opened = time.perf_counter() - waited_ms / 1e3

    def measure(self, span: str) -> "_Measured":
        """A context that adds the time spent inside to `span`, which is one of `SPANS`."""
        return _Measured(self, span)

    def add(self, span: str, ms: float) -> None:
        """Add `ms` to `span`."""
        self._ms[span] += ms

    def elapsed_ms(self) -> float:
        """Milliseconds since the request came in."""
        return (time.perf_counter() - self._opened) * 1e3

    def close(self) -> dict[str, float]:
        """All spans in milliseconds, `total` since the request came in."""
        return self._ms | {"total": self.elapsed_ms()}


class SpanStatistics:
    """The last `capacity` values of every span."""

    def __init__(self, capacity: int = 512) -> None:
        self._values = {span: deque[float](maxlen=capacity) for span in SPANS}

    def record(self, ms: Mapping[str, float]) -> None:
        """Take in the spans of one request."""
        for span, value in ms.items():
            self._values[span].append(value)

    def percentiles(self) -> dict[str, dict[str, float]]:
        """span → {p50, p95} in milliseconds, for the spans that were recorded."""
        return {
            span: {"p50": percentile(values, 0.50), "p95": percentile(values, 0.95)}
            for span, values in self._values.items()
            if values
        }


def percentile(values: "deque[float] | list[float]", share: float) -> float:
    """The value below which `share` of `values` lies (nearest rank); `values` is not empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
