"""Keyed noise on the device: the same draws as `engine.sampling`, in torch.

Owns the arithmetic: SplitMix64 in wrapping int64, whose logical shifts are arithmetic ones with the copies of the sign
masked off. A draw is a function of (seed, position, id) alone, so a row in a tree draws what plain decoding draws.
"""

from functools import lru_cache

import numpy as np
import torch

from fastcoder_lsp.core.noise import seed_start

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 over the golden ratio, as a wrapped int64."""


@lru_cache(maxsize=64)
def start_of(seed: int) -> int:
    """Where the stream of a seed starts, as a wrapped int64; every step asks, and most for the same."""
    return int(np.uint64(seed_start(seed)).astype(np.int64))


def keys_of(vocabulary: int, device: torch.device) -> torch.Tensor:
    """The part of every id's noise that depends on the id alone, [V]; made once."""
    return _mix(torch.arange(vocabulary, dtype=torch.int64, device=device) * GOLDEN + GOLDEN)


def gumbel(start: torch.Tensor, positions_T: torch.Tensor, keys_V: torch.Tensor) -> torch.Tensor:
    """Gumbel noise of every id at every position, float64 [T, V]."""
    streams_T = _mix(start + positions_T * GOLDEN)
    bits_TV = _mix(streams_T[:, None] ^ keys_V)
    uniform_TV = (_shift(bits_TV, 11).double() + 0.5) * 2.0**-53
    return -torch.log(-torch.log(uniform_TV))


def _mix(values: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014)."""
    values = (values ^ _shift(values, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    values = (values ^ _shift(values, 27)) * (0x94D049BB133111EB - (1 << 64))
    return values ^ _shift(values, 31)


def _shift(values: torch.Tensor, bits: int) -> torch.Tensor:
    return (values >> bits) & ((1 << (64 - bits)) - 1)
