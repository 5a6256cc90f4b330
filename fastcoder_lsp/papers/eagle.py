"""EAGLE: one decoder layer continues the target's features, and a tree grows by its confidence.

Li et al. 2024, *EAGLE*, section 4.1 (version 1: features of the last layer, joined with the embedding by a linear
layer), and Li et al. 2025, *EAGLE-3*, section 3 (version 3: features of a low, a middle and a high layer, each input
normed, the embedding beside them within attention, a norm and a small head of its own at the end). The tree is
*EAGLE-2*'s (Li et al. 2024, section 4): at each depth the `top_k` nodes with the likeliest paths are expanded; of all
nodes the likeliest are verified.

Legend: T rows, E width, F features of the target for a row, D tokens of the layer's vocabulary, N cached rows, H heads,
K of them with keys, d numbers of a head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, NORMED, Draft, DraftContext, DrafterTraits, KeepingEngine
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.draft.base import DrafterParts, MakeLinear, Source, Specification, exact
from fastcoder_lsp.draft.pricing import TYPICAL
from fastcoder_lsp.model.drafter_files import DrafterFiles, DrafterRecord, open_drafter, require_sizes
from fastcoder_lsp.papers.weights import BlockWeights, Keys, WeightedDrafter, best_of, block_sizes, opened

NORMS = ("norm_input", "norm_hidden", "norm_last")  # norms of version 3 alone
FROM_EAGLE = Source("eagle", "other")
STRETCH = 512  # rows that are read at once, so that no step waits long; nothing is drafted until all of a text is read


class EagleLayer(BlockWeights):
    """The layer's weights.

    Args:
        record: its `numbers` give version, heads, kv_heads, head_dim, theta and eps.
        tensors: by name; optional ones are `fc_bias`, `ids`, `embedding`, and in version 1 `feature_scale`, the factors
            of the features.
        make: makes products of the matrices.

    Raises:
        ModelInvalidError: a tensor is missing, or has another size.
    """

    def __init__(self, record: DrafterRecord, tensors: dict[str, Floats], make: MakeLinear = exact) -> None:
        self.version = record.whole("version")
        require_sizes(tensors, {"fc": (None, None)})
        # The target's embeddings are as wide as the target; a layer of another width brings its own.
        self.width = width = len(tensors["fc"]) if "embedding" in tensors else record.width
        read = len(record.layers) * record.width
        tensors, sizes = dict(tensors), block_sizes(record, width, 2 * width if self.new else width)
        sizes = {**sizes, "head": (None, width), "fc": (width, read if self.new else width + read)}
        sizes |= dict.fromkeys(NORMS if self.new else (), (width,))
        sizes |= {"embedding": (None, width)} if "embedding" in tensors else {}
        sizes |= {"feature_scale": (record.width,)} if "feature_scale" in tensors else {}
        require_sizes(tensors, sizes)
        self.embedding_VE = tensors.pop("embedding", None)
        sizes.pop("embedding", None)
        if not self.new:  # embeddings are small, features large: rounded together, the former would be lost
            tensors["fc_token"], tensors["fc"] = tensors["fc"][:, :width], tensors["fc"][:, width:]
            sizes |= {"fc_token": (width, width), "fc": (width, read)}
        # A few of the target's features are a hundred times as large as the others, so the matrix that reads them
        # unscaled is not rounded. (The head of version 1 reads such features, too: rounded, it has the same best token
        # in 98 of 100 rows.)
        unscaled = "feature_scale" not in tensors
        super().__init__(record, tensors, sizes, make, {"fc": exact} if unscaled else {})

    @property
    def new(self) -> bool:
        """Whether it is EAGLE-3's layer."""
        return self.version == 3

    def none(self) -> Keys:
        """No rows."""
        empty: Floats = np.zeros((0, self.kv_heads, self.dim), np.float32)
        return Keys(empty, empty)

    def fused(self, features_TF: Floats) -> Floats:
        """The layer's input from the target's features: EAGLE-3 joins three layers' by `fc`; version 1 scales them."""
        if self.new:
            return self.linear("fc", features_TF)
        scale = self.vectors.get("feature_scale")
        return features_TF if scale is None else features_TF * scale

    def forward(
        self, embedded_TE: Floats, hidden_TE: Floats, places_T: Int64s, cached: Keys, seen_TN: npt.NDArray[np.bool_]
    ) -> tuple[Floats, Keys]:
        """The rows' next features, and their keys and values.

        Args:
            embedded_TE: of the token after each row's.
            hidden_TE: the target's fused features of the row's token, or the layer's own prediction of them.
            places_T: the place of each row in the text.
            cached: rows before these.
            seen_TN: which of the cached rows and of these rows each row sees, [T, N + T].
        """
        if self.new:
            residual_TE = hidden_TE
            parts = (self.normed("norm_input", embedded_TE), self.normed("norm_hidden", hidden_TE))
            x = np.concatenate(parts, axis=1)
        else:
            residual_TE = x = self.linear("fc_token", embedded_TE) + self.linear("fc", hidden_TE)
        q_THd, own = self.queries("", x, places_T), self.keys("", x, places_T)
        return self.mixed("", residual_TE, q_THd, cached.joined(own), seen_TN), own

    def logits(self, out_TE: Floats) -> Floats:
        """Logits of the token after the next one, [T, D]."""
        return self.linear("head", self.normed("norm_last", out_TE) if self.new else out_TE)


