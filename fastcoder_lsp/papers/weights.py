"""Drafters with weights of their own: the base class, the weights of transformer blocks, and their arithmetic in numpy.

Rounding changes the speed only, never the output, so numbers may differ between machines.
Legend: T rows, E width, D tokens of a drafter's own vocabulary, H heads, K of them with keys, d numbers of a head.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, KeepingEngine, StepCosts
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.draft.base import Drafter, DrafterParts, Linear, MakeLinear, Specification
from fastcoder_lsp.draft.pricing import Forecast, timed
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.drafter_files import (
    DrafterFiles,
    DrafterRecord,
    Sizes,
    open_drafter,
    require_ids,
    require_sizes,
)

Weights = TypeVar("Weights")


def opened(name: str, folder: str, parts: DrafterParts) -> DrafterFiles | None:
    """The weights of the drafter `name` in `folder`; None if no folder is named.

    Raises UsageError if there are none of this method, ModelInvalidError if they are damaged or another model's.
    """
    return open_drafter(Path(folder), name, parts.trained.digest) if folder else None


class WeightedDrafter(Drafter, Generic[Weights]):
    """A drafter with weights trained for the target, read when first needed; without `files` it drafts nothing."""

    def __init__(self, specification: Specification[Any], files: DrafterFiles | None, linear: MakeLinear) -> None:
        super().__init__(specification)
        self._files, self._linear = files, linear
        if files is not None:
            self.traits = DrafterTraits(layers=files.record.layers)
        self._weights: Weights | None = None

    @override
    def warm_up(self) -> None:
        self._loaded()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """A tree below the single pending token, from the engine's hidden states of the tokens before it."""
        weights, engine = self._loaded(), context.engine
        if weights is None or engine is None or nodes < 1 or not 0 < context.cached == len(context.tokens) - 1:
            return NO_DRAFT
        return self.draft(weights, engine, context, nodes)

    @override
    def forecast(self, costs: StepCosts | None) -> Forecast | None:
        weights = self._loaded()
        if weights is None or self._files is None:
            return None
        return timed(self.arithmetic(weights, self._files.record), self._files.record.figures)

    def make(self, files: DrafterFiles) -> Weights:
        """Read the weights."""
        raise NotImplementedError

    def draft(self, weights: Weights, engine: KeepingEngine, context: DraftContext, nodes: int) -> Draft:
        """At least one node, if there is anything to draft."""
        raise NotImplementedError

    def arithmetic(self, weights: Weights, record: DrafterRecord) -> Callable[[], object]:
        """A function that computes one draft over made-up states, for timing."""
        raise NotImplementedError

    def _loaded(self) -> Weights | None:
        if self._weights is None and self._files is not None:
            self._weights = self.make(self._files)
        return self._weights


class Keys(NamedTuple):
    """Keys and values of some rows in one layer, [T, K, d] each."""

    keys_TKd: Floats
    values_TKd: Floats

    def joined(self, more: "Keys") -> "Keys":
        """These rows, then `more`."""
        return Keys(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))

    def first(self, rows: int) -> "Keys":
        """The first rows."""
        return Keys(self.keys_TKd[:rows], self.values_TKd[:rows])


