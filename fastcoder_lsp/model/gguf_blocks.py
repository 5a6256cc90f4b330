"""Blocks of a GGUF's weights as plain numbers: the same bits as the reference (`gguf.dequantize`), a few times as fast.

Other kinds are read by the `gguf` package, which is imported for them alone. Legend: N blocks, one after the other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Floats

Bytes = npt.NDArray[np.uint8]

F32, F16, BF16 = 0, 1, 30
_GROUP, _SUPER = 32, 256
_NIBBLE = np.uint8(15)


@dataclass(frozen=True, slots=True)
class GgmlType:
    """A kind of weights: `name` as people write it; `numbers` in a block, which takes `size` bytes."""

    name: str
    numbers: int
    size: int


def kind_of(number: int) -> GgmlType | None:
    """The kind that GGUF gives this number; None for one that cannot be read."""
    known = _OWN.get(number)
    return known[0] if known is not None else _kind_of_library(number)


def unfold(blocks: Bytes, number: int) -> Floats:
    """The numbers of whole blocks [N, size of a block] of a known kind, [N, numbers in a block]."""
    known = _OWN.get(number)
    if known is None:
        return _unfold_by_library(blocks, number)
    with np.errstate(all="ignore"):  # a damaged file's scales may be anything; readers check that numbers are finite
        return known[1](blocks)


def _halves(blocks: Bytes, start: int) -> Floats:
    return np.ascontiguousarray(blocks[:, start : start + 2]).view(np.float16).astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """[..., B] bytes as [..., 2B] numbers below 16: the lower halves first."""
    half = packed.shape[-1]
    found = np.empty((*packed.shape[:-1], 2 * half), dtype=np.uint8)
    np.bitwise_and(packed, _NIBBLE, out=found[..., :half])
    np.right_shift(packed, 4, out=found[..., half:])
    return found


def _fifth_bits(packed: Bytes) -> Bytes:
    """[N, 4] bytes as [N, 32] numbers that are 0 or 16."""
    bits = np.unpackbits(packed, axis=1, bitorder="little")
    return np.left_shift(bits, 4, out=bits)


def _times(scales: Floats, quanta: npt.NDArray[np.generic]) -> Floats:
    found: Floats = np.multiply(scales, quanta, dtype=np.float32)
    return found


def _q4_0(blocks: Bytes) -> Floats:
    quanta = _nibbles(blocks[:, 2:]).view(np.int8)
    quanta -= 8
    return _times(_halves(blocks, 0), quanta)


def _q4_1(blocks: Bytes) -> Floats:
    found = _times(_halves(blocks, 0), _nibbles(blocks[:, 4:]))
    return np.add(found, _halves(blocks, 2), out=found)


def _q5_0(blocks: Bytes) -> Floats:
    both = _nibbles(blocks[:, 6:])
    both |= _fifth_bits(blocks[:, 2:6])
    quanta = both.view(np.int8)
    quanta -= 16
    return _times(_halves(blocks, 0), quanta)


def _q5_1(blocks: Bytes) -> Floats:
    quanta = _nibbles(blocks[:, 8:])
    quanta |= _fifth_bits(blocks[:, 4:8])
    found = _times(_halves(blocks, 0), quanta)
    return np.add(found, _halves(blocks, 2), out=found)


def _q8_0(blocks: Bytes) -> Floats:
    return _times(_halves(blocks, 0), blocks[:, 2:].view(np.int8))


def _scales_and_least(packed: Bytes) -> tuple[Bytes, Bytes]:
    """The twelve bytes of eight 6-bit scales and eight 6-bit minima, as [N, 8] each."""
    low, least, rest = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([low & 63, (rest & 15) | ((low >> 2) & 48)], axis=1)
    return scales, np.concatenate([least & 63, (rest >> 4) | ((least >> 2) & 48)], axis=1)


def _by_groups(blocks: Bytes, quanta: Bytes) -> Floats:
    """Eight groups [N, 8, 32] of a super-block, each with its scale and minimum."""
    scales, least = _scales_and_least(blocks[:, 4:16])
    found = _times(_times(_halves(blocks, 0), scales)[:, :, None], quanta)
    np.subtract(found, _times(_halves(blocks, 2), least)[:, :, None], out=found)
    return found.reshape(len(blocks), _SUPER)


def _q4_k(blocks: Bytes) -> Floats:
    return _by_groups(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(blocks: Bytes) -> Floats:
    quanta = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    for group in range(8):
        quanta[:, group] |= ((blocks[:, 16:48] >> group) & 1) << 4
    return _by_groups(blocks, quanta)


def _q6_k(blocks: Bytes) -> Floats:
    quanta = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    upper = blocks[:, 128:192].reshape(-1, 2, 32)
    for group in range(4):
        quanta[:, :, group] |= ((upper >> (2 * group)) & 3) << 4
    signed = quanta.view(np.int8)
    signed -= 32
    scales = _times(_halves(blocks, 208), blocks[:, 192:208].view(np.int8))
    return _times(scales[:, :, None], signed.reshape(-1, 16, 16)).reshape(len(blocks), _SUPER)


def _f32(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view(np.float32)


def _f16(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view(np.float16).astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    found = np.ascontiguousarray(blocks).view(np.uint16).astype(np.uint32)
    return np.left_shift(found, 16, out=found).view(np.float32)


_OWN: Mapping[int, tuple[GgmlType, Callable[[Bytes], Floats]]] = {
    F32: (GgmlType("F32", 1, 4), _f32),
    F16: (GgmlType("F16", 1, 2), _f16),
    2: (GgmlType("Q4_0", _GROUP, 18), _q4_0),
    3: (GgmlType("Q4_1", _GROUP, 20), _q4_1),
    6: (GgmlType("Q5_0", _GROUP, 22), _q5_0),
    7: (GgmlType("Q5_1", _GROUP, 24), _q5_1),
    8: (GgmlType("Q8_0", _GROUP, 34), _q8_0),
    12: (GgmlType("Q4_K", _SUPER, 144), _q4_k),
    13: (GgmlType("Q5_K", _SUPER, 176), _q5_k),
    14: (GgmlType("Q6_K", _SUPER, 210), _q6_k),
    BF16: (GgmlType("BF16", 1, 2), _bf16),
}


def _kind_of_library(number: int) -> GgmlType | None:
    """The kind, if the library can turn it into plain numbers: tried on a block of zeros."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize  # noqa: PLC0415 most files hold none such

    try:
        known = GGMLQuantizationType(number)
        numbers, size = GGML_QUANT_SIZES[known]
        dequantize(np.zeros((1, size), np.uint8), known)
    except (ValueError, KeyError, NotImplementedError):
        return None
    return GgmlType(known.name, numbers, size)


def _unfold_by_library(blocks: Bytes, number: int) -> Floats:
    from gguf import GGMLQuantizationType, dequantize  # noqa: PLC0415 as above

    with np.errstate(all="ignore"):
        found: Floats = dequantize(np.ascontiguousarray(blocks), GGMLQuantizationType(number))
    return found
