"""Builds the graph engine: weights, sizes that fit the memory, captured programs, the check.

When memory runs out it first drops buckets, then context, then gives up. The check compares replays with single
launches. Programs that fail or disagree are not replayed, and the reason is reported.
"""

import gc
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch

from fastcoder_lsp.core import GREEDY, DraftTree, EngineInfo, Progress
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.weights import HEAD
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.torch_engines.graphs.cache import SavedPrefixes, StaticCache
from fastcoder_lsp.torch_engines.graphs.device import Device
from fastcoder_lsp.torch_engines.graphs.engine import StaticBackend, StaticEngine
from fastcoder_lsp.torch_engines.graphs.plan import LEAST_CONTEXT, Plan, affordable_context, plan, require
from fastcoder_lsp.torch_engines.graphs.programs import TOP_K, Program, Programs
from fastcoder_lsp.torch_engines.graphs.transformer import TorchKernels, Transformer, TreeAttention
from fastcoder_lsp.torch_engines.graphs.verifier import StepVariant
from fastcoder_lsp.torch_engines.graphs.weights import (
    PRODUCTS,
    Make,
    ModelWeights,
    TensorSource,
    agree,
    read_model,
    working_product,
)

logger = logging.getLogger(__name__)
SHELF_SHARE = 4  # the shelf takes at most this fraction of the memory that is free at the end


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of a build; `open_source` opens the weights."""

    name: str
    model: str
    source: str
    shape: Shape
    open_source: Callable[[], AbstractContextManager[TensorSource]]
    context: int
    dtype: torch.dtype
    progress: Progress
    precision: str = "plain"  # of the weights, a key of `PRODUCTS`
    strict: bool = False
    warm_up: bool = True  # capture every size now, else each when it is first needed
    notes: list[str] = field(default_factory=list)


@torch.inference_mode()
def build(recipe: Recipe, device: Device) -> StaticEngine:
    """Build the engine; ResourceError if not even the smallest sizes fit, ModelInvalidError for damaged weights."""
    try:
        model = _load(recipe, device)
    except torch.OutOfMemoryError as error:
        raise ResourceError(
            f"the weights of {recipe.model} do not fit into the memory of {device.name}",
            "Use a smaller model, an engine with int8 or int4 weights, or a larger gpu.memory_percent.",
        ) from error
    slot_bytes = recipe.shape.slot_numbers * recipe.dtype.itemsize
    context = affordable_context(recipe.context, device.memory().free, slot_bytes)
    if context < recipe.context:
        recipe.notes.append(f"the context is {context} tokens instead of {recipe.context}: memory has no room for more")
    enough = context >= min(LEAST_CONTEXT, recipe.context)
    size: Plan | None = plan(context, chunk=device.chunk, strict=recipe.strict) if enough else None
    while size is not None:
        engine = _attempt(recipe, model, size, device)
        if engine is not None:
            return engine
        gc.collect()  # programs and their graphs refer to each other
        device.release()
        size = _smaller(size, recipe.notes)
    raise ResourceError(
        f"{recipe.model} fits into the memory of {device.name}, but leaves no room to run",
        "Use a smaller model, an engine with int8 or int4 weights, or a larger gpu.memory_percent.",
    )


def _attempt(recipe: Recipe, model: ModelWeights, size: Plan, device: Device) -> StaticEngine | None:
    try:
        return _finish(recipe, _assemble(recipe, model, size, device), size, device)
    except torch.OutOfMemoryError:
        logger.warning("memory ran out with %s", size)
        return None


def _smaller(size: Plan, notes: list[str]) -> Plan | None:
    """The next smaller plan, with a note of what it drops."""
    smaller = size.smaller()
    if smaller is not None and smaller.context < size.context:
        notes.append(f"the context is {smaller.context} tokens: memory ran out with {size.context}")
    elif smaller is not None:
        notes.append(f"graphs for {len(smaller.buckets)} of {len(size.buckets)} lengths: memory ran out")
    return smaller


def _load(recipe: Recipe, device: Device) -> ModelWeights:
    with recipe.open_source() as source:
        require(
            device.memory().free,
            recipe.model,
            device.name,
            recipe.shape,
            recipe.precision,
            recipe.dtype.itemsize,
            own_head=HEAD in source,
        )
        make = _product(recipe, source, device)
        return read_model(source, recipe.shape, make, dtype=recipe.dtype, device=device.place, progress=recipe.progress)


def _product(recipe: Recipe, source: TensorSource, device: Device) -> Make:
    """The first implementation of products that works for a matrix of the first layer."""
    ways = PRODUCTS[recipe.precision]
    if len(ways) == 1 or not device.captures:
        return list(ways.values())[-1]
    recipe.progress(0.0, "trying products")
    shape = recipe.shape
    name = "model.layers.0.mlp." + ("c_fc" if shape.starcoder else "up_proj")
    weight = source.raw(f"{name}.weight", shape.inner, shape.width).to(device.place, recipe.dtype)
    chosen = working_product(weight, recipe.precision)
    recipe.notes.append(f"{recipe.precision} products: {chosen}")
    return ways[chosen]


def _assemble(recipe: Recipe, model: ModelWeights, size: Plan, device: Device) -> Programs:
    """The programs over an empty cache."""
    cache = StaticCache(recipe.shape, size.capacity, recipe.dtype, device)
    attention = TreeAttention(recipe.shape, size.capacity, recipe.dtype, device.place, strict=recipe.strict)
    kernels = TorchKernels(recipe.shape, size.capacity, attention, recipe.dtype, device.place)
    return Programs(Transformer(model, kernels, cache), attention, size, device, recipe.shape.vocabulary)


def _finish(recipe: Recipe, programs: Programs, size: Plan, device: Device) -> StaticEngine:
    if device.captures and recipe.warm_up:
        programs.warm_up(recipe.progress)
        if (objection := replay_objection(programs)) is not None:
            programs.launch_singly()
            recipe.notes.append(f"steps are launched operation by operation, which is slower: {objection}")
    recipe.notes.extend(sorted(programs.graphs.notes))
    shelf = SavedPrefixes(device.memory().free // SHELF_SHARE)
    backend = StaticBackend(recipe.name, programs, programs.transformer.cache, shelf, device, recipe.shape)
    info = EngineInfo(
        name=recipe.name,
        model=recipe.model,
        source=recipe.source,
        device=device.name,
        vocabulary=recipe.shape.vocabulary,
        context=size.context,
        max_nodes=size.widths[-1],
        notes=tuple(recipe.notes),
    )
    return StaticEngine(backend, info)


REPLAYED_WIDTHS = (1, 16)


def replay_objection(programs: Programs) -> str | None:
    """Why programs must not be replayed, or None: a replay must choose the same tokens as its launches one by one."""
    return tried(lambda: _replay_objection(programs))


def tried(compare: Callable[[], str | None]) -> str | None:
    """The objection that `compare` finds, or its exception; None if there is neither."""
    try:
        return compare()
    except torch.OutOfMemoryError:
        raise
    except Exception as why:
        logger.warning("a check failed", exc_info=True)
        return f"{type(why).__name__}: {why}".splitlines()[0][:200]


def _replay_objection(programs: Programs) -> str | None:
    size, best = programs.plan, min(TOP_K, programs.vocabulary)
    bucket = size.buckets[0]
    for width in {size.step_width(width) for width in REPLAYED_WIDTHS}:
        tree, program = any_tree(width), Program(width, bucket, StepVariant(top_k=best))
        logits = []
        for captured in (True, False):
            programs.input.write(tree.tokens, tree.parents, width=width, cached=0, sampler=GREEDY)
            programs.launch(program, captured=captured)
            programs.wait()
            logits.append(torch.from_numpy(programs.best(program, width, best)[1]))
        if not agree(*logits):
            return f"a replay of {counted(width, 'row')} differs from single launches"
    return None


def any_tree(width: int) -> DraftTree:
    """A tree of `width` rows in pairs below each other."""
    tokens = tuple((7 * row) % 101 for row in range(width))
    return DraftTree(tokens, tuple((row - 1) // 2 if row else -1 for row in range(width)))
