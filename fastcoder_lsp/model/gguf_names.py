"""A GGUF's tensors under the names and in the order of rows of the transformers format.

Owns the table of names for the architectures of the fast path, Llama's and Qwen2's, and which tensors such a model
has; reads nothing.
"""

import re
from collections.abc import Iterator, Mapping

ARCHITECTURES = ("llama", "qwen2")
EMBEDDING, HEAD = "token_embd.weight", "output.weight"

_WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_BIASES = {"llama": (), "qwen2": ("attn_q", "attn_k", "attn_v")}
_TURNED = re.compile(r"blk\.\d+\.attn_([qk])\.(weight|bias)")


def gguf_name(name: str) -> str:
    """What GGUF calls the tensor of this name in the transformers format; empty where it has none such."""
    stem, _, end = name.rpartition(".")
    if match := _LAYER.fullmatch(stem):
        part = _PARTS.get(match[2])
        return f"blk.{match[1]}.{part}.{end}" if part else ""
    return f"{_WHOLE[stem]}.{end}" if stem in _WHOLE else ""


def all_names(architecture: str, layers: int, *, tied: bool) -> dict[str, str]:
    """Every tensor of such a model: its name in the transformers format → GGUF's."""
    names = [f"{stem}.weight" for stem in _WHOLE if not (tied and stem == "lm_head")]
    names += [name for layer in range(layers) for name in _names_of_layer(architecture, layer)]
    return {name: gguf_name(name) for name in names}


def turned_heads(architecture: str, name: str, config: Mapping[str, int]) -> int:
    """Heads of the tensor whose rows stand otherwise in a GGUF; 0 for all others.

    Llama's query and key rows: a GGUF has the two numbers of a pair that rotary embeddings turn beside each other, the
    transformers format has all first ones of a head before all second ones.

    Args:
        architecture: as GGUF calls it.
        name: GGUF's.
        config: of the model.
    """
    match = _TURNED.fullmatch(name)
    if match is None or architecture != "llama":
        return 0
    return config["num_attention_heads" if match[1] == "q" else "num_key_value_heads"]


def _names_of_layer(architecture: str, layer: int) -> Iterator[str]:
    for part, short in _PARTS.items():
        yield f"model.layers.{layer}.{part}.weight"
        if short in _BIASES[architecture]:
            yield f"model.layers.{layer}.{part}.bias"
