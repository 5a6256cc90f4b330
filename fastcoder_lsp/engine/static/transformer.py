"""The model's pass over the rows of a program: tokens in, hidden states or logits out.

Owns the order of things alone; the parts are handed in. Qwen2, Llama and StarCoder2 differ in their parts only.

Legend: T rows, E width, V vocabulary.
"""

from dataclasses import dataclass

import torch

from fastcoder_lsp.engine.static.attention import TreeView
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.kernels import TorchKernels
from fastcoder_lsp.engine.static.weights import Model, Norm


@dataclass(frozen=True, slots=True)
class Transformer:
    """A model over a cache."""

    model: Model
    kernels: TorchKernels
    cache: StaticCache

    def read(self, view: TreeView, skipped: frozenset[int] = frozenset()) -> torch.Tensor:
        """Run the rows, their keys and values into the cache: hidden states [T, E] before the last norm.

        Of the parts that are `skipped` (see `backend.Rows`) nothing is run.
        """
        kernels = self.kernels
        x_TE = self.model.embedding_VE[view.inputs.ids_T]
        change_TE: torch.Tensor | None = None
        for layer, block in enumerate(self.model.blocks):
            if 2 * layer not in skipped:
                h_TE = _normed(kernels, x_TE, change_TE, block.norm1)
                self.cache.store_states(layer, view.inputs.slots_T, x_TE)  # what the layers before it left
                change_TE = block.out(kernels.attend(layer, block.qkv(h_TE), self.cache, view))
            if 2 * layer + 1 not in skipped:
                h_TE = _normed(kernels, x_TE, change_TE, block.norm2)
                change_TE = block.down(kernels.activate(block.inner(h_TE)))
        if change_TE is not None:
            x_TE.add_(change_TE)
        self.cache.store_states(len(self.model.blocks), view.inputs.slots_T, x_TE)
        return x_TE

    def logits(self, hidden_TE: torch.Tensor) -> torch.Tensor:
        """Logits [T, V] of hidden states."""
        return self.model.head(self.kernels.norm(hidden_TE, self.model.norm))


def _normed(kernels: TorchKernels, x_TE: torch.Tensor, change_TE: torch.Tensor | None, norm: Norm) -> torch.Tensor:
    """The norm of x, to which a change is added first, in place, where there is one."""
    return kernels.norm(x_TE, norm) if change_TE is None else kernels.add_norm(x_TE, change_TE, norm)
