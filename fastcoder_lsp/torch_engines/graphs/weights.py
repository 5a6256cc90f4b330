"""A model's weights on the device: their names, their packed forms, and the products with them.

Query, key and value rows are stacked, gate and up rows too. Rounding is weight-only: activations keep their precision.

Legend: T rows, N output columns, E input columns, V vocabulary.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import BROKEN_HINT, Shape
from fastcoder_lsp.engine.weights import EMBEDDING, HEAD, NORM
from fastcoder_lsp.errors import ModelInvalidError

logger = logging.getLogger(__name__)
GROUP = 32  # columns that share a scale in int4
SLICE = 1024  # rows of a matrix that are rounded at a time


class Linear(Protocol):
    """x ↦ x·Wᵀ + b."""

    bytes: int  # bytes that one pass reads

    def __call__(self, x_TE: torch.Tensor) -> torch.Tensor:
        """[T, E] → [T, N]."""


class PlainProduct:
    """Weights as they are."""

    def __init__(self, weight_NE: torch.Tensor, bias_N: torch.Tensor | None) -> None:
        self._weight_NE, self._bias_N = weight_NE, bias_N
        self.bytes = weight_NE.nbytes

    def __call__(self, x_TE: torch.Tensor) -> torch.Tensor:
        """[T, E] → [T, N]."""
        return F.linear(x_TE, self._weight_NE, self._bias_N)


class Int8Product:
    """int8 with a scale a row, widened for the product: works everywhere, slowly; the reference for others."""

    def __init__(self, weight_NE: torch.Tensor, bias_N: torch.Tensor | None) -> None:
        self.weight_NE, self.scale_N = round_rows(weight_NE)
        self.bias_N = bias_N
        self.bytes = self.weight_NE.nbytes + self.scale_N.nbytes

    def __call__(self, x_TE: torch.Tensor) -> torch.Tensor:
        """[T, E] → [T, N]."""
        product = F.linear(x_TE, self.weight_NE.to(x_TE.dtype)) * self.scale_N
        return product if self.bias_N is None else product + self.bias_N


class Int8TorchProduct(Int8Product):
    """The same through torch's own int8 weight-only product."""

    def __call__(self, x_TE: torch.Tensor) -> torch.Tensor:
        """[T, E] → [T, N]."""
        product: torch.Tensor = torch.ops.aten._weight_int8pack_mm(  # noqa: SLF001 torch's only name for it
            x_TE, self.weight_NE, self.scale_N
        )
        return product if self.bias_N is None else product + self.bias_N


class Int4Product:
    """int4 in groups of columns with scale and offset, widened for the product; the reference."""

    def __init__(self, weight_NE: torch.Tensor, bias_N: torch.Tensor | None) -> None:
        self._codes_NE, self._scale_offset_NG2 = round_groups(weight_NE)
        self._bias_N = bias_N
        self.bytes = self._codes_NE.numel() // 2 + self._scale_offset_NG2.nbytes

    def __call__(self, x_TE: torch.Tensor) -> torch.Tensor:
        """[T, E] → [T, N]."""
        scale, offset = self._scale_offset_NG2.to(x_TE.dtype)[..., None].unbind(2)
        codes = self._codes_NE.view(*scale.shape[:2], GROUP).to(x_TE.dtype)
        return F.linear(x_TE, ((codes - 8) * scale + offset).flatten(1), self._bias_N)


class Int4TorchProduct:
    """The same through torch's own int4 product (tinygemm, in torch since gpt-fast): CUDA and bf16 only."""

    def __init__(self, weight_NE: torch.Tensor, bias_N: torch.Tensor | None) -> None:
        codes_NE, scale_offset_NG2 = round_groups(weight_NE)
        packed_bytes = (codes_NE[:, ::2] << 4 | codes_NE[:, 1::2]).to(torch.uint8)
        self._packed: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack(  # noqa: SLF001 torch's only name for it
            packed_bytes, 8
        )
        self._scales = scale_offset_NG2.to(weight_NE.dtype).transpose(0, 1).contiguous()
        self._bias_N = bias_N
        self.bytes = self._packed.nbytes + self._scales.nbytes

    def __call__(self, x_TE: torch.Tensor) -> torch.Tensor:
        """[T, E] → [T, N]."""
        product: torch.Tensor = torch.ops.aten._weight_int4pack_mm(  # noqa: SLF001 torch's only name for it
            x_TE, self._packed, GROUP, self._scales
        )
        return product if self._bias_N is None else product + self._bias_N


