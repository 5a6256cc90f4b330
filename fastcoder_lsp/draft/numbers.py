"""The arithmetic that drafters with weights share, in numpy: products are BLAS's, all else a line each.

Owns no weights. A drafter's numbers change the speed only, so nothing here has to be the same to the bit everywhere.

Legend: T rows, E width, D tokens of a drafter's own vocabulary.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def silu(x: Floats) -> Floats:
    """x · sigmoid(x)."""
    with np.errstate(over="ignore"):  # of a large negative number e^-x is infinite, and x / ∞ is 0, as it should be
        opened: Floats = (x / (1 + np.exp(-x))).astype(np.float32, copy=False)
    return opened


def rms_norm(x_TE: Floats, weight_E: Floats, eps: float) -> Floats:
    """Each row over the root of its mean square, times the weights."""
    scale = 1 / np.sqrt(np.mean(np.square(x_TE), axis=-1, keepdims=True) + np.float32(eps))
    return (x_TE * scale * weight_E).astype(np.float32, copy=False)


def best_of(logits_TD: Floats, count: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """The `count` best columns of each row, best first, and the logarithms of their probabilities; [T, count] each."""
    count = min(count, logits_TD.shape[1])
    best = np.argpartition(-logits_TD, count - 1, axis=1)[:, :count]
    found = np.take_along_axis(logits_TD, best, 1)
    order = np.argsort(-found, axis=1, kind="stable")
    peak = logits_TD.max(axis=1, keepdims=True)
    total = np.log(np.exp(logits_TD - peak).sum(axis=1, keepdims=True)) + peak
    chosen = np.take_along_axis(best, order, 1).astype(np.int64)
    return chosen, (np.take_along_axis(found, order, 1) - total).astype(np.float32, copy=False)
