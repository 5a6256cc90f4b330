"""The sizes of the graph engine: rows of a step, lengths of the KV cache, context; and which to drop for memory.

Pure arithmetic; allocates nothing.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_NODES = 128
"""Most rows of one step."""
STEP_WIDTHS = (1, 2, 4, 8, 16, 32, 64, MAX_NODES)
"""Rows of the captured steps; a tree takes the smallest that holds it."""
STRICT_WIDTH = 64
"""Rows of every step of a strict engine."""
READ_WIDTHS = (32, 128, 512)
"""Rows of the captured prefill chunks."""
FIRST_BUCKET = 512
SLOTS = 64
"""Lengths are multiples of attention's tile."""
LEAST_CONTEXT = 512
"""A smaller context is useless."""


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
