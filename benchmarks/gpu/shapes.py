"""The models that are timed: true shapes, random weights.

Owns their configurations (of the published `config.json` files) and where random weights come from.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from fastcoder_lsp.engine.architecture import Shape, graph_shape
from fastcoder_lsp.engine.static.weights import Source


def _qwen(width: int, inner: int, layers: int, heads: int, kv_heads: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "qwen2",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": 32768,
        "rope_theta": 1e6,
        "tie_word_embeddings": vocabulary == 151936,
    }


def _llama(width: int, inner: int, layers: int, heads: int, vocabulary: int, theta: float) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": 16384,
        "rope_theta": theta,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
    }


MODELS: Mapping[str, Mapping[str, Any]] = {
    "Qwen2.5-Coder 0.5B": _qwen(896, 4864, 24, 14, 2, 151936),
    "Qwen2.5-Coder 7B": _qwen(3584, 18944, 28, 28, 4, 152064),
    "Qwen2.5-Coder 1.5B": _qwen(1536, 8960, 28, 12, 2, 151936),
    "DeepSeek-Coder 1.3B": _llama(2048, 5504, 24, 16, 32256, 1e5),
    "DeepSeek-Coder 6.7B": _llama(4096, 11008, 32, 32, 32256, 1e5),
    "CodeLlama 7B": _llama(4096, 11008, 32, 32, 32016, 1e6),
    "CodeLlama 13B": _llama(5120, 13824, 40, 40, 32016, 1e6),
}
"""In the order of their importance: what time runs out for is at the end."""
TINY: Mapping[str, Mapping[str, Any]] = {
    "tiny Qwen2": _qwen(64, 96, 2, 4, 2, 211) | {"tie_word_embeddings": True},
    "tiny Llama": _llama(64, 96, 2, 4, 211, 1e5),
}
"""For `--smoke`."""


@dataclass(frozen=True, slots=True)
class Named:
    """A model by name: its configuration and its shape."""

    name: str
    config: Mapping[str, Any]
    shape: Shape


def named(models: Mapping[str, Mapping[str, Any]]) -> list[Named]:
    """The models with their shapes."""
    found = []
    for name, config in models.items():
        shape = graph_shape(config)
        assert shape is not None, name
        found.append(Named(name, config, shape))
    return found


class RandomSource:
    """Weights that are made up when asked for, on the device: the same for the same seed, in whatever order."""

    def __init__(self, model: Named, device: torch.device, dtype: torch.dtype, seed: int = 0) -> None:
        self._model, self._device, self._dtype, self._seed = model, device, dtype, seed
        self._generator = torch.Generator(device)

    def __contains__(self, name: str) -> bool:
        """Qwen2 has biases of queries, keys and values; a head of its own there is where it is not tied."""
        if name == "lm_head.weight":
            return not self._model.config["tie_word_embeddings"]
        if name.endswith(".bias"):
            return self._model.shape.kind == "qwen2" and name.split(".")[-2] in ("q_proj", "k_proj", "v_proj")
        return True

    def raw(self, name: str, *shape: int) -> torch.Tensor:
        """Norms near one, the rest normal; spread so that activations keep their size from layer to layer."""
        values = torch.empty(shape, dtype=self._dtype, device=self._device)
        if "norm" in name:
            return values.fill_(1.0)
        self._generator.manual_seed(zlib.crc32(f"{self._seed} {name}".encode()))
        return values.normal_(0.0, 0.02 if name.endswith(".bias") else shape[-1] ** -0.5, generator=self._generator)


@contextmanager
def random_weights(model: Named, device: torch.device, dtype: torch.dtype) -> Iterator[Source]:
    """A source as `Recipe.open_source` wants it."""
    yield RandomSource(model, device, dtype)
