"""A whole model of some hundred kilobytes that runs by the real engines and says what it is told to.

Every token is a byte, and the next one depends on the last alone: layers that add nothing, an embedding with a
dimension for each token, and a head that names the follower.
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from tests.model.tiny import byte_characters

CONTROL = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|file_sep|>")
WIDTH = 272
"""Of the embedding: a multiple of 16 that has room for all tokens."""
HEADS, HEAD_DIM, INNER = 2, 16, 16
_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def write_model(folder: Path, says: str = "max()\n") -> Path:
    """Write a model that says `says`, whose characters all differ, after its middle mark; then it says the end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config()), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False), encoding="utf-8")
    save_file(weights(says), folder / "model.safetensors")
    return folder


def config() -> dict[str, object]:
    return {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": WIDTH,
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }


def tokenizer() -> dict[str, object]:
    names = byte_characters()
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": place, "content": name, **_PLAIN} for place, name in enumerate(CONTROL)],
        "pre_tokenizer": split,
        "decoder": split,
        "model": {
            "type": "BPE",
            "vocab": {name: place for place, name in enumerate(names, len(CONTROL))},
            "merges": [],
        },
    }


def weights(says: str) -> dict[str, npt.NDArray[np.float32]]:
    ids = {name: place for place, name in enumerate(byte_characters(), len(CONTROL))}
    said = [CONTROL.index("<|fim_middle|>"), *(ids["Ċ" if letter == "\n" else letter] for letter in says), 0]
    head = np.zeros((WIDTH, WIDTH), np.float32)
    head[0] = 0.5
    for token, follower in pairwise(said):
        head[follower, token] = 1.0
    layer = "model.layers.0"
    rows = HEADS * HEAD_DIM
    zero: dict[str, tuple[int, ...]] = {f"{layer}.self_attn.{name}_proj.weight": (rows, WIDTH) for name in "qkv"}
    zero |= {f"{layer}.self_attn.{name}_proj.bias": (rows,) for name in "qkv"}
    zero |= {f"{layer}.self_attn.o_proj.weight": (WIDTH, rows), f"{layer}.mlp.down_proj.weight": (WIDTH, INNER)}
    zero |= {f"{layer}.mlp.{name}_proj.weight": (INNER, WIDTH) for name in ("gate", "up")}
    norms = (f"{layer}.input_layernorm.weight", f"{layer}.post_attention_layernorm.weight", "model.norm.weight")
    return {
        "model.embed_tokens.weight": np.eye(WIDTH, dtype=np.float32),
        "lm_head.weight": head,
        **{name: np.zeros(shape, np.float32) for name, shape in zero.items()},
        **{name: np.ones(WIDTH, np.float32) for name in norms},
    }
