"""The sizes of the graph engine: rows of a step, lengths of the KV cache, context, and a model's GPU memory."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fastcoder_lsp.engine.architecture import Shape, fast_shape
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.torch_engines.graphs.weights import GROUP

MAX_NODES = 128  # most rows of one step
STEP_WIDTHS = (1, 2, 4, 8, 16, 32, 64, MAX_NODES)  # rows of the captured steps; a tree takes the smallest that holds it
STRICT_WIDTH = 64  # rows of every step of a strict engine
READ_WIDTHS = (32, 128, 512)  # rows of the captured prefill chunks
FIRST_BUCKET = 512
SLOTS = 64  # lengths are multiples of attention's tile
LEAST_CONTEXT = 512  # a smaller context is useless


@dataclass(frozen=True, slots=True)
class Plan:
    """`widths`, `reads`: rows of steps and of prefill chunks; `buckets`: slots of the KV cache that they read.

    The last bucket is all slots: the context's, and room for the widest program's rows. In a `strict` plan all steps
    have one width and all prefill chunks another, and attention sums in float64.
    """

    context: int
    widths: tuple[int, ...]
    reads: tuple[int, ...]
    buckets: tuple[int, ...]
    strict: bool = False

    @property
    def capacity(self) -> int:
        """Slots of the KV cache."""
        return self.buckets[-1]

    @property
    def rows(self) -> int:
        """Rows of the widest program."""
        return max(self.widths[-1], self.reads[-1])

    def step_width(self, nodes: int) -> int:
        """Rows of the step that runs a tree of `nodes`."""
        return self.widths[bisect_left(self.widths, nodes)]

    def read_width(self, tokens: int) -> int:
        """Rows of the program that reads `tokens` of a prompt."""
        return self.reads[bisect_left(self.reads, tokens)]

    def bucket(self, cached: int, width: int) -> int:
        """The shortest bucket that holds `cached` slots and the rows of a program."""
        return self.buckets[bisect_left(self.buckets, cached + width)]

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Every (width, bucket) of a step, the largest first: later graphs then fit into the memory of earlier ones."""
        for bucket in reversed(self.buckets):
            for width in reversed(self.widths):
                if width < bucket:
                    yield width, bucket

    def smaller(self) -> "Plan | None":
        """The next plan when memory ran out: fewer buckets, then half the context; None if it cannot shrink."""
        if len(self.buckets) > 1:
            return replace(self, buckets=self.buckets[len(self.buckets) // 2 :])
        if self.context // 2 < LEAST_CONTEXT:
            return None
        return plan(self.context // 2, chunk=self.reads[-1], one_bucket=True, strict=self.strict)


def plan(context: int, *, chunk: int = READ_WIDTHS[-1], one_bucket: bool = False, strict: bool = False) -> Plan:
    """The sizes for a context of so many tokens, prefilled in chunks of `chunk`, the time between looks at a stop."""
    widths = (STRICT_WIDTH,) if strict else STEP_WIDTHS
    reads = (chunk,) if strict else tuple(width for width in READ_WIDTHS if width <= chunk)
    capacity = -(-(context + max(widths[-1], reads[-1])) // SLOTS) * SLOTS
    buckets = []
    bucket = FIRST_BUCKET
    while bucket * 5 // 4 < capacity and not one_bucket:
        buckets.append(bucket)
        bucket *= 2
    return Plan(context, widths, reads, (*buckets, capacity), strict)


def affordable_context(asked: int, free: int, slot_bytes: int) -> int:
    """The context whose KV cache takes at most four fifths of `free` bytes, `asked` at most; graphs need the rest."""
    slots = free * 4 // 5 // slot_bytes - READ_WIDTHS[-1]
    return max(min(asked, slots // SLOTS * SLOTS), 0)


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
