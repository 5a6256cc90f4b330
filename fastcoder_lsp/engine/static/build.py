"""Putting the graph engine together: weights, sizes that fit the memory, the quickest kernels, captured programs.

Owns the order of things and what is given up when memory runs out: buckets first, then context, then the attempt.
"""

import gc
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from fastcoder_lsp.core import EngineInfo, Progress
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.attention import TreeAttention
from fastcoder_lsp.engine.static.backend import StaticBackend
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.engine.static.kernel_choice import KernelChoice
from fastcoder_lsp.engine.static.kernels import Kernels, TorchKernels
from fastcoder_lsp.engine.static.memory import require
from fastcoder_lsp.engine.static.plan import LEAST_CONTEXT, Plan, affordable_context, plan
from fastcoder_lsp.engine.static.products import Make, possible
from fastcoder_lsp.engine.static.programs import Programs
from fastcoder_lsp.engine.static.shelf import Shelf
from fastcoder_lsp.engine.static.transformer import Transformer
from fastcoder_lsp.engine.static.tuning import Tuning, choose_product
from fastcoder_lsp.engine.static.ways import TORCH
from fastcoder_lsp.engine.static.weights import HEAD, Model, Source, read_model
from fastcoder_lsp.errors import ResourceError

logger = logging.getLogger(__name__)
SHELF_SHARE = 4
"""The shelf takes at most one part in so many of the memory that is free at last."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is to be built.

    `open_source` opens the weights. `precision`: of the weights, a key of `PRODUCTS`. `kernels`: a way of `ways`, or
    "auto" for the quickest. `product`: a way of `PRODUCTS[precision]`, or "auto". `identity`: of the weights, for
    what is remembered. `warm_up`: capture every size now, else each when it is first wanted.
    """

    name: str
    model: str
    source: str
    identity: str
    shape: Shape
    open_source: Callable[[], AbstractContextManager[Source]]
    context: int
    dtype: torch.dtype
    cache: Path
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
    """Build the engine.

    Raises:
        ModelInvalidError: the weights are damaged.
        ResourceError: the device's memory does not suffice, whatever is given up.
    """
    tuning = Tuning(recipe.cache, device, f"{recipe.identity} {recipe.precision}")
    try:
        model = _load(recipe, device, tuning)
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
        engine = _attempt(recipe, model, size, device, tuning)
        if engine is not None:
            return engine
        gc.collect()  # programs and their graphs refer to each other
        device.release()
        size = _smaller(size, recipe.notes)
    raise ResourceError(
        f"{recipe.model} fits into the memory of {device.name}, but leaves no room to run",
        "Use a smaller model, an engine with int8 or int4 weights, or a larger gpu.memory_percent.",
    )


def _attempt(recipe: Recipe, model: Model, size: Plan, device: Device, tuning: Tuning) -> StaticEngine | None:
    """The engine in these sizes; None where memory runs out."""
    try:
        return _finish(recipe, _assemble(recipe, model, size, device, tuning), size, device)
    except torch.OutOfMemoryError:
        logger.warning("memory ran out with %s", size)
        return None


def _smaller(size: Plan, notes: list[str]) -> Plan | None:
    """What to try next, with a note of what was given up."""
    smaller = size.smaller()
    if smaller is not None and smaller.context < size.context:
        notes.append(f"the context is {smaller.context} tokens: memory ran out with {size.context}")
    elif smaller is not None:
        notes.append(f"graphs for {len(smaller.buckets)} of {len(size.buckets)} lengths: memory ran out")
    return smaller


def _load(recipe: Recipe, device: Device, tuning: Tuning) -> Model:
    """The weights, in the quickest form of their precision."""
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
        make = _product(recipe, source, device, tuning)
        return read_model(source, recipe.shape, make, dtype=recipe.dtype, device=device.place, progress=recipe.progress)


def _product(recipe: Recipe, source: Source, device: Device, tuning: Tuning) -> Make:
    """How products are made: as asked for, as remembered, or as found out now with a matrix of the first layer."""
    ways = possible(recipe.precision, overlaps=device.overlaps)
    if recipe.product != "auto":
        return ways[recipe.product]
    if len(ways) == 1 or not device.captures:
        return list(ways.values())[-1]
    choice = tuning.recall("product")
    if choice is None or choice.chosen not in ways:
        recipe.progress(0.0, "trying products")
        shape = recipe.shape
        name = "model.layers.0.mlp." + ("c_fc" if shape.starcoder else "up_proj")
        weight = source.raw(f"{name}.weight", shape.inner, shape.width).to(device.place, recipe.dtype)
        choice = choose_product(weight, recipe.precision, device)
        tuning.remember("product", choice)
    recipe.notes.append(f"{recipe.precision} products: {choice.chosen}")
    return ways[choice.chosen]


def _assemble(recipe: Recipe, model: Model, size: Plan, device: Device, tuning: Tuning) -> _Assembled:
    """Cache and programs, with the quickest kernels that there are."""
    cache = StaticCache(recipe.shape, size.capacity, recipe.dtype, device)
    attention = TreeAttention(recipe.shape, size.capacity, recipe.dtype, device.place, strict=recipe.strict)
    plain = TorchKernels(recipe.shape, size.capacity, attention, recipe.dtype, device.place)

    def programs(kernels: Kernels) -> Programs:
        return Programs(Transformer(model, kernels, cache), attention, size, device, recipe.shape.vocabulary)

    asked = recipe.kernels
    if asked == "auto" and (recipe.strict or not device.captures):
        asked = TORCH  # ours sum in no float64, and on a CPU they do not run
    choice = KernelChoice(plain, device, size, programs, tuning, recipe.notes, recipe.progress)
    return _Assembled(cache, programs(choice.kernels(asked)))


def _finish(recipe: Recipe, parts: _Assembled, size: Plan, device: Device) -> StaticEngine:
    """Warm up, give the shelf its share of what memory is left, and put the engine together."""
    programs = parts.programs
    if device.captures and recipe.warm_up:
        programs.warm_up(recipe.progress)
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
