"""What goes into a program and what comes out of it: one small copy to the device, one back.

Owns the fixed tensors that programs read and write, and their places in the two copies; decides nothing. Every width
has a form of its own, so that a copy is as long as its program needs.

Legend: T rows of the program, K best ids of a row, E = T + 2 (the cached text, the rows, what lies behind them).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.engine.static import layout
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.noise import start_of


@dataclass(frozen=True, slots=True)
class Inputs:
    """A program's view of its inputs, all on the device.

    `ids_T`: embeddings to take; `positions_T`: in the text; `slots_T`: where keys and values go. `stretches_2E`: see
    `layout`. The scalars are what sampling needs, and how many tokens are cached.
    """

    cached: torch.Tensor
    noise: torch.Tensor
    top_k: torch.Tensor
    temperature: torch.Tensor
    top_p: torch.Tensor
    ids_T: torch.Tensor
    positions_T: torch.Tensor
    slots_T: torch.Tensor
    stretches_2E: torch.Tensor


class StepInput:
    """The inputs' buffer, on the host and on the device."""

    def __init__(self, device: Device, rows: int, vocabulary: int) -> None:
        self._place, self._rows, self._vocabulary = device, rows, vocabulary
        self._host = device.staging(layout.size(rows), torch.int64)
        self._ints = self._host.numpy()
        self._floats = self._ints[layout.FLOATS : layout.HEAD].view(np.float64)
        self._free = np.zeros(rows + 1, np.int64)
        self._device = torch.zeros(layout.size(rows), dtype=torch.int64, device=device.place)
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # slicing takes longer than copying

    def write(
        self, tokens: Sequence[int], parents: Sequence[int], *, width: int, cached: int, sampler: Sampler
    ) -> None:
        """Send the inputs of a program of `width` rows; the copy runs before whatever is launched next.

        Row i holds `tokens[i]` and hangs from row `parents[i]`, -1 for the cache. What was sent before must have been
        used: the caller waits for a program before it writes the next.
        """
        assert len(tokens) == len(parents) <= width <= self._rows, "compiled code looks at no bounds"
        self._ints[:3] = (cached, start_of(sampler.seed), sampler.top_k)
        self._floats[:] = (sampler.temperature or 1.0, sampler.top_p)
        tokens_N, parents_N = np.array(tokens, np.int64), np.array(parents, np.int64)
        layout.lay_out(tokens_N, parents_N, cached, width, self._vocabulary, self._ints, self._free)
        copy = self._copies.get(width)
        if copy is None:
            end = layout.size(width)
            copy = self._copies[width] = (self._host[:end], self._device[:end])
        self._place.send(*copy)

    def view(self, width: int) -> Inputs:
        """The tensors that a program of `width` rows reads."""
        cached, noise, top_k = self._device[:3].unbind()
        temperature, top_p = self._device[layout.FLOATS : layout.HEAD].view(torch.float64).unbind()
        return Inputs(
            cached=cached,
            noise=noise,
            top_k=top_k,
            temperature=temperature,
            top_p=top_p,
            ids_T=self._device[layout.ids_at(width)],
            positions_T=self._device[layout.positions_at(width)],
            slots_T=self._device[layout.slots_at(width)],
            stretches_2E=self._device[layout.stretches_at(width)].view(2, width + layout.EDGES),
        )


@dataclass(frozen=True, slots=True)
class Outputs:
    """A program's view of its outputs: what every row says, and its best ids with their logits, on one side."""

    said_T: torch.Tensor
    ids_TK: torch.Tensor
    logits_TK: torch.Tensor


class StepOutput:
    """The outcome's buffers, on the device and on the host, for programs that give `count` best ids of every row."""

    def __init__(self, device: Device, rows: int, count: int) -> None:
        self._place, self.count = device, count
        self._device = torch.zeros(rows * (1 + count), dtype=torch.int64, device=device.place)
        self._host = device.staging(rows * (1 + count), torch.int64)
        self._ints = self._host.numpy()
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def view(self, width: int) -> Outputs:
        """What a program of `width` rows writes."""
        halves = self._device[width : width * (1 + self.count)].view(torch.int32)
        ids, logits = halves.view(2, width, self.count).unbind()
        return Outputs(self._device[:width], ids, logits.view(torch.float32))

    def send(self, width: int) -> None:
        """Launch the copy to the host, behind the program."""
        copy = self._copies.get(width)
        if copy is None:
            end = width * (1 + self.count)
            copy = self._copies[width] = (self._device[:end], self._host[:end])
        self._place.fetch(*copy)

    def said(self, width: int) -> list[int]:
        """What every row says; valid once the copy is done."""
        found: list[int] = self._ints[:width].tolist()
        return found

    def best(self, width: int, nodes: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The first `nodes` rows' `count` best; copies, for the buffers are written again."""
        halves = self._ints[width : width * (1 + self.count)].view(np.int32).reshape(2, width, self.count)
        return halves[0, :nodes, :count].astype(np.int64), halves[1, :nodes, :count].copy().view(np.float32)
