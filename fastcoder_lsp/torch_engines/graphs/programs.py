"""The programs of the graph engine: a step from rows to tokens, a prefill chunk, and moves of slots.

Holds the fixed tensors and assembles the parts; a graph holds what is launched here. The host follows the tree
(`follow`), and `Moves` moves the accepted slots behind the cached text while the host drafts; following on the device
took some thirty launches.

Legend: M moves of a program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fastcoder_lsp.core import GREEDY, DraftTree, Progress
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.torch_engines.graphs.cache import StaticCache
from fastcoder_lsp.torch_engines.graphs.device import Device, GraphSet, Launch, inferring
from fastcoder_lsp.torch_engines.graphs.plan import Plan
from fastcoder_lsp.torch_engines.graphs.step_io import Outputs, StepInput, StepOutput
from fastcoder_lsp.torch_engines.graphs.transformer import Transformer, TreeAttention, TreeView
from fastcoder_lsp.torch_engines.graphs.verifier import StepVariant, choose_rows, keys_of


def follow(tree: DraftTree, said: Sequence[int], room: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Accepted drafts, root first, and emitted tokens: theirs, and the model's own next one.

    `said`: the token that every row chooses. At most `room` drafts may be accepted. One pass over the drafts suffices:
    each comes after its parent, and no two children of a row hold the same token.
    """
    path, emitted = list[int](), list[int]()
    node = tree.pending - 1
    token = said[node]
    emitted.append(token)
    tokens, parents = tree.tokens, tree.parents
    for child in range(tree.pending, len(tree)):
        if parents[child] == node and tokens[child] == token and len(path) < room:
            node, token = child, said[child]
            path.append(node)
            emitted.append(token)
    return tuple(path), tuple(emitted)


COUNTS = (8, 32)  # moves of the captured programs; one more has as many as a step has rows


class Moves:
    """Programs that move up to `most` slots, each reading its fixed tensor of sources and targets."""

    def __init__(self, device: Device, cache: StaticCache, most: int) -> None:
        self._place, self._cache = device, cache
        self._counts = (*(count for count in COUNTS if count < most), most)
        with torch.inference_mode(mode=False):  # copied to in any mode
            self._host = device.staging(2 * most, torch.int64)
            self._device = torch.zeros(2 * most, dtype=torch.int64, device=device.place)
        self._ints = self._host.numpy()
        self.graphs = GraphSet[int](device, self._make)

    def warm_up(self) -> None:
        """Capture all sizes."""
        for count in self._counts:
            self._prepare(count)
        self.graphs.later = True

    def want(self) -> None:
        """Request that `prepare` captures all sizes; until then moves are launched."""
        self.graphs.want(self._counts)

    def prepare(self) -> bool:
        """Capture a requested size; returns whether there was one."""
        found = self.graphs.prepare(lambda _count: True, self._stay)
        self._place.mark()
        self._place.wait()
        return found

    def keep(self, cached: int, kept: Sequence[int]) -> None:
        """Move slot `cached + kept[i]` to `cached + i` for every i; `kept` ascends.

        The caller has waited for a program since the last call, so that the last inputs have been used.
        """
        still = next((place for place, node in enumerate(kept) if place != node), len(kept))
        if still == len(kept):
            return
        moving = len(kept) - still
        count = next(count for count in self._counts if count >= moving)
        if count not in self.graphs and not self.graphs.later:
            self._prepare(count)
        first = cached + still
        # The remaining moves move a slot onto itself.
        sources = [cached + node for node in kept[still:]]
        self._send(count, [*sources, *range(first + moving, first + count)], range(first, first + count))
        self.graphs.run(count)

    def _prepare(self, count: int) -> None:
        """Capture a size by moving slots onto themselves: a capture runs its program more than once."""
        self.graphs.warm_up([count], lambda _share, _what: None, self._stay)
        self._place.mark()
        self._place.wait()

    def _stay(self, count: int) -> None:
        self._send(count, range(count), range(count))

    def _send(self, count: int, sources: Sequence[int], targets: Sequence[int]) -> None:
        self._ints[:count] = sources
        self._ints[count : 2 * count] = targets
        self._place.send(self._host[: 2 * count], self._device[: 2 * count])

    def _make(self, count: int) -> Launch:
        sources_M, targets_M = self._device[: 2 * count].view(2, count).unbind()
        return inferring(lambda: self._cache.move(sources_M, targets_M))


