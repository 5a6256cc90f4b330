"""The shape of a transformer, read from its `config.json`: the shapes that our own engines run."""

import json
import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastcoder_lsp.core.arrays import Float64s
from fastcoder_lsp.errors import ModelInvalidError

MOST_SIZE = 1 << 22  # bound on every count in a configuration; the largest vocabularies are a sixteenth of it
MOST_LAYERS = 1024
MOST_HEAD_DIM = 4096
MOST_POSITIONS = 1 << 30
MOST_FACTOR = 1e6
"""A multiplier is no larger than this, and no smaller than its inverse: else weights leave their floats' range."""
BROKEN_HINT = "Download the model again: fastcoder-lsp model pull"
_GRANITES = ("granite", "granitemoehybrid")
_KINDS = ("qwen2", "qwen3", "llama", "mistral", "starcoder2", *_GRANITES)
"""The values of `model_type` that our engines run."""
_WINDOWS = {"mistral": 4096, "starcoder2": None}
"""Models whose sliding window, if any, holds in every layer, and the window where `config.json` has none."""

_KV_HEADS = {"qwen2": 32, "qwen3": 32, "mistral": 8, "starcoder2": 2}
_HEAD_DIMS = {"qwen3": 128}
"""Key/value heads, and a head's size, where `config.json` has none: transformers does not write its defaults."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model. `angles_H`: radians that one position turns each half pair of a head by."""

    kind: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    eps: float
    positions: int  # how many tokens it can attend to
    angles_H: Float64s

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.kv_heads

    @property
    def starcoder(self) -> bool:
        """LayerNorm and a plain inner layer with tanh-GELU, instead of RMSNorm and a gated one with SiLU."""
        return self.kind == "starcoder2"

    @property
    def norms_heads(self) -> bool:
        """RMSNorm of every query and key head before the rotation."""
        return self.kind == "qwen3"

    @property
    def norm_size(self) -> int:
        """Numbers of a layer's norm: its scales, and for LayerNorm its offsets."""
        return (2 if self.starcoder else 1) * self.width

    @property
    def weight_count(self) -> int:
        """Numbers in the weight matrices; a tied embedding and head count once."""
        heads = self.heads + 2 * self.kv_heads
        inner = (2 if self.starcoder else 3) * self.inner
        layer = self.width * (heads * self.head_dim + self.heads * self.head_dim + inner)
        return self.layers * layer + self.vocabulary * self.width

    @property
    def slot_numbers(self) -> int:
        """Numbers that one token takes in the KV cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def read_config(folder: Path) -> dict[str, Any]:
    """The model's `config.json`; ModelInvalidError if it is absent, no JSON, or not of a causal language model."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelInvalidError(f"{folder} has no config.json", "Name a folder in the transformers format.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelInvalidError(f"{folder / 'config.json'} cannot be read: {error}", BROKEN_HINT) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelInvalidError(f"{folder / 'config.json'} does not describe a model", BROKEN_HINT)
    _check_positions(config)
    return config


def _check_positions(config: Mapping[str, Any]) -> None:
    """Check the stated length of the context: every kind of engine allocates by it."""
    limits = {
        "max_position_embeddings": config.get("max_position_embeddings", 1),
        "sliding_window": _window(config) or 1,
    }
    for name, said in limits.items():
        if type(said) is not int or not 0 < said <= MOST_POSITIONS:
            raise ModelInvalidError(f"{name} in the model's config.json is invalid: {str(said)[:40]}", BROKEN_HINT)


def _window(config: Mapping[str, Any]) -> Any:
    kind = config["model_type"]
    return config.get("sliding_window", _WINDOWS[kind]) if kind in _WINDOWS else None


def fast_shape(config: Mapping[str, Any]) -> Shape | None:
    """The shape for our own engines, None for transformers' forward alone; ModelInvalidError for invalid sizes."""
    kind = config["model_type"]
    activation = "gelu_pytorch_tanh" if kind == "starcoder2" else "silu"
    if kind not in _KINDS or config.get("hidden_act", activation) != activation:
        return None
    return None if kind == "granitemoehybrid" and not _is_dense(config) else _shape(config)


def _is_dense(config: Mapping[str, Any]) -> bool:
    layers = config.get("layer_types") or config.get("layers_block_type") or ["mamba"]
    if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
        raise ModelInvalidError("layer_types in the model's config.json is invalid", BROKEN_HINT)
    return not config.get("num_local_experts", 1) and set(layers) <= {"attention", "full_attention"}


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether a model is a mixture of experts."""
    return any(config.get(name) for name in ("num_experts", "num_local_experts", "n_routed_experts"))


def longest(config: Mapping[str, Any]) -> int | None:
    """How many tokens a model attends to at most (its sliding window); None if the configuration does not say."""
    said = [limit for limit in (config.get("max_position_embeddings"), _window(config)) if limit]
    return min(map(int, said), default=None)


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Constants that weights are multiplied with as they are read, so that no engine has to know them (Granite)."""

    embedding: float = 1.0
    attention: float = 1.0  # of queries, whose scores are divided by the root of a head's size
    residual: float = 1.0  # of the output of each part of a layer
    logits: float = 1.0


