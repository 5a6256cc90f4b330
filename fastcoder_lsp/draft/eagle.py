"""EAGLE: a small layer goes on with the target's features instead of its tokens, and a tree grows by its confidence.

Li et al. 2024, *EAGLE-2*, section 4 (the dynamic tree: at each depth the `top_k` nodes whose paths are likeliest are
gone on from; of all nodes the likeliest are verified), over the layer of EAGLE or EAGLE-3 (`eagle_layer`). Owns the
tree, and which rows of the text the layer has read: the features of a token come from the engine, the token after it is
known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, NORMED, Draft, DraftContext, DrafterTraits, KeepingEngine, StepCosts
from fastcoder_lsp.draft.base import BaseDrafter, MakeLinear, Source, Specification, exact
from fastcoder_lsp.draft.eagle_layer import EagleLayer, Keys
from fastcoder_lsp.draft.pricing import TYPICAL, Forecast, timed
from fastcoder_lsp.draft.weights import Floats, agreed, best_of
from fastcoder_lsp.model.drafter_files import DrafterFiles, open_drafter

FROM_EAGLE = Source("eagle", "other")
STRETCH = 512
"""Rows that are read at once, so that no step waits long; until all of a text is read nothing is drafted."""


@dataclass(frozen=True, slots=True)
class EagleParameters:
    """Which layer, and how its tree grows.

    Attributes:
        weights: the folder of the layer, as `train eagle` writes it.
        depth: levels of the tree (published: 6 to 8).
        top_k: nodes that are gone on from at each level, and children of each (published: 10; 1 makes a chain).
        window: tokens at the end of the text that the layer reads (published: all).
    """

    weights: str = ""
    depth: int = 6
    top_k: int = 8
    window: int = 1024


EAGLE = Specification(
    "eagle",
    "a layer that goes on with the model's own features",
    EagleParameters(),
    lambda parameters, parts: EagleDrafter(_opened(parameters, parts.trained.digest), parameters, parts.linear),
    paper="Li et al. 2024, EAGLE-2, section 4; Li et al. 2025, EAGLE-3, section 3",
    sources=(FROM_EAGLE,),
    traits=DrafterTraits(layers=(NORMED,)),
    own_weights=True,
)


def _opened(parameters: EagleParameters, target: str) -> DrafterFiles | None:
    return open_drafter(Path(parameters.weights), "eagle", target) if parameters.weights else None


class EagleDrafter(BaseDrafter):
    """Drafts by a layer that was trained for the target; without any it drafts nothing."""

    def __init__(
        self, files: DrafterFiles | None, parameters: EagleParameters | None = None, linear: MakeLinear = exact
    ) -> None:
        super().__init__(EAGLE)
        self._linear = linear
        self._parameters, self._files = parameters or EagleParameters(), files
        if files is not None:
            self.traits = DrafterTraits(layers=files.record.layers)
        self._layer: EagleLayer | None = None
        self._read: _Read | None = None

    def warm_up(self) -> None:
        """Have the weights in memory."""
        self._weights()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The likeliest nodes of a tree below the pending token."""
        layer, engine = self._weights(), context.engine
        if layer is None or engine is None or nodes < 1 or not 0 < context.cached == len(context.tokens) - 1:
            return NO_DRAFT
        read = self._go_on(layer, engine, context)
        if len(read.tokens) < len(context.tokens):
            return NO_DRAFT
        return _Tree(layer, engine, read, self._parameters, len(context.tokens) - 1).grow(nodes)

    def forecast(self, costs: StepCosts | None) -> Forecast | None:  # noqa: ARG002 the interface
        """All levels of a tree over a text of usual length."""
        layer, asked = self._weights(), self._parameters
        if layer is None or self._files is None:
            return None
        rows = np.zeros((asked.top_k, layer.width), np.float32)
        past, places = min(asked.window // 2, TYPICAL), np.arange(asked.top_k)
        _, one = layer.forward(rows[:1], rows[:1], places[:1], layer.none(), np.ones((1, 1), np.bool_))
        keys, sees = Keys(*(part.repeat(past, 0) for part in one)), np.ones((asked.top_k, past + asked.top_k), np.bool_)

        def draft() -> None:
            for _ in range(asked.depth):
                out_TE, _keys = layer.forward(rows, rows, places, keys, sees)
                best_of(layer.logits(out_TE), asked.top_k)

        return timed(draft, self._files.record.figures)

    def _weights(self) -> EagleLayer | None:
        if self._layer is None and self._files is not None:
            self._layer = EagleLayer(self._files.record, self._files.tensors(), self._linear)
        return self._layer

    def _go_on(self, layer: EagleLayer, engine: KeepingEngine, context: DraftContext) -> "_Read":
        """Read on, a stretch at most; the layer's rows of the text: row i joins the features of token i with i + 1."""
        tokens, count = context.tokens, context.cached
        window = self._parameters.window
        read = self._read
        alike = 0 if read is None else agreed(read.tokens, tokens)
        if read is None or alike - 1 <= read.start or count - read.start > 2 * window:
            start = max(0, count - window)
            read = _Read(start, tokens[:start], layer.none(), np.zeros(0, np.float32))
            alike = start + 1
        # Of a row that is the last one again, the keys are there, but not what it said: it is run anew.
        done = min(alike - 1, count - 1)
        last, past, rows = min(done + STRETCH, count), done - read.start, min(STRETCH, count - done)
        features = engine.states(self.traits.layers, done, last).reshape(rows, -1)
        seen = np.concatenate([np.ones((rows, past), np.bool_), np.tri(rows, dtype=np.bool_)], axis=1)
        embedded, keys = embed(layer, engine, tokens[done + 1 : last + 1]), read.keys.first(past)
        out_TE, own = layer.forward(embedded, layer.fused(features), np.arange(done, last), keys, seen)
        self._read = _Read(read.start, list(tokens[: last + 1]), keys.joined(own), out_TE[-1])
        return self._read


@dataclass(frozen=True, slots=True)
class _Read:
    """What the layer has read: the rows from `start` on of `tokens`, and what the last of them said."""

    start: int
    tokens: Sequence[int]
    keys: Keys
    said_E: Floats


def embed(layer: EagleLayer, engine: KeepingEngine, tokens: Sequence[int]) -> Floats:
    """Embeddings of tokens: the layer's own, or the target's."""
    if layer.embedding_VE is None:
        return engine.embed(tokens)
    found: Floats = layer.embedding_VE[np.asarray(tokens, np.int64)]
    return found


class _Tree:
    """One tree, grown level by level."""

    def __init__(
        self, layer: EagleLayer, engine: KeepingEngine, read: _Read, parameters: EagleParameters, place: int
    ) -> None:
        self._layer, self._engine, self._read, self._parameters, self._place = layer, engine, read, parameters, place
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.worths: list[float] = []
        """Logarithms of the probabilities of the nodes' paths."""
        self._hidden: list[Floats] = []
        """Of each node, what the layer said of its parent."""
        self._rows: list[int] = []
        """The node of each row that was run."""
        self._level_from = 0

    def grow(self, nodes: int) -> Draft:
        """The `nodes` likeliest of all nodes that were looked at."""
        parameters = self._parameters
        self._offer([-1], [0.0], self._read.said_E[None])
        keys = self._read.keys
        for _ in range(parameters.depth - 1):
            frontier = self._frontier(nodes)
            if not frontier:
                break
            keys = self._level(frontier, keys)
        order = sorted(range(len(self.tokens)), key=lambda node: (-self.worths[node], node))[:nodes]
        places = {node: place for place, node in enumerate(order)}
        parents = tuple(places[self.parents[node]] if self.parents[node] >= 0 else -1 for node in order)
        count = len(order)
        return Draft(tuple(self.tokens[node] for node in order), parents, (FROM_EAGLE.name,) * count, (0,) * count)

    def _frontier(self, nodes: int) -> list[int]:
        """The likeliest nodes of the last level; none where nothing below them could be among the likeliest `nodes`."""
        best = sorted(self.worths, reverse=True)
        floor = best[nodes - 1] if len(best) >= nodes else -np.inf
        level = [node for node in range(len(self.tokens)) if node >= self._level_from and self.worths[node] > floor]
        level.sort(key=lambda node: (-self.worths[node], node))
        return sorted(level[: self._parameters.top_k])

    def _level(self, frontier: list[int], keys: Keys) -> Keys:
        """Run the rows of some nodes of one level, and offer their children; the keys with theirs."""
        layer, rows = self._layer, len(frontier)
        depth = self._depth(frontier[0])
        run = [*self._rows, *frontier]
        past = len(self._read.keys.keys_NKd)
        seen = np.zeros((rows, past + len(run)), np.bool_)
        seen[:, :past] = True
        for row, node in enumerate(frontier):
            above = self._path(node)
            seen[row, past:] = [other in above for other in run]
        hidden_TE = np.stack([self._hidden[node] for node in frontier])
        embedded = embed(layer, self._engine, [self.tokens[node] for node in frontier])
        places = np.full(rows, self._place + depth - 1, np.int64)
        out_TE, own = layer.forward(embedded, hidden_TE, places, keys, seen)
        self._rows = run
        self._offer(frontier, [self.worths[node] for node in frontier], out_TE)
        return keys.joined(own)

    def _offer(self, parents: list[int], worths: list[float], out_TE: Floats) -> None:
        """Add the best children of some nodes, of which the layer said `out_TE`."""
        self._level_from = len(self.tokens)
        columns_TC, likely_TC = best_of(self._layer.logits(out_TE), self._parameters.top_k)
        tokens_TC = self._layer.tokens_of(columns_TC)
        for row, (parent, worth) in enumerate(zip(parents, worths, strict=True)):
            for token, likely in zip(tokens_TC[row].tolist(), likely_TC[row].tolist(), strict=True):
                self.tokens.append(token)
                self.parents.append(parent)
                self.worths.append(worth + likely)
                self._hidden.append(out_TE[row])

    def _depth(self, node: int) -> int:
        return len(self._path(node))

    def _path(self, node: int) -> set[int]:
        """A node and all above it."""
        found = set[int]()
        while node >= 0:
            found.add(node)
            node = self.parents[node]
        return found
