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

from fastcoder_lsp.draft.numbers import Floats, attention, rms_norm, silu, turned
from fastcoder_lsp.model.drafter_files import DrafterRecord, Sizes, require_ids, require_sizes

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
        tensors: by the names above, and `fc_bias`, `ids`, `embedding` where there are such.

    Raises:
        ModelInvalidError: a tensor is missing, or of another size.
    """

    def __init__(self, record: DrafterRecord, tensors: dict[str, npt.NDArray[np.float32]]) -> None:
        self.version = record.whole("version")
        self._heads, self._kv_heads, self._dim = (record.whole(name) for name in ("heads", "kv_heads", "head_dim"))
        self._theta, self._eps = record.number("theta"), record.number("eps")
        require_sizes(tensors, {"fc": (None, None)})
        # The target's embeddings are as wide as the target; a layer of another width brings its own.
        width = len(tensors["fc"]) if "embedding" in tensors else record.width
        require_sizes(tensors, self._sizes(width, record))
        if "embedding" in tensors:
            require_sizes(tensors, {"embedding": (None, width)})
        require_ids(tensors, len(tensors["head"]))
        self._tensors = tensors
        ids = tensors.get("ids")
        self._ids_D = None if ids is None else ids.astype(np.int64)
        self.embedding_VE = tensors.get("embedding")

    def _sizes(self, width: int, record: DrafterRecord) -> Sizes:
        """Of all tensors that there must be, where the layer is so wide."""
        q, kv = self._heads * self._dim, self._kv_heads * self._dim
        read, inputs = len(record.layers) * record.width, 2 * width if self.new else width
        sizes: dict[str, tuple[int | None, ...]] = {
            "fc": (width, read if self.new else width + read),
            "q": (q, inputs),
            "k": (kv, inputs),
            "v": (kv, inputs),
            "o": (width, q),
            "gate": (None, width),
            "up": (None, width),
            "down": (width, None),
            "norm_post": (width,),
            "head": (None, width),
        }
        return sizes | dict.fromkeys(NORMS if self.new else (), (width,))

    @property
    def new(self) -> bool:
        """Whether it is EAGLE-3's."""
        return self.version == 3

    def none(self) -> Keys:
        """No rows."""
        empty: Floats = np.zeros((0, self._kv_heads, self._dim), np.float32)
        return Keys(empty, empty)

    def fused(self, features_TF: Floats) -> Floats:
        """The target's features as the layer takes them: of three layers made one by EAGLE-3's `fc`."""
        return self._linear("fc", features_TF) if self.new else features_TF

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
        if self.new:
            residual_TE = hidden_TE
            parts = (self._normed("norm_input", embedded_TE), self._normed("norm_hidden", hidden_TE))
            x = np.concatenate(parts, axis=1)
        else:
            residual_TE = x = self._linear("fc", np.concatenate([embedded_TE, hidden_TE], axis=1))
        rows = len(x)
        q_THd = turned(self._linear("q", x).reshape(rows, self._heads, self._dim), places_T, self._theta)
        k_TKd = turned(self._linear("k", x).reshape(rows, self._kv_heads, self._dim), places_T, self._theta)
        own = Keys(k_TKd, self._linear("v", x).reshape(rows, self._kv_heads, self._dim))
        x_TE = residual_TE + self._linear("o", attention(q_THd, *cached.joined(own), seen_TN))
        h_TE = self._normed("norm_post", x_TE)
        inner = silu(self._linear("gate", h_TE)) * self._linear("up", h_TE)
        return x_TE + self._linear("down", inner), own

    def logits(self, out_TE: Floats) -> Floats:
        """What each row says of the token after the next one, [T, D]."""
        normed_TE = self._normed("norm_last", out_TE) if self.new else out_TE
        return normed_TE @ self._tensors["head"].T

    def tokens_of(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The vocabulary's ids of columns of the logits."""
        return columns if self._ids_D is None else self._ids_D[columns]

    def _linear(self, name: str, x: Floats) -> Floats:
        bias = self._tensors.get(f"{name}_bias")
        product: Floats = x @ self._tensors[name].T
        return product if bias is None else product + bias

    def _normed(self, name: str, x_TE: Floats) -> Floats:
        return rms_norm(x_TE, self._tensors[name], self._eps)
