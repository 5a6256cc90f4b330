"""The fit: a multinomial logit over what every source said of each token that might have followed.

Owns the likelihood, tempered towards what was believed at the start, and what that is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

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

_RIDGE = 3.0
"""What a cell's log odds cost the likelihood for each square of their distance from the start."""
_STEPS = 40


@dataclass(frozen=True, slots=True)
class Example:
    """The children of one node: what each source said of them (`evidence`), and which of them followed."""

    repo: str
    cell_BS: npt.NDArray[np.int32]
    right_B: npt.NDArray[np.bool_]


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


def fit(examples: Sequence[Example]) -> Priors:
    """The likeliest log odds, where to stray from the starting ones costs `_RIDGE` (L-BFGS on a convex loss).

    What no task tells anything of (outdated suggestions, trained sources) is believed like the running text.
    """
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
