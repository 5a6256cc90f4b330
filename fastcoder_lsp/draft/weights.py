"""The arithmetic that drafters with weights share, in numpy: products are BLAS's, all else a line each.

Owns no weights. A drafter's numbers change the speed only, so nothing here has to be the same to the bit everywhere.

Legend: T rows, E width, D tokens of a drafter's own vocabulary.
"""

from collections.abc import Sequence

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
    normed: Floats = (x_TE * scale * weight_E).astype(np.float32, copy=False)
    return normed


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


def turned(x_THd: Floats, places_T: npt.NDArray[np.int64], theta: float) -> Floats:
    """Each head's halves rotated by the row's place (RoPE, Su et al. 2021, as Llama has it)."""
    half = x_THd.shape[-1] // 2
    speeds_d = theta ** (-np.arange(half, dtype=np.float64) / half)
    angles_Td = places_T[:, None] * speeds_d
    cos, sin = (part.astype(np.float32)[:, None] for part in (np.cos(angles_Td), np.sin(angles_Td)))
    low, high = x_THd[..., :half], x_THd[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def attention(q_THd: Floats, k_NKd: Floats, v_NKd: Floats, seen_TN: npt.NDArray[np.bool_]) -> Floats:
    """What each row mixes of the values it sees, [T, H·d]; every H / K query heads share a head of keys."""
    rows, heads, dim = q_THd.shape
    kv_heads = k_NKd.shape[1]
    group = heads // kv_heads
    q_KRd = q_THd.reshape(rows, kv_heads, group, dim).transpose(1, 0, 2, 3).reshape(kv_heads, rows * group, dim)
    scores_KRN = np.matmul(q_KRd, k_NKd.transpose(1, 2, 0)) * np.float32(dim**-0.5)
    scores_KRN = np.where(np.repeat(seen_TN, group, axis=0)[None], scores_KRN, np.float32(-1e30))
    scores_KRN = np.exp(scores_KRN - scores_KRN.max(axis=-1, keepdims=True))
    scores_KRN /= scores_KRN.sum(axis=-1, keepdims=True)
    mixed_KRd = np.matmul(scores_KRN, v_NKd.transpose(1, 0, 2))
    mixed = mixed_KRd.reshape(kv_heads, rows, group, dim).transpose(1, 0, 2, 3).reshape(rows, heads * dim)
    return np.ascontiguousarray(mixed, np.float32)


def agreed(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    one, other = np.asarray(left, np.int64), np.asarray(right, np.int64)
    shorter = min(len(one), len(other))
    differs = np.flatnonzero(one[:shorter] != other[:shorter])
    return int(differs[0]) if len(differs) else shorter
