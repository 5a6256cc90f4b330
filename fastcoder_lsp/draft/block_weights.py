"""The weights of a drafter that has transformer blocks of its own: their sizes, products, norms, and what it can say.

Owns what EAGLE's layer and DFlash's model share; the order of things is theirs.

Legend: T rows, E width, D tokens that can be said, H heads, K of them with keys, d numbers of a head.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.base import Linear, MakeLinear
from fastcoder_lsp.draft.weights import Floats, rms_norm, turned
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.drafter_files import DrafterRecord, Sizes, require_ids, require_sizes


class BlockWeights:
    """A drafter's tensors, its matrices as products.

    Args:
        record: its `numbers` say heads, kv_heads, head_dim, theta and eps.
        tensors: by their names; "head" is among them, and "ids" where it says a part of the vocabulary.
        sizes: what must be there.
        make: makes products of the matrices.
        exact: of those that must not be rounded.

    Raises:
        ModelInvalidError: a tensor is missing, or of another size; or the record's sizes do not fit one another.
    """

    def __init__(
        self,
        record: DrafterRecord,
        tensors: Mapping[str, npt.NDArray[np.float32]],
        sizes: Sizes,
        make: MakeLinear,
        exact: Mapping[str, MakeLinear],
    ) -> None:
        self.heads, self.kv_heads, self.dim = (record.whole(name) for name in ("heads", "kv_heads", "head_dim"))
        if self.heads % self.kv_heads or self.dim % 2:
            raise ModelInvalidError(
                f"the drafter's record has invalid sizes: {self.heads} heads, {self.kv_heads} key heads "
                f"of width {self.dim}",
                "Train or import it again.",
            )
        self._theta, self._eps = record.number("theta"), record.number("eps")
        require_sizes(tensors, sizes)
        require_ids(tensors, len(tensors["head"]))
        products = {name for name, size in sizes.items() if len(size) == 2}
        self._products: dict[str, Linear] = {name: exact.get(name, make)(tensors[name]) for name in products}
        self.vectors = {name: value for name, value in tensors.items() if name not in products}
        ids = tensors.get("ids")
        self._ids_D = None if ids is None else ids.astype(np.int64)

    def linear(self, name: str, x_TE: Floats) -> Floats:
        """Rows times a matrix, and its bias where it has one."""
        bias, product = self.vectors.get(f"{name}_bias"), self._products[name](x_TE)
        return product if bias is None else product + bias

    def normed(self, name: str, x_TE: Floats) -> Floats:
        """Rows through a norm."""
        return rms_norm(x_TE, self.vectors[name], self._eps)

    def turned_heads(self, name: str, x_TE: Floats, heads: int, places_T: npt.NDArray[np.int64]) -> Floats:
        """Queries or keys [T, H, d], normed where the drafter norms them, and turned by their places."""
        x_THd = self.linear(name, x_TE).reshape(len(x_TE), heads, self.dim)
        weight_d = self.vectors.get(f"{name}_norm")
        return turned(x_THd if weight_d is None else rms_norm(x_THd, weight_d, self._eps), places_T, self._theta)

    def tokens_of(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The vocabulary's ids of columns of the logits."""
        return columns if self._ids_D is None else self._ids_D[columns]


def block_sizes(record: DrafterRecord, width: int, inputs: int) -> Sizes:
    """Of a block's matrices, so wide, with queries, keys and values of so many inputs."""
    heads, kv_heads, dim = (record.whole(name) for name in ("heads", "kv_heads", "head_dim"))
    return {
        "q": (heads * dim, inputs),
        "k": (kv_heads * dim, inputs),
        "v": (kv_heads * dim, inputs),
        "o": (width, heads * dim),
        "gate": (None, width),
        "up": (None, width),
        "down": (width, None),
        "norm_post": (width,),
    }
