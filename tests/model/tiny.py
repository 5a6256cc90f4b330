"""Small real model files, made on the spot: a Llama as GGUF and in the transformers format, and wheels of data."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from fastcoder_lsp.model.catalogue import WheelPart

_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
LAYERS, WIDTH, HEADS, INNER = 2, 32, 2, 64


def byte_characters() -> list[str]:
    """The 256 characters that stand for bytes in GPT-2's vocabulary, in its order."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + place) for place in range(len(others))]


def tokenizer_json() -> str:
    """A byte-level BPE with one merge and a control token, as GPT-2's family has it."""
    names = [*byte_characters(), "ab"]
    vocabulary = {name: place for place, name in enumerate(names)}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [{"id": len(names), "content": "<|end|>", "special": True, **_PLAIN}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]]},
        },
        ensure_ascii=False,
    )


def tensors(seed: int = 0) -> dict[str, npt.NDArray[np.float32]]:
    """A Llama's weights under GGUF's names; the head is the embedding."""
    random = np.random.default_rng(seed)
    vocabulary = len(byte_characters()) + 2
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocabulary, WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        square, wide = (WIDTH, WIDTH), (INNER, WIDTH)
        parts: dict[str, tuple[int, ...]] = {}
        parts |= {"attn_q": square, "attn_k": square, "attn_v": square, "attn_output": square}
        parts |= {"ffn_gate": wide, "ffn_up": wide, "ffn_down": (WIDTH, INNER)}
        parts |= {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write_gguf(
    path: Path, seed: int = 0, pre: str = "default", context: int = 128
) -> dict[str, npt.NDArray[np.float32]]:
    """Write a tiny Llama with a byte-level tokenizer that cuts texts in the way `pre`; returns its weights."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    weights = tensors(seed)
    finish_gguf(writer, weights, pre)
    return weights


def finish_gguf(writer: gguf.GGUFWriter, weights: Mapping[str, npt.NDArray[np.float32]], pre: str = "default") -> None:
    letters = byte_characters()
    writer.add_name("tiny")
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(letters) + 2)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([*letters, "ab", "<|end|>"])
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(letters) + 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(len(letters) + 1)
    writer.add_eos_token_id(len(letters) + 1)
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folder(folder: Path, seed: int = 0) -> Path:
    """Files as a model's folder has them; enough to be found, not to be run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    values = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
    save_file({"model.embed_tokens.weight": values}, folder / "model.safetensors")
    return folder


def write_wheel(folder: Path, part: WheelPart, data: bytes) -> Path:
    """A wheel that pip takes, with `data` where the part's is looked for."""
    folder.mkdir(parents=True, exist_ok=True)
    package = part.distribution.replace("-", "_")
    name = f"{package}-{part.version}"
    path = folder / f"{name}-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {part.distribution}\nVersion: {part.version}\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{package}/__init__.py", "raise SystemExit('a model is never imported')\n")
        wheel.writestr(f"{package}/data{part.suffix}", data)
        wheel.writestr(f"{name}.dist-info/METADATA", about)
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    return path
