"""What is learnt from: `auto` replayed over recordings, and what its sources said along what the model said.

Every node along the way is an example: what every source said of every token that might have followed, and which of
them did.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.drafting.task_parts import TaskPin
from benchmarks.drafting.task_stores import TaskStores
from benchmarks.priors.fit import Example
from benchmarks.priors.row_traces import ReplayedStep, RowTrace, replay_rows
from fastcoder_lsp.draft.auto import AutoDrafter, AutoParameters
from fastcoder_lsp.draft.auto.evidence import Priors
from fastcoder_lsp.draft.auto.tree import TAIL, expand, new_branches
from fastcoder_lsp.kernels import kernel

_LEARNT_AT = 32
"""Rows of the replays that are learnt from."""
_AHEAD = 8
"""Tokens along what was said that each step is learnt from."""


def collect(stores: TaskStores, traces: Sequence[RowTrace], priors: Priors) -> Iterator[Example]:
    """What was said of all tokens that might have followed, at each node along what did follow.

    Each task twice: with caches that hold nothing, and with what the earlier tasks of its file left.
    """
    pin = TaskPin(stores, traces[0].task)
    for warm in (False, True):
        drafter = auto_of(pin, priors, learns=False)
        for trace in sorted(traces, key=lambda trace: (trace.task.repo, trace.task.path, trace.task.start)):
            pin.task = trace.task
            document = f"{trace.task.repo}/{trace.task.path}" if warm else trace.task.id
            for step in replay_rows(drafter, trace, _LEARNT_AT, document):
                yield from _along(drafter, trace, step)
            if not warm:
                drafter.forget(document)


def auto_of(pin: TaskPin, priors: Priors, *, learns: bool, without: str = "") -> AutoDrafter:
    """`auto` at a fixed width, over the stores that `pin` gives."""
    return AutoDrafter(pin, AutoParameters(width="fixed", learns=learns, without=without), priors=priors)


def _along(drafter: AutoDrafter, trace: RowTrace, step: ReplayedStep) -> Iterator[Example]:
    """Ask at the root, at what followed it, and so on, as far as any source knew what followed."""
    said, branches = drafter.said(), new_branches()
    count = len(said.asked.source_K)
    following, head = np.arange(-1, count, dtype=np.int32), np.int32(count - 1)
    context = np.array(step.context.tokens[: -TAIL - 1 : -1], np.int32)
    for depth, token in enumerate(trace.tokens[step.position : step.position + _AHEAD]):
        size = _expand(context, said, following, head, np.int32(depth), branches)
        right_B = branches.token_B[:size] == token
        yield Example(trace.task.repo, branches.cell_BS[:size].copy(), right_B)
        if not right_B.any():
            return
        head = branches.rows_B[int(np.argmax(right_B))]
        context = np.concatenate([np.array([token], np.int32), context])[:TAIL]


@kernel
def _expand(context: Any, said: Any, following: Any, head: Any, depth: Any, branches: Any) -> Any:
    """An entry from Python to `expand`, which compiled code alone calls."""
    return expand(context, said, following, head, depth, branches)