Make = Callable[[torch.Tensor, torch.Tensor | None], Linear]
PRODUCTS: Mapping[str, Mapping[str, Make]] = {
    "plain": {"plain": PlainProduct},
    "int8": {"torch": Int8TorchProduct, "widened": Int8Product},
    "int4": {"torch": Int4TorchProduct, "widened": Int4Product},
}
"""Precision → name → how a product is made of weight and bias. The last of each runs everywhere."""
CHECKED_ROWS = (1, 16, 64)
TOLERANCE = 0.05  # tolerated relative difference of norms: ten times the effect of another order of summation in bf16


def working_product(weight_NE: torch.Tensor, precision: str) -> str:
    """The first implementation of `precision` that runs on the weight's device and agrees with the last one."""
    *ways, last = PRODUCTS[precision]
    plain = PRODUCTS[precision][last](weight_NE, None)
    for name in ways:
        try:
            product = PRODUCTS[precision][name](weight_NE.clone(), None)
            inputs = [torch.randn(rows, weight_NE.shape[1], device=weight_NE.device) for rows in CHECKED_ROWS]
            if all(agree(product(x_TE), plain(x_TE)) for x_TE in (each.to(weight_NE.dtype) for each in inputs)):
                return name
            why = "its results differ"
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 the errors of a missing operator vary
            why = f"{type(error).__name__}: {error}"
        logger.warning("%s products by %s are not used: %s", precision, name, why)
    return last


