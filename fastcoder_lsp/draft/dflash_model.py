"""DFlash's small model, in numpy: from the target's features of the text it says a whole block in one pass.

DFlash, 2026, section 4: the features of several layers are made one by a linear layer and a norm, and every layer of
the drafter takes its keys and values of the text from them; the block, the last known token and masks behind it, sees
the text and all of itself. Owns the arithmetic, and the keys and values of the text that was read.

Legend: T rows, E width, F features of the target for a row, B rows of a block, D tokens that can be said, H heads, K of
them with keys, d numbers of a head.
"""

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.base import MakeLinear, exact
from fastcoder_lsp.draft.block_weights import BlockWeights, block_sizes
from fastcoder_lsp.draft.weights import Floats, attention, silu
from fastcoder_lsp.model.drafter_files import DrafterRecord

Pair = tuple[Floats, Floats]
"""A layer's keys and values of some rows, [T, K, d] each."""


class BlockModel:
    """The drafter's weights.

    Args:
        record: its `numbers` say layers, block, heads, kv_heads, head_dim, theta and eps.
        tensors: by their names, a layer's as "0.q" and so on; `mask` [E] is what stands where a token is to be said;
            "0.q_norm" and "0.k_norm" where heads are normed, "0.q_bias" and so on where there are biases.
        make: makes products of the matrices.

    Raises:
        ModelInvalidError: a tensor is missing, or of another size.
    """

    def __init__(
        self, record: DrafterRecord, tensors: dict[str, npt.NDArray[np.float32]], make: MakeLinear = exact
    ) -> None:
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
        # A few of the target's features are a hundred times as large as the others: what reads them is not rounded.
        self._weights = BlockWeights(record, tensors, sizes, make, {"fc": exact})

    def read(self, features_TF: Floats, places_T: npt.NDArray[np.int64]) -> list[Pair]:
        """Every layer's keys and values of some of the text."""
        text_TE = self._weights.normed("norm_features", self._weights.linear("fc", features_TF))
        return [self._keys(layer, text_TE, places_T) for layer in range(self.layers)]

    def say(self, first_E: Floats, place: int, read: list[Pair]) -> Floats:
        """What stands in the block's places behind the first one, [B − 1, D].

        Args:
            first_E: the embedding of the last known token.
            place: where it stands.
            read: of the text before it.
        """
        weights = self._weights
        x_BE = np.concatenate([first_E[None], np.repeat(weights.vectors["mask"][None], self.block - 1, axis=0)])
        places_B = place + np.arange(self.block)
        for layer, (keys, values) in enumerate(read):
            h_BE = weights.normed(f"{layer}.norm_in", x_BE)
            q_BHd = weights.turned_heads(f"{layer}.q", h_BE, weights.heads, places_B)
            own_keys, own_values = self._keys(layer, h_BE, places_B)
            joined = np.concatenate([keys, own_keys]), np.concatenate([values, own_values])
            seen = np.ones((self.block, len(joined[0])), np.bool_)
            x_BE = x_BE + weights.linear(f"{layer}.o", attention(q_BHd, *joined, seen))
            h_BE = weights.normed(f"{layer}.norm_post", x_BE)
            inner = silu(weights.linear(f"{layer}.gate", h_BE)) * weights.linear(f"{layer}.up", h_BE)
            x_BE = x_BE + weights.linear(f"{layer}.down", inner)
        return weights.linear("head", weights.normed("norm_last", x_BE[1:]))

    def tokens_of(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The vocabulary's ids of columns of what is said."""
        return self._weights.tokens_of(columns)

    def _keys(self, layer: int, x_TE: Floats, places_T: npt.NDArray[np.int64]) -> Pair:
        keys = self._weights.turned_heads(f"{layer}.k", x_TE, self._weights.kv_heads, places_T)
        return keys, self._weights.linear(f"{layer}.v", x_TE).reshape(keys.shape)
