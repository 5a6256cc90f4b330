"""Greedy answers of transformers in bfloat16, to tell the rounding of our engines from a model's own faults.

Owns a plain loop over the model's forward. `generate` is left aside: published folders set penalties and sampling
that it would obey.
"""

from pathlib import Path
from typing import Any

from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.model import require_checkpoint
from fastcoder_lsp.model.needs import require_packages

KIND = "transformers"
"""In the place of a kind of engine."""


class TransformersReference:
    """A model of a folder, by transformers on the CPU; a GGUF's weights are unpacked beside it the first time.

    Raises:
        InstallationError: transformers is not installed.
        ResourceError: the disk has no room for the unpacked weights.
    """

    def __init__(self, folder: Path) -> None:
        require_packages("the engine transformers", "torch", "transformers")
        import torch
        from transformers import AutoModelForCausalLM, DynamicCache
        from transformers.utils import logging

        bars: Any = logging
        bars.disable_progress_bar()
        require_checkpoint(folder, lambda _share, _what: None)
        loading: Any = AutoModelForCausalLM
        self._model = loading.from_pretrained(
            folder, dtype=torch.bfloat16, local_files_only=True, trust_remote_code=False, use_safetensors=True
        ).eval()
        self._torch, self._cache = torch, DynamicCache

    def decode(self, request: DecodeRequest) -> str:
        """The text of a greedy answer, up to the request's end."""
        said, cache, text = bytearray(), self._cache(), ""
        ids = self._torch.tensor([request.prompt])
        with self._torch.inference_mode():
            for _ in range(request.max_tokens):
                logits_V = self._model(ids, past_key_values=cache, logits_to_keep=1).logits[0, -1]
                token = int(logits_V.argmax())
                if token in request.end_ids:
                    break
                said += request.piece(token)
                text = said.decode("utf-8", errors="ignore")
                if (end := request.cut(text)) is not None:
                    return text[:end]
                ids = self._torch.tensor([[token]])
        return text

    def close(self) -> None:
        """Give the memory back."""
        del self._model
