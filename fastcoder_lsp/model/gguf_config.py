"""Configuration, tensor names and tokenizer of a model, in the transformers format, from the metadata of its GGUF.

The weights can be used as they are in the file if all tensors of a known architecture are there, of the sizes in the
metadata, and no others. Otherwise there is no configuration, and transformers converts the file.

The tokenizer gives the same ids as the publisher's own. The pre-tokenizers of byte-level BPE are in a table by GGUF's
names (`tokenizer.ggml.pre`), each as in the publisher's own `tokenizer.json`. transformers reads other tokenizers.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from fastcoder_lsp.model.gguf_header import Header, Scalar
from fastcoder_lsp.tokenizer import LLAMA_TOKENIZER

ARCHITECTURES = ("llama", "qwen2", "qwen3", "granite", "starcoder2")
EMBEDDING, HEAD = "token_embd.weight", "output.weight"

_WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
_ATTENTION = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}
_HEAD_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
_GATED = {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
_PLAIN = {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
_PARTS = _NORMS | _ATTENTION | _HEAD_NORMS | _GATED | _PLAIN
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_TURNED = re.compile(r"blk\.\d+\.attn_([qk])\.(weight|bias)")


def gguf_name(name: str) -> str:
    """GGUF's name for a tensor of the transformers format; empty for an unknown one."""
    stem, _, end = name.rpartition(".")
    if match := _LAYER.fullmatch(stem):
        part = _PARTS.get(match[2])
        return f"blk.{match[1]}.{part}.{end}" if part else ""
    return f"{_WHOLE[stem]}.{end}" if stem in _WHOLE else ""


def all_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Every tensor of a model with this configuration: its name in the transformers format → GGUF's."""
    names = [f"{stem}.weight" for stem in _WHOLE if not (config["tie_word_embeddings"] and stem == "lm_head")]
    if config["model_type"] == "starcoder2":
        names.append("model.norm.bias")
    of_layer = list(_names_of_layer(config))
    names += [f"model.layers.{layer}.{name}" for layer in range(config["num_hidden_layers"]) for name in of_layer]
    return {name: gguf_name(name) for name in names}


def turned_heads(architecture: str, name: str, config: Mapping[str, int]) -> int:
    """The number of heads of a tensor whose rows have another order in a GGUF; 0 for all others.

    These are the query and key rows of Llama and Granite: in a GGUF both numbers of a rotary pair are adjacent; in the
    transformers format all first ones of a head come before all second ones. `architecture` and `name` are GGUF's.
    """
    match = _TURNED.fullmatch(name)
    if match is None or architecture not in ("llama", "granite"):
        return 0
    return config["num_attention_heads" if match[1] == "q" else "num_key_value_heads"]


def _names_of_layer(config: Mapping[str, Any]) -> Iterator[str]:
    kind = config["model_type"]
    inner = _PLAIN if kind == "starcoder2" else _GATED
    for part in (*_NORMS, *_ATTENTION, *(_HEAD_NORMS if kind == "qwen3" else ()), *inner):
        yield f"{part}.weight"
    if kind == "qwen2":
        biased = list(_ATTENTION)[:3]
    elif kind == "starcoder2":
        biased = [*_NORMS, *_ATTENTION, *inner]
    else:
        biased = [*(_ATTENTION if config.get("attention_bias") else ()), *(inner if config.get("mlp_bias") else ())]
    for part in biased:
        yield f"{part}.bias"


_CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "granite": "GraniteForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
}
_SCALES = {
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}
_TOKENS = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}


def config_of(header: Header) -> dict[str, Any] | None:
    """The contents of `config.json`; None for a model that only transformers knows."""
    architecture = header.fields.get("general.architecture")
    # transformers takes a Llama of this name for a Mistral, which has a sliding window
    if architecture not in ARCHITECTURES or header.fields.get("general.name") == "mistral":
        return None
    fields = _own(header.fields, str(architecture))
    try:
        config = _config(header, str(architecture), fields)
    except (KeyError, TypeError, ValueError, ArithmeticError, StopIteration):
        return None
    sizes = {tensor.name: tensor.sizes[::-1] for tensor in header.tensors}
    return config if config is not None and sizes == _expected(config) else None


LLAMA_PACKAGES = ("llama_cpp",)
"""Packages that run a file of any architecture."""
TOKENIZER_OF_LLAMA = json.dumps({"model": {"type": LLAMA_TOKENIZER}}) + "\n"


