"""Builds the graph engine: weights, sizes that fit the memory, kernels, captured programs, the check.

When memory runs out it first drops buckets, then context, then gives up.
"""

import gc
import logging
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch

from fastcoder_lsp.core import EngineInfo, Progress
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.backend import StaticBackend
from fastcoder_lsp.engine.static.cache import Shelf, StaticCache
from fastcoder_lsp.engine.static.check import kernels_objection, replay_objection
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.engine.static.plan import LEAST_CONTEXT, Plan, affordable_context, plan, require
from fastcoder_lsp.engine.static.programs import Programs
from fastcoder_lsp.engine.static.transformer import TorchKernels, Transformer, TreeAttention
from fastcoder_lsp.engine.static.weights import (
    HEAD,
    PRODUCTS,
    Make,
    ModelWeights,
    TensorSource,
    read_model,
    working_product,
)
from fastcoder_lsp.errors import ResourceError

TORCH, FUSED = "torch", "fused"
_PART = "(norm|attend|activate|best|follow)"
_OLD = re.compile(f"overlapped|(fused|overlapped) without {_PART}(, ?{_PART})*")
"""Names of version 0.1: kernels launched early, and all kernels but some."""


def way(name: str) -> str:
    """The kernels of a name, torch's for "auto"; raises ValueError for an unknown one."""
    if name in ("auto", TORCH):
        return TORCH
    if name == FUSED or _OLD.fullmatch(name):
        return FUSED
    raise ValueError(f"{name!r} is neither {TORCH} nor {FUSED}")


logger = logging.getLogger(__name__)
SHELF_SHARE = 4
"""The shelf takes at most this fraction of the memory that is free at the end."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of a build.

    `open_source` opens the weights. `precision`: of the weights, a key of `PRODUCTS`. `kernels`: see `way`.
    `product`: a way of `PRODUCTS[precision]`, or "auto" for the first that works. `warm_up`: capture every size now,
    else each when it is first needed.
    """

    name: str
    model: str
    source: str
    shape: Shape
    open_source: Callable[[], AbstractContextManager[TensorSource]]
    context: int
    dtype: torch.dtype
    progress: Progress
    precision: str = "plain"
    kernels: str = "auto"
    product: str = "auto"
    strict: bool = False
    warm_up: bool = True
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Assembled:
    """One engine's parts, not warmed up."""

    cache: StaticCache
    programs: Programs


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
    """The requested implementation of products, or the first that works for a matrix of the first layer."""
    ways = PRODUCTS[recipe.precision]
    if recipe.product != "auto":
        return ways[recipe.product]
    if len(ways) == 1 or not device.captures:
        return list(ways.values())[-1]
    recipe.progress(0.0, "trying products")
    shape = recipe.shape
    name = "model.layers.0.mlp." + ("c_fc" if shape.starcoder else "up_proj")
    weight = source.raw(f"{name}.weight", shape.inner, shape.width).to(device.place, recipe.dtype)
    chosen = working_product(weight, recipe.precision)
    recipe.notes.append(f"{recipe.precision} products: {chosen}")
    return ways[chosen]


def _assemble(recipe: Recipe, model: ModelWeights, size: Plan, device: Device) -> _Assembled:
    """Cache and programs, with torch's kernels, or with the fused ones if they are requested and pass their check."""
    cache = StaticCache(recipe.shape, size.capacity, recipe.dtype, device)
    attention = TreeAttention(recipe.shape, size.capacity, recipe.dtype, device.place, strict=recipe.strict)
    plain = TorchKernels(recipe.shape, size.capacity, attention, recipe.dtype, device.place)

    def programs(kernels: TorchKernels) -> Programs:
        return Programs(Transformer(model, kernels, cache), attention, size, device, recipe.shape.vocabulary)

    of_torch = programs(plain)
    if way(recipe.kernels) == TORCH or recipe.strict:  # our kernels have no float64 sums
        return _Assembled(cache, of_torch)
    try:
        from fastcoder_lsp.engine.static.fused import FusedKernels, fits  # noqa: PLC0415 needs Triton
    except Exception as why:  # noqa: BLE001 Triton's errors depend on its version and the GPU
        objection: str | None = f"they cannot be imported: {type(why).__name__}: {why}"
    else:
        if fits(recipe.shape):
            recipe.progress(0.0, "checking kernels")
            ours = programs(FusedKernels(plain, device.units))
            objection = kernels_objection(of_torch, ours)
            if objection is None:
                recipe.notes.append(
                    f"kernels: {FUSED}" + (f" ({recipe.kernels} is an old name)" if recipe.kernels != FUSED else "")
                )
                return _Assembled(cache, ours)
        else:
            objection = "the model's heads have another size"
    recipe.notes.append(f"kernels: {TORCH}; {FUSED} ones are not used: {objection}")
    return _Assembled(cache, of_torch)


def _finish(recipe: Recipe, parts: _Assembled, size: Plan, device: Device) -> StaticEngine:
    programs = parts.programs
    if device.captures and recipe.warm_up:
        programs.warm_up(recipe.progress)
        if (objection := replay_objection(programs)) is not None:
            programs.launch_singly()
            recipe.notes.append(f"steps are launched operation by operation, which is slower: {objection}")
    recipe.notes.extend(sorted(programs.graphs.notes))
    shelf = Shelf(device.memory().free // SHELF_SHARE)
    backend = StaticBackend(recipe.name, programs, parts.cache, shelf, device, recipe.shape)
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
