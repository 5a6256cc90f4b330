"""A model's weights on the device, in the order in which a pass reads them.

Owns names and joining: query, key and value rows stand together, gate and up rows too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import BROKEN_HINT, Shape
from fastcoder_lsp.engine.static.products import Make, PlainProduct, Product
from fastcoder_lsp.errors import ModelInvalidError

EMBEDDING, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm"
"""Names in the transformers format, said again here: `engine.weights`, which reads files, needs more packages than a
machine that only times random weights may have."""


class Source(Protocol):
    """Tensors by their names in the transformers format."""

    def __contains__(self, name: str) -> bool:
        """Whether there is such a tensor."""
        ...

    def raw(self, name: str, *shape: int) -> torch.Tensor:
        """The tensor, in the precision and on the device where it lies; raises ModelInvalidError."""
        ...


@dataclass(frozen=True, slots=True)
class Norm:
    """Scale of a norm, and its offset where the model centres (LayerNorm)."""

    scale_E: torch.Tensor
    offset_E: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Block:
    """Weights of one layer."""

    norm1: Norm
    qkv: Product
    out: Product
    norm2: Norm
    inner: Product
    down: Product


@dataclass(frozen=True, slots=True)
class Model:
    """All weights; `head` is the embedding again where they are tied."""

    embedding_VE: torch.Tensor
    blocks: tuple[Block, ...]
    norm: Norm
    head: PlainProduct

    @property
    def bytes(self) -> int:
        """What one pass reads."""
        each = [block.qkv.bytes + block.out.bytes + block.inner.bytes + block.down.bytes for block in self.blocks]
        return sum(each) + self.head.bytes


def read_model(
    source: Source, shape: Shape, make: Make, *, dtype: torch.dtype, device: torch.device, progress: Progress
) -> Model:
    """Move a model to the device, its layers' products made by `make`; embedding and head stay as they are.

    Raises:
        ModelInvalidError: a tensor is missing, of another shape, or holds numbers that are not finite.
    """
    reader = _Reader(source, shape, make, dtype, device)
    blocks = []
    for layer in range(shape.layers):
        blocks.append(reader.block(f"model.layers.{layer}."))
        progress((layer + 1) / (shape.layers + 2), "reading weights")
    embedding = reader.tensor(EMBEDDING, shape.vocabulary, shape.width)
    head = reader.tensor(HEAD, shape.vocabulary, shape.width) if HEAD in source else embedding
    return Model(embedding, tuple(blocks), reader.norm(NORM), PlainProduct(head, None))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads tensors into their places."""

    source: Source
    shape: Shape
    make: Make
    dtype: torch.dtype
    device: torch.device

    def block(self, name: str) -> Block:
        """The layer whose tensors begin with `name`."""
        shape, attention, mlp = self.shape, name + "self_attn.", name + "mlp."
        q, kv, width, inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.width, shape.inner
        parts = ("c_fc",) if shape.starcoder else ("gate_proj", "up_proj")
        down = "c_proj" if shape.starcoder else "down_proj"
        return Block(
            norm1=self.norm(name + "input_layernorm"),
            qkv=self.product([attention + part for part in ("q_proj", "k_proj", "v_proj")], (q, kv, kv), width),
            out=self.product([attention + "o_proj"], (width,), q),
            norm2=self.norm(name + "post_attention_layernorm"),
            inner=self.product([mlp + part for part in parts], (inner,) * len(parts), width),
            down=self.product([mlp + down], (width,), inner),
        )

    def norm(self, name: str) -> Norm:
        """Scale, and offset where the model has one."""
        scale = self.tensor(name + ".weight", self.shape.width)
        offset = self.tensor(name + ".bias", self.shape.width) if self.shape.starcoder else None
        return Norm(scale, offset)

    def product(self, names: Sequence[str], rows: Sequence[int], columns: int) -> Product:
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
        """One tensor on the device."""
        moved = self.source.raw(name, *shape).to(self.device, self.dtype)
        if not bool(moved.isfinite().all()):
            raise ModelInvalidError(f"{name} contains numbers that are not finite", BROKEN_HINT)
        return moved
