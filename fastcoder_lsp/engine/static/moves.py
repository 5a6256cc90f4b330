"""Moving what was accepted of a tree to the end of what counts in the KV cache, behind the step and before the next.

Owns the little programs that do it. The host says what moves, while the device would be idle: a step's own program has
nothing to do with it, and a path that lies in order already costs nothing.

Legend: M moves of a program.
"""

from collections.abc import Sequence

import torch

from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import Device, Launch
from fastcoder_lsp.engine.static.graphs import GraphSet, inferring

COUNTS = (8, 32)
"""Moves of the captured programs; one more has as many as a step has rows."""


class Moves:
    """Programs that move slots, each reading its fixed tensor of sources and targets.

    Args:
        cache: whose slots are moved.
        most: rows of the widest step.
    """

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
        """Have all sizes captured by `prepare`; until then moves are launched."""
        self.graphs.want(self._counts)

    def prepare(self) -> bool:
        """Capture a size that was wanted; whether there was one."""
        found = self.graphs.prepare(lambda _count: True, self._stay)
        self._place.mark()
        self._place.wait()
        return found

    def keep(self, cached: int, kept: Sequence[int]) -> None:
        """Launch what moves slot `cached + kept[i]` to `cached + i` for every i; `kept` ascends.

        The caller has waited for a program since the last call, so that what was sent then has been used.
        """
        still = next((place for place, node in enumerate(kept) if place != node), len(kept))
        if still == len(kept):
            return
        moving = len(kept) - still
        count = next(count for count in self._counts if count >= moving)
        if count not in self.graphs and not self.graphs.later:
            self._prepare(count)
        first = cached + still
        # What is left over moves onto itself.
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
