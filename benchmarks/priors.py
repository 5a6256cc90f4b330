"""`bench priors`: learns what the drafter `auto` believes at first, and shows how well that carries over.

`auto` is replayed over recordings. Every node along what the model said is an example: what every source said of every
token that might have followed, and which of them did. The fit is a multinomial logit over these, tempered towards what
was believed at the start. Held out by repository: learnt on all but one, replayed on that one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.drafting import TaskOptions, TaskParts, TaskPin, TaskStores, load_parts
from benchmarks.drafting.traces import ReplayedStep, RowRecorder, RowTrace, replay_rows
from benchmarks.harness import write
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.draft.auto import AutoDrafter, AutoParameters
from fastcoder_lsp.draft.auto.evidence import (
    CELLS,
    FROZEN,
    LENGTHS,
    OUTDATED,
    PAIRS,
    RECYCLED,
    SOURCES,
    TEXT,
    TRAINED,
    Priors,
)
from fastcoder_lsp.draft.auto.tree import TAIL, expand, new_branches
from fastcoder_lsp.kernels import kernel

EXAMPLE = "priors --limit 48 --out auto_priors.json"
WIDTHS = (8, 16, 64)
_ABLATED_AT = 16
_ROUNDS = 2
"""The second learns where the first one's drafts leave off, as in use."""
_LEARNT_AT = 32
"""Rows of the replays that are learnt from."""
_AHEAD = 8
"""Tokens along what was said that each step is learnt from."""
_RIDGE = 3.0
"""Weight of the squared distance of a cell's log odds from the starting ones, in the loss."""
_STEPS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Record what the model says with its best ids at 64 rows a step, once, and learn the priors of `auto` from it.

    Then replay `auto` with priors learnt on all repositories but the task's own.
    """

    out: Path | None = option("write the priors learnt from all tasks to FILE", None, metavar="FILE")


@dataclass(frozen=True, slots=True)
class PriorExample:
    """The children of one node: what each source said of them (`evidence`), and which of them followed."""

    repo: str
    cell_BS: npt.NDArray[np.int32]
    right_B: npt.NDArray[np.bool_]


def run(options: Options) -> int:
    parts = load_parts(options)
    recorder = RowRecorder(parts)
    try:
        recorded = [trace for task in parts.chosen if (trace := recorder.trace(task)) is not None]
    finally:
        recorder.close()
    examples, priors = list[PriorExample](), starting_priors()
    for _ in range(_ROUNDS):
        examples = list(collect(parts.stores, recorded, priors))
        priors = fit(examples)
    if options.out:
        options.out.write_text(priors.to_json(), encoding="utf-8")
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
    told = {"model": parts.model.files.name, "tasks": [trace.task.id for trace in recorded]}
    write(options, "priors", {"nodes": figures, "without": without}, **told)
    return 0


def mat(parts: TaskParts, traces: Sequence[RowTrace], priors: Mapping[str, Priors], nodes: int, **auto: Any) -> float:
    """Tokens a step, pooled; each task with its repository's priors, and fresh counts for each repository."""
    steps = tokens = 0
    for repo, believed in priors.items():
        pin = TaskPin(parts.stores, traces[0].task)
        drafter = auto_of(pin, believed, **auto)
        for trace in traces:
            if trace.task.repo == repo:
                pin.task = trace.task
                steps += sum(1 for _ in replay_rows(drafter, trace, nodes, trace.task.id))
                tokens += len(trace.tokens)
                drafter.forget(trace.task.id)
    return tokens / steps


