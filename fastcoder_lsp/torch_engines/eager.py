"""The models of `architecture` in plain torch: the fp32 reference on the CPU, and bf16 on Apple's MPS or on the CPU.

Tree attention is a boolean mask over slots; grouped query heads are folded into rows, so that the cache is never
repeated. Not bit-exact across widths: fp32 gives the same ids, bf16 nearly always.

Legend: T rows, E width, G query heads of a group, K key/value heads, C columns (slots), D head dimension.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.int8.memory import LazyMemory
from fastcoder_lsp.engine.weights import EMBEDDING, NORM, Weights


@dataclass(frozen=True, slots=True)
class EagerNorm:
    """RMSNorm, or LayerNorm if there are offsets."""

    scale_E: torch.Tensor
    offset_E: torch.Tensor | None
    eps: float

    def __call__(self, x_TE: torch.Tensor) -> torch.Tensor:
        """The norm of the rows."""
        if self.offset_E is None:
            return F.rms_norm(x_TE, self.scale_E.shape, self.scale_E, self.eps)
        return F.layer_norm(x_TE, self.scale_E.shape, self.scale_E, self.offset_E, self.eps)


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one block; query, key and value rows are stacked, gate and up rows too."""

    norm1: EagerNorm
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    out: torch.Tensor
    out_bias: torch.Tensor | None
    norm2: EagerNorm
    gate_up: torch.Tensor
    gate_up_bias: torch.Tensor | None
    down: torch.Tensor
    down_bias: torch.Tensor | None
    head_norms: tuple[torch.Tensor, torch.Tensor] | None


