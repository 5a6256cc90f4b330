"""Builds the graph engine: weights, sizes that fit the memory, kernels, captured programs, the check.

When memory runs out it first drops buckets, then context, then gives up. The check compares our kernels with torch's,
and replays with single launches: whole programs run, several times, since the effect of another order of summation is
below the tolerance, and the difference of two rows is far above it. Programs that fail or disagree are not used, and
the reason is reported.
"""

import gc
import logging
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import torch

from fastcoder_lsp.core import GREEDY, DraftTree, EngineInfo, Progress
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.cache import Shelf, StaticCache
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.engine import StaticBackend, StaticEngine
from fastcoder_lsp.engine.static.plan import LEAST_CONTEXT, Plan, affordable_context, plan, require
from fastcoder_lsp.engine.static.programs import TOP_K, Program, Programs, follow
from fastcoder_lsp.engine.static.transformer import TorchKernels, Transformer, TreeAttention
from fastcoder_lsp.engine.static.verifier import StepVariant
from fastcoder_lsp.engine.static.weights import (
    HEAD,
    PRODUCTS,
    Make,
    ModelWeights,
    TensorSource,
    agree,
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
    kernels: str = "auto"  # see `way`
    product: str = "auto"  # a way of `PRODUCTS[precision]`, or "auto" for the first that works
    strict: bool = False
    warm_up: bool = True  # capture every size now, else each when it is first needed
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


ENDED_WIDTHS = (1, 32)  # rows of the steps whose end is checked: one width, whose kernels compile only once
REPLAYED_WIDTHS = (1, 16)


def kernels_objection(plain: Programs, ours: Programs) -> str | None:
    """Why our kernels must not be used, or None: compares their logits and steps with those of `plain`."""
    return _tried(lambda: _kernels_objection(plain, ours))


def replay_objection(programs: Programs) -> str | None:
    """Why programs must not be replayed, or None: a replay must choose the same tokens as its launches one by one."""
    return _tried(lambda: _replay_objection(programs))


def _tried(compare: Callable[[], str | None]) -> str | None:
    try:
        return compare()
    except torch.OutOfMemoryError:
        raise
    except Exception as why:  # Triton's exceptions are no errors of torch
        logger.warning("a check failed", exc_info=True)
        return f"{type(why).__name__}: {why}".splitlines()[0][:200]


def _kernels_objection(plain: Programs, ours: Programs) -> str | None:
    size = plain.plan
    bucket = size.buckets[len(size.buckets) // 2]
    cached, ended = _fill(plain, bucket), {size.step_width(width) for width in ENDED_WIDTHS}
    for width in size.widths:
        tree = agreeing_tree(plain, width, bucket, cached) if width in ended else any_tree(width)
        expected_TV = _logits(plain, tree, width, bucket, cached).clone()
        if not agree(_logits(ours, tree, width, bucket, cached), expected_TV):
            return f"the logits differ at {counted(width, 'row')}"
        if width in ended and (wrong := wrong_end(ours, tree, width, bucket, cached)) is not None:
            return f"a step of {counted(width, 'row')} ends wrong: {wrong}"
    return None


def _replay_objection(programs: Programs) -> str | None:
    size, best = programs.plan, min(TOP_K, programs.vocabulary)
    bucket = size.buckets[0]
    for width in {size.step_width(width) for width in REPLAYED_WIDTHS}:
        tree, program = any_tree(width), Program(width, bucket, StepVariant(top_k=best))
        logits = []
        for captured in (True, False):
            programs.send(tree.tokens, tree.parents, width=width, cached=0, sampler=GREEDY)
            programs.launch(program, captured=captured)
            programs.wait()
            logits.append(torch.from_numpy(programs.best(program, width, best)[1]))
        if not agree(*logits):
            return f"a replay of {counted(width, 'row')} differs from single launches"
    return None


def _fill(programs: Programs, bucket: int) -> int:
    """Prefill a text that leaves the widest step room in its bucket, and ends within a tile; returns its length.

    Over an empty cache attention would have nothing to do, and its faults would not show.
    """
    size = programs.plan
    chunk, length = size.reads[-1], max(min(bucket - size.widths[-1] - 7, size.context), 0)
    for start in range(0, length, chunk):
        count = min(chunk, length - start)
        tokens = [(5 * place + 3) % 97 for place in range(start, start + count)]
        programs.send(tokens, range(-1, count - 1), width=chunk, cached=start, sampler=GREEDY)
        programs.launch(Program(chunk, size.bucket(start, chunk), None), captured=False)
        programs.wait()
    return length


def any_tree(width: int) -> DraftTree:
    """A tree of `width` rows in pairs below each other."""
    tokens = tuple((7 * row) % 101 for row in range(width))
    return DraftTree(tokens, tuple((row - 1) // 2 if row else -1 for row in range(width)))


def agreeing_tree(programs: Programs, width: int, bucket: int, cached: int) -> DraftTree:
    """The same tree, in which the second draft of each pair is the model's choice.

    So all accepted rows have to be moved. Found level by level: the row above a draft decides whether it is accepted.
    """
    tree, row = any_tree(width), 0
    tokens = list(tree.tokens)
    while (second := 2 * row + 2) < width:
        logits_TV = _logits(programs, tree, width, bucket, cached)
        said = int(logits_TV[row].argmax())
        tokens[second] = said
        tokens[second - 1] = said + 1 if said == 0 else said - 1
        tree, row = replace(tree, tokens=tuple(tokens)), second
    return tree


def wrong_end(programs: Programs, tree: DraftTree, width: int, bucket: int, cached: int) -> str | None:
    """The fault of a step's end over `tree`; None if there is none."""
    said = _logits(programs, tree, width, bucket, cached).argmax(1)[: len(tree)].tolist()
    for ask in (StepVariant(), StepVariant(top_k=min(TOP_K, programs.vocabulary))):
        program = Program(width, bucket, ask)
        if _end(programs, program, tree, cached, room=0)[0] != ():
            return "more is accepted than there is room for"
        before = _slots(programs, cached, width)
        path, emitted = _end(programs, program, tree, cached, room=width)
        expected = follow(tree, said, width)
        if emitted[0] != expected[1][0]:
            return "it does not say the best"
        if (path, emitted) != expected:
            return "another path is followed"
        moved = before.clone()
        for place, node in enumerate(path):
            moved[:, :, :, tree.pending + place] = before[:, :, :, node]
        end = tree.pending + len(path)
        if not agree(_slots(programs, cached, width)[:, :, :, :end], moved[:, :, :, :end]):
            return "other slots are moved"
    return None


def _logits(programs: Programs, tree: DraftTree, width: int, bucket: int, cached: int) -> torch.Tensor:
    programs.send(tree.tokens, tree.parents, width=width, cached=cached, sampler=GREEDY)
    return programs.logits(width, bucket)


def _end(
    programs: Programs, program: Program, tree: DraftTree, cached: int, *, room: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    programs.send(
        tree.tokens, tree.parents, width=program.width, cached=cached, sampler=GREEDY, pending=tree.pending, room=room
    )
    programs.launch(program, captured=False)
    programs.wait()
    return programs.accepted(program, tree, cached, room)


def _slots(programs: Programs, cached: int, width: int) -> torch.Tensor:
    return programs.cache.save(cached + width).slots_2LKCD[:, :, :, cached:]
