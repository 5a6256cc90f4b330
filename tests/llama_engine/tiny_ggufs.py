"""Random GGUFs of many kinds of models, of some hundred kilobytes, with a tokenizer of bytes."""

from pathlib import Path

import gguf
import numpy as np

from tests.model.tiny import byte_characters

WIDTH, HEADS, KV_HEADS, DIM, INNER, LAYERS, CONTEXT = 64, 4, 2, 16, 96, 2, 512
EXPERTS, USED, EXPERT_INNER = 4, 2, 32
STATE, GROUPS, RANK, CONVOLUTION = 16, 2, 4, 4
CONTROL = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>")
VOCABULARY = 256 + 1 + len(CONTROL)
KINDS = ("qwen2", "qwen3", "qwen3moe", "mellum", "gemma3", "granitehybrid", "qwen35")
RECURRENT = ("granitehybrid", "qwen35")


def write_kind(path: Path, kind: str, *, pre: str = "gpt-2", marks: str = "fim", crashes: bool = False) -> Path:
    """Write a model of this architecture, with `marks` in its marks' names. The library's code may crash on it."""
    writer = gguf.GGUFWriter(path, kind)
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv([0, KV_HEADS] if kind == "granitehybrid" else KV_HEADS)
    writer.add_key_length(DIM)
    writer.add_value_length(DIM)
    writer.add_rope_dimension_count(DIM)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    if kind in ("qwen3moe", "mellum"):
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(USED)
        writer.add_expert_feed_forward_length(EXPERT_INNER)
    if kind in ("gemma3", "mellum"):
        writer.add_sliding_window(32)
    if kind in RECURRENT:
        writer.add_ssm_conv_kernel(CONVOLUTION)
        writer.add_ssm_inner_size(_state_inner(kind) // (2 if crashes else 1))
        writer.add_ssm_state_size(STATE)
        writer.add_ssm_time_step_rank(RANK)
        writer.add_ssm_group_count(GROUPS)
    if kind == "qwen35":
        writer.add_rope_dimension_sections([4, 2, 2, 0])
        writer.add_uint32("qwen35.full_attention_interval", 2)
    _add_tokenizer(writer, pre, marks)
    random = np.random.default_rng(len(kind))
    for name, shape in _shapes(kind).items():
        spread = random.normal(0, 0.15, shape)
        plus = 1.0 if "norm" in name else 0.0
        if name.endswith("ssm_a"):
            spread, plus = -np.abs(spread), -0.1
        writer.add_tensor(name, (spread + plus).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter, pre: str, marks: str) -> None:
    control = tuple(name.replace("fim", marks) for name in CONTROL)
    letters = byte_characters()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([*letters, "ab", *control])
    writer.add_token_types([1] * (len(letters) + 1) + [3] * len(control))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(len(letters) + 1)
    writer.add_add_bos_token(False)


def _shapes(kind: str) -> dict[str, tuple[int, ...]]:
    """Each tensor's shape, slowest first."""
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (VOCABULARY, WIDTH),
    }
    for layer in range(LAYERS):
        recurrent = kind in RECURRENT and layer == 0
        parts = _mixer(kind) if recurrent else _attention(kind)
        found |= {f"blk.{layer}.{name}": shape for name, shape in (parts | _inner(kind)).items()}
    return found


def _attention(kind: str) -> dict[str, tuple[int, ...]]:
    queries = HEADS * DIM * (2 if kind == "qwen35" else 1)
    found: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (WIDTH,),
        "attn_q.weight": (queries, WIDTH),
        "attn_k.weight": (KV_HEADS * DIM, WIDTH),
        "attn_v.weight": (KV_HEADS * DIM, WIDTH),
        "attn_output.weight": (WIDTH, HEADS * DIM),
    }
    if kind in ("qwen2", "dream"):
        found |= {f"attn_{part}.bias": (found[f"attn_{part}.weight"][0],) for part in "qkv"}
    if kind not in ("qwen2", "dream", "granitehybrid"):
        found |= {"attn_q_norm.weight": (DIM,), "attn_k_norm.weight": (DIM,)}
    return found


def _state_inner(kind: str) -> int:
    return 2 * WIDTH if kind == "granitehybrid" else STATE * RANK


def _mixer(kind: str) -> dict[str, tuple[int, ...]]:
    inner = _state_inner(kind)
    wide = inner + 2 * GROUPS * STATE
    found: dict[str, tuple[int, ...]] = {"attn_norm.weight": (WIDTH,), "ssm_out.weight": (WIDTH, inner)}
    found |= {"ssm_conv1d.weight": (wide, CONVOLUTION), "ssm_dt.bias": (RANK,)}
    if kind == "qwen35":
        found |= {"attn_qkv.weight": (wide, WIDTH), "attn_gate.weight": (inner, WIDTH), "ssm_a": (RANK,)}
        found |= {f"ssm_{part}.weight": (RANK, WIDTH) for part in ("alpha", "beta")}
        return found | {"ssm_norm.weight": (STATE,)}
    found |= {"ssm_in.weight": (inner + wide + RANK, WIDTH), "ssm_conv1d.bias": (wide,)}
    return found | {"ssm_a": (RANK, 1), "ssm_d": (RANK, 1), "ssm_norm.weight": (GROUPS, inner // GROUPS)}


def _inner(kind: str) -> dict[str, tuple[int, ...]]:
    if kind in ("qwen3moe", "mellum"):
        return {
            "ffn_norm.weight": (WIDTH,),
            "ffn_gate_inp.weight": (EXPERTS, WIDTH),
            "ffn_gate_exps.weight": (EXPERTS, EXPERT_INNER, WIDTH),
            "ffn_up_exps.weight": (EXPERTS, EXPERT_INNER, WIDTH),
            "ffn_down_exps.weight": (EXPERTS, WIDTH, EXPERT_INNER),
        }
    after = "post_attention_norm" if kind in ("gemma3", "qwen35") else "ffn_norm"
    found: dict[str, tuple[int, ...]] = {f"{after}.weight": (WIDTH,)}
    if kind == "gemma3":
        found |= {"ffn_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)}
    return found | {
        "ffn_gate.weight": (INNER, WIDTH),
        "ffn_up.weight": (INNER, WIDTH),
        "ffn_down.weight": (WIDTH, INNER),
    }
