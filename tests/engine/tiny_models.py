"""Small random models in the ordinary transformers format, and engines over them.

torch and transformers are imported where a model is made: what needs none of them runs where they are not, too.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastcoder_lsp import engine as engines
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.model.files import ModelFiles

if TYPE_CHECKING:
    import torch

VOCABULARY = 211

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
_MULTIPLIERS = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.1,
    "residual_multiplier": 0.5,
    "logits_scaling": 4.0,
}
_KINDS: dict[str, dict[str, Any]] = {
    "qwen2": {"num_key_value_heads": 2},
    "llama": {"num_key_value_heads": 4, "tie_word_embeddings": True, "attention_bias": False},
    "llama-long": {
        "num_key_value_heads": 2,
        "mlp_bias": True,
        "attention_bias": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "llama-granite-code": {"num_key_value_heads": 2, "mlp_bias": True, "attention_bias": True},
    "mistral": {"num_key_value_heads": 2, "head_dim": 32, "sliding_window": None},
    "mistral-windowed": {"num_key_value_heads": 2, "sliding_window": 128},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 32},
    "granite": {"num_key_value_heads": 2, "tie_word_embeddings": True, **_MULTIPLIERS},
    "granitemoehybrid": {
        "num_key_value_heads": 2,
        "shared_intermediate_size": 128,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "position_embedding_type": "rope",
        "layer_types": ["full_attention", "full_attention"],
        "mamba_n_heads": 8,
        "tie_word_embeddings": True,
        **_MULTIPLIERS,
    },
    "granitemoehybrid-mamba": {
        "num_key_value_heads": 2,
        "shared_intermediate_size": 128,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "layer_types": ["mamba", "full_attention"],
        "mamba_n_heads": 8,
        "mamba_d_state": 16,
        "mamba_chunk_size": 16,
        **_MULTIPLIERS,
    },
    "starcoder2": {"num_key_value_heads": 2, "sliding_window": None},
    "gpt_neox": {},
    "qwen3_moe": {
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    },
}
OURS = [kind for kind in _KINDS if kind not in ("gpt_neox", "qwen3_moe", "granitemoehybrid-mamba")]
"""What our own engines run."""


def make_model(folder: Path, kind: str, dtype: "torch.dtype | None" = None, **sizes: int) -> Path:
    """Write a model with random weights, large enough that its choices differ from place to place.

    `sizes`: of its configuration, where they are to be others.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(len(kind))
    config = AutoConfig.for_model(kind.split("-", maxsplit=1)[0], **_SIZES | _KINDS[kind] | sizes)
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(config).to(dtype or torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0.0, 0.3 if "bias" in name else 0.15)
            elif kind not in ("qwen2", "llama", "llama-long"):
                parameter.normal_(float("bias" not in name), 0.2)
    model.save_pretrained(folder, safe_serialization=True)
    return folder


def transformers_model(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def load(folder: Path, cache: Path, kind: engines.Kind, context: int = 256, threads: int | None = 1) -> TreeEngine:
    """An engine over a model's folder; its converted weights go to `cache`, its machine code to all tests' own."""
    engine = engines.load(
        ModelFiles(folder.name, folder, "test", "", str(folder)),
        engines.EngineOptions(kind=kind, context=context, threads=threads),
        cache=cache,
        progress=lambda _share, _what: None,
        kernels=kernels_folder(),
    )
    assert isinstance(engine, TreeEngine)
    return engine


def shape_of(folder: Path) -> Shape:
    """The shape of a model that our kernels run."""
    shape = fast_shape(read_config(folder))
    assert shape is not None
    return shape