def collect(stores: TaskStores, traces: Sequence[RowTrace], priors: Priors) -> Iterator[PriorExample]:
    """The evidence for all tokens that might have followed, at each node along the recorded text.

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
    return AutoDrafter(pin, AutoParameters(width="fixed", learns=learns, without=without), priors=priors)


def _along(drafter: AutoDrafter, trace: RowTrace, step: ReplayedStep) -> Iterator[PriorExample]:
    """Ask at the root, at what followed it, and so on, as far as any source knew what followed."""
    said, branches = drafter.evidence(), new_branches()
    count = len(said.continuations.source_K)
    following, head = np.arange(-1, count, dtype=np.int32), np.int32(count - 1)
    context = np.array(step.context.tokens[: -TAIL - 1 : -1], np.int32)
    for depth, token in enumerate(trace.tokens[step.position : step.position + _AHEAD]):
        size = _expand(context, said, following, head, np.int32(depth), branches)
        right_B = branches.token_B[:size] == token
        yield PriorExample(trace.task.repo, branches.cell_BS[:size].copy(), right_B)
        if not right_B.any():
            return
        head = branches.rows_B[int(np.argmax(right_B))]
        context = np.concatenate([np.array([token], np.int32), context])[:TAIL]


@kernel
def _expand(context: Any, said: Any, following: Any, head: Any, depth: Any, branches: Any) -> Any:
    return expand(context, said, following, head, depth, branches)


def starting_priors() -> Priors:
    """Before anything was learnt: longer matches and larger shares are better, first ranks are best."""
    rate_SC = np.full((len(SOURCES), CELLS), 0.5, np.float32)
    by_length = (0.3, 0.5, 0.65, 0.75, 0.8, 0.85, 0.9, 0.95)
    by_share = (0.03, 0.1, 0.25, 0.5, 0.85)
    by_rank = (0.52, 0.15, 0.08, 0.05, 0.04, 0.03, 0.02, 0.02)
    cells = np.outer(by_length, np.repeat(by_share, 3)).ravel()
    rate_SC[: TRAINED + 1, : LENGTHS * 15] = np.minimum(cells, 0.97)
    for rank, rate in enumerate(by_rank):
        sure = np.linspace(1.3, 0.58, 10)
        rate_SC[[RECYCLED, PAIRS], rank * 10 : rank * 10 + 10] = np.minimum(rate * sure, 0.97)
        rate_SC[FROZEN, rank] = 0.3 * rate
    # Several sources say the same most of the time, so each one's word counts for less than it would alone.
    return Priors((0.4 * np.log(rate_SC / (1 - rate_SC))).astype(np.float32), -0.5)


def fit(examples: Sequence[PriorExample]) -> Priors:
    """The likeliest log odds, where to stray from the starting ones costs `_RIDGE` (L-BFGS on a convex loss).

    Sources without examples (outdated suggestions, trained sources) get the running text's log odds.
    """
    import torch

    told = [example for example in examples if len(example.cell_BS)]
    start = starting_priors()
    # One more cell a source: it says nothing at all.
    begin_SC = torch.from_numpy(np.pad(start.logits_SC, ((0, 0), (0, 1))).astype(np.float64))
    table_SC, bias = begin_SC.clone().requires_grad_(), torch.tensor(start.bias, dtype=torch.float64)
    bias.requires_grad_()
    cell_XS = torch.from_numpy(np.concatenate([example.cell_BS for example in told]).astype(np.int64))
    cell_XS = torch.where(cell_XS < 0, CELLS, cell_XS) + torch.arange(len(SOURCES)) * (CELLS + 1)
    right_X = torch.from_numpy(np.concatenate([example.right_B for example in told]))
    node_X = torch.repeat_interleave(torch.tensor([len(example.cell_BS) for example in told]))
    optimiser = torch.optim.LBFGS([table_SC, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        logit_X = table_SC.ravel()[cell_XS].sum(1) + bias
        whole_N = torch.ones(len(told), dtype=torch.float64).index_add(0, node_X, logit_X.exp())
        surprise = whole_N.log().sum() - logit_X[right_X].sum()
        total = surprise + _RIDGE / 2 * (table_SC - begin_SC).square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    found_SC = table_SC.detach().numpy()
    silence_S1 = found_SC[:, -1:]
    logits_SC = (found_SC[:, :-1] - silence_S1).astype(np.float32)
    logits_SC[[OUTDATED, TRAINED]] = logits_SC[TEXT]
    return Priors(logits_SC, bias.item() + float(silence_S1.sum()))
