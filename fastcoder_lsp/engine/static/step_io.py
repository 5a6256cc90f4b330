"""What goes into a program and what comes out of it: one small copy to the device, one back.

Owns the fixed tensors that programs read and write, and their places in the two copies; decides nothing.

Legend: T rows of the program, K best ids of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.noise import start_of

HEAD = 8
"""Numbers before the rows: cached, count, pending, room, noise, top-k, temperature, top-p; the last two are floats."""
FLOATS = 6
"""Where the floats begin; they lie in the same buffer, bit for bit."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """A program's view of its inputs: scalars and the first T rows, all on the device.

    Row i < `count` holds `tokens_T[i]` (-1: a guess outside the vocabulary) and hangs from row `parents_T[i]`, -1 for
    the cache. The first `pending` rows are a chain of decided tokens; at most `room` guesses may be accepted.
    """

    cached: torch.Tensor
    count: torch.Tensor
    pending: torch.Tensor
    room: torch.Tensor
    noise: torch.Tensor
    top_k: torch.Tensor
    temperature: torch.Tensor
    top_p: torch.Tensor
    tokens_T: torch.Tensor
    parents_T: torch.Tensor


class StepInput:
    """The inputs' buffer, on the host and on the device."""

    def __init__(self, device: Device, rows: int) -> None:
        self._rows = rows
        self._host = device.staging(HEAD + 2 * rows, torch.int64)
        self._ints = self._host.numpy()
        self._floats = self._ints[FLOATS:HEAD].view(np.float64)
        self._device = torch.zeros(HEAD + 2 * rows, dtype=torch.int64, device=device.place)

    def write(
        self, tokens: Sequence[int], parents: Sequence[int], *, cached: int, pending: int, room: int, sampler: Sampler
    ) -> None:
        """Send one program's inputs; the copy runs before whatever is launched next.

        What was sent before must have been used: the caller waits for a program before it writes the next.
        """
        count, start = len(tokens), HEAD + self._rows
        self._ints[:6] = (cached, count, pending, room, start_of(sampler.seed), sampler.top_k)
        self._floats[:] = (sampler.temperature or 1.0, sampler.top_p)
        self._ints[HEAD : HEAD + count] = tokens
        self._ints[start : start + count] = parents
        self._device.copy_(self._host, non_blocking=True)

    def view(self, width: int) -> Inputs:
        """The tensors that a program of `width` rows reads."""
        cached, count, pending, room, noise, top_k = self._device[:FLOATS].unbind()
        temperature, top_p = self._device[FLOATS:HEAD].view(torch.float64).unbind()
        return Inputs(
            cached=cached,
            count=count,
            pending=pending,
            room=room,
            noise=noise,
            top_k=top_k,
            temperature=temperature,
            top_p=top_p,
            tokens_T=self._device[HEAD : HEAD + width],
            parents_T=self._device[HEAD + self._rows : HEAD + self._rows + width],
        )


class StepOutput:
    """The outcome's buffers, on the device and on the host."""

    def __init__(self, device: Device, rows: int) -> None:
        self.rows = rows
        self._device = torch.zeros(1 + 2 * rows, dtype=torch.int64, device=device.place)
        self._host = device.staging(1 + 2 * rows, torch.int64)

    def write(self, kept: torch.Tensor, node_of_depth_T: torch.Tensor, said_T: torch.Tensor) -> None:
        """Part of a program: `kept` rows stay, which ones by their depth, and what each of them says comes next."""
        width = len(said_T)
        self._device[:1].copy_(kept.view(1))
        self._device[1 : 1 + width].copy_(node_of_depth_T)
        self._device[1 + self.rows : 1 + self.rows + width].copy_(said_T)

    def send(self) -> None:
        """Launch the copy to the host, behind the program."""
        self._host.copy_(self._device, non_blocking=True)

    def read(self, pending: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Accepted guesses, root side first, and emitted tokens; valid once the copy is done."""
        values = self._host.numpy()
        kept = int(values[0])
        path = values[1 + pending : 1 + kept].tolist()
        emitted = values[self.rows + pending : 1 + self.rows + kept].tolist()
        return tuple(path), tuple(emitted)


class TopOutput:
    """The best ids and logits of every row, for drafters that learn from rejected rows."""

    def __init__(self, device: Device, rows: int, count: int) -> None:
        self._ids_TK = torch.zeros(rows, count, dtype=torch.int64, device=device.place)
        self._logits_TK = torch.zeros(rows, count, dtype=torch.float32, device=device.place)
        self._host_ids = device.staging(rows * count, torch.int64).view(rows, count)
        self._host_logits = device.staging(rows * count, torch.float32).view(rows, count)

    def write(self, ids_TK: torch.Tensor, logits_TK: torch.Tensor) -> None:
        """Part of a program."""
        self._ids_TK[: len(ids_TK)].copy_(ids_TK)
        self._logits_TK[: len(ids_TK)].copy_(logits_TK)

    def send(self) -> None:
        """Launch the copies to the host."""
        self._host_ids.copy_(self._ids_TK, non_blocking=True)
        self._host_logits.copy_(self._logits_TK, non_blocking=True)

    def read(self, nodes: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The first `nodes` rows' `count` best; copies, for the buffers are written again."""
        return self._host_ids[:nodes, :count].numpy().copy(), self._host_logits[:nodes, :count].numpy().copy()