class EagerBackend:
    """A backend in plain torch."""

    def __init__(
        self,
        name: str,
        shape: Shape,
        weights: Weights,
        *,
        capacity: int,
        dtype: torch.dtype,
        device: str,
        progress: Progress,
    ) -> None:
        self.name, self.device, self.vocabulary, self.capacity = name, device, shape.vocabulary, capacity
        self.chunk = 128 if device == "cpu" else 512
        self.layers, self.sublayers = shape.layers, 2 * shape.layers
        self._shape, self._dtype = shape, dtype
        self._layers: list[Layer] = []
        for layer in range(shape.layers):
            self._layers.append(self._read_layer(weights, layer))
            progress((layer + 1) / (shape.layers + 2), "reading weights")
        self._embedding_VE = self._move(weights.get(EMBEDDING, shape.vocabulary, shape.width))
        self._head_VE = self._move(weights.head(shape))
        self._norm = self._read_norm(weights, NORM.removesuffix(".weight"))
        angles_CH = torch.arange(capacity, dtype=torch.float64)[:, None] * torch.from_numpy(shape.angles_H)[None]
        self.kept_layers: tuple[int, ...] = ()
        self._cos_CD = torch.cat([angles_CH.cos()] * 2, dim=-1).to(device, dtype)
        self._sin_CD = torch.cat([angles_CH.sin()] * 2, dim=-1).to(device, dtype)
        self.empty_cache()

    def another(self) -> Self:
        """Another backend over the same weights, with an empty cache."""
        other = copy(self)
        other.empty_cache()
        return other

    def empty_cache(self) -> None:
        """Allocate memory for keys and values."""
        shape = self._shape
        size = (shape.layers, shape.kv_heads, self.capacity, shape.head_dim)
        self.keys_LKCD, self.values_LKCD = (self._zeros(size) for _ in range(2))
        slots = self.capacity if self.kept_layers else 0
        self.states_CSE = LazyMemory((slots, len(self.kept_layers), shape.width), np.float32).array
        self.touched = 0

    def take(self, other: Self, start: int, stop: int) -> None:
        """Copy the slots `start`…`stop` of another backend's cache."""
        self.keys_LKCD[:, :, start:stop] = other.keys_LKCD[:, :, start:stop]
        self.values_LKCD[:, :, start:stop] = other.values_LKCD[:, :, start:stop]
        if self.kept_layers:
            self.states_CSE[start:stop] = other.states_CSE[start:stop]
        self.touched = max(self.touched, stop)

    def keep_states(self, layers: Sequence[int]) -> None:
        """Keep hidden states behind these layers from now on (`states.KeepingBackend`); empties the KV cache."""
        self.kept_layers = tuple(layers)
        self.empty_cache()

    def states(self, start: int, stop: int) -> Floats:
        """Hidden states of the slots `start`…`stop`, [slots, kept layers, E]: a view, on the host."""
        found: Floats = self.states_CSE[start:stop]
        return found

    def embed(self, tokens: Int64s) -> Floats:
        """The embeddings of tokens, [tokens, E]."""
        rows: Floats = self._embedding_VE[torch.from_numpy(tokens).to(self.device)].float().cpu().numpy()
        return rows

    def last_norm(self) -> tuple[Floats, float]:
        """The weights of the norm before the head, [E], or [2 E] for LayerNorm, and its ε."""
        parts = [self._norm.scale_E] if self._norm.offset_E is None else [self._norm.scale_E, self._norm.offset_E]
        return torch.cat(parts).float().cpu().numpy(), self._norm.eps

    def bytes_of(self, slots: int) -> int:
        """Memory of the cache with so many slots written; a device allocates all of it at once."""
        each = self._shape.slot_numbers * self._dtype.itemsize
        states = slots * self.states_CSE[:1].nbytes
        return (slots if self.device == "cpu" else self.capacity) * each + states

    def trim(self, slots: int) -> None:
        """Do nothing: the cache is one allocation, freed as a whole."""

    @torch.inference_mode()
    def forward(self, rows: Rows) -> Floats | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""
        self.touched = max(self.touched, rows.cached + len(rows))
        x_TE = self._embedding_VE[torch.from_numpy(rows.tokens).to(self.device)]
        places = torch.from_numpy(rows.depths + rows.cached).to(self.device)
        cos_TD, sin_TD = self._cos_CD[places], self._sin_CD[places]
        mask_TC = self._mask(rows)
        for index, layer in enumerate(self._layers):
            if 2 * index not in rows.skipped:
                qkv = F.linear(layer.norm1(x_TE), layer.qkv, layer.qkv_bias)
                mixed_TE = self._attend(index, qkv, cos_TD, sin_TD, mask_TC, rows.cached)
                x_TE = x_TE + F.linear(mixed_TE, layer.out, layer.out_bias)
            if 2 * index + 1 not in rows.skipped:
                inner_TI = self._activated(F.linear(layer.norm2(x_TE), layer.gate_up, layer.gate_up_bias))
                x_TE = x_TE + F.linear(inner_TI, layer.down, layer.down_bias)
            if index + 1 in self.kept_layers:
                which = self.kept_layers.index(index + 1)
                self.states_CSE[rows.cached : rows.cached + len(rows), which] = x_TE.float().cpu().numpy()
        if rows.logits_from == len(rows):
            return None
        h_TE = self._norm(x_TE[rows.logits_from :])
        logits: Floats = F.linear(h_TE, self._head_VE).float().cpu().numpy()
        return logits

    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Move the slots `cached + path[i]` to `cached + i`; `path` ascends, so the order of copying is safe."""
        moves = [(node, index) for index, node in enumerate(path) if node != index]
        if moves:
            source, target = (torch.tensor(side, device=self.device) + cached for side in zip(*moves, strict=True))
            for cache in (self.keys_LKCD, self.values_LKCD):
                cache[:, :, target] = cache[:, :, source]
            if self.kept_layers:
                olds, news = (np.array(side) + cached for side in zip(*moves, strict=True))
                self.states_CSE[news] = self.states_CSE[olds]

    def close(self) -> None:
        """Free the memory."""
        del self._layers, self._embedding_VE, self._head_VE, self.keys_LKCD, self.values_LKCD

    def _zeros(self, size: tuple[int, ...]) -> torch.Tensor:
        """Zeros; on a CPU their pages are allocated as they are written."""
        if self.device != "cpu":
            return torch.zeros(size, dtype=self._dtype, device=self.device)
        numbers = np.float32 if self._dtype.itemsize == np.dtype(np.float32).itemsize else np.int16
        return torch.from_numpy(LazyMemory(size, numbers).array).view(self._dtype)

    def _attend(
        self,
        layer: int,
        qkv: torch.Tensor,
        cos_TD: torch.Tensor,
        sin_TD: torch.Tensor,
        mask_TC: torch.Tensor,
        cached: int,
    ) -> torch.Tensor:
        """Rotate, write keys and values into their slots, and attend: [T, heads·D]."""
        shape, count = self._shape, len(qkv)
        heads, kv, dim = shape.heads, shape.kv_heads, shape.head_dim
        q, k, v = qkv.tensor_split((heads * dim, (heads + kv) * dim), dim=1)
        q, k = q.view(count, heads, dim), k.view(count, kv, dim)
        if (norms := self._layers[layer].head_norms) is not None:
            q, k = (F.rms_norm(side, (dim,), scale, shape.eps) for side, scale in zip((q, k), norms, strict=True))
        q = _rotate(q, cos_TD, sin_TD).transpose(0, 1)
        end = cached + count
        self.keys_LKCD[layer, :, cached:end] = _rotate(k, cos_TD, sin_TD).transpose(0, 1)
        self.values_LKCD[layer, :, cached:end] = v.view(count, kv, dim).transpose(0, 1)
        mixed = F.scaled_dot_product_attention(
            q.reshape(1, kv, shape.group * count, dim),
            self.keys_LKCD[None, layer, :, :end],
            self.values_LKCD[None, layer, :, :end],
            attn_mask=mask_TC.repeat(shape.group, 1)[None, None],
        )
        return mixed.view(heads, count, dim).transpose(0, 1).reshape(count, heads * dim)

    def _activated(self, inner: torch.Tensor) -> torch.Tensor:
        if self._shape.starcoder:
            return F.gelu(inner, approximate="tanh")
        gate, up = inner.chunk(2, dim=1)
        return F.silu(gate) * up

    def _mask(self, rows: Rows) -> torch.Tensor:
        """[T, C] whether a row sees a slot."""
        mask_TC = np.zeros((len(rows), rows.cached + len(rows)), dtype=np.bool_)
        mask_TC[:, : rows.cached] = True
        for row, seen in enumerate(rows.ancestors()):
            mask_TC[row, [rows.cached + other for other in seen]] = True
        return torch.from_numpy(mask_TC).to(self.device)

    def _read_layer(self, weights: Weights, layer: int) -> Layer:
        shape, name = self._shape, f"model.layers.{layer}."
        q, kv, width, inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.width, shape.inner

        def joined(parts: dict[str, int], columns: int) -> tuple[torch.Tensor, torch.Tensor | None]:
            rows = [weights.get(f"{name}{part}.weight", size, columns) for part, size in parts.items()]
            biases = [weights.optional(f"{name}{part}.bias", size) for part, size in parts.items()]
            found = [bias for bias in biases if bias is not None]
            return self._move(torch.cat(rows)), self._move(torch.cat(found)) if len(found) == len(parts) else None

        gates, down = (("c_fc",), "c_proj") if shape.starcoder else (("gate_proj", "up_proj"), "down_proj")
        sides = [f"{name}self_attn.{side}_norm.weight" for side in "qk"] if shape.norms_heads else []
        norms = [self._move(weights.get(side, shape.head_dim)) for side in sides]
        return Layer(
            self._read_norm(weights, name + "input_layernorm"),
            *joined({"self_attn.q_proj": q, "self_attn.k_proj": kv, "self_attn.v_proj": kv}, width),
            *joined({"self_attn.o_proj": width}, q),
            self._read_norm(weights, name + "post_attention_layernorm"),
            *joined({f"mlp.{gate}": inner for gate in gates}, width),
            *joined({f"mlp.{down}": width}, inner),
            head_norms=(norms[0], norms[1]) if norms else None,
        )

    def _read_norm(self, weights: Weights, name: str) -> EagerNorm:
        width = self._shape.width
        offset = self._move(weights.get(f"{name}.bias", width)) if self._shape.starcoder else None
        return EagerNorm(self._move(weights.get(f"{name}.weight", width)), offset, self._shape.eps)

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, self._dtype)


def _rotate(x_THD: torch.Tensor, cos_TD: torch.Tensor, sin_TD: torch.Tensor) -> torch.Tensor:
    half = x_THD.shape[-1] // 2
    turned = torch.cat([-x_THD[..., half:], x_THD[..., :half]], dim=-1)
    return x_THD * cos_TD[:, None] + turned * sin_TD[:, None]
