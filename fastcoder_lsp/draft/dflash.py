"""DFlash: a small model that sees the target's features predicts the next block in one pass, all places at once.

DFlash: Block Diffusion for Flash Speculative Decoding, 2026, section 4: a linear layer and a norm join the features of
several layers, and every layer of the drafter takes its keys and values of the text from them; the block (the last
known token, then masks) sees the text and all of itself. As published the block is a chain of each place's best token
(`branch=1`); here spare rows take the second and third ones, by the product of their chances.
Legend: T rows, E width, F features of the target for a row, B rows of a block, D tokens of the model's vocabulary, C
candidates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NORMED, Draft, DraftContext, DrafterTraits, KeepingEngine
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.draft.base import MakeLinear, Source, Specification, exact
from fastcoder_lsp.draft.pricing import TYPICAL
from fastcoder_lsp.draft.trees import tree_of_places
from fastcoder_lsp.draft.weights import BlockWeights, Keys, WeightedDrafter, best_of, block_sizes, opened
from fastcoder_lsp.model.drafter_files import DrafterFiles, DrafterRecord

FROM_DFLASH = Source("dflash", "other")


class BlockModel(BlockWeights):
    """The drafter's weights.

    Args:
        record: its `numbers` give layers, block, heads, kv_heads, head_dim, theta and eps.
        tensors: by name, a layer's as "0.q" and so on; `mask` [E] stands in the place of a token to predict; "0.q_norm"
            and "0.k_norm" if heads are normed, "0.q_bias" and so on if there are biases.
        make: makes products of the matrices.

    Raises:
        ModelInvalidError: a tensor is missing, or has another size.
    """

    def __init__(self, record: DrafterRecord, tensors: dict[str, Floats], make: MakeLinear = exact) -> None:
        self.layers, self.block = record.whole("layers"), record.whole("block")
        width = record.width
        sizes: dict[str, tuple[int | None, ...]] = {
            "fc": (width, len(record.layers) * width),
            "norm_features": (width,),
            "norm_last": (width,),
            "mask": (width,),
            "head": (None, width),
        }
        each = {**block_sizes(record, width, width), "norm_in": (width,)}
        sizes |= {f"{layer}.{name}": size for layer in range(self.layers) for name, size in each.items()}
        # A few of the target's features are a hundred times as large as the others: `fc`, which reads them, is exact.
        super().__init__(record, tensors, sizes, make, {"fc": exact})

    def read(self, features_TF: Floats, places_T: Int64s) -> list[Keys]:
        """Every layer's keys and values of some of the text."""
        text_TE = self.normed("norm_features", self.linear("fc", features_TF))
        return [self.keys(f"{layer}.", text_TE, places_T) for layer in range(self.layers)]

    def say(self, first_E: Floats, place: int, read: Sequence[tuple[Floats, Floats]]) -> Floats:
        """Logits of the block's places behind the first one, [B − 1, D].

        Args:
            first_E: the embedding of the last known token.
            place: its place in the text.
            read: keys and values of the text before it.
        """
        x_BE = np.concatenate([first_E[None], np.repeat(self.vectors["mask"][None], self.block - 1, axis=0)])
        places_B = place + np.arange(self.block)
        for layer, text in enumerate(read):
            block = f"{layer}."
            h_BE = self.normed(f"{block}norm_in", x_BE)
            keys = Keys(*text).joined(self.keys(block, h_BE, places_B))
            seen = np.ones((self.block, len(keys.keys_TKd)), np.bool_)
            x_BE = self.mixed(block, x_BE, self.queries(block, h_BE, places_B), keys, seen)
        return self.linear("head", self.normed("norm_last", x_BE[1:]))


@dataclass(frozen=True, slots=True)
class DflashParameters:
    """Parameters of `dflash`."""

    weights: str = ""  # the folder of the model, as `train dflash` writes it
    branch: int = 4  # candidates of a place (published: 1)
    window: int = 1024  # tokens at the end of the text that are read (published: all)


DFLASH = Specification(
    "dflash",
    "a small model that drafts a block from the model's hidden states",
    DflashParameters(),
    lambda parameters, parts: DflashDrafter(opened("dflash", parameters.weights, parts), parameters, parts.linear),
    paper="DFlash 2026, section 4",
    sources=(FROM_DFLASH,),
    traits=DrafterTraits(layers=(NORMED,)),
    own_weights=True,
)


class DflashDrafter(WeightedDrafter[BlockModel]):
    """Drafts a tree of the block's candidates."""

    def __init__(
        self, files: DrafterFiles | None, parameters: DflashParameters | None = None, linear: MakeLinear = exact
    ) -> None:
        super().__init__(DFLASH, files, linear)
        self._parameters = parameters or DflashParameters()
        self._start = 0
        self._tokens: Sequence[int] = ()  # the text that was read, from `_start` on
        self._read: list[Keys] | None = None

    @override
    def make(self, files: DrafterFiles) -> BlockModel:
        return BlockModel(files.record, files.tensors(), self._linear)

    @override
    def draft(self, weights: BlockModel, engine: KeepingEngine, context: DraftContext, nodes: int) -> Draft:
        read = self._caught_up(weights, engine, context)
        logits_BD = weights.say(engine.embed(context.tokens[-1:])[0], context.cached, read)
        columns_BC, likely_BC = best_of(logits_BD, self._parameters.branch)
        chances_BC = np.exp(likely_BC.astype(np.float64))
        return tree_of_places(weights.tokens_of(columns_BC), chances_BC, nodes, FROM_DFLASH.name)

    @override
    def arithmetic(self, weights: BlockModel, record: DrafterRecord) -> Callable[[], object]:
        past = max(min(self._parameters.window // 2, TYPICAL), 1)
        features = np.ones((1, len(record.layers) * record.width), np.float32)
        first_E = np.ones(record.width, np.float32)

        def draft() -> None:
            read = weights.read(features, np.zeros(1, np.int64))
            text = [Keys(*(part.repeat(past, 0) for part in keys)) for keys in read]
            best_of(weights.say(first_E, past, text), self._parameters.branch)

        return draft

    def _caught_up(self, model: BlockModel, engine: KeepingEngine, context: DraftContext) -> list[Keys]:
        """Keys and values of the text before the pending token; only those of new tokens are computed."""
        count, window = context.cached, self._parameters.window
        known, read = min(common_prefix(self._tokens, context.tokens), count), self._read
        if read is None or known <= self._start or count - self._start > 2 * window:
            self._start = known = max(0, count - window)
            read = None
        if read is not None:
            read = [keys.first(known - self._start) for keys in read]
        if known < count:
            features = engine.states(self.traits.layers, known, count).reshape(count - known, -1)
            more = model.read(features, np.arange(known, count))
            read = more if read is None else [old.joined(new) for old, new in zip(read, more, strict=True)]
        assert read is not None
        self._tokens, self._read = tuple(context.tokens[:count]), read
        return read
