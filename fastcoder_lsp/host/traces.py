"""The trace of an answer as messages have it, and back: plain numbers and bytes, for a front knows no arrays.

What guesses were drawn from by chance stays with the engine: whoever shows a trace draws the tree alone.
"""

from collections.abc import Iterable

from fastcoder_lsp.core import DraftTree, StepTrace
from fastcoder_lsp.host.host_messages import StepAt


def trace_message(trace: Iterable[StepTrace]) -> tuple[StepAt, ...]:
    """Every step of a trace."""
    return tuple(
        StepAt(
            step.tokens,
            step.tree.tokens,
            step.tree.parents,
            step.tree.pending,
            step.tree.sources,
            step.tree.matches,
            step.pieces,
            step.path,
        )
        for step in trace
    )


def trace_value(steps: Iterable[StepAt]) -> tuple[StepTrace, ...]:
    """The trace again, but for what was drawn."""
    return tuple(
        StepTrace(
            step.said,
            DraftTree(step.tokens, step.parents, step.pending, step.sources, step.matches),
            step.pieces,
            step.path,
        )
        for step in steps
    )