@dataclass(frozen=True, slots=True)
class EagleParameters:
    """Parameters of `eagle`."""

    weights: str = ""  # the folder of the layer, as `train eagle` writes it
    depth: int = 6  # levels of the tree (published: 6 to 8)
    top_k: int = 8  # nodes that are expanded at each level, and children of each (published: 10; 1 makes a chain)
    window: int = 1024  # tokens at the end of the text that the layer reads (published: all)


EAGLE = Specification(
    "eagle",
    "a layer that continues the model's hidden states",
    EagleParameters(),
    lambda parameters, parts: EagleDrafter(opened("eagle", parameters.weights, parts), parameters, parts.linear),
    paper="Li et al. 2024, EAGLE-2, section 4; Li et al. 2025, EAGLE-3, section 3",
    sources=(FROM_EAGLE,),
    traits=DrafterTraits(layers=(NORMED,)),
    own_weights=True,
)


class EagleDrafter(WeightedDrafter[EagleLayer]):
    """Drafts a tree of the layer's likeliest continuations."""

    def __init__(
        self, files: DrafterFiles | None, parameters: EagleParameters | None = None, linear: MakeLinear = exact
    ) -> None:
        super().__init__(EAGLE, files, linear)
        self._parameters = parameters or EagleParameters()
        self._read: _Read | None = None

    @override
    def make(self, files: DrafterFiles) -> EagleLayer:
        return EagleLayer(files.record, files.tensors(), self._linear)

    @override
    def draft(self, weights: EagleLayer, engine: KeepingEngine, context: DraftContext, nodes: int) -> Draft:
        read = self._go_on(weights, engine, context)
        if len(read.tokens) < len(context.tokens):
            return NO_DRAFT
        return _EagleTree(weights, engine, read, self._parameters, len(context.tokens) - 1).grow(nodes)

    @override
    def arithmetic(self, weights: EagleLayer, record: DrafterRecord) -> Callable[[], object]:
        params = self._parameters
        rows = np.zeros((params.top_k, weights.width), np.float32)
        past, places = min(params.window // 2, TYPICAL), np.arange(params.top_k)
        _, one = weights.forward(rows[:1], rows[:1], places[:1], weights.none(), np.ones((1, 1), np.bool_))
        keys = Keys(*(part.repeat(past, 0) for part in one))
        sees = np.ones((params.top_k, past + params.top_k), np.bool_)

        def draft() -> None:
            for _ in range(params.depth):
                out_TE, _keys = weights.forward(rows, rows, places, keys, sees)
                best_of(weights.logits(out_TE), params.top_k)

        return draft

    def _go_on(self, layer: EagleLayer, engine: KeepingEngine, context: DraftContext) -> "_Read":
        """Read on, at most a stretch; row i of the layer joins the features of token i with token i + 1."""
        tokens, count = context.tokens, context.cached
        window = self._parameters.window
        read = self._read
        alike = 0 if read is None else common_prefix(read.tokens, tokens)
        if read is None or alike - 1 <= read.start or count - read.start > 2 * window:
            start = max(0, count - window)
            read = _Read(start, tokens[:start], layer.none(), np.zeros(0, np.float32))
            alike = start + 1
        # The last row is run anew even if its keys are there, for its output is needed.
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
    """The rows of `tokens` that the layer has read, from `start` on, and the output of the last one."""

    start: int
    tokens: Sequence[int]
    keys: Keys
    said_E: Floats


def embed(layer: EagleLayer, engine: KeepingEngine, tokens: Sequence[int]) -> Floats:
    """Embeddings of tokens: the layer's own if it has them, else the target's."""
    if layer.embedding_VE is None:
        return engine.embed(tokens)
    found: Floats = layer.embedding_VE[np.asarray(tokens, np.int64)]
    return found


class _EagleTree:
    """One tree, grown level by level."""

    def __init__(
        self, layer: EagleLayer, engine: KeepingEngine, read: _Read, parameters: EagleParameters, place: int
    ) -> None:
        self._layer, self._engine, self._read, self._parameters, self._place = layer, engine, read, parameters, place
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.worths: list[float] = []  # logarithms of the probabilities of the nodes' paths
        self._hidden: list[Floats] = []  # for each node, the layer's output for its parent
        self._rows: list[int] = []  # the node of each row that was run
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
        """The likeliest nodes of the last level; none if no node below them could be among the likeliest `nodes`."""
        best = sorted(self.worths, reverse=True)
        floor = best[nodes - 1] if len(best) >= nodes else -np.inf
        level = [node for node in range(len(self.tokens)) if node >= self._level_from and self.worths[node] > floor]
        level.sort(key=lambda node: (-self.worths[node], node))
        return sorted(level[: self._parameters.top_k])

    def _level(self, frontier: list[int], keys: Keys) -> Keys:
        """Run the rows of some nodes of one level, and offer their children; the keys with theirs."""
        layer, rows = self._layer, len(frontier)
        depth = len(self._path(frontier[0]))
        run = [*self._rows, *frontier]
        past = len(self._read.keys.keys_TKd)
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
        """Add the best children of some nodes, for which the layer's output is `out_TE`."""
        self._level_from = len(self.tokens)
        columns_TC, likely_TC = best_of(self._layer.logits(out_TE), self._parameters.top_k)
        tokens_TC = self._layer.tokens_of(columns_TC)
        for row, (parent, worth) in enumerate(zip(parents, worths, strict=True)):
            for token, likely in zip(tokens_TC[row].tolist(), likely_TC[row].tolist(), strict=True):
                self.tokens.append(token)
                self.parents.append(parent)
                self.worths.append(worth + likely)
                self._hidden.append(out_TE[row])

    def _path(self, node: int) -> set[int]:
        found = set[int]()
        while node >= 0:
            found.add(node)
            node = self.parents[node]
        return found


SPECIFICATIONS = (EAGLE,)


def for_auto(parts: DrafterParts, weights: str) -> EagleDrafter:
    """The source of `auto` (`draft.auto.sources.Offer`); ModelInvalidError if the weights are another model's."""
    return EagleDrafter(open_drafter(Path(weights), "", parts.trained.digest), linear=parts.linear)
