"""Do the Triton kernels say what the torch ones say? Run by Triton's interpreter, on the CPU, one comparison a kernel.

Owns the comparisons and the interpreter's mending: it knows no bf16 product (it multiplies the raw bits), so operands
are widened before, which is what the hardware does. What a caller gets is how far two results are from each other.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from benchmarks.fused import kernels as fused
from benchmarks.fused import triton_kernels
from fastcoder_lsp.core import GREEDY, DraftTree
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.cache import Saved, StaticCache
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.programs import Moves, follow
from fastcoder_lsp.engine.static.step_io import WALK, StepInput, StepOutput
from fastcoder_lsp.engine.static.transformer import TorchKernels, TreeAttention

CAPACITY, BUCKET = 512, 384
VOCABULARY = 1000
UNITS = 2
"""Few multiprocessors, so that a split holds several tiles."""


def mend_products() -> None:
    builder: Any = interpreter.InterpreterBuilder
    plain = builder.create_dot
    if getattr(plain, "widens", False):
        return

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, left: Any, right: Any, *rest: Any) -> Any:
        return plain(self, widened(left), widened(right), *rest)

    def create_si_to_fp(self: Any, source: Any, target: Any) -> Any:
        if target.scalar == tl.bfloat16:
            source = self.cast_impl(source, tl.float32)
        return self.cast_impl(source, target)

    create_dot.widens = True  # type: ignore[attr-defined]
    builder.create_dot, builder.create_si_to_fp = create_dot, create_si_to_fp


@contextmanager
def kernels_of(module: ModuleType) -> Iterator[None]:
    """Launch the kernels of another module meanwhile: the same with a fault."""
    launching: Any = fused
    launching.triton_kernels = module
    try:
        yield
    finally:
        launching.triton_kernels = triton_kernels


class Subject:
    """Both kinds of kernels over one shape and precision."""

    def __init__(self, dtype: torch.dtype) -> None:
        mend_products()
        self.shape = Shape("qwen2", 5, 48, 6, 2, 16, 80, 200, 1e-6, 512, 10000.0 ** (-np.arange(0, 16, 2) / 16))
        self.dtype, self.place = dtype, torch.device("cpu")
        self.attention = TreeAttention(self.shape, CAPACITY, dtype, self.place)
        self.plain = TorchKernels(self.shape, CAPACITY, self.attention, dtype, self.place)
        self.fused = fused.FusedKernels(self.plain, UNITS)
        self._torch = torch.Generator().manual_seed(1)

    def random(self, *sizes: int, scale: float = 1.0) -> torch.Tensor:
        """Numbers of this subject's precision."""
        return (torch.randn(sizes, generator=self._torch) * scale).to(self.dtype)

    def attend(self, width: int, *, count: int | None = None, cached: int = 250) -> float:
        """Rotation, storing, and a tree's attention over several tiles and splits; the worst of results and cache."""
        count = width if count is None else count
        shape, rng = self.shape, np.random.default_rng(width + cached)
        caches = [StaticCache(shape, CAPACITY, self.dtype, CpuDevice()) for _ in range(2)]
        empty = caches[0].save(CAPACITY)
        filled = replace(empty, slots_2LKCD=self.random(*empty.slots_2LKCD.shape))
        for cache in caches:
            cache.restore(filled, CAPACITY)
        rows = StepInput(CpuDevice(), 128, shape.vocabulary)
        parents = [-1, *(int(rng.integers(-1 if node == 5 else 0, node)) for node in range(1, count))]
        rows.write(list(range(count)), parents, width=width, cached=cached, sampler=GREEDY)
        view = self.attention.view(rows.view(width), BUCKET)
        qkv = self.random(width, (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
        expected = self.plain.attend(1, qkv, caches[0], view)
        found = self.fused.attend(1, qkv, caches[1], view)
        return max(apart(expected, found), apart(*(cache.save(CAPACITY).slots_2LKCD for cache in caches)))

    def conclude(self, width: int) -> float:
        """A step's end over trees of which much is right: ids, path and moved slots; 0 where all are the same."""
        seeds = range(3) if width <= 8 else (4,)
        asked = (False, True) if width <= 32 else (False,)  # interpreted, each row takes its time
        same = [self._concluded(width, seed, best=best) for seed in seeds for best in asked]
        return 0.0 if all(same) else float("inf")

    def best(self, width: int) -> float:
        """The best ids and logits with many ties: 0 where all are the same."""
        logits = (self.random(width, VOCABULARY, scale=3.0).float().round() / 2).to(self.dtype)
        logits[:, 7], logits[:, -1] = float("-inf"), 50.0
        logits[0] -= 100.0  # a row whose logits are negative
        tree, _ = self._tree(width, np.random.default_rng(width))
        count = 16 if width <= 8 else 2  # interpreted, each takes milliseconds
        return 0.0 if self._same_end(tree, logits, width, cached=20, room=0, best=True, count=count) else float("inf")

    def _concluded(self, width: int, seed: int, *, best: bool) -> bool:
        tree, logits = self._tree(width, np.random.default_rng((width, seed)))
        room = len(tree) if seed % 3 else 1
        return self._same_end(tree, logits, width, cached=20 + seed, room=room, best=best, count=2)

    def _same_end(
        self, tree: DraftTree, logits: torch.Tensor, width: int, *, cached: int, room: int, best: bool, count: int
    ) -> bool:
        caches = [StaticCache(self.shape, CAPACITY, self.dtype, CpuDevice()) for _ in range(2)]
        filled = Saved(self.random(*caches[0].save(CAPACITY).slots_2LKCD.shape), self.random(2, CAPACITY, 48))
        for cache in caches:
            cache.keep_states((1, 2))
            cache.restore(filled, CAPACITY)
        outputs = [StepOutput(CpuDevice(), 128, count) for _ in range(2)]
        rows = StepInput(CpuDevice(), 128, VOCABULARY)
        rows.write(
            tree.tokens, tree.parents, width=width, cached=cached, sampler=GREEDY, pending=tree.pending, room=room
        )
        inputs = rows.view(width)
        both = (self.plain, self.fused)
        for kernels, output, cache in zip(both, outputs, caches, strict=True):
            view = output.view(width)
            for _ in range(2):  # a program may run again: the second run is like the first
                cache.restore(filled, CAPACITY)
                view.said_T.fill_(-7)
                view.kept_P.fill_(WALK)
                kernels.conclude(logits, view, inputs, cache, best=best)
        for output in outputs:
            output.send(width)
        assert outputs[0].path(width, tree.pending) is None
        expected = follow(tree, outputs[0].said(width), room)
        Moves(CpuDevice(), caches[0], 128).keep(cached, [*range(tree.pending), *expected[0]])
        left, right = (cache.save(CAPACITY) for cache in caches)
        return (
            outputs[1].path(width, tree.pending) == expected
            and outputs[0].said(width) == outputs[1].said(width)
            and all(
                np.array_equal(*pair)
                for pair in zip(*(each.best(width, width, count) for each in outputs), strict=True)
            )
            and torch.equal(left.slots_2LKCD, right.slots_2LKCD)
            and torch.equal(left.states_SCE, right.states_SCE)
        )

    def _tree(self, width: int, rng: np.random.Generator) -> tuple[DraftTree, torch.Tensor]:
        """A tree of up to `width` rows, of different tokens below each row, and logits that agree with much of it."""
        pending = 1 + int(rng.integers(min(width, 3)))
        tokens, parents = rng.integers(0, 9, pending).tolist(), list(range(-1, pending - 1))
        while len(tokens) < width - int(rng.integers(2)):
            above, token = int(rng.integers(max(pending - 1, len(tokens) - 5), len(tokens))), int(rng.integers(4))
            if (above, token) not in zip(parents[pending:], tokens[pending:], strict=True):
                tokens.append(token if rng.integers(9) else VOCABULARY + token)
                parents.append(above)
        logits = self.random(width, VOCABULARY)
        for row, above in enumerate(parents):
            if row >= pending and tokens[row] < VOCABULARY:
                logits[above, tokens[row]] = 9.0  # of several children the least token is said
        return DraftTree(tuple(tokens), tuple(parents), pending), logits


CHECKS: dict[str, Callable[[Subject, int], float]] = {
    "attend": Subject.attend,
    "best": Subject.best,
    "conclude": Subject.conclude,
}


def apart(left: torch.Tensor, right: torch.Tensor) -> float:
    """The difference as a share of the first's norm; what is not finite is as far away as can be."""
    difference = (left.float() - right.float()).norm() / left.float().norm()
    return float(difference) if bool(difference.isfinite()) else float("inf")
