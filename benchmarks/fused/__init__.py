"""Triton kernels for the graph engine, which `shapes --kernels fused` uses if they pass a check.

No GPU has shown their gain over torch's. Whole programs run, several times, since the effect of another order of
summation is below the tolerance, and the difference of two rows is far above it. Kernels that fail or disagree are not
used, and the reason is noted.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import torch

from fastcoder_lsp.core import GREEDY, DraftTree
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.engine.static.build import ChooseKernels, Recipe, any_tree, tried
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.programs import TOP_K, Program, Programs, follow
from fastcoder_lsp.engine.static.transformer import TorchKernels
from fastcoder_lsp.engine.static.verifier import StepVariant
from fastcoder_lsp.engine.static.weights import agree

TORCH, FUSED = "torch", "fused"
_PART = "(norm|attend|activate|best|follow)"
_OLD = re.compile(f"overlapped|(fused|overlapped) without {_PART}(, ?{_PART})*")
"""Names of version 0.1: kernels launched early, and all kernels but some."""
ENDED_WIDTHS = (1, 32)  # rows of the steps whose end is checked: one width, whose kernels compile only once


def kernels_by_name(name: str) -> ChooseKernels | None:
    """For `Recipe.kernels`; raises ValueError for an unknown name."""
    if name == TORCH:
        return None
    if name != FUSED and not _OLD.fullmatch(name):
        raise ValueError(f"{name!r} is neither {TORCH} nor {FUSED}")
    old = f" ({name} is an old name)" if name != FUSED else ""

    def choose(
        recipe: Recipe, device: Device, plain: TorchKernels, programs: Callable[[TorchKernels], Programs]
    ) -> Programs:
        of_torch = programs(plain)
        if recipe.strict:  # our kernels have no float64 sums
            return of_torch
        try:
            from benchmarks.fused.kernels import FusedKernels, fits, units_of
        except Exception as why:  # noqa: BLE001 Triton's errors depend on its version and the GPU
            objection: str | None = f"they cannot be imported: {type(why).__name__}: {why}"
        else:
            if fits(recipe.shape):
                recipe.progress(0.0, "checking kernels")
                ours = programs(FusedKernels(plain, units_of(device)))
                objection = kernels_objection(of_torch, ours)
                if objection is None:
                    recipe.notes.append(f"kernels: {FUSED}{old}")
                    return ours
            else:
                objection = "the model's heads have another size"
        recipe.notes.append(f"kernels: {TORCH}; {FUSED} ones are not used: {objection}")
        return of_torch

    return choose


def kernels_objection(plain: Programs, ours: Programs) -> str | None:
    """Why our kernels must not be used, or None: compares their logits and steps with those of `plain`."""
    return tried(lambda: _kernels_objection(plain, ours))


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


def _fill(programs: Programs, bucket: int) -> int:
    """Prefill a text that leaves the widest step room in its bucket, and ends within a tile; returns its length.

    Over an empty cache attention would have nothing to do, and its faults would not show.
    """
    size = programs.plan
    chunk, length = size.reads[-1], max(min(bucket - size.widths[-1] - 7, size.context), 0)
    for start in range(0, length, chunk):
        count = min(chunk, length - start)
        tokens = [(5 * place + 3) % 97 for place in range(start, start + count)]
        programs.input.write(tokens, range(-1, count - 1), width=chunk, cached=start, sampler=GREEDY)
        programs.launch(Program(chunk, size.bucket(start, chunk), None), captured=False)
        programs.wait()
    return length


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
    programs.input.write(tree.tokens, tree.parents, width=width, cached=cached, sampler=GREEDY)
    return programs.logits(width, bucket)


def _end(
    programs: Programs, program: Program, tree: DraftTree, cached: int, *, room: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    programs.input.write(
        tree.tokens, tree.parents, width=program.width, cached=cached, sampler=GREEDY, pending=tree.pending, room=room
    )
    programs.launch(program, captured=False)
    programs.wait()
    return programs.accepted(program, tree, cached, room)


def _slots(programs: Programs, cached: int, width: int) -> torch.Tensor:
    return programs.transformer.cache.save(cached + width).slots_2LKCD[:, :, :, cached:]
