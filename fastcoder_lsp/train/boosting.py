"""Boost-tuning: which tokens of the target earlier students miss, for the next one to learn.

Miao et al. 2024, *SpecInfer*, section 3: smaller models are tuned one after another, each on what the ones before it do
not say as the target does, so that their merged trees hold more of it. The paper leaves out prompts whose whole
continuation an earlier model says; here it is tokens, for a continuation of code is seldom whole and never all wrong.

Legend: N students, T tokens of a text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from fastcoder_lsp.engine.architecture import BROKEN_HINT
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.train.samples import Sample


class Earlier:
    """The students that were tuned before; often there are none.

    Args:
        folders: of their models, in the transformers format.

    Raises:
        ModelInvalidError: transformers cannot load one.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._models = [_load(folder) for folder in folders]
        self._said: dict[bytes, torch.Tensor] = {}

    def said(self, sample: Sample) -> torch.Tensor:
        """What each of them says behind each token of a text, [N, T]; computed once."""
        text = sample.tokens.tobytes()
        if text not in self._said:
            tokens, said_NT = torch.from_numpy(sample.tokens)[None], torch.zeros((0, len(sample)), dtype=torch.int64)
            with torch.no_grad():
                for model in self._models:
                    best_T = model(input_ids=tokens, use_cache=False).logits[0].argmax(1)
                    said_NT = torch.cat([said_NT, best_T[None]])
            self._said[text] = said_NT
        return self._said[text]


def _load(folder: Path) -> Any:
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelInvalidError(f"transformers cannot load {folder}: {error}", BROKEN_HINT) from error
    return model.eval()
