"""What the service counts: requests by how they were answered, and the model's work.

Owns counting only; whoever calls holds the lock.
"""

from collections import Counter
from collections.abc import Mapping

from fastcoder_lsp.completion.status import Statistics
from fastcoder_lsp.completion.task import Work
from fastcoder_lsp.core import EngineInfo
from fastcoder_lsp.observe import SpanStatistics


class Tally:
    """Counts since the start, times of late."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._by_source: Counter[str] = Counter()
        self._suppressed: Counter[str] = Counter()
        self._spans = SpanStatistics()

    def count(self, what: str, by: int = 1) -> None:
        """One more of `what`, a field of `Statistics`."""
        self._counts[what] += by

    def suppressed(self, rule: str) -> None:
        """A rule kept a suggestion away."""
        self._counts["empty"] += 1
        self._suppressed[rule] += 1

    def worked(self, work: Work) -> None:
        """The model did this."""
        for name in ("steps", "tokens", "prefilled", "reused"):
            self._counts[name] += getattr(work, name)
        self._counts["accepted_drafts"] += work.accepted
        self._by_source.update(work.by_source)

    def took(self, ms: Mapping[str, float]) -> None:
        """The spans of one answered request."""
        self._spans.record(ms)

    def statistics(self, info: EngineInfo | None, resident_bytes: int, budget_ms: Mapping[str, float]) -> Statistics:
        """All of it."""
        return Statistics(
            model=info.model if info else "",
            engine=info.name if info else "",
            resident_bytes=resident_bytes,
            suppressed=dict(self._suppressed),
            budget_ms=budget_ms,
            accepted_by_source=dict(self._by_source),
            ms=self._spans.percentiles(),
            **dict(self._counts),
        )
