"""Replaying drafters over recorded text: what would have been accepted, and what a draft costs.

Owns the arithmetic of acceptance without a model: a draft's path is accepted as far as it says what was recorded. It
goes through the same tree building as the loop, so what the loop would drop is dropped here.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.drafting.traces import Trace
from fastcoder_lsp.core import DraftContext, Drafter, DraftTree, Verified
from fastcoder_lsp.decode.healing import Healing
from fastcoder_lsp.decode.tree import build_tree

HEALED = Healing(b"", lambda _: b"", lambda _: np.zeros(0, np.int64))
"""Nothing to spell: the prompts of tasks end at a line's end."""


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass of a replay.

    Attributes:
        position: output tokens before it.
        emitted: tokens that it gave.
        drafted: nodes of the draft.
        us: microseconds of propose and observe.
        sources: of the accepted drafts.
        matches: of the accepted drafts.
    """

    position: int
    emitted: int
    drafted: int
    us: float
    sources: tuple[str, ...]
    matches: tuple[int, ...]


def replay(drafter: Drafter, trace: Trace, nodes: int, document: str, vocabulary: int) -> list[Step]:
    """Let `drafter` draft along a recording.

    Args:
        drafter: keeps what it learnt for `document` afterwards.
        trace: the recording.
        nodes: rows of one verification, the root included.
        document: the URI that the drafter keeps its caches under.
        vocabulary: ids from 0 up to this one exist.
    """
    said, position, steps = trace.tokens, 0, []
    tokens = list(trace.prompt)
    drafter.begin(DraftContext(tokens, len(trace.prompt), document))
    while position < len(said):
        context = DraftContext(tokens, len(trace.prompt), document)
        started = time.perf_counter_ns()
        draft = drafter.propose(context, nodes - 1)
        proposed = time.perf_counter_ns()
        tree = build_tree(tokens[-1:], draft, room=nodes - 1, vocabulary=vocabulary, healing=HEALED)
        verified = accept(tree, said[position:])
        observing = time.perf_counter_ns()
        drafter.observe(tree, verified)
        us = (time.perf_counter_ns() - observing + proposed - started) / 1e3
        sources = tuple(tree.sources[node] for node in verified.path)
        matches = tuple(tree.matches[node] for node in verified.path)
        steps.append(Step(position, len(verified.emitted), len(tree) - 1, us, sources, matches))
        tokens += verified.emitted
        position += len(verified.emitted)
    return steps


def accept(tree: DraftTree, truth: Sequence[int]) -> Verified:
    """What an engine that says `truth` would accept of `tree`; the text's last token is never followed by another."""
    below, node, path = tree.children(), tree.pending - 1, []
    for token in truth[:-1]:
        child = below.get(node, {}).get(token)
        if child is None:
            break
        path.append(child)
        node = child
    return Verified(tuple(path), tuple(truth[: len(path) + 1]))
