"""Shapes of published models, and of tiny ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastcoder_lsp.engine.architecture import Shape, fast_shape

_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


def _qwen(*sizes: int, vocabulary: int = 151936) -> dict[str, Any]:
    rest = {"model_type": "qwen2", "max_position_embeddings": 32768, "rope_theta": 1e6}
    words = {"vocab_size": vocabulary, "tie_word_embeddings": vocabulary == 151936}
    return dict(zip(_SIZES, sizes, strict=True)) | words | rest


def _llama(width: int, inner: int, layers: int, heads: int, vocabulary: int, theta: float) -> dict[str, Any]:
    rest = {"model_type": "llama", "max_position_embeddings": 16384, "rope_theta": theta, "rms_norm_eps": 1e-6}
    words = {"vocab_size": vocabulary, "tie_word_embeddings": False}
    return dict(zip(_SIZES, (width, inner, layers, heads, heads), strict=True)) | words | rest


MODELS: Mapping[str, Mapping[str, Any]] = {
    "Qwen2.5-Coder 0.5B": _qwen(896, 4864, 24, 14, 2),
    "Qwen2.5-Coder 7B": _qwen(3584, 18944, 28, 28, 4, vocabulary=152064),
    "Qwen2.5-Coder 1.5B": _qwen(1536, 8960, 28, 12, 2),
    "Qwen2.5-Coder 3B": _qwen(2048, 11008, 36, 16, 2),
    "DeepSeek-Coder 1.3B": _llama(2048, 5504, 24, 16, 32256, 1e5),
    "DeepSeek-Coder 6.7B": _llama(4096, 11008, 32, 32, 32256, 1e5),
    "CodeLlama 7B": _llama(4096, 11008, 32, 32, 32016, 1e6),
    "CodeLlama 13B": _llama(5120, 13824, 40, 40, 32016, 1e6),
}
"""Published shapes."""
TINY: Mapping[str, Mapping[str, Any]] = {
    "tiny Qwen2": _qwen(64, 96, 2, 4, 2, vocabulary=211) | {"tie_word_embeddings": True},
    "tiny Llama": _llama(64, 96, 2, 4, 211, 1e5),
}
"""For tests."""


@dataclass(frozen=True, slots=True)
class NamedShape:
    name: str
    config: Mapping[str, Any]
    shape: Shape


def named(models: Mapping[str, Mapping[str, Any]]) -> list[NamedShape]:
    found = []
    for name, config in models.items():
        shape = fast_shape(config)
        assert shape is not None, name
        found.append(NamedShape(name, config, shape))
    return found
