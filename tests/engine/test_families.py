"""Families of models end to end, by tiny random ones: their marks, their prompt, and the ids that transformers says.

Transformers rounds what our kernels round: weights, and the inputs of products, to bytes, keys and values to bfloat16,
embeddings to halves. What is left differs by fp32's last bits.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map
from safetensors.torch import load_file, save_file
from transformers import DynamicCache

from fastcoder_lsp import model
from fastcoder_lsp.core import Snapshot, at_once
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.engine.int8.packing import quantise
from fastcoder_lsp.engine.loader import foreseen
from fastcoder_lsp.model.files import Origin
from fastcoder_lsp.prompt import PromptBuilder, PromptOptions
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.rows import run, same_bits
from tests.engine.tiny_models import load, make_model, transformers_model
from tests.model.tiny import finish_gguf
from tests.prompt.toy_tokenizers import json_of_family

ABOVE, BELOW = "def add(a, b):\n    total = a + b\n", "\n\nprint(add(1, 2))\n"
COUNT = 24


def rounded_model(folder: Path, kind: str, template: str) -> Tokenizer:
    """A model of a family, and its tokenizer."""
    description = json_of_family(template)
    make_model(folder, kind, vocab_size=Tokenizer(description).vocabulary)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if tensor.dim() > 1:
            codes, scales = quantise(tensor.float().numpy())
            tensors[name] = torch.from_numpy(codes * scales[:, None].astype(np.float32))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "tokenizer.json").write_text(description, encoding="utf-8")
    return Tokenizer.load(folder)


class RoundedCache(DynamicCache):
    """Keys and values in 16 bits."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *rest: Any, **more: Any) -> Any:
        keys, values = (side.to(torch.bfloat16).float() for side in (key_states, value_states))
        return super().update(keys, values, *rest, **more)


def rounded_input(_module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    """Each row as whole numbers up to 127, times a scale."""
    peaks = inputs[0].abs().amax(-1, keepdim=True).clamp_min(1e-9)
    return (torch.round(inputs[0] * (127 / peaks)) * (peaks * float(np.float32(1 / 127))),)


def generated(folder: Path, prompt: tuple[int, ...]) -> list[int]:
    said = transformers_model(folder)
    for module in said.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(rounded_input)
    scale = getattr(said.config, "embedding_multiplier", 1.0)
    said.get_input_embeddings().register_forward_hook(lambda _module, _ids, rows: (rows * scale).half().float() / scale)
    ids = torch.tensor([prompt])
    found: list[int] = said.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=COUNT,
        do_sample=False,
        eos_token_id=None,
        past_key_values=RoundedCache(),
    )[0, len(prompt) :].tolist()
    return found


@pytest.mark.parametrize(
    ("kind", "template"),
    [
        ("llama", "Mellum"),
        ("llama", "Seed-Coder"),
        ("mistral", "Codestral"),
        ("llama-granite-code", "StarCoder, Granite Code"),
        ("granitemoehybrid", "fim_prefix with bars"),
        ("qwen3", "Qwen2.5-Coder"),
        ("starcoder2", "StarCoder2"),
    ],
)
def test_ids_are_those_of_transformers(kind: str, template: str, tmp_path: Path, weights_cache: Path) -> None:
    tokenizer = rounded_model(tmp_path, kind, template)
    builder = PromptBuilder(tokenizer, PromptOptions(lines_above=0))
    assert builder.template.name == template
    prompt = at_once(builder.build(Snapshot("a", "a.py", "python", 0, ABOVE + BELOW), len(ABOVE))).tokens
    expected = generated(tmp_path, prompt)
    engine = load(tmp_path, weights_cache, "cpu-int8")
    assert engine.info.name == "cpu-int8"
    asked = DecodeRequest(
        prompt,
        COUNT,
        frozenset(),
        piece=tokenizer.piece,
        allow=lambda _: np.arange(tokenizer.vocabulary),
        cut=lambda _: None,
        document="a",
    )
    for drafter in (NoDrafter(), make("auto")):
        assert list(decode(engine, drafter, asked, lambda: False).tokens)[:COUNT] == expected
    computed = []
    for end in range(1, len("    return tot")):
        text = ABOVE + "    return tot"[:end]
        following = at_once(builder.build(Snapshot("a", "a.py", "python", end, text + BELOW), len(text))).tokens
        computed.append(engine.prefill(following, lambda: False).computed)
    assert max(computed) <= 4
    engine.close()


ARCHITECTURES = {
    "llama-granite-code": ("llama", MODEL_ARCH.LLAMA),
    "granite": ("granite", MODEL_ARCH.GRANITE),
    "qwen3": ("qwen3", MODEL_ARCH.QWEN3),
    "starcoder2": ("starcoder2", MODEL_ARCH.STARCODER2),
}


def write_family_gguf(folder: Path, kind: str) -> Path:
    architecture, number = ARCHITECTURES[kind]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = GGUFWriter(folder / f"{kind}.gguf", architecture)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if kind == "starcoder2":
        writer.add_layer_norm_eps(config["norm_epsilon"])
    else:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if kind == "granite":
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    names = get_tensor_name_map(number, config["num_hidden_layers"])
    weights = dict[str, npt.NDArray[np.float32]]()
    for name, tensor in load_file(folder / "model.safetensors").items():
        values, stem = tensor.numpy(), name.rpartition(".")[0]
        if architecture in ("llama", "granite") and stem.endswith(("q_proj", "k_proj")):
            count = heads if stem.endswith("q_proj") else kv_heads
            turned = values.reshape(count, 2, len(values) // count // 2, *values.shape[1:]).swapaxes(1, 2)
            values = np.ascontiguousarray(turned.reshape(values.shape))
        found = names.get_name(name, (".weight", ".bias"))
        assert found is not None
        weights[found] = values
    finish_gguf(writer, weights)
    return folder / f"{kind}.gguf"


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_gguf_says_the_same(kind: str, tmp_path: Path, weights_cache: Path) -> None:
    folder = make_model(tmp_path / "model", kind, vocab_size=258)
    files = model.prepare(str(write_family_gguf(folder, kind)), tmp_path / "cache", lambda _share, _what: None)
    assert not (files.folder / "model.safetensors").exists()
    said = []
    for place in (folder, files.folder):
        engine = load(place, weights_cache, "cpu-int8")
        assert engine.info.name == "cpu-int8"
        said.append(run(engine.backend, list(range(40)), list(range(-1, 39)), 0))
        engine.close()
    assert same_bits(*said).all()
    model.require_checkpoint(files.folder, lambda _share, _what: None)
    assert load_file(files.folder / "model.safetensors").keys() == load_file(folder / "model.safetensors").keys()


def test_a_list_of_models_says_what_computes_each(tmp_path: Path) -> None:
    ours = make_model(tmp_path / "ours", "qwen2")
    assert foreseen(ours) == "our kernels"
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"model_type": "gemma3"}))
    assert foreseen(other) == "transformers, too slow to type with: our kernels do not run gemma3"
    Origin(source="gguf x.gguf", digest="1", gguf="../x.gguf").write(other)
    assert "llama.cpp" in foreseen(other)
    assert foreseen(other).partition(": ")[2].startswith("our kernels do not run gemma3")
