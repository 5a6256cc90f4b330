"""The inputs and outputs of a program: one small copy to the device, one back.

Every width has a layout of its own, so that a copy is no longer than its program needs. The host numbers the rows so
that "row j is above row i" is a comparison: rows get places in the order of a walk, so that a row's descendants lie in
one stretch behind it, `enter`…`leave`; row i sees row j if j's stretch holds i's `enter`. The cached text is one more
row above all real ones, and the padding behind the rows is one without descendants.

Legend: T rows of the program, K best ids of a row, E = T + 2 (the cached text, the rows, the padding behind them).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.core.noise import seed_start
from fastcoder_lsp.kernels import kernel
from fastcoder_lsp.kernels.decorators import FixedTypes
from fastcoder_lsp.torch_engines.graphs.device import Device

HEAD = 6  # numbers before the rows: cached, noise, top-k, temperature, top-p, least
FLOATS = 3  # where the floats begin; they lie in the same buffer, bit for bit
EDGES = 2  # columns of a stretch beside the rows: the cached text before them, and the padding behind them
FAR = 1 << 40  # a place that no row has


def input_size(width: int) -> int:
    """How many numbers a program of `width` rows reads: the head, three of each row, and two of each stretch."""
    return HEAD + 3 * width + 2 * (width + EDGES)


@FixedTypes
@kernel
def lay_out(
    tokens_N: Any, parents_N: Any, pending: Any, cached: Any, width: Any, vocabulary: Any, numbers: Any, free: Any
) -> bool:
    """Fill `numbers` after the head, for a tree of N rows in a program of `width`; `free` has N + 1 places.

    Drafts outside the vocabulary get any embedding, since they are never accepted; rows from N on see only themselves.
    Returns False, and fills nothing, if a row's parent is not before it, or the first `pending` are no chain.
    """
    count = len(tokens_N)
    for row in range(count):
        above = parents_N[row]
        if above >= row or above < -1 or (row < pending and above != row - 1):
            return False
    positions, slots = HEAD + width, HEAD + 2 * width
    enter = HEAD + 3 * width + 1
    leave = enter + width + EDGES
    numbers[enter - 1], numbers[leave - 1] = 0, count
    numbers[enter + width], numbers[leave + width] = FAR, 0
    for row in range(count):
        numbers[leave + row] = 1
    for row in range(count - 1, -1, -1):
        if parents_N[row] >= 0:
            numbers[leave + parents_N[row]] += numbers[leave + row]
    free[0] = 0
    for row in range(count):
        above = parents_N[row]
        place, below = free[above + 1], numbers[leave + row]
        free[above + 1] = place + below
        free[row + 1] = place + 1
        numbers[enter + row], numbers[leave + row] = place, place + below
        numbers[positions + row] = cached if above < 0 else numbers[positions + above] + 1
        known = 0 <= tokens_N[row] < vocabulary
        numbers[HEAD + row] = tokens_N[row] if known else 0
    for row in range(count, width):
        numbers[enter + row], numbers[leave + row] = row, row + 1
        numbers[positions + row], numbers[HEAD + row] = cached, 0
    for row in range(width):
        numbers[slots + row] = cached + row
    return True


@dataclass(frozen=True, slots=True)
class Inputs:
    """A program's view of its inputs, all on the device.

    The scalars are the sampler's parameters and the number of cached tokens.
    """

    cached: torch.Tensor
    noise: torch.Tensor
    top_k: torch.Tensor
    temperature: torch.Tensor
    top_p: torch.Tensor
    least: torch.Tensor
    ids_T: torch.Tensor  # embeddings to take
    positions_T: torch.Tensor  # in the text
    slots_T: torch.Tensor  # of keys and values
    stretches_2E: torch.Tensor  # see `lay_out`


@lru_cache(maxsize=64)
def start_of(seed: int) -> int:
    """The start of a seed's stream, as a wrapped int64; cached, since most steps ask for the same one."""
    return int(np.uint64(seed_start(seed)).astype(np.int64))