class BlockWeights:
    """The weights of transformer blocks: matrices as products, and vectors.

    Args:
        record: its `numbers` give heads, kv_heads, head_dim, theta and eps.
        tensors: by name; "head" is one of them, and so is "ids" if the drafter's vocabulary is a part of the target's.
        sizes: the tensors that must be there.
        make: makes products of the matrices.
        exact: makes products of matrices that must not be rounded, by name.

    Raises:
        ModelInvalidError: a tensor is missing or has another size, or the record's sizes do not fit one another.
    """

    def __init__(
        self,
        record: DrafterRecord,
        tensors: Mapping[str, Floats],
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
        """Rows times a matrix, plus its bias if it has one."""
        bias, product = self.vectors.get(f"{name}_bias"), self._products[name](x_TE)
        return product if bias is None else product + bias

    def normed(self, name: str, x_TE: Floats) -> Floats:
        """Rows through a norm."""
        return rms_norm(x_TE, self.vectors[name], self._eps)

    def queries(self, block: str, x_TE: Floats, places_T: Int64s) -> Floats:
        """Queries [T, H, d] of the block whose tensors begin with `block`."""
        return self._turned(f"{block}q", x_TE, self.heads, places_T)

    def keys(self, block: str, x_TE: Floats, places_T: Int64s) -> Keys:
        """Keys and values in a block."""
        keys_TKd = self._turned(f"{block}k", x_TE, self.kv_heads, places_T)
        return Keys(keys_TKd, self.linear(f"{block}v", x_TE).reshape(keys_TKd.shape))

    def mixed(self, block: str, x_TE: Floats, q_THd: Floats, keys: Keys, seen_TN: npt.NDArray[np.bool_]) -> Floats:
        """The rest of a block: attention and the inner layer, each added to the rows."""
        x_TE = x_TE + self.linear(f"{block}o", attention(q_THd, *keys, seen_TN))
        h_TE = self.normed(f"{block}norm_post", x_TE)
        inner = silu(self.linear(f"{block}gate", h_TE)) * self.linear(f"{block}up", h_TE)
        return x_TE + self.linear(f"{block}down", inner)

    def tokens_of(self, columns: Int64s) -> Int64s:
        """The target's token ids of columns of the logits."""
        return columns if self._ids_D is None else self._ids_D[columns]

    def _turned(self, name: str, x_TE: Floats, heads: int, places_T: Int64s) -> Floats:
        """Heads [T, H, d], normed if the drafter norms them, and rotated by their places."""
        x_THd = self.linear(name, x_TE).reshape(len(x_TE), heads, self.dim)
        weight_d = self.vectors.get(f"{name}_norm")
        return turned(x_THd if weight_d is None else rms_norm(x_THd, weight_d, self._eps), places_T, self._theta)


def block_sizes(record: DrafterRecord, width: int, inputs: int) -> Sizes:
    """Sizes of a block of `width`, whose queries, keys and values have `inputs` inputs."""
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


def silu(x: Floats) -> Floats:
    """x · sigmoid(x)."""
    with np.errstate(over="ignore"):  # for a large negative x, e^-x is infinite and x / ∞ is 0, as it should be
        opened: Floats = (x / (1 + np.exp(-x))).astype(np.float32, copy=False)
    return opened


def rms_norm(x_TE: Floats, weight_E: Floats, eps: float) -> Floats:
    """Each row divided by the root of its mean square, times the weights."""
    scale = 1 / np.sqrt(np.mean(np.square(x_TE), axis=-1, keepdims=True) + np.float32(eps))
    normed: Floats = (x_TE * scale * weight_E).astype(np.float32, copy=False)
    return normed


def best_of(logits_TD: Floats, count: int) -> tuple[Int64s, Floats]:
    """The `count` best columns of each row, best first, and the logarithms of their probabilities; [T, count] each."""
    count = min(count, logits_TD.shape[1])
    best = np.argpartition(-logits_TD, count - 1, axis=1)[:, :count]
    found = np.take_along_axis(logits_TD, best, 1)
    order = np.argsort(-found, axis=1, kind="stable")
    peak = logits_TD.max(axis=1, keepdims=True)
    total = np.log(np.exp(logits_TD - peak).sum(axis=1, keepdims=True)) + peak
    chosen = np.take_along_axis(best, order, 1).astype(np.int64)
    return chosen, (np.take_along_axis(found, order, 1) - total).astype(np.float32, copy=False)


def turned(x_THd: Floats, places_T: Int64s, theta: float) -> Floats:
    """Each head's halves rotated by the row's place (RoPE, Su et al. 2021, in Llama's layout)."""
    half = x_THd.shape[-1] // 2
    speeds_d = theta ** (-np.arange(half, dtype=np.float64) / half)
    angles_Td = places_T[:, None] * speeds_d
    cos, sin = (part.astype(np.float32)[:, None] for part in (np.cos(angles_Td), np.sin(angles_Td)))
    low, high = x_THd[..., :half], x_THd[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def attention(q_THd: Floats, k_NKd: Floats, v_NKd: Floats, seen_TN: npt.NDArray[np.bool_]) -> Floats:
    """Grouped-query attention, [T, H·d]; every H / K query heads share a head of keys."""
    rows, heads, dim = q_THd.shape
    kv_heads = k_NKd.shape[1]
    group = heads // kv_heads
    q_KRd = q_THd.reshape(rows, kv_heads, group, dim).transpose(1, 0, 2, 3).reshape(kv_heads, rows * group, dim)
    scores_KRN = np.matmul(q_KRd, k_NKd.transpose(1, 2, 0)) * np.float32(dim**-0.5)
    scores_KRN = np.where(np.repeat(seen_TN, group, axis=0)[None], scores_KRN, np.float32(-1e30))
    scores_KRN = np.exp(scores_KRN - scores_KRN.max(axis=-1, keepdims=True))
    scores_KRN /= scores_KRN.sum(axis=-1, keepdims=True)
    mixed_KRd = np.matmul(scores_KRN, v_NKd.transpose(1, 0, 2))
    mixed = mixed_KRd.reshape(kv_heads, rows, group, dim).transpose(1, 0, 2, 3).reshape(rows, heads * dim)
    return np.ascontiguousarray(mixed, np.float32)
