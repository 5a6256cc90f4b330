"""EAGLE's one decoder layer, in numpy: the features of a token and the token after it give the next features.

Li et al. 2024, *EAGLE*, section 4.1 (version 1: features of the last layer, joined with the embedding by a linear
layer), and Li et al. 2025, *EAGLE-3*, section 3 (version 3: features of a low, a middle and a high layer, each input
normed, the embedding beside them within attention, a norm and a small head of its own at the end). Owns the arithmetic,
and the keys and values of the rows that are decided.

Legend: T rows, E width, F features of the target for a row, D tokens that can be said, N rows that are cached, H heads,
K of them with keys, d numbers of a head.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.base import MakeLinear, exact
from fastcoder_lsp.draft.block_weights import BlockWeights, block_sizes
from fastcoder_lsp.draft.weights import Floats, attention, silu
from fastcoder_lsp.model.drafter_files import DrafterRecord, require_sizes

NORMS = ("norm_input", "norm_hidden", "norm_last")
"""Of version 3 alone."""


class Keys(NamedTuple):
    """Keys and values of some rows, [N, K, d] each."""

    keys_NKd: Floats
    values_NKd: Floats

    def joined(self, more: "Keys") -> "Keys":
        """These rows, then `more`."""
        return Keys(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))

    def first(self, rows: int) -> "Keys":
        """The first rows."""
        return Keys(self.keys_NKd[:rows], self.values_NKd[:rows])


class EagleLayer:
    """The layer's weights.

    Args:
        record: its `numbers` say version, heads, kv_heads, head_dim, theta and eps.
        tensors: by their names, and `fc_bias`, `ids`, `embedding`, `feature_scale` (of version 1: what features
            are multiplied by) where there are such.
        make: makes products of the matrices.

    Raises:
        ModelInvalidError: a tensor is missing, or of another size.
    """

    def __init__(
        self, record: DrafterRecord, tensors: dict[str, npt.NDArray[np.float32]], make: MakeLinear = exact
    ) -> None:
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
        # A few of the target's features are a hundred times as large as the others: what reads them unscaled is not
        # rounded. (The head of version 1 reads such ones, too: rounded, it says the same best token in 98 of 100 rows.)
        unscaled = "feature_scale" not in tensors
        self._weights = BlockWeights(record, tensors, sizes, make, {"fc": exact} if unscaled else {})

    @property
    def new(self) -> bool:
        """Whether it is EAGLE-3's."""
        return self.version == 3

    def none(self) -> Keys:
        """No rows."""
        empty: Floats = np.zeros((0, self._weights.kv_heads, self._weights.dim), np.float32)
        return Keys(empty, empty)

    def fused(self, features_TF: Floats) -> Floats:
        """The target's features as the layer takes them: of three layers made one by EAGLE-3's `fc`, or scaled."""
        if self.new:
            return self._weights.linear("fc", features_TF)
        scale = self._weights.vectors.get("feature_scale")
        return features_TF if scale is None else features_TF * scale

    def forward(
        self,
        embedded_TE: Floats,
        hidden_TE: Floats,
        places_T: npt.NDArray[np.int64],
        cached: Keys,
        seen_TN: npt.NDArray[np.bool_],
    ) -> tuple[Floats, Keys]:
        """The rows' next features, and their keys and values.

        Args:
            embedded_TE: of the token after each row's.
            hidden_TE: the target's fused features of the row's token, or what the layer itself said of it.
            places_T: where each row stands in the text.
            cached: rows before these.
            seen_TN: which of the cached rows and of these each row sees, [T, N + T].
        """
        weights = self._weights
        if self.new:
            residual_TE = hidden_TE
            parts = (weights.normed("norm_input", embedded_TE), weights.normed("norm_hidden", hidden_TE))
            x = np.concatenate(parts, axis=1)
        else:
            residual_TE = x = weights.linear("fc_token", embedded_TE) + weights.linear("fc", hidden_TE)
        q_THd = weights.turned_heads("q", x, weights.heads, places_T)
        k_TKd = weights.turned_heads("k", x, weights.kv_heads, places_T)
        own = Keys(k_TKd, weights.linear("v", x).reshape(k_TKd.shape))
        x_TE = residual_TE + weights.linear("o", attention(q_THd, *cached.joined(own), seen_TN))
        h_TE = weights.normed("norm_post", x_TE)
        inner = silu(weights.linear("gate", h_TE)) * weights.linear("up", h_TE)
        return x_TE + weights.linear("down", inner), own

    def logits(self, out_TE: Floats) -> Floats:
        """What each row says of the token after the next one, [T, D]."""
        return self._weights.linear("head", self._weights.normed("norm_last", out_TE) if self.new else out_TE)

    def tokens_of(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The vocabulary's ids of columns of the logits."""
        return self._weights.tokens_of(columns)
