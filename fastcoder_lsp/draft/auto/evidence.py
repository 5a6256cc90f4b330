"""The evidence of the sources for a token, sorted into cells, and how often each cell was right.

A hit tells the length of its match, the share of the source's hits (weighted by match length) that go on with the
token, and the number of hits. A table tells the token's rank in its row, and how sure the model was. A source with
evidence at a node, but not for this token, tells that, too. Each cell has log odds, learnt by counting; the counts are
kept on disk, one small file for each model and workspace.

Legend: S sources, C cells, N nodes.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from fastcoder_lsp.core.arrays import Float64s, Floats, Int32s
from fastcoder_lsp.core.files import appearing, private_folder, read_cached
from fastcoder_lsp.draft.base import FROM_CACHE, FROM_CORPUS, FROM_PROMPT, FROM_RECYCLING, FROM_REPOSITORY, Source
from fastcoder_lsp.kernels import inlined, kernel
from fastcoder_lsp.kernels.decorators import FixedTypes

GROUPED: Final = (
    FROM_PROMPT,
    FROM_CACHE,
    FROM_REPOSITORY,
    FROM_CORPUS,
    Source("outdated", "cache"),
    Source("trained", "other"),
    FROM_RECYCLING,
    Source("recycling-pairs", "cache"),
    Source("frozen", "datastore"),
)
"""In the order of their numbers; of several sources with equal odds for a token, the first is named."""
SOURCES: Final = tuple(source.name for source in GROUPED)  # the names of all sources, by their numbers
TEXT, PAST, REPOSITORY, CORPUS, OUTDATED, TRAINED, RECYCLED, PAIRS, FROZEN = range(9)
LENGTHS = 8
ABSENT = 120  # the first of the cells for a source that names other tokens here
CELLS = 136
VERSION = 2  # version of the file of counts, and of the priors that they correct; 2: the priors of a multinomial logit
PRIORS = "priors.json"  # beside this file; made by `fastcoder-lsp bench priors`, see docs/drafters.md
RANKS = 8  # candidates that are kept of a row
SURENESS = 10  # levels of sureness of a candidate, 0 the surest
SURENESS_EDGES = (0.97, 0.9, 0.75, 0.5, 0.3, 0.15, 0.07, 0.03, 0.01)


@inlined
def length_bucket(match: Any) -> Any:
    """1, 2, 3, 4, 5–6, 7–9, 10–15, 16 and more."""
    if match <= 4:
        return max(match, 1) - 1
    if match <= 6:
        return 4
    if match <= 9:
        return 5
    return 6 if match <= 15 else 7


@inlined
def hits_cell(match: Any, share: Any, hits: Any) -> Any:
    """The cell of a token that hits name: longest match, share of the hits' weight (0…1), number of all hits."""
    if share >= 0.8:
        part = 4
    elif share >= 0.45:
        part = 3
    elif share >= 0.2:
        part = 2
    else:
        part = 1 if share >= 0.08 else 0
    number = 0 if hits == 1 else (1 if hits <= 3 else 2)
    return length_bucket(match) * 15 + part * 3 + number


class EvidenceWeights(NamedTuple):
    """A multinomial logit over the children of a node and "none of them".

    p of a child = exp(z) / (1 + Σ exp(z) of all children), where z = bias + Σ logits_SC[s, cell of source s].
    """

    logits_SC: Floats
    bias: float


@dataclass(frozen=True, slots=True)
class Priors:
    """The weights before anything is counted."""

    logits_SC: Floats
    bias: float

    def to_json(self) -> str:
        """Readable JSON, one line a source."""
        rows = {name: np.round(row, 3).tolist() for name, row in zip(SOURCES, self.logits_SC.tolist(), strict=True)}
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        return f'{{\n "bias": {round(self.bias, 3)},\n{lines}\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> "Priors":
        """The inverse of `to_json`."""
        rows = json.loads(text)
        return cls(np.array([rows[name] for name in SOURCES], np.float32), float(rows["bias"]))


