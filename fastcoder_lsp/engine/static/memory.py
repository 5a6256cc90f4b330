"""What a model takes of a GPU's memory, reckoned before anything is loaded, and what would fit in its place.

Pure arithmetic; allocates nothing.
"""

from collections.abc import Mapping

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.plan import LEAST_CONTEXT
from fastcoder_lsp.engine.static.products import GROUP
from fastcoder_lsp.errors import ResourceError

BITS: Mapping[str, float] = {"plain": 16, "int8": 8, "int4": 4 + 2 * 16 / GROUP}
"""Precision → bits of a weight in a layer; int4 has a scale and an offset for every group."""
KINDS: Mapping[str, str] = {"plain": "cuda-graphs", "int8": "cuda-int8", "int4": "cuda-int4"}


def weight_bytes(shape: Shape, precision: str, itemsize: int, *, own_head: bool) -> int:
    """Bytes of all weights; embedding and head keep their precision, and are one where the model has them so."""
    table = shape.vocabulary * shape.width
    bits = 8 * itemsize if precision == "plain" else BITS[precision]
    return int((shape.weight_count - table) * bits / 8) + (2 if own_head else 1) * table * itemsize


def least_bytes(shape: Shape, precision: str, itemsize: int, *, own_head: bool) -> int:
    """Without so much nothing can run: weights, and a KV cache for the smallest context."""
    cache = LEAST_CONTEXT * shape.slot_numbers * itemsize
    return weight_bytes(shape, precision, itemsize, own_head=own_head) + cache


def require(
    free: int,
    model: str,
    device: str,
    shape: Shape,
    precision: str,
    itemsize: int,
    *,
    own_head: bool,
    slots: int = LEAST_CONTEXT,
) -> None:
    """Raises ResourceError where a model cannot fit with a KV cache of so many slots, with the precisions that would.

    Those are the graph engine's, whose cache becomes smaller where need be.
    """
    cache = (slots - LEAST_CONTEXT) * shape.slot_numbers * itemsize
    needed = least_bytes(shape, precision, itemsize, own_head=own_head) + cache
    if needed <= free:
        return
    fitting = [
        f"engine {KINDS[other]} ({size / 1e9:.1f} GB)"
        for other in BITS
        if (size := least_bytes(shape, other, itemsize, own_head=own_head)) <= free and BITS[other] < BITS[precision]
    ]
    instead = f"Use {' or '.join(fitting)}, a smaller model" if fitting else "Use a smaller model"
    raise ResourceError(
        f"{model} needs {needed / 1e9:.1f} GB of memory; {free / 1e9:.1f} GB are free on {device}",
        f"{instead}, or a larger gpu.memory_percent.",
    )