class StepInput:
    """The inputs' buffer, on the host and on the device."""

    def __init__(self, device: Device, rows: int, vocabulary: int) -> None:
        self._place, self._rows, self._vocabulary = device, rows, vocabulary
        with torch.inference_mode(mode=False):  # so that a copy needs no mode, which takes longer than the copy
            self._host = device.staging(input_size(rows), torch.int64)
            self._device = torch.zeros(input_size(rows), dtype=torch.int64, device=device.place)
        self._ints = self._host.numpy()
        self._floats = self._ints[FLOATS:HEAD].view(np.float64)
        self._free = np.zeros(rows + 1, np.int64)
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # slicing takes longer than copying
        self._sampler: Sampler | None = None

    def write(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        *,
        width: int,
        cached: int,
        sampler: Sampler,
        pending: int = 1,
    ) -> None:
        """Send the inputs of a program of `width` rows; the copy runs before the next launch.

        Row i holds `tokens[i]` and its parent is `parents[i]`, -1 for the cache; rows from `pending` on are drafts. The
        last inputs must have been used: the caller waits for a program before it writes the next.
        """
        assert len(tokens) == len(parents) <= width <= self._rows, "compiled code looks at no bounds"
        ints = self._ints
        ints[0] = cached
        if sampler is not self._sampler:  # usually the last step's
            self._sampler = sampler
            ints[1:3] = (start_of(sampler.seed), sampler.top_k)
            self._floats[:] = (sampler.temperature or 1.0, sampler.top_p, sampler.least)
        tokens_N, parents_N = np.array(tokens, np.int64), np.array(parents, np.int64)
        sound = lay_out(tokens_N, parents_N, pending, cached, width, self._vocabulary, ints, self._free)
        assert sound, "rows hang from rows before them, and what is decided is a chain"
        copy = self._copies.get(width)
        if copy is None:
            end = input_size(width)
            copy = self._copies[width] = (self._host[:end], self._device[:end])
        self._place.send(*copy)

    def view(self, width: int) -> Inputs:
        """The tensors that a program of `width` rows reads."""
        cached, noise, top_k = self._device[:FLOATS].unbind()
        temperature, top_p, least = self._device[FLOATS:HEAD].view(torch.float64).unbind()
        rows_3T, stretches = self._device[HEAD : input_size(width)].tensor_split([3 * width])
        ids_T, positions_T, slots_T = rows_3T.view(3, width).unbind()
        return Inputs(
            cached=cached,
            noise=noise,
            top_k=top_k,
            temperature=temperature,
            top_p=top_p,
            least=least,
            ids_T=ids_T,
            positions_T=positions_T,
            slots_T=slots_T,
            stretches_2E=stretches.view(2, width + EDGES),
        )


@dataclass(frozen=True, slots=True)
class Outputs:
    """A program's view of its outputs: every row's choice, and every row's best ids."""

    said_T: torch.Tensor
    ids_TK: torch.Tensor
    logits_TK: torch.Tensor


class StepOutput:
    """The outcome's buffers, on the device and on the host, for programs that give `count` best ids of every row."""

    def __init__(self, device: Device, rows: int, count: int) -> None:
        self._place, self.count = device, count
        size = rows + rows * count
        with torch.inference_mode(mode=False):
            self._device = torch.zeros(size, dtype=torch.int64, device=device.place)
            self._host = device.staging(size, torch.int64)
        self.on_host = self._host.numpy()  # the copy's target, in numpy
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def view(self, width: int) -> Outputs:
        """The outputs of a program of `width` rows."""
        halves = self._device[width : width + width * self.count].view(torch.int32)
        ids, logits = halves.view(2, width, self.count).unbind()
        return Outputs(self._device[:width], ids, logits.view(torch.float32))

    def send(self, width: int) -> None:
        """Launch the copy to the host, after the program."""
        copy = self._copies.get(width)
        if copy is None:
            end = width + width * self.count
            copy = self._copies[width] = (self._device[:end], self._host[:end])
        self._place.fetch(*copy)

    def said(self, width: int) -> list[int]:
        """Every row's choice; valid once the copy is done."""
        found: list[int] = self.on_host[:width].tolist()
        return found

    def best(self, width: int, nodes: int, count: int) -> tuple[Int64s, Floats]:
        """The `count` best of the first `nodes` rows; copies, since the buffers are written again."""
        halves = self.on_host[width : width + width * self.count].view(np.int32).reshape(2, width, self.count)
        return halves[0, :nodes, :count].astype(np.int64), halves[1, :nodes, :count].copy().view(np.float32)
