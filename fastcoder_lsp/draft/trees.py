"""From continuations with weights to a draft: the heaviest nodes of the tree that they make together.

Owns the list of continuations while a draft is being made, with who said them; the arithmetic is in `kernels`.
"""

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import NO_DRAFT, Draft
from fastcoder_lsp.draft.matching import GAP, grow


class Growth:
    """Continuations gathered for one draft.

    Args:
        capacity: most continuations that fit; more are dropped.
        depth: most tokens of a continuation.
    """

    def __init__(self, capacity: int, depth: int) -> None:
        self._rows_KD = np.full((capacity, depth), GAP, np.int32)
        self._weights_K = np.zeros(capacity, np.float64)
        self._nodes_3N = np.zeros((3, 0), np.int32)
        self._sources: list[tuple[int, str, int]] = []
        self._filled = 0

    def clear(self) -> None:
        """Begin another draft."""
        self._filled = 0
        self._sources.clear()

    def add(self, rows_KD: npt.NDArray[np.int32], weight: float, source: str, match: int) -> None:
        """Take in continuations (GAP after their ends), each with `weight`.

        Args:
            rows_KD: no more columns than `depth`.
            weight: of each continuation.
            source: who said it.
            match: how long the match was that led there.
        """
        room = len(self._rows_KD) - self._filled
        count, columns = min(len(rows_KD), room), rows_KD.shape[1]
        if count < 1:
            return
        start, end = self._filled, self._filled + count
        self._rows_KD[start:end, :columns] = rows_KD[:count]
        self._rows_KD[start:end, columns:] = GAP
        self._weights_K[start:end] = weight
        self._sources.append((end, source, match))
        self._filled = end

    def draft(self, nodes: int) -> Draft:
        """The `nodes` heaviest nodes, heaviest first."""
        if not self._filled or nodes < 1:
            return NO_DRAFT
        if self._nodes_3N.shape[1] != nodes:
            self._nodes_3N = np.zeros((3, nodes), np.int32)
        tokens, parents, rows = self._nodes_3N
        count = grow(self._rows_KD[: self._filled], self._weights_K[: self._filled], tokens, parents, rows)
        names, matches = [], []
        for row in rows[:count].tolist():
            source, match = next((source, match) for end, source, match in self._sources if row < end)
            names.append(source)
            matches.append(match)
        return Draft(tuple(tokens[:count].tolist()), tuple(parents[:count].tolist()), tuple(names), tuple(matches))