def agree(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two results agree up to rounding; results that are not finite never do."""
    difference = (found.float() - expected.float()).norm() / expected.float().norm()
    return bool(difference <= TOLERANCE)


def round_rows(weight_NE: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 and a scale for each row, in the weight's own precision."""
    return _in_slices(_round_rows, weight_NE)


def round_groups(weight_NE: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes 0…15 [N, E], and for every group of columns scale and offset [N, E/GROUP, 2]: (code − 8)·scale + offset."""
    return _in_slices(_round_groups, weight_NE)


def _in_slices(
    function: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], weight_NE: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in blocks: widened to 32 bits, a large matrix would take more room than the packed model leaves."""
    parts = [function(part) for part in torch.split(weight_NE, SLICE)]
    return torch.cat([first for first, _ in parts]), torch.cat([second for _, second in parts])


def _round_rows(weight_NE: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weight = weight_NE.float()
    # Round first, so that the codes fit the scale that they will be multiplied with.
    scale_N = (weight.abs().amax(1) / 127).clamp_min(1e-12).to(weight_NE.dtype)
    codes = (weight / scale_N.float()[:, None]).round().clamp(-127, 127)
    return codes.to(torch.int8), scale_N


def _round_groups(weight_NE: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = weight_NE.shape
    grouped = weight_NE.float().view(rows, columns // GROUP, GROUP)
    low, high = grouped.amin(2), grouped.amax(2)
    scale = ((high - low) / 15).clamp_min(1e-12)
    codes = ((grouped - low[..., None]) / scale[..., None]).round().clamp(0, 15)
    return codes.to(torch.uint8).view(rows, columns), torch.stack([scale, low + 8 * scale], dim=2)


class TensorSource(Protocol):
    """Tensors by their names in the transformers format."""

    def __contains__(self, name: str) -> bool: ...

    def raw(self, name: str, *shape: int) -> torch.Tensor:
        """The tensor in its own precision and on its own device; raises ModelInvalidError."""


@dataclass(frozen=True, slots=True)
class Norm:
    """Scale of a norm, and its offset for LayerNorm."""

    scale_E: torch.Tensor
    offset_E: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Block:
    """Weights of one layer."""

    norm1: Norm
    qkv: Linear
    out: Linear
    norm2: Norm
    inner: Linear
    down: Linear
    head_norms: tuple[torch.Tensor, torch.Tensor] | None = None
    """Scales of queries and of keys, if their heads are normed."""


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """All weights; a tied `head` is the embedding again."""

    embedding_VE: torch.Tensor
    blocks: tuple[Block, ...]
    norm: Norm
    head: PlainProduct

    @property
    def bytes(self) -> int:
        """Bytes that one pass reads."""
        each = [block.qkv.bytes + block.out.bytes + block.inner.bytes + block.down.bytes for block in self.blocks]
        return sum(each) + self.head.bytes


def read_model(
    source: TensorSource, shape: Shape, make: Make, *, dtype: torch.dtype, device: torch.device, progress: Progress
) -> ModelWeights:
    """Move a model to the device, its layers' products made by `make`; embedding and head stay as they are.

    Raises:
        ModelInvalidError: a tensor is missing, of another shape, or holds numbers that are not finite.
    """
    reader = _WeightReader(source, shape, make, dtype, device)
    blocks = []
    for layer in range(shape.layers):
        blocks.append(reader.block(f"model.layers.{layer}."))
        progress((layer + 1) / (shape.layers + 2), "reading weights")
    embedding = reader.tensor(EMBEDDING, shape.vocabulary, shape.width)
    head = reader.tensor(HEAD, shape.vocabulary, shape.width) if HEAD in source else embedding
    return ModelWeights(embedding, tuple(blocks), reader.norm(NORM.removesuffix(".weight")), PlainProduct(head, None))


@dataclass(frozen=True, slots=True)
class _WeightReader:
    """Reads a model's tensors."""

    source: TensorSource
    shape: Shape
    make: Make
    dtype: torch.dtype
    device: torch.device

    def block(self, name: str) -> Block:
        shape, attention, mlp = self.shape, name + "self_attn.", name + "mlp."
        q, kv, width, inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.width, shape.inner
        parts = ("c_fc",) if shape.starcoder else ("gate_proj", "up_proj")
        down = "c_proj" if shape.starcoder else "down_proj"
        norms = [self.tensor(f"{attention}{side}_norm.weight", shape.head_dim) for side in "qk" if shape.norms_heads]
        return Block(
            norm1=self.norm(name + "input_layernorm"),
            qkv=self.product([attention + part for part in ("q_proj", "k_proj", "v_proj")], (q, kv, kv), width),
            out=self.product([attention + "o_proj"], (width,), q),
            norm2=self.norm(name + "post_attention_layernorm"),
            inner=self.product([mlp + part for part in parts], (inner,) * len(parts), width),
            down=self.product([mlp + down], (width,), inner),
            head_norms=(norms[0], norms[1]) if norms else None,
        )

    def norm(self, name: str) -> Norm:
        scale = self.tensor(name + ".weight", self.shape.width)
        offset = self.tensor(name + ".bias", self.shape.width) if self.shape.starcoder else None
        return Norm(scale, offset)

    def product(self, names: Sequence[str], rows: Sequence[int], columns: int) -> Linear:
        """Several matrices over the same columns as one."""
        found = [self.tensor(f"{name}.weight", size, columns) for name, size in zip(names, rows, strict=True)]
        biases = [
            self.tensor(f"{name}.bias", size)
            for name, size in zip(names, rows, strict=True)
            if f"{name}.bias" in self.source
        ]
        bias = torch.cat(biases) if len(biases) == len(names) else None
        return self.make(torch.cat(found) if len(found) > 1 else found[0], bias)

    def tensor(self, name: str, *shape: int) -> torch.Tensor:
        moved = self.source.raw(name, *shape).to(self.device, self.dtype)
        if not bool(moved.isfinite().all()):
            raise ModelInvalidError(f"{name} contains infinite numbers or NaN", BROKEN_HINT)
        return moved
