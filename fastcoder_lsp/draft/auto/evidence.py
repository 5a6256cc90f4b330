"""How often each kind of evidence was right: counts with a prior, decayed, by source and cell.

Owns the counts and the log odds made of them. Knows neither what a cell means (`evidence`) nor where counts are kept
(`kept_counts`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.auto.branches import Weights
from fastcoder_lsp.draft.auto.cells import CELLS, SOURCES
from fastcoder_lsp.draft.auto.tree import Grown
from fastcoder_lsp.index.entry import FixedTypes
from fastcoder_lsp.kernels import inlined, kernel

PRIORS = "priors.json"
"""Beside this file; `fastcoder-lsp bench priors` makes it, docs/drafters.md says from what."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Priors:
    """What is believed before anything is counted: `auto_branches.Weights` to begin with."""

    logits_SC: Floats
    bias: float

    def to_json(self) -> str:
        """A text that people can read and compare: one line a source."""
        rows = {name: np.round(row, 3).tolist() for name, row in zip(SOURCES, self.logits_SC.tolist(), strict=True)}
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        return f'{{\n "bias": {round(self.bias, 3)},\n{lines}\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> "Priors":
        """The inverse of `to_json`."""
        rows = json.loads(text)
        return cls(np.array([rows[name] for name in SOURCES], np.float32), float(rows["bias"]))


def shipped_priors() -> Priors:
    """Those that come with the program."""
    return Priors.from_json((resources.files("fastcoder_lsp.draft.auto") / PRIORS).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class EvidenceCounts:
    """Guesses by source and cell; old ones count for less.

    `tried_SC`: how many were verified; `right_SC`: how many of them were right; `hoped_SC`: how many would have been
    expected to be with the cell's prior, the sum of their probabilities without what the cell has learnt.
    """

    tried_SC: Floats
    right_SC: Floats
    hoped_SC: Floats

    @classmethod
    def none(cls) -> "EvidenceCounts":
        """Nothing was counted yet."""
        tried_SC, right_SC, hoped_SC = np.zeros((3, len(SOURCES), CELLS), np.float32)
        return cls(tried_SC, right_SC, hoped_SC)


class Calibration:
    """Log odds that follow what happens.

    A node stands on the words of several sources, so a cell's own share of right guesses says little of what its word
    adds to the others'. What is counted is how many guesses were right against how many were *expected* to be: the
    difference in log odds is what the cell's word gains. That holds whichever nodes are drafted, too, while shares
    would be those of nodes that looked good.

    Args:
        priors: where everything starts.
        counts: what was counted before; it is counted on in these arrays.
        strength: the prior weighs as much as so many right, and so many wrong guesses as expected.
        memory: of a cell's guesses about so many count, the latest; older ones fade.
    """

    def __init__(
        self, priors: Priors, counts: EvidenceCounts | None = None, strength: float = 10.0, memory: float = 1000.0
    ) -> None:
        self.counts = counts or EvidenceCounts.none()
        self._prior_SC = np.array(priors.logits_SC, np.float32, order="C")
        self._strength, self._memory = strength, memory
        self.weights = Weights(self._prior_SC.copy(), priors.bias)
        for source, cell in np.argwhere(self.counts.tried_SC > 0).tolist():
            counted = (self.counts.tried_SC, self.counts.right_SC, self.counts.hoped_SC)
            tried, right, hoped = (float(count_SC[source, cell]) for count_SC in counted)
            self.weights.logits_SC[source, cell] += correction(tried, right, hoped, strength)

    def judge(self, grown: Grown, nodes: int, emitted: Sequence[int]) -> int:
        """Count the first `nodes` of a tree as right or wrong, as far as `emitted` tells; how many were right."""
        counts, said = self.counts, np.array(emitted, np.int32)
        arrays = counts.tried_SC, counts.right_SC, counts.hoped_SC, self._prior_SC
        return int(_judge(grown, nodes, said, *arrays, self.weights, self._strength, self._memory))


def correction(tried: Any, right: Any, hoped: Any, strength: Any) -> Any:
    """Log odds to be added where of `tried` guesses `right` came true, and `hoped` were expected to."""
    wrong, feared = max(tried - right, 0.0), max(tried - hoped, 0.0)
    return np.log((right + strength) / (hoped + strength)) - np.log((wrong + strength) / (feared + strength))


_correction: Any = inlined(correction)


@FixedTypes
@kernel
def _judge(
    grown: Any,
    nodes: Any,
    emitted: Any,
    tried_SC: Any,
    right_SC: Any,
    hoped_SC: Any,
    prior_SC: Any,
    weights: Any,
    strength: Any,
    memory: Any,
) -> Any:
    """Along the path that was said, every child of its nodes is known to be right or wrong; of others nothing is."""
    above, right = -1, 0
    for token in emitted:
        following = -1
        for node in range(nodes):
            if grown.parent_N[node] != above:
                continue
            agrees = grown.token_N[node] == token
            if agrees:
                following = node
            likely = grown.likely_N[node] / (grown.likely_N[above] if above >= 0 else 1.0)
            likely = min(max(likely, 1e-4), 1 - 1e-4)
            for s in range(grown.cell_NS.shape[1]):
                cell = grown.cell_NS[node, s]
                if cell < 0:
                    continue
                fade = min(1.0, memory / (tried_SC[s, cell] + 1.0))
                tried_SC[s, cell] = (tried_SC[s, cell] + 1.0) * fade
                right_SC[s, cell] = (right_SC[s, cell] + (1.0 if agrees else 0.0)) * fade
                learnt = weights.logits_SC[s, cell] - prior_SC[s, cell]
                hope = 1.0 / (1.0 + (1.0 - likely) / likely * np.exp(learnt))
                hoped_SC[s, cell] = (hoped_SC[s, cell] + hope) * fade
                gained = _correction(tried_SC[s, cell], right_SC[s, cell], hoped_SC[s, cell], strength)
                weights.logits_SC[s, cell] = prior_SC[s, cell] + gained
        if following < 0:
            break
        above = following
        right += 1
    return right