def config_for_llama(header: Header) -> dict[str, Any] | None:
    """The contents of `config.json` for a model that llama.cpp runs: what prompts need to know of it."""
    architecture = str(header.fields.get("general.architecture", ""))
    context = header.fields.get(f"{architecture}.context_length")
    if not architecture or type(context) is not int:
        return None
    name = f"{architecture}-gguf" if architecture in ARCHITECTURES else architecture
    tokens = header.lists.get(TOKENS, ())
    return {"model_type": name, "max_position_embeddings": context, "vocab_size": len(tokens)}


def _own(fields: Mapping[str, Scalar], architecture: str) -> dict[str, Scalar]:
    prefix = f"{architecture}."
    return {name.removeprefix(prefix): value for name, value in fields.items() if name.startswith(prefix)}


def _config(header: Header, architecture: str, fields: Mapping[str, Scalar]) -> dict[str, Any] | None:
    rope = _rope(fields)
    heads, width = _count(fields, "attention.head_count"), _count(fields, "embedding_length")
    head_dim = _count(fields, "attention.key_length", width // heads)
    if rope is None or fields.get("rope.dimension_count", head_dim) != head_dim:
        return None
    if fields.get("attention.value_length", head_dim) != head_dim or fields.get("attention.sliding_window"):
        return None
    vocabulary = next(tensor.sizes[-1] for tensor in header.tensors if tensor.name == EMBEDDING)
    config: dict[str, Any] = {
        "architectures": [_CLASSES[architecture]],
        "model_type": architecture,
        "dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": _count(fields, "feed_forward_length"),
        "max_position_embeddings": _count(fields, "context_length"),
        "num_attention_heads": heads,
        "num_hidden_layers": _count(fields, "block_count"),
        "num_key_value_heads": _count(fields, "attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rope_parameters": rope,
        "tie_word_embeddings": all(tensor.name != HEAD for tensor in header.tensors),
        "vocab_size": vocabulary,
    }
    if architecture == "starcoder2":
        config |= {"norm_epsilon": float(fields["attention.layer_norm_epsilon"]), "hidden_act": "gelu_pytorch_tanh"}
        config |= {"use_bias": True}
    else:
        config["rms_norm_eps"] = float(fields["attention.layer_norm_rms_epsilon"])
    if architecture in ("qwen2", "qwen3"):
        config["use_sliding_window"] = False
    if architecture in ("qwen2", "starcoder2"):
        config["sliding_window"] = None
    names = {tensor.name for tensor in header.tensors}
    if architecture in ("llama", "granite"):
        biased = (("attention_bias", "blk.0.attn_output.bias"), ("mlp_bias", "blk.0.ffn_down.bias"))
        config |= {name: True for name, bias in biased if bias in names}
    if architecture == "granite":
        scales = {name: float(fields.get(key, 1.0)) for name, key in _SCALES.items()}
        config |= scales | {"attention_multiplier": float(fields.get("attention.scale", head_dim**-0.5))}
    for kind, name in _TOKENS.items():
        if (token := header.fields.get(f"tokenizer.ggml.{kind}_token_id")) is not None:
            config[name] = int(token)
    return config


def _count(fields: Mapping[str, Scalar], name: str, otherwise: int | None = None) -> int:
    """A whole number from the metadata; raises KeyError or TypeError where there is none."""
    found = fields[name] if otherwise is None else fields.get(name, otherwise)
    if type(found) is not int:
        raise TypeError(name)
    return found


def _rope(fields: Mapping[str, Scalar]) -> dict[str, object] | None:
    theta = float(fields.get("rope.freq_base", 10000.0))
    kind = fields.get("rope.scaling.type", "none")
    factor = float(fields.get("rope.scaling.factor", fields.get("rope.scale_linear", 1.0)))
    if kind == "none" and factor == 1.0:
        return {"rope_theta": theta, "rope_type": "default"}
    if kind in ("linear", "none") and factor > 0:
        return {"rope_theta": theta, "rope_type": "linear", "factor": factor}
    return None


def _expected(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    rows = {"attn_q": q, "attn_k": kv, "attn_v": kv, "attn_output": width}
    rows |= {"ffn_gate": inner, "ffn_up": inner, "ffn_down": width}
    columns = {"attn_output": q, "ffn_down": inner}
    expected: dict[str, tuple[int, ...]] = {}
    for name in all_names(config).values():
        *_, part, end = name.split(".")
        if part in ("token_embd", "output"):
            expected[name] = (config["vocab_size"], width)
        elif part in _HEAD_NORMS.values():
            expected[name] = (dim,)
        elif part not in rows:
            expected[name] = (width,)
        else:
            expected[name] = (rows[part], columns.get(part, width)) if end == "weight" else (rows[part],)
    return expected


TOKENS, KINDS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"
LISTS = (TOKENS, KINDS, MERGES)

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


class TokenType(IntEnum):
    """GGUF's types of tokens."""

    NORMAL = 1
    CONTROL = 3
    USER_DEFINED = 4


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """A pre-tokenizer: its `steps` in the form of `tokenizer.json`."""

    steps: tuple[dict[str, Any], ...]
    normaliser: dict[str, Any] | None = None  # runs before, None for none
    whole_first: bool = False  # a piece that is a token itself is not merged
    starts: bool = False  # every text begins with the BOS token, unless the file says otherwise


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _bytes(*, words: bool) -> dict[str, Any]:
    """Bytes as characters; with `words`, also GPT-2's own pattern."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": words}


_DIGITS = {"type": "Digits", "individual_digits": True}
_GPT2 = PreTokenizer((_bytes(words=True),))
_DIGIT_BY_DIGIT = PreTokenizer((_DIGITS, _bytes(words=True)))
_QWEN2 = PreTokenizer((_split(rf"{_LETTERS}|\p{{N}}{_REST}"), _bytes(words=False)), normaliser={"type": "NFC"})
_LLAMA3 = PreTokenizer(
    (_split(rf"{_LETTERS}|\p{{N}}{{1,3}}{_REST}"), _bytes(words=False)), whole_first=True, starts=True
)
_SEED_CODER = PreTokenizer(
    (_split(rf"{_LETTERS}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"), _bytes(words=False))
)
_DEEPSEEK_CODER = PreTokenizer(
    (
        _split(r"[\r\n]"),
        _split(r"\s?\p{L}+"),
        _split(r"\s?\p{P}+"),
        _split("[一-龥ࠀ-一가-퟿]+"),
        _DIGITS,
        _bytes(words=False),
    )
)
_CUTS = {
    "gpt-2": _GPT2,
    "mellum": _GPT2,
    "seed-coder": _SEED_CODER,
    "dbrx": PreTokenizer(_LLAMA3.steps),
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "deepseek-coder": _DEEPSEEK_CODER,
    "starcoder": _DIGIT_BY_DIGIT,
    "refact": _DIGIT_BY_DIGIT,
    "smollm": _DIGIT_BY_DIGIT,
    "command-r": _DIGIT_BY_DIGIT,
}


def tokenizer_json(header: Header) -> str | None:
    """The tokenizer's description, from a header with `LISTS`; None for one that only transformers knows."""
    cut = _cut(header)
    tokens = header.lists.get(TOKENS, ())
    vocabulary = {str(name): number for number, name in enumerate(tokens)}
    kinds = header.lists.get(KINDS, [TokenType.NORMAL] * len(tokens))
    merges = [str(merge).split(" ", 1) for merge in header.lists.get(MERGES, ())]
    if cut is None or not tokens or len(vocabulary) != len(tokens) or len(kinds) != len(tokens) or not merges:
        return None
    if any(len(merge) != 2 for merge in merges):
        return None
    description = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(tokens, kinds),
        "normalizer": cut.normaliser,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(cut.steps)},
        "post_processor": _beginning(header, tokens, cut),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": cut.whole_first,
            "vocab": vocabulary,
            "merges": merges,
        },
    }
    return json.dumps(description, ensure_ascii=False, separators=(",", ":"))


