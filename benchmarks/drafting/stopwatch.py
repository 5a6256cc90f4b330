"""A drafter with a clock: what its own work costs in a step.

Owns the measured times; the drafter's answers pass through unchanged.
"""

import time
from dataclasses import replace

from fastcoder_lsp.core import Draft, DraftContext, Drafter, DraftTree, Verified
from fastcoder_lsp.draft.none import NoDrafter


class Stopwatch(NoDrafter):
    """Times `propose` and `observe` of a drafter; `us` holds the sum of both for each step, in microseconds."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__()
        # Whoever is told late would have its clock stopped in another step.
        self.name, self.traits = drafter.name, replace(drafter.traits, late=False)
        self.us: list[float] = []
        self._drafter = drafter

    def begin(self, context: DraftContext) -> None:
        """A new decode starts with this prompt; not timed."""
        self._drafter.begin(context)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The drafter's draft; its time begins a step."""
        started = time.perf_counter_ns()
        draft = self._drafter.propose(context, nodes)
        self.us.append((time.perf_counter_ns() - started) / 1e3)
        return draft

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """What became of the last tree; its time ends the step."""
        started = time.perf_counter_ns()
        self._drafter.observe(tree, verified)
        self.us[-1] += (time.perf_counter_ns() - started) / 1e3

    def forget(self, document: str) -> None:
        """The document is closed."""
        self._drafter.forget(document)

    def rename(self, old: str, new: str) -> None:
        """The document has another URI."""
        self._drafter.rename(old, new)
