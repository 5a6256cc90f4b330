"""DFlash's small model, in numpy: from the target's features of the text it says a whole block in one pass.

DFlash, 2026, section 4: the features of several layers are made one by a linear layer and a norm, and every layer of
the drafter takes its keys and values of the text from them; the block, the last known token and masks behind it, sees
the text and all of itself. Owns the arithmetic, and the keys and values of the text that was read.

Legend: T rows, E width, F features of the target for a row, B rows of a block, D tokens that can be said, H heads, K of
them with keys, d numbers of a head.
"""

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.numbers import Floats, attention, rms_norm, silu, turned
from fastcoder_lsp.model.drafter_files import DrafterRecord, Sizes, require_ids, require_sizes

Pair = tuple[Floats, Floats]
"""A layer's keys and values of some rows, [T, K, d] each."""


class BlockModel:
    """The drafter's weights.

    Args:
        record: its `numbers` say layers, block, heads, kv_heads, head_dim, theta and eps.
        tensors: those of `_sizes`, a layer's as "0.q" and so on; `mask` [E] is what stands where a token is to be said;
            "0.q_norm" and "0.k_norm" where heads are normed, "0.q_bias" and so on where there are biases.

    Raises:
        ModelInvalidError: a tensor is missing, or of another size.
    """

    def __init__(self, record: DrafterRecord, tensors: dict[str, npt.NDArray[np.float32]]) -> None:
        self.layers, self.block = record.whole("layers"), record.whole("block")
        self._heads, self._kv_heads, self._dim = (record.whole(name) for name in ("heads", "kv_heads", "head_dim"))
        self._theta, self._eps = record.number("theta"), record.number("eps")
        require_sizes(tensors, self._sizes(record))
        require_ids(tensors, len(tensors["head"]))
        self._tensors = tensors
        ids = tensors.get("ids")
        self._ids_D = None if ids is None else ids.astype(np.int64)

    def _sizes(self, record: DrafterRecord) -> Sizes:
        """Of all tensors that there must be."""
        width, q, kv = record.width, self._heads * self._dim, self._kv_heads * self._dim
        sizes: dict[str, tuple[int | None, ...]] = {
            "fc": (width, len(record.layers) * width),
            "norm_features": (width,),
            "norm_last": (width,),
            "mask": (width,),
            "head": (None, width),
        }
        each: dict[str, tuple[int | None, ...]] = {
            "q": (q, width),
            "k": (kv, width),
            "v": (kv, width),
            "o": (width, q),
            "gate": (None, width),
            "up": (None, width),
            "down": (width, None),
            "norm_in": (width,),
            "norm_post": (width,),
        }
        return sizes | {f"{layer}.{name}": size for layer in range(self.layers) for name, size in each.items()}

    def read(self, features_TF: Floats, places_T: npt.NDArray[np.int64]) -> list[Pair]:
        """Every layer's keys and values of some of the text."""
        text_TE = rms_norm(features_TF @ self._tensors["fc"].T, self._tensors["norm_features"], self._eps)
        return [self._keys(layer, text_TE, places_T) for layer in range(self.layers)]

    def say(self, first_E: Floats, place: int, read: list[Pair]) -> Floats:
        """What stands in the block's places behind the first one, [B − 1, D].

        Args:
            first_E: the embedding of the last known token.
            place: where it stands.
            read: of the text before it.
        """
        x_BE = np.concatenate([first_E[None], np.repeat(self._tensors["mask"][None], self.block - 1, axis=0)])
        places_B = place + np.arange(self.block)
        for layer, (keys, values) in enumerate(read):
            h_BE = self._normed(f"{layer}.norm_in", x_BE)
            q_BHd = self._turned_heads(f"{layer}.q", h_BE, self._heads, places_B)
            own_keys, own_values = self._keys(layer, h_BE, places_B)
            joined = np.concatenate([keys, own_keys]), np.concatenate([values, own_values])
            seen = np.ones((self.block, len(joined[0])), np.bool_)
            x_BE = x_BE + self._linear(f"{layer}.o", attention(q_BHd, *joined, seen))
            h_BE = self._normed(f"{layer}.norm_post", x_BE)
            inner = silu(self._linear(f"{layer}.gate", h_BE)) * self._linear(f"{layer}.up", h_BE)
            x_BE = x_BE + self._linear(f"{layer}.down", inner)
        said: Floats = self._normed("norm_last", x_BE[1:]) @ self._tensors["head"].T
        return said

    def tokens_of(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The vocabulary's ids of columns of what is said."""
        return columns if self._ids_D is None else self._ids_D[columns]

    def _keys(self, layer: int, x_TE: Floats, places_T: npt.NDArray[np.int64]) -> Pair:
        values = self._linear(f"{layer}.v", x_TE).reshape(len(x_TE), self._kv_heads, self._dim)
        return self._turned_heads(f"{layer}.k", x_TE, self._kv_heads, places_T), values

    def _turned_heads(self, name: str, x_TE: Floats, heads: int, places_T: npt.NDArray[np.int64]) -> Floats:
        """Queries or keys, normed where the model norms them."""
        x_THd = self._linear(name, x_TE).reshape(len(x_TE), heads, self._dim)
        weight_d = self._tensors.get(f"{name}_norm")
        return turned(x_THd if weight_d is None else rms_norm(x_THd, weight_d, self._eps), places_T, self._theta)

    def _linear(self, name: str, x: Floats) -> Floats:
        bias = self._tensors.get(f"{name}_bias")
        product: Floats = x @ self._tensors[name].T
        return product if bias is None else product + bias

    def _normed(self, name: str, x_TE: Floats) -> Floats:
        return rms_norm(x_TE, self._tensors[name], self._eps)
