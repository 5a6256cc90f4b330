"""Which kernels an engine gets: those that were asked for, or the quickest of those that say what torch's say.

Owns the comparison, which runs whole programs: once a machine and model, for `tuning` remembers. Where ours are wrong
or fail, each operation is left to torch alone, so that one bad kernel costs itself and no more.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fastcoder_lsp.core import GREEDY, DraftTree, Progress
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.guarded import NOTE, GuardedKernels
from fastcoder_lsp.engine.static.kernels import Kernels, TorchKernels
from fastcoder_lsp.engine.static.plan import Plan
from fastcoder_lsp.engine.static.programs import Program, Programs
from fastcoder_lsp.engine.static.step_check import agreeing_tree, any_tree, wrong_end
from fastcoder_lsp.engine.static.tuning import Choice, Tuning, agree, time_ms
from fastcoder_lsp.engine.static.verifier import Ask
from fastcoder_lsp.engine.static.ways import FUSED, OPERATIONS, OVERLAPPED, TORCH, way, without

logger = logging.getLogger(__name__)
TRIED_WIDTHS = (1, 16)
"""Rows that kernels are timed at; their logits are compared at all."""
ENDED_WIDTHS = (1, 32)
"""Rows of the steps whose end is checked: its kernel is compiled once for all."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """A tree of some width, and what torch's kernels make of it."""

    tree: DraftTree
    logits_TV: torch.Tensor


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """What kernels are chosen for.

    Attributes:
        plain: torch's, which decide what is right.
        programs: over given kernels, for a comparison.
        notes: told to the user.
    """

    plain: TorchKernels
    device: Device
    size: Plan
    programs: Callable[[Kernels], Programs]
    tuning: Tuning
    notes: list[str]
    progress: Progress

    def kernels(self, asked: str) -> Kernels:
        """The kernels of a way by its name, or with "auto" the quickest; torch's where ours cannot be had."""
        if asked == TORCH:
            return self.plain
        fused = self._fused()
        if fused is None:
            return self.plain
        if asked != "auto":
            return self._made(asked, fused, self.notes.append)
        choice = self.tuning.recall("kernels")
        if choice is None or not self._possible(choice.chosen):
            self.progress(0.0, "trying kernels")
            choice = self._compare(fused)
            self.tuning.remember("kernels", choice)
        self.notes.append(f"kernels: {choice.chosen}")
        return self._made(choice.chosen, fused, self.notes.append)

    def _fused(self) -> Any:
        """The class of our kernels where they come into question: they need Triton, and heads of some sizes."""
        try:
            from fastcoder_lsp.engine.static.fused import FusedKernels, fits  # noqa: PLC0415 needs Triton
        except Exception as why:  # noqa: BLE001 a Triton of another version or GPU raises what it likes
            logger.warning("our kernels cannot be imported: %s: %s", type(why).__name__, why)
            if not isinstance(why, ModuleNotFoundError):
                self.notes.append(NOTE)
            return None
        return FusedKernels if fits(self.plain.shape) else None

    def _possible(self, name: str) -> bool:
        """Whether a name that was remembered still means something on this device."""
        try:
            return self.device.overlaps or not way(name).overlapped
        except ValueError:
            return False

    def _made(self, name: str, fused: Any, tell: Callable[[str], None] | None) -> Kernels:
        """The kernels of a way; those of ours that fail are told and left to torch, or raise where nobody is told."""
        wanted = way(name)
        if not wanted.fused:
            return self.plain
        ours = fused(self.plain, self.device.units, overlapped=wanted.overlapped)
        return GuardedKernels(ours, self.plain, tell, wanted.without)

    def _compare(self, fused: Any) -> Choice:
        """Milliseconds of steps by every way that says what torch says."""
        expected: dict[int, _Expected] = {}
        found = {TORCH: self._timed(self.plain, expected)}
        self._try_each(found, [FUSED, *([OVERLAPPED] if self.device.overlaps else [])], fused, expected)
        if FUSED not in found:
            self._try_each(found, [without(FUSED, operation) for operation in OPERATIONS], fused, expected)
        return Choice(min(found, key=lambda name: found[name]), found)

    def _try_each(self, found: dict[str, float], names: list[str], fused: Any, expected: dict[int, _Expected]) -> None:
        for name in names:
            try:
                found[name] = self._timed(self._made(name, fused, None), expected)
            except torch.OutOfMemoryError:
                raise
            except Exception as why:  # noqa: BLE001 Triton's exceptions are no errors of torch
                logger.warning("kernels %s are not used: %s: %s", name, type(why).__name__, why)

    def _timed(self, kernels: Kernels, expected: dict[int, _Expected]) -> float:
        """Milliseconds of steps; raises where logits are not those expected (the first sets them), or it ends wrong."""
        programs, bucket = self.programs(kernels), self.size.buckets[len(self.size.buckets) // 2]
        try:
            cached = _fill(programs, bucket)
            ended = set(map(self.size.step_width, ENDED_WIDTHS))
            for width in self.size.widths:
                if width not in expected:
                    tree = agreeing_tree(programs, width, bucket, cached) if width in ended else any_tree(width)
                    _send_trial(programs, tree, width, cached)
                    expected[width] = _Expected(tree, programs.logits(width, bucket).clone())
                tree = expected[width].tree
                _send_trial(programs, tree, width, cached)
                if not agree(programs.logits(width, bucket), expected[width].logits_TV):
                    raise RuntimeError(f"its logits differ at {width} rows")
                if kernels is self.plain or width not in ended:
                    continue
                if (wrong := wrong_end(programs, tree, width, bucket, cached)) is not None:
                    raise RuntimeError(f"a step of {width} rows ends wrong: {wrong}")
            total = 0.0
            for width in dict.fromkeys(map(self.size.step_width, TRIED_WIDTHS)):
                _send_trial(programs, expected[width].tree, width, cached)
                program = Program(width, bucket, Ask())
                programs.graphs.run(program)
                total += time_ms(lambda key=program: programs.graphs.run(key), self.device)  # type: ignore[misc]
            return total
        finally:
            programs.graphs.drop()


def _fill(programs: Programs, bucket: int) -> int:
    """Read a text that leaves the widest step room in its bucket, and ends within a tile; how long it is.

    Over an empty cache attention would have nothing to do: neither its time nor its faults would show.
    """
    size = programs.plan
    chunk, length = size.reads[-1], max(min(bucket - size.widths[-1] - 7, size.context), 0)
    for start in range(0, length, chunk):
        count = min(chunk, length - start)
        tokens = [(5 * place + 3) % 97 for place in range(start, start + count)]
        programs.send(tokens, range(-1, count - 1), width=chunk, cached=start, sampler=GREEDY)
        programs.launch(Program(chunk, size.bucket(start, chunk), None))
        programs.wait()
    return length


def _send_trial(programs: Programs, tree: DraftTree, width: int, cached: int) -> None:
    programs.send(tree.tokens, tree.parents, width=width, cached=cached, sampler=GREEDY)