def shipped_priors() -> Priors:
    """The priors that come with the program."""
    return Priors.from_json((resources.files("fastcoder_lsp.draft.auto") / PRIORS).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class EvidenceCounts:
    """Verified guesses by source and cell, how many were right, and how many the prior expected; old ones fade."""

    tried_SC: Floats
    right_SC: Floats
    hoped_SC: Floats

    @classmethod
    def none(cls) -> "EvidenceCounts":
        """No counts yet."""
        tried_SC, right_SC, hoped_SC = np.zeros((3, len(SOURCES), CELLS), np.float32)
        return cls(tried_SC, right_SC, hoped_SC)

    @classmethod
    def load(cls, path: Path) -> "EvidenceCounts":
        """The counts at `path`; none if the file is absent, damaged, implausible, or of another version."""
        return read_cached(path, cls._parsed) or cls.none()

    @classmethod
    def _parsed(cls, data: bytes) -> "EvidenceCounts":
        with np.load(BytesIO(data), allow_pickle=False) as stored:
            version, every_3SC = int(stored["version"]), stored["counts"].astype(np.float32, order="C")
        if version != VERSION or every_3SC.shape != (3, len(SOURCES), CELLS):
            raise ValueError(f"version {version}, counts of shape {every_3SC.shape}")
        tried_SC, right_SC, hoped_SC = every_3SC
        most_SC = tried_SC * 1.001
        believable = ((every_3SC >= 0).all(), (right_SC <= most_SC).all(), (hoped_SC <= most_SC).all())
        if not (np.isfinite(every_3SC).all() and all(believable)):
            raise ValueError("impossible counts")
        return cls(tried_SC, right_SC, hoped_SC)

    def save(self, path: Path) -> None:
        """Replace the file at `path`; if it cannot be written, the counts live until the program ends."""
        every_3SC = np.stack([self.tried_SC, self.right_SC, self.hoped_SC])
        with suppress(OSError):
            private_folder(path.parent)
            with appearing(path) as file:
                np.savez_compressed(file, version=np.int64(VERSION), counts=every_3SC)


class GrownNodes(NamedTuple):
    """The tree's nodes, likeliest first: tokens, parents (-1: the root), probabilities of their paths.

    `cell_NS`: the evidence of each source (-1: none). `source_N`, `match_N`: the source that made it most probable, and
    the length of its match.
    """

    token_N: Int32s
    parent_N: Int32s
    likely_N: Float64s
    cell_NS: Int32s
    source_N: Int32s
    match_N: Int32s


class Calibration:
    """Log odds that follow the outcomes of guesses.

    A node stands on the evidence of several sources, so a cell's own share of right guesses says little of what it adds
    to the others. Each cell therefore counts how many guesses were right and how many were *expected* to be; the
    difference in log odds is its gain. That also holds whichever nodes are drafted, while plain shares would be biased
    towards nodes that looked good.

    Args:
        priors: the log odds to start from.
        counts: earlier counts; counting goes on in these arrays.
        strength: the prior weighs as much as so many right and so many wrong guesses.
        memory: about so many of a cell's latest guesses count; older ones fade.
    """

    def __init__(
        self, priors: Priors, counts: EvidenceCounts | None = None, strength: float = 10.0, memory: float = 1000.0
    ) -> None:
        self.counts = counts or EvidenceCounts.none()
        self._prior_SC = np.array(priors.logits_SC, np.float32, order="C")
        self._strength, self._memory = strength, memory
        self.weights = EvidenceWeights(self._prior_SC.copy(), priors.bias)
        for source, cell in np.argwhere(self.counts.tried_SC > 0).tolist():
            counted = (self.counts.tried_SC, self.counts.right_SC, self.counts.hoped_SC)
            tried, right, hoped = (float(count_SC[source, cell]) for count_SC in counted)
            self.weights.logits_SC[source, cell] += correction(tried, right, hoped, strength)

    def judge(self, grown: GrownNodes, nodes: int, emitted: Sequence[int]) -> int:
        """Judge the first `nodes` of a tree as far as `emitted` tells; returns how many were right."""
        counts, tokens = self.counts, np.array(emitted, np.int32)
        arrays = counts.tried_SC, counts.right_SC, counts.hoped_SC, self._prior_SC
        return int(_judge(grown, nodes, tokens, *arrays, self.weights, self._strength, self._memory))


def correction(tried: Any, right: Any, hoped: Any, strength: Any) -> Any:
    """Log odds to add where `right` of `tried` guesses came true and `hoped` were expected to."""
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
    """Along the emitted path every child of its nodes is known to be right or wrong; no other node is judged."""
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
