"""The host's share of a step, without a device: `python -m benchmarks.gpu.host`, where the model's files are.

The graph engine's whole host path over the traces of `bench draft`: inputs are written, programs chosen, outcomes read,
drafts made and judged. Only what a GPU would do is left out: the recording says what comes of a step. Owns stand-ins.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.common.requests import decode_request
from benchmarks.drafting.drafters import drafter_names, make
from benchmarks.drafting.replay import accept
from benchmarks.drafting.task_parts import load_parts
from benchmarks.drafting.traces import Trace, record
from benchmarks.gpu.record import GPU_COSTS
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.core import GREEDY, Drafter, DraftTree, EngineInfo, Sampler, Verified
from fastcoder_lsp.decode.guard import GuardedDrafter
from fastcoder_lsp.decode.loop import Decoding
from fastcoder_lsp.engine.static.backend import StaticBackend
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.engine.static.plan import MAX_NODES, plan
from fastcoder_lsp.engine.static.programs import TOP_K, Program
from fastcoder_lsp.engine.static.step_io import StepInput, StepOutput
from fastcoder_lsp.engine.static.verifier import Ask
from fastcoder_lsp.observe import Spans, percentile
from fastcoder_lsp.tokenizer import Tokenizer

CONTEXT = 4096


class RecordedPrograms:
    """Stands in for `Programs`: what a step gives is what was recorded; best ids are made up.

    `launched`, `done`: when the last step was handed to the device, and when its outcome was there, in nanoseconds.
    """

    def __init__(self, trace: Trace, vocabulary: int) -> None:
        self.plan = plan(CONTEXT)
        self.tree = DraftTree.chain((0,))
        self.launched = self.done = 0
        self._outputs = {count: StepOutput(CpuDevice(), MAX_NODES, count) for count in (0, TOP_K)}
        self._program, self._filled = Program(1, 0, Ask()), (0, 0)
        self._input = StepInput(CpuDevice(), self.plan.rows, vocabulary)
        self._trace, self._said = trace, 0
        self._verified = Verified((), ())
        chance = np.random.default_rng(0)
        self._ids_NK = np.sort(chance.integers(0, vocabulary, (MAX_NODES, TOP_K)))
        self._logits_NK = -np.sort(-chance.normal(size=(MAX_NODES, TOP_K)).astype(np.float32))

    def send(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        *,
        width: int,
        cached: int,
        sampler: Sampler,
        pending: int,
        room: int,
    ) -> None:
        """Write a step's inputs to where the device would read them."""
        self._input.write(tokens, parents, width=width, cached=cached, sampler=sampler, pending=pending, room=room)

    def launch(self, program: Program) -> None:
        """Hand a step over: from here on a device would work."""
        self._program = program
        self.launched = time.perf_counter_ns()

    def wait(self) -> None:
        """Wait for what a device would have done: the recording says what came of the step."""
        self._verified = accept(self.tree, self._trace.tokens[self._said :])
        self._said += len(self._verified.emitted)
        program, path = self._program, self._verified.path
        assert program.ask is not None, "no step"
        ints = self._written(program.width, program.ask.top_k)
        for row, token in zip((self.tree.pending - 1, *path), self._verified.emitted, strict=True):
            ints[row] = token
        ints[program.width] = len(path)
        for place, row in enumerate(path):
            ints[program.width + 1 + place] = row
        self.done = time.perf_counter_ns()

    def _written(self, width: int, count: int) -> npt.NDArray[np.int64]:
        """What a device's copy fills, as numpy sees it, best ids in place: torch's calls would cool the caches."""
        outputs = self._outputs[count]
        if (width, count) != self._filled:
            written = outputs.view(width)
            written.ids_TK.copy_(torch.from_numpy(self._ids_NK[:width, :count]))
            written.logits_TK.copy_(torch.from_numpy(self._logits_NK[:width, :count]))
            outputs.send(width)
            self._filled = width, count
        return outputs.on_host

    def accepted(
        self,
        program: Program,
        tree: DraftTree,
        cached: int,  # noqa: ARG002 see `Programs`
        room: int,  # noqa: ARG002
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The path and the tokens, as a device's kernels leave them: see `StepOutput.path`."""
        assert program.ask is not None, "no step"
        found = self._outputs[program.ask.top_k].path(program.width, tree.pending)
        assert found is not None, "written above"
        return found

    def best(self, program: Program, nodes: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The `count` best ids and logits of `nodes` rows; made up, for a recording has none."""
        assert program.ask is not None, "no step"
        return self._outputs[program.ask.top_k].best(program.width, nodes, count)


class RecordedBackend:
    """Stands in for `StaticBackend`: a KV cache that holds whatever it is told to."""

    capacity, chunk = 2 * CONTEXT, 512

    def __init__(self, programs: RecordedPrograms) -> None:
        self.programs = programs

    def recall(self, held: Sequence[int], wanted: Sequence[int]) -> int:  # noqa: ARG002 see `StaticBackend`
        """How many tokens of `wanted` are brought back from earlier prompts: none was kept."""
        return 0

    def forward(self, rows: object) -> None:
        """Run rows of a prefill: there is nothing to compute."""


class RecordedEngine(StaticEngine):
    """The graph engine over a recording; the stand-in is told of the tree, which a device would hold."""

    def __init__(self, programs: RecordedPrograms, vocabulary: int) -> None:
        info = EngineInfo("recorded", "", "", "none", vocabulary, CONTEXT, MAX_NODES)
        super().__init__(cast("StaticBackend", RecordedBackend(programs)), info)
        self._recorded = programs

    def launch(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> None:
        """Begin a step, whose tree the stand-in of the device is told."""
        self._recorded.tree = tree
        super().launch(tree, sampler, allowed, top_k)


def gaps_us(drafter: Drafter, trace: Trace, tokenizer: Tokenizer, nodes: int) -> list[float]:
    """Microseconds from each step's outcome to the next one's launch."""
    programs = RecordedPrograms(trace, tokenizer.vocabulary)
    engine = RecordedEngine(programs, tokenizer.vocabulary)
    request = decode_request(
        tokenizer, trace.prompt, len(trace.tokens), document=trace.task.id, nodes=nodes, may_end=False
    )
    decoding = Decoding(engine, GuardedDrafter(drafter), request, Spans())
    decoding.prefill(lambda: False)
    found, going = list[float](), decoding.step()
    while going:
        done = programs.done
        going = decoding.step()
        found.append((programs.launched - done) / 1e3)
    return found


def main() -> None:
    """Measure the host's work of a step for each drafter, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=12, help="tasks, evenly spread; default: 12")
    parser.add_argument("--nodes", type=int, default=16, help="rows of a step at most; default: 16")
    parser.add_argument("--drafters", default="none,suffix,fastcoder,auto", help="default: none,suffix,fastcoder,auto")
    arguments = parser.parse_args()
    parts = load_parts(limit=arguments.limit, engine="cpu-int8")
    traces = record(parts, "product")
    rows = []
    for name in drafter_names(arguments.drafters):
        found = list[float]()
        for _ in range(2):  # what the first turn compiles is not what a step takes
            found.clear()
            for trace in traces:
                drafter = make(name, replace(parts.drafter_parts(trace.task), costs=GPU_COSTS))
                found += gaps_us(drafter, trace, parts.tokenizer, arguments.nodes)
        rows.append((name, statistics.median(found), percentile(found, 0.99), len(found)))
    print_table(
        f"{len(traces)} tasks, {arguments.nodes} nodes: the host between two steps",
        ("drafter", "p50 µs", "p99 µs", "steps"),
        rows,
    )


if __name__ == "__main__":
    main()
