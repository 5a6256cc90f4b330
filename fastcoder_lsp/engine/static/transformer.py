"""The model's pass over the rows of a program: tokens in, hidden states or logits out.

Owns the order of things alone; the parts are handed in. Qwen2, Llama and StarCoder2 differ in their parts only.

Legend: T rows, E width, V vocabulary.
"""

from dataclasses import dataclass

import torch

from fastcoder_lsp.engine.static.attention import TreeView
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.kernels import TorchKernels
from fastcoder_lsp.engine.static.weights import Model


@dataclass(frozen=True, slots=True)
class Transformer:
    """A model over a cache."""

    model: Model
    kernels: TorchKernels
    cache: StaticCache

    def read(self, view: TreeView) -> torch.Tensor:
        """Run the rows, their keys and values into the cache: hidden states [T, E] before the last norm."""
        kernels = self.kernels
        x_TE = self.model.embedding_VE[view.inputs.ids_T]
        change_TE: torch.Tensor | None = None
        for layer, block in enumerate(self.model.blocks):
            h_TE = (
                kernels.norm(x_TE, block.norm1) if change_TE is None else kernels.add_norm(x_TE, change_TE, block.norm1)
            )
            self.cache.store_states(layer, view.inputs.slots_T, x_TE)  # what the layers before it left
            mixed = kernels.attend(layer, block.qkv(h_TE), self.cache, view)
            h_TE = kernels.add_norm(x_TE, block.out(mixed), block.norm2)
            change_TE = block.down(kernels.activate(block.inner(h_TE)))
        assert change_TE is not None, "a model without layers"
        x_TE.add_(change_TE)
        self.cache.store_states(len(self.model.blocks), view.inputs.slots_T, x_TE)
        return x_TE

    def logits(self, hidden_TE: torch.Tensor) -> torch.Tensor:
        """Logits [T, V] of hidden states."""
        return self.model.head(self.kernels.norm(hidden_TE, self.model.norm))
