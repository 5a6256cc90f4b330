"""A model's GPU memory, estimated before anything is loaded, and smaller choices that would fit."""

from collections.abc import Mapping

import torch

from fastcoder_lsp.engine.architecture import Shape, fast_shape
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.static.plan import LEAST_CONTEXT
from fastcoder_lsp.engine.static.weights import GROUP
from fastcoder_lsp.errors import ResourceError


def lacking_room(job: LoadJob) -> str | None:
    """Why `auto` cannot take the GPU, with choices that would fit; None if it can, or if the model is unknown.

    Counts the weights, the head separately even if it is tied, and the whole KV cache. A GPU that another process uses
    exclusively, or whose driver has another version, cannot be queried.
    """
    shape = fast_shape(job.config)
    if shape is None:
        return None
    try:
        free, total = torch.cuda.mem_get_info()
        free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # torch's cache of an earlier model
        allowed = int(min(free, total * job.options.gpu_memory_percent // 100))
        name, size = torch.cuda.get_device_name(), torch.bfloat16.itemsize
        precision = "plain" if job.options.bits is None else f"int{job.options.bits}"
        require(allowed, job.name, name, shape, precision, size, own_head=True, slots=job.capacity)
    except ResourceError as why:
        return f"{why.message}: {why.hint}"
    except RuntimeError as why:  # any CUDA error
        return f"its free memory is unknown: {why}".splitlines()[0]
    return None


BITS: Mapping[str, float] = {"plain": 16, "int8": 8, "int4": 4 + 2 * 16 / GROUP}
"""Precision → bits of a weight in a layer; int4 has a scale and an offset for every group."""
KINDS: Mapping[str, str] = {"plain": "cuda-graphs", "int8": "cuda-int8", "int4": "cuda-int4"}


def weight_bytes(shape: Shape, precision: str, itemsize: int, *, own_head: bool) -> int:
    """Bytes of all weights; embedding and head keep their precision, and are one where the model has them so."""
    table = shape.vocabulary * shape.width
    bits = 8 * itemsize if precision == "plain" else BITS[precision]
    return int((shape.weight_count - table) * bits / 8) + (2 if own_head else 1) * table * itemsize


def least_bytes(shape: Shape, precision: str, itemsize: int, *, own_head: bool) -> int:
    """The least that an engine needs: weights, and a KV cache for the smallest context."""
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
    """Raises ResourceError if a model cannot fit with a KV cache of so many slots; names the precisions that would.

    Those are the graph engine's, which shrinks its cache if necessary.
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