TOP_K = 16  # best ids of every row, if any are requested; callers that need more get a program of their own


@dataclass(frozen=True, slots=True)
class Program:
    """One graph: so many rows over so many slots; `ask` None: a prefill, which chooses no token."""

    width: int
    bucket: int
    ask: StepVariant | None


class Programs:
    """All programs over one transformer; `vocabulary`: the number of ids that may be chosen."""

    def __init__(
        self, transformer: Transformer, attention: TreeAttention, plan: Plan, device: Device, vocabulary: int
    ) -> None:
        self.transformer, self._attention, self.plan, self._device = transformer, attention, plan, device
        self.input = StepInput(device, plan.rows, vocabulary)
        self._outputs: dict[int, StepOutput] = {}
        self.vocabulary = vocabulary
        self._keys_V: torch.Tensor | None = None
        self._may_TV: torch.Tensor | None = None
        self.graphs = GraphSet(device, self._make)
        self.moves = Moves(device, transformer.cache, plan.widths[-1])

    def warm_up(self, progress: Progress) -> None:
        """Capture greedy steps and prefills of every size; the cache must be empty. `prepare` captures others."""
        self.graphs.warm_up(self._usual(), progress, self._ready)
        self.moves.warm_up()
        self.graphs.later = True

    def warm_up_again(self) -> None:
        """Drop all captured programs, and have `prepare` capture them again, one at a time."""
        self.forget()
        if self.graphs.later:
            self.graphs.want(self._usual())
            self.moves.want()

    def prepare(self, cached: int) -> bool:
        """Capture a requested program, if there is one, in slots behind `cached` tokens; returns whether there was."""
        return self.moves.prepare() or self.graphs.prepare(
            lambda program: cached + program.width <= program.bucket, lambda program: self._ready(program, cached)
        )

    def _usual(self) -> list[Program]:
        # With best ids and without: drafters that learn from rejected rows request them at every step.
        # A healed first step may emit only certain ids.
        most = min(TOP_K, self.vocabulary)
        asks = (StepVariant(), StepVariant(top_k=most), StepVariant(bound=True), StepVariant(bound=True, top_k=most))
        steps = [Program(width, bucket, ask) for width, bucket in self.plan.sizes() for ask in asks]
        reads = [
            Program(width, bucket, None)
            for bucket in reversed(self.plan.buckets)
            for width in reversed(self.plan.reads)
            if width < bucket
        ]
        return [*reads, *steps]

    def launch_singly(self) -> None:
        """Capture no more programs."""
        self.graphs.launch_singly()
        self.moves.graphs.launch_singly()

    def forget(self) -> None:
        """Drop all captured programs; each is captured again when it is requested, or by `warm_up`."""
        self.graphs.drop()
        self.moves.graphs.drop()

    def close(self) -> None:
        """Drop all references to the device's memory."""
        self.graphs.close()
        self.moves.graphs.close()
        self._outputs.clear()
        del self.transformer, self._attention, self.input, self._keys_V, self._may_TV, self.moves

    @torch.inference_mode()
    def bind(self, allowed: Mapping[int, Int64s], nodes: int) -> None:
        """Set the ids that may follow certain rows; the others are unrestricted."""
        may_TV = self._may()
        may_TV.fill_(True)
        for node, ids in allowed.items():
            if node < nodes:
                may_V = np.zeros(self.vocabulary, np.bool_)
                may_V[ids] = True
                may_TV[node].copy_(torch.from_numpy(may_V))

    def launch(self, program: Program, *, captured: bool = True) -> None:
        """Run a program on the inputs, and launch the copy of its outcome; `captured` or launch by launch."""
        if captured:
            self.graphs.run(program)
        else:
            self._make(program)()
        if program.ask is not None:
            self._outputs[program.ask.top_k].send(program.width)
        self._device.mark()

    def wait(self) -> None:
        """Wait for the last launch."""
        self._device.wait()

    def accepted(
        self, program: Program, tree: DraftTree, cached: int, room: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The last step's accepted drafts, and its emitted tokens; moves the drafts' slots behind the cached text.

        If a row chose `UNDECIDED`, nothing is moved.
        """
        assert program.ask is not None, "no step"
        found = follow(tree, self._outputs[program.ask.top_k].said(program.width), room)
        if min(found[1]) >= 0:
            self.moves.keep(cached, [*range(tree.pending), *found[0]])
        return found

    def best(self, program: Program, nodes: int, count: int) -> tuple[Int64s, Floats]:
        """The best `count` of the last step's first `nodes` rows."""
        assert program.ask is not None, "no step"
        return self._outputs[program.ask.top_k].best(program.width, nodes, count)

    @torch.inference_mode()
    def logits(self, width: int, bucket: int, skipped: frozenset[int] = frozenset()) -> torch.Tensor:
        """Logits of all input rows, uncaptured; without the parts that are `skipped` (see `backend.Rows`)."""
        found = self.transformer.logits(self.transformer.read(self._view(width, bucket), skipped))
        self._device.mark()
        self.wait()
        return found

    def _ready(self, program: Program, cached: int = 0) -> None:
        self._device.mark()
        self._device.wait()
        self.input.write([0], [-1], width=program.width, cached=cached, sampler=GREEDY)

    def _may(self) -> torch.Tensor:
        """The mask of ids that may follow rows; made on first use."""
        if self._may_TV is None:
            shape = (self.plan.widths[-1], self.vocabulary)
            self._may_TV = torch.ones(shape, dtype=torch.bool, device=self._device.place)
        return self._may_TV

    def _make(self, program: Program) -> Launch:
        """The work of a program; allocates here all that outlives it."""
        width, bucket, ask = program.width, program.bucket, program.ask
        if ask is None:
            return inferring(lambda: self._read(width, bucket))
        if ask.top_k not in self._outputs:
            self._outputs[ask.top_k] = StepOutput(self._device, self.plan.widths[-1], ask.top_k)
        outputs = self._outputs[ask.top_k].view(width)
        may_TV = self._may()[:width] if ask.bound else None
        if ask.sampled and self._keys_V is None:
            self._keys_V = keys_of(self.vocabulary, self._device.place)
        return inferring(lambda: self._step(width, bucket, ask, outputs, may_TV))

    def _view(self, width: int, bucket: int) -> TreeView:
        return self._attention.view(self.input.view(width), bucket)

    def _read(self, width: int, bucket: int) -> None:
        self.transformer.read(self._view(width, bucket))

    def _step(self, width: int, bucket: int, ask: StepVariant, outputs: Outputs, may_TV: torch.Tensor | None) -> None:
        view, transformer = self._view(width, bucket), self.transformer
        logits_TV = transformer.logits(transformer.read(view))
        kernels = transformer.kernels
        one_look = not ask.sampled and may_TV is None  # greedy rows choose the first of the best ids
        if ask.top_k and not one_look:
            kernels.best(logits_TV, outputs)
        if may_TV is not None:
            logits_TV = torch.where(may_TV, logits_TV, -torch.inf)
        if ask.sampled:
            assert self._keys_V is not None, "sampled without keys"
            outputs.said_T.copy_(choose_rows(logits_TV, view.inputs, self._keys_V, ask))
        else:
            kernels.choose(logits_TV, outputs, best=ask.top_k > 0 and one_look)
