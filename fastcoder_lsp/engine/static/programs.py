"""The programs of the graph engine: a step from rows to emitted tokens, and the reading of a prompt's chunk.

Owns the fixed tensors and puts the parts together; what is launched here is what a graph holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from fastcoder_lsp.core import GREEDY, Progress, Sampler
from fastcoder_lsp.engine.static.attention import TreeAttention
from fastcoder_lsp.engine.static.device import Device, Work
from fastcoder_lsp.engine.static.graphs import GraphSet
from fastcoder_lsp.engine.static.noise import keys_of
from fastcoder_lsp.engine.static.plan import Plan
from fastcoder_lsp.engine.static.step_io import StepInput, StepOutput, TopOutput
from fastcoder_lsp.engine.static.transformer import Transformer
from fastcoder_lsp.engine.static.verifier import Ask, choose, follow, top_rows

TOP_K = 16
"""Best ids that a program gives for every row, where any are asked for; callers that want more get one of their own."""


@dataclass(frozen=True, slots=True)
class Program:
    """One graph: so many rows over so many slots; `ask` None: read only, no token is wanted."""

    width: int
    bucket: int
    ask: Ask | None


class Programs:
    """Everything that can be launched, over one transformer.

    Args:
        transformer: the model and its cache.
        attention: makes the rows' views.
        plan: the sizes.
        device: where they run.
        vocabulary: ids that may be said.
    """

    def __init__(
        self, transformer: Transformer, attention: TreeAttention, plan: Plan, device: Device, vocabulary: int
    ) -> None:
        self._transformer, self._attention, self.plan, self._device = transformer, attention, plan, device
        self._input = StepInput(device, plan.rows)
        self._output = StepOutput(device, plan.widths[-1])
        self._tops: dict[int, TopOutput] = {}
        self._vocabulary = vocabulary
        self._keys_V: torch.Tensor | None = None
        self._may_TV: torch.Tensor | None = None
        self.graphs = GraphSet(device, self._make)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that one step reads."""
        return self._transformer.model.bytes

    def warm_up(self, progress: Progress) -> None:
        """Capture greedy steps and reads of every size; the cache must hold nothing yet."""
        self.send([0], [-1], cached=0, pending=1, room=0, sampler=GREEDY)
        # With best ids and without: drafters that learn from rejected rows ask for them at every step.
        asks = (Ask(), Ask(top_k=min(TOP_K, self._vocabulary)))
        steps = [Program(width, bucket, ask) for width, bucket in self.plan.sizes() for ask in asks]
        reads = [
            Program(width, bucket, None)
            for bucket in reversed(self.plan.buckets)
            for width in reversed(self.plan.reads)
            if width < bucket
        ]
        self.graphs.warm_up([*reads, *steps], progress)
        self._device.mark()
        self._device.wait()

    def send(
        self, tokens: Sequence[int], parents: Sequence[int], *, cached: int, pending: int, room: int, sampler: Sampler
    ) -> None:
        """Hand over the next program's rows."""
        self._input.write(tokens, parents, cached=cached, pending=pending, room=room, sampler=sampler)

    def bind(self, allowed: Mapping[int, npt.NDArray[np.int64]], nodes: int) -> None:
        """Hand over which ids may follow which rows; the others may say anything."""
        if self._may_TV is None:
            self._may_TV = torch.ones(
                self.plan.widths[-1], self._vocabulary, dtype=torch.bool, device=self._device.place
            )
        self._may_TV.fill_(True)
        for node, ids in allowed.items():
            if node < nodes:
                may_V = np.zeros(self._vocabulary, np.bool_)
                may_V[ids] = True
                self._may_TV[node].copy_(torch.from_numpy(may_V))

    def launch(self, program: Program) -> None:
        """Run a program on what was handed over, and send its outcome behind it."""
        self.graphs.run(program)
        if program.ask is not None:
            self._output.send()
            if program.ask.top_k:
                self._tops[program.ask.top_k].send()
        self._device.mark()

    def wait(self) -> None:
        """Wait for what was launched last."""
        self._device.wait()

    def outcome(self, pending: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Accepted guesses and emitted tokens of the last step."""
        return self._output.read(pending)

    def top_rows(self, nodes: int, held: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The best `count` of every row of the last step, which was asked for `held`."""
        return self._tops[held].read(nodes, count)

    def logits(self, width: int, bucket: int) -> torch.Tensor:
        """Logits of all rows handed over, uncaptured: for comparisons."""
        inputs = self._input.view(width)
        view = self._attention.view(inputs, bucket)
        return self._transformer.logits(self._transformer.read(inputs.tokens_T, view))

    def _make(self, program: Program) -> Work:
        """The work of a program."""
        if program.ask is None:
            return lambda: self._read(program.width, program.bucket)
        ask = program.ask
        if ask.sampled and self._keys_V is None:
            self._keys_V = keys_of(self._vocabulary, self._device.place)
        if ask.top_k and ask.top_k not in self._tops:
            self._tops[ask.top_k] = TopOutput(self._device, self.plan.widths[-1], ask.top_k)
        return lambda: self._step(program.width, program.bucket, ask)

    def _read(self, width: int, bucket: int) -> None:
        inputs = self._input.view(width)
        self._transformer.read(inputs.tokens_T, self._attention.view(inputs, bucket))

    def _step(self, width: int, bucket: int, ask: Ask) -> None:
        inputs = self._input.view(width)
        view = self._attention.view(inputs, bucket)
        logits_TV = self._transformer.logits(self._transformer.read(inputs.tokens_T, view))
        if ask.top_k:
            self._tops[ask.top_k].write(*top_rows(logits_TV, ask.top_k))
        if ask.bound:
            assert self._may_TV is not None, "bound without bounds"
            logits_TV = logits_TV.masked_fill(~self._may_TV[:width], -torch.inf)
        if ask.sampled:
            assert self._keys_V is not None, "sampled without keys"
            said_T = choose(logits_TV, inputs, view.depths_T, self._keys_V, nucleus=ask.nucleus)
        else:
            said_T = logits_TV.argmax(1)  # the first of equals
        followed = follow(inputs, view, said_T)
        if width > 1:
            self._transformer.cache.compact(inputs.cached, followed.nodes_T)
        self._output.write(followed.kept, followed.nodes_T, said_T[followed.nodes_T])