def multipliers(config: Mapping[str, Any]) -> Multipliers:
    """The multipliers of a model (transformers, `GraniteConfig`)."""
    if config.get("model_type") not in _GRANITES:
        return Multipliers()
    head_dim = int(config.get("head_dim") or int(config["hidden_size"]) // int(config["num_attention_heads"]))
    return Multipliers(
        embedding=float(config.get("embedding_multiplier", 1.0)),
        attention=float(config.get("attention_multiplier", 1.0)) * math.sqrt(head_dim),
        residual=float(config.get("residual_multiplier", 1.0)),
        logits=1.0 / float(config.get("logits_scaling", 1.0)),
    )


def _shape(config: Mapping[str, Any]) -> Shape | None:
    """The sizes; None for rotations, windows and quantised weights that only transformers supports."""
    if config.get("use_sliding_window") or ("quantization_config" in config and not _is_readable(config)):
        return None
    hybrid = config["model_type"] == "granitemoehybrid"
    eps = ("norm_epsilon", 1e-5) if config["model_type"] == "starcoder2" else ("rms_norm_eps", 1e-6)
    try:
        heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
        head_dim = int(config.get("head_dim", _HEAD_DIMS.get(config["model_type"])) or width // max(1, heads))
        with np.errstate(all="ignore"):  # the results of garbled numbers are refused below
            angles_H = rope_angles(config, min(max(2, head_dim), MOST_HEAD_DIM))
            factors = multipliers(config)
        if angles_H is None:
            return None
        if hybrid and config.get("position_embedding_type") != "rope":
            angles_H = np.zeros_like(angles_H)
        shape = Shape(
            kind=config["model_type"],
            layers=int(config["num_hidden_layers"]),
            width=width,
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads", _KV_HEADS.get(config["model_type"])) or heads),
            head_dim=head_dim,
            inner=int(config["shared_intermediate_size" if hybrid else "intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            eps=float(config.get(*eps)),
            positions=longest(config) or 2048,
            angles_H=angles_H,
        )
    except KeyError as error:
        raise ModelInvalidError(f"the model's config.json lacks {error}", BROKEN_HINT) from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelInvalidError(
            f"a value in the model's config.json is of the wrong kind: {error}", BROKEN_HINT
        ) from error
    sizes = (shape.layers, width, heads, shape.kv_heads, head_dim, shape.inner, shape.vocabulary)
    if min(sizes) < 1 or heads % shape.kv_heads or head_dim % 2:
        raise ModelInvalidError("the sizes in the model's config.json contradict each other", BROKEN_HINT)
    if max(sizes) > MOST_SIZE or shape.layers > MOST_LAYERS or head_dim > MOST_HEAD_DIM or not 0 < shape.eps < 1:
        raise ModelInvalidError("the sizes in the model's config.json are invalid", BROKEN_HINT)
    if not np.isfinite(angles_H).all():
        raise ModelInvalidError("the rotary settings in the model's config.json are invalid", BROKEN_HINT)
    if not all(1 / MOST_FACTOR <= abs(factor) <= MOST_FACTOR for factor in astuple(factors)):
        raise ModelInvalidError("the multipliers in the model's config.json are invalid", BROKEN_HINT)
    return shape


def _is_readable(config: Mapping[str, Any]) -> bool:
    from fastcoder_lsp.model.tensors import scheme_of  # noqa: PLC0415 brings packages that a benchmark does without

    return scheme_of(config) is not None


def rope_angles(config: Mapping[str, Any], head_dim: int) -> Float64s | None:
    """Rotation speeds of rotary embeddings (plain, linear, Llama 3's); None for a kind of transformers' alone."""
    rope: Mapping[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = float(rope.get("rope_theta", config.get("rope_theta", 10000.0)))
    if float(rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))) != 1.0:
        return None
    angles_H = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if kind == "default":
        return angles_H
    if kind == "linear":
        return angles_H / float(rope["factor"])
    if kind != "llama3":
        return None
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    original = float(rope["original_max_position_embeddings"])
    turns_H = original * angles_H / (2 * math.pi)
    smooth_H = np.clip((turns_H - low) / (high - low), 0.0, 1.0)
    slowed: Float64s = angles_H * (smooth_H + (1 - smooth_H) / float(rope["factor"]))
    return slowed
