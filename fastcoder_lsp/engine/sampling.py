"""Chooses one token from one row of logits: greedily, or by noise that depends only on (seed, position).

Knows no tree. The Gumbel-max trick: the argmax of logits/temperature + Gumbel noise is a draw from their softmax, so
only the noise is random, and a row drawn in a tree gives the token that plain decoding draws.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.core.noise import gumbel

HEAD = 512
"""How many of the best tokens top-p sorts first."""
_FOLD = 64


def choose(
    logits_V: npt.NDArray[np.float32], sampler: Sampler, position: int, allowed: npt.NDArray[np.int64] | None = None
) -> int:
    """The next token. Ties go to the lowest id.

    Args:
        logits_V: one row.
        sampler: greedy if its temperature is 0.
        position: of the token to be chosen, counted from the start of the text.
        allowed: the only ids that may be chosen, in any order; None for all.
    """
    if allowed is None:
        ids: npt.NDArray[np.int64] | None = None
        values = logits_V
    else:
        assert len(allowed), "an empty set of allowed tokens leaves nothing to choose"
        ids = np.unique(allowed)
        values = logits_V[ids]
    if sampler.temperature <= 0:
        best = int(np.argmax(values))  # the first of equals
        return best if ids is None else int(ids[best])
    kept = _nucleus(values.astype(np.float64) / sampler.temperature, sampler)
    kept_ids = kept if ids is None else ids[kept]
    noisy = values[kept].astype(np.float64) / sampler.temperature + gumbel(sampler.seed, position, kept_ids)
    return int(kept_ids[int(np.argmax(noisy))])


def distribution(
    logits_V: npt.NDArray[np.float32], sampler: Sampler, allowed: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.float64]:
    """The probabilities [V] that `choose` draws by; the temperature is above 0."""
    assert sampler.temperature > 0, "greedy decoding draws nothing"
    ids = np.arange(len(logits_V)) if allowed is None else np.unique(allowed)
    scaled = logits_V[ids].astype(np.float64) / sampler.temperature
    kept = _nucleus(scaled, sampler)
    weights = np.exp(scaled[kept] - scaled[kept].max())
    probabilities_V = np.zeros(len(logits_V))
    probabilities_V[ids[kept]] = weights / weights.sum()
    return probabilities_V


def _nucleus(scaled: npt.NDArray[np.float64], sampler: Sampler) -> npt.NDArray[np.int64]:
    """Ascending indices that top-k and then top-p keep; ties at an edge go to the lower index."""
    count = len(scaled)
    top_k = min(sampler.top_k, count) if sampler.top_k > 0 else count
    if top_k == count and sampler.top_p >= 1.0:
        return np.arange(count, dtype=np.int64)
    if sampler.top_p >= 1.0:
        return np.sort(best_first(scaled, top_k))
    weights = np.exp(scaled - scaled.max())
    # A few hundred tokens nearly always hold the mass, so the whole vocabulary is rarely sorted.
    taken = min(HEAD, top_k)
    while True:
        order = best_first(scaled, taken)
        mass = weights.sum() if top_k == count else weights[best_first(scaled, top_k)].sum()
        held = np.cumsum(weights[order])
        if taken == top_k or held[-1] >= sampler.top_p * mass:
            return np.sort(order[held - weights[order] < sampler.top_p * mass] if sampler.top_p > 0 else order[:1])
        taken = top_k


def best_first(values: npt.NDArray[np.floating], count: int) -> npt.NDArray[np.int64]:
    """Indices of the `count` highest values, highest first, equal ones by index."""
    if count == 0 or count >= len(values):
        near = np.arange(len(values), dtype=np.int64)
    else:
        near = _near_best(values, count)
        near = near[values[near] >= _edge(values[near], count)]
    return near[np.argsort(-values[near], kind="stable")[:count]].astype(np.int64)


def _near_best(values: npt.NDArray[np.floating], count: int) -> npt.NDArray[np.int64]:
    """Ascending indices of the `count` highest values and all their equals; few where `values` are many.

    Folds the values into `_FOLD` lines and takes each column's maximum with a few wide operations: dropping the columns
    whose maximum is too low takes a sixth of the time of partitioning all values (54 µs a row of 151,936).
    """
    width = len(values) // _FOLD
    if width <= 4 * count:
        return np.arange(len(values), dtype=np.int64)
    highest = values[: _FOLD * width].reshape(_FOLD, width).max(axis=0)
    columns = np.flatnonzero(highest >= _edge(highest, count))
    folded = (np.arange(0, _FOLD * width, width)[:, None] + columns).ravel()
    return np.concatenate([folded, np.arange(_FOLD * width, len(values))])


def _edge(values: npt.NDArray[np.floating], count: int) -> Any:
    """The lowest of the `count` highest values."""
    return np.partition(values, len(values) - count)[len(values) - count]


def top_rows(logits_RV: npt.NDArray[np.float32], count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The `count` best ids and logits of every row, best first, equal ones by id."""
    count = min(count, logits_RV.shape[1])
    ids_RK = np.empty((len(logits_RV), count), dtype=np.int64)
    for row, logits_V in enumerate(logits_RV):
        ids_RK[row] = best_first(logits_V, count)
    return ids_RK, np.take_along_axis(logits_RV, ids_RK, axis=1)
