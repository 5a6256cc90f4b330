"""Noise that is a function of numbers alone: SplitMix64 (Steele, Lea, Flood 2014) as a counter-based generator.

The same arguments give the same numbers on every machine and at any time. `core` itself does not import it, because it
needs numpy.
"""

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Float64s, Int64s

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_QUESTIONS = np.uint64(0xD1B54A32D192ED03)  # separates the stream of single numbers from that of tokens' noise


def gumbel(seed: int, position: int, ids: Int64s) -> Float64s:
    """Gumbel noise for token `ids` at `position`: SplitMix64 as a counter-based generator, one draw an id."""
    with np.errstate(over="ignore"):
        stream = _mix(seed_start(seed) + np.uint64(position) * _GOLDEN)
        bits = _mix(stream ^ (_mix(ids.astype(np.uint64) * _GOLDEN + _GOLDEN)))
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    noise: Float64s = -np.log(-np.log(uniform))
    return noise


def uniform(seed: int, position: int, index: int) -> float:
    """A number in (0, 1) for the `index`-th draw at `position`; independent of `gumbel`'s draws."""
    with np.errstate(over="ignore"):
        stream = _mix(seed_start(seed) ^ _QUESTIONS) + np.uint64(position) * _GOLDEN
        bits = _mix(_mix(stream) ^ (_mix(np.uint64(index) * _GOLDEN + _GOLDEN)))
    return (float(bits >> np.uint64(11)) + 0.5) * 2.0**-53


def seed_start(seed: int) -> np.uint64:
    """The start of a seed's stream; any integer is a seed."""
    with np.errstate(over="ignore"):
        return np.uint64(_mix(np.uint64(seed & 0xFFFFFFFFFFFFFFFF) + _GOLDEN))


def _mix(value: npt.NDArray[np.uint64] | np.uint64) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        mixed = np.asarray(value, dtype=np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
