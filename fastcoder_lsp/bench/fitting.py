"""Learns what `auto` believes at first, from what the model said, and how well that carries over.

Replays `auto` over recordings with the model's rows (`rows`), collects what every source said of every token that
might have followed, and whether it did, and fits: the share of right guesses of each cell by counting, and how the
sources' log odds add up by logistic regression. Held out by repository: learnt on all but one, replayed on that one.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.bench.parts import BenchParts, load_parts
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.bench.rows import ReplayedStep, RowRecorder, RowTrace, replay_rows
from fastcoder_lsp.draft.auto import AutoDrafter, AutoParameters
from fastcoder_lsp.draft.auto_branches import TAIL, expand, new_branches
from fastcoder_lsp.draft.calibration import Priors, log_odds
from fastcoder_lsp.draft.evidence import (
    ABSENT,
    CELLS,
    FROZEN,
    LENGTHS,
    OUTDATED,
    PAIRS,
    PAST,
    RECYCLED,
    SOURCES,
    TEXT,
    TRAINED,
)
from fastcoder_lsp.draft.store import Pinned

WIDTHS = (8, 16, 64)
_ABLATED_AT = 16
_LEARNT_AT = 32
"""Rows of the replays that are learnt from."""
_AHEAD = 8
"""Tokens along what was said that each step is learnt from."""
_ROUNDS = 2
"""The second learns where the first one's drafts leave off, as in use."""
_STRENGTH, _RIDGE, _NEWTON_STEPS = 8.0, 1.0, 12


@dataclass(frozen=True, slots=True)
class Example:
    """The children of one node: what each source said of them (`evidence`), and which of them followed."""

    repo: str
    cell_BS: npt.NDArray[np.int32]
    right_B: npt.NDArray[np.bool_]


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    parts = load_parts(arguments)
    recorder = RowRecorder(parts)
    try:
        recorded = [trace for task in parts.chosen if (trace := recorder.trace(task)) is not None]
    finally:
        recorder.close()
    examples, priors = list[Example](), starting_priors()
    for _ in range(_ROUNDS):
        examples = [found for trace in recorded for found in collect(parts, trace, priors)]
        priors = fit(examples)
    if arguments.out:
        arguments.out.write_text(priors.to_json(), encoding="utf-8")
    repos = sorted({trace.task.repo for trace in recorded})
    held_out = {repo: fit([example for example in examples if example.repo != repo]) for repo in repos}
    figures = {
        str(width): {
            "learnt": mat(parts, recorded, dict.fromkeys(repos, priors), width, learns=False),
            "held_out": mat(parts, recorded, held_out, width, learns=False),
            "held_out_learning": mat(parts, recorded, held_out, width, learns=True),
        }
        for width in WIDTHS
    }
    print_table(
        f"{len(recorded)} tasks, product, cold: MAT of auto",
        ("nodes", "priors of all tasks", "of other repositories", "and learning on"),
        [(width, *row.values()) for width, row in figures.items()],
    )
    without = {
        name: mat(parts, recorded, held_out, _ABLATED_AT, learns=True, without=name)
        for name in SOURCES
        if name != "trained"
    }
    print_table(
        f"the same, {_ABLATED_AT} nodes, priors of other repositories and learning on",
        ("without", "MAT", "lost"),
        [(name, left, figures[str(_ABLATED_AT)]["held_out_learning"] - left) for name, left in without.items()],
    )
    if arguments.json:
        settings = {"model": parts.model, "tasks": [trace.task.id for trace in recorded]}
        write_json(arguments.json, "priors", settings, {"nodes": figures, "without": without})
    return 0


def mat(
    parts: BenchParts,
    traces: Sequence[RowTrace],
    priors: Mapping[str, Priors],
    nodes: int,
    *,
    learns: bool,
    without: str = "",
) -> float:
    """Tokens a step, pooled; each task with its repository's priors, and fresh counts for each repository."""
    steps = tokens = 0
    for repo, believed in priors.items():
        place: list[RowTrace] = []
        drafter = _drafter(parts, place, believed, learns=learns, without=without)
        for trace in traces:
            if trace.task.repo == repo:
                place[:] = [trace]
                steps += sum(1 for _ in replay_rows(drafter, trace, nodes))
                tokens += len(trace.tokens)
    return tokens / steps


def collect(parts: BenchParts, trace: RowTrace, priors: Priors) -> Iterator[Example]:
    """What was said of all tokens that might have followed, at each node along what did follow."""
    drafter = _drafter(parts, [trace], priors, learns=False)
    for step in replay_rows(drafter, trace, _LEARNT_AT):
        yield from _along(drafter, trace, step)


