"""What a transformer looks like, read from its `config.json`: the shapes of the fast path, Qwen2 and Llama.

Owns the reading of the configuration; knows no weights and no device.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.errors import ModelInvalidError

BROKEN_HINT = "fetch the model again: fastcoder-lsp model pull"


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Qwen2 or Llama model. `angles_H`: radians that one position turns each half pair of a head by."""

    kind: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    eps: float
    positions: int
    angles_H: npt.NDArray[np.float64]

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.kv_heads


def read_config(folder: Path) -> dict[str, Any]:
    """The model's `config.json`.

    Raises:
        ModelInvalidError: it is absent, no JSON, or not of a causal language model.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelInvalidError(f"{folder} holds no config.json", "name a folder in the transformers format") from None
    except (OSError, ValueError) as error:
        raise ModelInvalidError(f"{folder / 'config.json'} cannot be read: {error}", BROKEN_HINT) from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise ModelInvalidError(f"{folder / 'config.json'} does not describe a model", BROKEN_HINT)
    return config


def fast_shape(config: Mapping[str, Any]) -> Shape | None:
    """The shape for the fast path, or None where transformers' own forward has to run the model.

    Raises:
        ModelInvalidError: sizes are missing or don't fit together.
    """
    if config["model_type"] not in ("qwen2", "llama") or config.get("hidden_act", "silu") != "silu":
        return None
    if config.get("use_sliding_window") or "quantization_config" in config:
        return None
    try:
        heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
        head_dim = int(config.get("head_dim") or width // heads)
        angles_H = rope_angles(config, head_dim)
        if angles_H is None:
            return None
        shape = Shape(
            kind=config["model_type"],
            layers=int(config["num_hidden_layers"]),
            width=width,
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=head_dim,
            inner=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            eps=float(config.get("rms_norm_eps", 1e-6)),
            positions=int(config.get("max_position_embeddings", 2048)),
            angles_H=angles_H,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelInvalidError(f"the model's config.json lacks or garbles {error}", BROKEN_HINT) from error
    if min(shape.layers, width, heads, shape.kv_heads, head_dim) < 1 or heads % shape.kv_heads or head_dim % 2:
        raise ModelInvalidError("the sizes in the model's config.json do not fit together", BROKEN_HINT)
    return shape


def rope_angles(config: Mapping[str, Any], head_dim: int) -> npt.NDArray[np.float64] | None:
    """Rotation speeds of rotary embeddings, or None for a kind that only transformers knows.

    Known: the plain one, linear scaling (DeepSeek-Coder), and Llama 3's, which slows long wavelengths alone.
    """
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
    slowed: npt.NDArray[np.float64] = angles_H * (smooth_H + (1 - smooth_H) / float(rope["factor"]))
    return slowed
