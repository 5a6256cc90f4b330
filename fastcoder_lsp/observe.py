"""Spans of time inside one request, their percentiles over many, and counts; all times in milliseconds, CPU apart."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from typing import Any, Literal, get_args

from fastcoder_lsp.core import Counts

_KEPT = 512  # values of a span
Cause = Literal[
    "prompt",
    "prefill_used",
    "prefill_unused",
    "prefetch_used",
    "prefetch_unused",
    "steps_shown",
    "steps_unseen",
    "edits",
    "other",
]
"""Of CPU time that work for a client took: building prompts; prefilling for a question, and before any asked; steps;
next edits; the rest of the scheduler's work. Of prefills it matters whether a text with these tokens in its prompt was
shown, and of steps whether their own text was."""
SPANS = ("queue", "prompt", "prefill", "draft", "verify", "post", "total")


class _Measurement:
    """A timing context; a class, because a step enters two, and generators take three times as long."""

    __slots__ = ("_span", "_spans", "_start")

    def __init__(self, spans: "Spans", span: str) -> None:
        self._spans, self._span = spans, span

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *failure: object) -> None:
        self._spans.add(self._span, (time.perf_counter() - self._start) * 1e3)


class Spans:
    """The spans of one request, summed if a span is entered more than once."""

    def __init__(self) -> None:
        self._ms = dict.fromkeys(SPANS, 0.0)
        self.opened_s = time.perf_counter()
        """When the request arrived."""

    @classmethod
    def since(cls, opened_s: float) -> "Spans":
        """The spans of a request that arrived at `opened_s`."""
        spans = cls()
        spans.opened_s = opened_s
        return spans

    def measure(self, span: str) -> "_Measurement":
        """A context that adds the time spent inside to `span`, one of `SPANS`."""
        return _Measurement(self, span)

    def add(self, span: str, ms: float) -> None:
        """Add `ms` to `span`."""
        self._ms[span] += ms

    def elapsed_ms(self) -> float:
        """Milliseconds since the request arrived."""
        return (time.perf_counter() - self.opened_s) * 1e3

    def close(self) -> dict[str, float]:
        """All spans; `total` since the request arrived."""
        return self._ms | {"total": self.elapsed_ms()}


class SpanStatistics:
    """The last values of every span."""

    def __init__(self) -> None:
        self._values = {span: deque[float](maxlen=_KEPT) for span in SPANS}

    def record(self, ms: Mapping[str, float]) -> None:
        """Record the spans of one request."""
        for span, value in ms.items():
            self._values[span].append(value)

    def percentiles(self) -> dict[str, dict[str, float]]:
        """span → {p50, p95}, for the recorded spans."""
        return {
            span: {"p50": percentile(values, 0.50), "p95": percentile(values, 0.95)}
            for span, values in self._values.items()
            if values
        }


class Tally:
    """Counts since the start, and recent times; the caller holds the lock."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._by_source: Counter[str] = Counter()
        self._suppressed: Counter[str] = Counter()
        self._cpu_s = defaultdict[str, float](float)
        self._spans = SpanStatistics()

    def count(self, what: str, by: int = 1) -> None:
        """Add `by` to `what`, a field of `Statistics`."""
        self._counts[what] += by

    def suppressed(self, rule: str) -> None:
        """A rule suppressed a suggestion."""
        self._counts["empty"] += 1
        self._suppressed[rule] += 1

    def worked(self, counts: Counts, cpu_s: Mapping[Cause, float]) -> None:
        """Count the model's work, and its CPU seconds."""
        for name in ("steps", "tokens", "prefilled", "reused", "prefill_ms"):
            self._counts[name] += getattr(counts, name)
        self._counts["accepted_drafts"] += counts.accepted
        self._by_source.update(counts.by_source)
        for cause, seconds in cpu_s.items():
            self._cpu_s[cause] += seconds

    def took(self, ms: Mapping[str, float]) -> None:
        """Record the spans of an answered request."""
        self._spans.record(ms)

    def totals(self) -> dict[str, Any]:
        """All counts and times, by the fields of `Statistics`."""
        return dict(self._counts) | {
            "suppressed": dict(self._suppressed),
            "cpu_s": {cause: self._cpu_s[cause] for cause in get_args(Cause)},
            "accepted_by_source": dict(self._by_source),
            "ms": self._spans.percentiles(),
        }


def percentile(values: "deque[float] | list[float]", share: float) -> float:
    """The value below which `share` of `values` lies (nearest rank); `values` is not empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