def _drafter(
    parts: BenchParts, place: list[RowTrace], priors: Priors, *, learns: bool, without: str = ""
) -> AutoDrafter:
    def pin(_document: str) -> Pinned:
        return parts.stores.pin(place[0].task)

    return AutoDrafter(pin, AutoParameters(width="fixed", learns=learns, without=without), priors=priors)


def _along(drafter: AutoDrafter, trace: RowTrace, step: ReplayedStep) -> Iterator[Example]:
    """Ask at the root, at what followed it, and so on, as far as any source knew what followed."""
    said, branches = drafter.said(), new_branches()
    count = len(said.asked.source_K)
    following, head = np.arange(-1, count, dtype=np.int32), np.int32(count - 1)
    context = np.array(step.context.tokens[: -TAIL - 1 : -1], np.int32)
    for depth, token in enumerate(trace.tokens[step.position : step.position + _AHEAD]):
        size = expand(context, said, following, head, np.int32(depth), branches)
        right_B = branches.token_B[:size] == token
        yield Example(trace.task.repo, branches.cell_BS[:size].copy(), right_B)
        if not right_B.any():
            return
        head = branches.rows_B[int(np.argmax(right_B))]
        context = np.concatenate([np.array([token], np.int32), context])[:TAIL]


def starting_priors() -> Priors:
    """Before anything was learnt: longer matches and larger shares are better, first ranks are best."""
    rate_SC = np.full((len(SOURCES), CELLS), 0.02, np.float32)
    by_length = (0.3, 0.5, 0.65, 0.75, 0.8, 0.85, 0.9, 0.95)
    by_share = (0.03, 0.1, 0.25, 0.5, 0.85)
    by_rank = (0.52, 0.15, 0.08, 0.05, 0.04, 0.03, 0.02, 0.02)
    cells = np.outer(by_length, np.repeat(by_share, 3)).ravel()
    rate_SC[: TRAINED + 1, : LENGTHS * 15] = np.minimum(cells, 0.97)
    for rank, rate in enumerate(by_rank):
        sure = np.linspace(1.3, 0.58, 10)
        rate_SC[[RECYCLED, PAIRS], rank * 10 : rank * 10 + 10] = np.minimum(rate * sure, 0.97)
        rate_SC[FROZEN, rank] = 0.3 * rate
    weights = np.full(len(SOURCES), 0.4, np.float32)
    return Priors(rate_SC, weights, np.zeros_like(weights), -0.5)


def fit(examples: Sequence[Example]) -> Priors:
    """Rates by counting on top of the starting ones; then how log odds add up, by logistic regression (Newton's steps).

    What cold tasks tell nothing of (history, outdated suggestions, trained sources) is believed like the running text.
    """
    told = [example for example in examples if len(example.cell_BS)]
    cell_XS = np.concatenate([example.cell_BS for example in told])
    right_X = np.concatenate([example.right_B for example in told]).astype(np.float64)
    rate_SC = starting_priors().rate_SC.copy()
    for source in range(len(SOURCES)):
        named = cell_XS[:, source] >= 0
        tried = np.bincount(cell_XS[named, source], minlength=CELLS)
        right = np.bincount(cell_XS[named, source], weights=right_X[named], minlength=CELLS)
        rate_SC[source] = (rate_SC[source] * _STRENGTH + right) / (_STRENGTH + tried)
    logits_SC = log_odds(rate_SC)
    odds_XS = np.where(cell_XS >= 0, logits_SC[np.arange(len(SOURCES)), np.maximum(cell_XS, 0)], 0.0)
    absent_XS = cell_XS >= ABSENT
    features = np.hstack([np.where(absent_XS, 0, odds_XS), np.where(absent_XS, odds_XS, 0), np.ones((len(odds_XS), 1))])
    weights = np.full(features.shape[1], 0.4)
    for _ in range(_NEWTON_STEPS):
        likely = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (likely - right_X) + _RIDGE * weights
        bend = (features * (likely * (1 - likely))[:, None]).T @ features + _RIDGE * np.eye(len(weights))
        weights -= np.linalg.solve(bend, slope)
    present_S, absent_S = weights[: len(SOURCES)].copy(), weights[len(SOURCES) : -1].copy()
    for source in (PAST, OUTDATED, TRAINED):
        rate_SC[source], present_S[source], absent_S[source] = rate_SC[TEXT], present_S[TEXT], absent_S[TEXT]
    return Priors(rate_SC, present_S.astype(np.float32), absent_S.astype(np.float32), float(weights[-1]))
