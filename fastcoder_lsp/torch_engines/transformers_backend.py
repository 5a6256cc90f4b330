"""Any causal model that transformers supports, by its own forward: correct first, slower.

A tree runs as its chains from root to leaf, each through the model's ordinary causal path, so that nothing is assumed
about masks and positions; if the model's cache can't be cut back (recurrent state), everything is recomputed.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, DynamicCache

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.engine.architecture import BROKEN_HINT, read_config
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.torch_engines.faults import is_lost


class ForeignBackend:
    """A backend over a transformers model. It remembers the tokens of its slots, to run them again.

    `on_lost` receives the reason when CUDA has failed so that every later call of this process fails; None on a CPU.
    """

    on_lost: Callable[[str], object] | None = None

    def __init__(self, kind: str, folder: Path, *, capacity: int, arithmetic: str, device: str) -> None:
        dtype = torch.float32 if arithmetic == "fp32" else torch.bfloat16
        if (unknown := read_config(folder)["model_type"]) not in CONFIG_MAPPING:
            raise ModelInvalidError(
                f"transformers {transformers.__version__} does not know models of the kind {unknown}",
                "Upgrade it (pip install -U transformers), or choose another model: fastcoder-lsp model list",
            )
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except MemoryError:
            raise
        except Exception as error:  # for an unexpected configuration the library raises errors of any type
            raise ModelInvalidError(f"transformers cannot load {folder}: {error}", BROKEN_HINT) from error
        model, found = loaded
        if lacking := sorted(found["missing_keys"]):  # it would draw them at random
            raise ModelInvalidError(f"the model's files lack {lacking[0]}", BROKEN_HINT)
        self._model = model.to(device).eval()
        self.name, self.device, self.capacity = f"{kind} transformers", device, capacity
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self.chunk = 128
        self._tokens: list[int] = []
        self._held: list[int] = []
        self._cache: DynamicCache | None = None
        self._cuttable = self._can_cut()

    def forward(self, rows: Rows) -> Floats | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""
        try:
            return self._forward(rows)
        except RuntimeError as why:
            if self.on_lost is not None and not isinstance(why, torch.OutOfMemoryError) and is_lost():
                self.on_lost(str(why).splitlines()[0])
            raise

    @torch.inference_mode()
    def _forward(self, rows: Rows) -> Floats | None:
        del self._tokens[rows.cached :]
        prefix = list(self._tokens)
        tokens = rows.tokens.tolist()
        self._tokens += tokens
        paths = rows.ancestors()
        leaves = sorted(set(range(len(rows))) - set(rows.parents.tolist()), reverse=True)
        wanted = len(rows) - rows.logits_from
        logits_RV = np.empty((wanted, self.vocabulary), dtype=np.float32)
        for leaf in leaves:  # the last chain run is the first child's, which is most often kept
            path = paths[leaf]
            found = self._run([*prefix, *(tokens[row] for row in path)], len(path) if wanted else 1)
            for row, logits_V in zip(path[-len(found) :], found, strict=True):
                if row >= rows.logits_from:
                    logits_RV[row - rows.logits_from] = logits_V
        return logits_RV if wanted else None

    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Move the slots `cached + path[i]` to `cached + i`; `path` ascends, so the order of copying is safe."""
        kept = [self._tokens[cached + node] for node in path]
        self._tokens[cached:] = kept

    def close(self) -> None:
        """Give the memory back."""
        del self._model, self._cache

    def _run(self, tokens: list[int], last: int) -> Floats:
        """Logits of the last `last` positions of `tokens`; reuses the tokens that the cache holds already."""
        kept = 0
        if self._cuttable and self._cache is not None:
            kept = min(common_prefix(self._held, tokens), len(tokens) - last)
            if kept < len(self._held):
                self._cache.crop(kept - len(self._held))
        if kept == 0:
            self._cache = DynamicCache() if self._cuttable else None
        ids = torch.tensor([tokens[kept:]], device=self.device)
        outcome = self._model(ids, past_key_values=self._cache, use_cache=self._cuttable, logits_to_keep=last)
        self._held = tokens if self._cuttable else []
        found: Floats = outcome.logits[0, -last:].float().cpu().numpy()
        return found

    def _can_cut(self) -> bool:
        """Whether a cut cache gives the same results as a fresh one, tried on a few tokens."""
        tokens = [token % self.vocabulary for token in (11, 12, 13, 14, 15)]
        with torch.inference_mode():
            expected = self._model(torch.tensor([tokens], device=self.device), use_cache=False).logits[0, -1]
            self._cuttable = True
            try:
                self._run([*tokens[:3], 16 % self.vocabulary, 17 % self.vocabulary], 1)
                found = self._run(tokens, 1)[0]
            except (TypeError, ValueError, AttributeError, LookupError, NotImplementedError):
                return False
            finally:
                self._cache, self._held = None, []
        difference = np.abs(found - expected.float().cpu().numpy()).max()
        return bool(difference <= 1e-2 * float(expected.abs().max()))
