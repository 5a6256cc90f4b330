"""The graph engine's model behind `engine.backend.Backend`: rows in, logits out, for prefills and for comparisons.

Steps of the engine bypass it: they choose tokens on the device.
"""

import gc
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from fastcoder_lsp.core import GREEDY, Tokens
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.static.cache import Shelf, StaticCache
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.programs import Program, Programs


class StaticBackend:
    """A backend over captured programs; `shelf` keeps prefixes that leave the cache."""

    def __init__(
        self, name: str, programs: Programs, cache: StaticCache, shelf: Shelf, device: Device, shape: Shape
    ) -> None:
        self.name, self.device, self.vocabulary, self._eps = name, device.name, shape.vocabulary, shape.eps
        self.capacity, self.chunk = programs.plan.capacity, programs.plan.reads[-1]
        self.programs = programs
        self._cache, self._shelf, self._device = cache, shelf, device

    @property
    def layers(self) -> int:
        """Blocks of the model."""
        return len(self.programs.model.blocks)

    @property
    def sublayers(self) -> int:
        """Parts of the model that can be left out (`backend.SkimmingBackend`)."""
        return 2 * self.layers

    @property
    def kept_layers(self) -> tuple[int, ...]:
        """The layers behind which hidden states are kept, each from 1 on."""
        return self._cache.state_layers

    def last_norm(self) -> tuple[npt.NDArray[np.float32], float]:
        """The weights [E] of the norm before the head, and its ε."""
        return self.programs.model.norm.scale_E.float().cpu().numpy(), self._eps

    @torch.inference_mode()
    def keep_states(self, layers: Sequence[int]) -> None:
        """Keep hidden states behind these layers from now on (`states.KeepingBackend`); empties the KV cache.

        `prepare` captures programs again that keep them, so that no request waits for it.

        Raises:
            torch.OutOfMemoryError: there is no room for them; nothing has changed.
        """
        before = self._cache.state_layers
        try:
            self._keep(layers)
        except torch.OutOfMemoryError:
            self._keep(before)
            raise

    def _keep(self, layers: Sequence[int]) -> None:
        self._shelf.clear()
        self.programs.forget()
        self._cache.keep_states(layers)
        self.programs.warm_up_again()

    @torch.inference_mode()
    def prepare(self, cached: int) -> bool:
        """Capture a requested program; returns whether there was one (`Programs.prepare`)."""
        return self.programs.prepare(cached)

    @torch.inference_mode()
    def states(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """The states of the slots `start`…`stop`, [slots, kept layers, E]: a copy on the host."""
        found: npt.NDArray[np.float32] = self._cache.states(start, stop).float().cpu().numpy()
        return found

    @torch.inference_mode()
    def embed(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The embeddings of tokens, [tokens, E]."""
        embedding_VE = self.programs.model.embedding_VE
        found: npt.NDArray[np.float32] = (
            embedding_VE[torch.from_numpy(tokens).to(embedding_VE.device)].float().cpu().numpy()
        )
        return found

    @torch.inference_mode()
    def forward(self, rows: Rows) -> npt.NDArray[np.float32] | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""
        plan, count = self.programs.plan, len(rows)
        wanted = rows.logits_from < count
        width = plan.step_width(count) if wanted and count <= plan.widths[-1] else plan.read_width(count)
        bucket = plan.bucket(rows.cached, width)
        self.programs.send(rows.tokens.tolist(), rows.parents.tolist(), width=width, cached=rows.cached, sampler=GREEDY)
        if not wanted:
            self.programs.launch(Program(width, bucket, None))
            self.programs.wait()
            return None
        logits: npt.NDArray[np.float32] = (
            self.programs.logits(width, bucket, rows.skipped)[rows.logits_from : count].float().cpu().numpy()
        )
        return logits

    @torch.inference_mode()
    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Move the accepted slots together; the caller has waited for the program whose path this is."""
        self.programs.moves.keep(cached, path)

    @torch.inference_mode()
    def recall(self, held: Tokens, wanted: Tokens) -> int:
        """Before the cache changes from `held` to `wanted`: shelve what would be lost, and restore a shelved prefix.

        Returns how many of `wanted` the cache holds now. An empty `wanted` drops all copies.
        """
        if not wanted:
            self._shelf.clear()
            return 0
        return self._shelf.exchange(self._cache, held, wanted)

    def failed(self, why: RuntimeError) -> None:
        """Report an error to the device."""
        self._device.failed(why)

    def close(self) -> None:
        """Free the memory at once: programs and their graphs are a cycle, which is collected late or never."""
        self.programs.close()
        self._shelf.clear()
        del self.programs, self._cache
        gc.collect()
        self._device.release()