def _cut(header: Header) -> PreTokenizer | None:
    if header.fields.get("tokenizer.ggml.model") != "gpt2":
        return None
    name = header.fields.get("tokenizer.ggml.pre", "default")
    if name == "default":  # early files do not say: Qwen2 has one way alone, others have GPT-2's most often
        return _QWEN2 if header.fields.get("general.architecture") == "qwen2" else _GPT2
    return _CUTS.get(str(name))


def _added(tokens: Sequence[Scalar], kinds: Sequence[Scalar]) -> list[dict[str, Any]]:
    """The tokens that are found in a text before pre-tokenization."""
    return [
        {"id": number, "content": str(tokens[number]), **_ADDED, "special": kind == TokenType.CONTROL}
        for number, kind in enumerate(kinds)
        if kind in (TokenType.CONTROL, TokenType.USER_DEFINED)
    ]


def _beginning(header: Header, tokens: Sequence[Scalar], cut: PreTokenizer) -> dict[str, Any] | None:
    """The post-processor that puts the BOS token before a text, if the file wants that."""
    number = header.fields.get("tokenizer.ggml.bos_token_id")
    wanted = header.fields.get("tokenizer.ggml.add_bos_token", cut.starts)
    if not wanted or not isinstance(number, int) or not 0 <= number < len(tokens):
        return None
    name = str(tokens[number])
    first, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
