"""Engines against transformers on the same weights; what is converted, cached, refused."""

import json
import json.decoder
from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp import engine as engines
from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.errors import ModelInvalidError, UsageError
from fastcoder_lsp.model.files import ModelFiles
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.rows import prefill, run
from tests.engine.tiny_models import OURS, VOCABULARY, load, make_model, transformers_model

TOKENS = [int(token) for token in np.random.default_rng(5).integers(0, VOCABULARY, 100)]


def reference(folder: Path, tokens: list[int]) -> np.ndarray:
    with torch.inference_mode():
        logits: np.ndarray = transformers_model(folder)(torch.tensor([tokens])).logits[0].numpy()
    return logits


@pytest.mark.parametrize("kind", OURS)
def test_fp32_equals_transformers(kind: str, tmp_path: Path) -> None:
    engine = load(make_model(tmp_path, kind), tmp_path / "cache", "cpu-fp32")
    prefill(engine.backend, TOKENS[:-8], [30])
    found = run(engine.backend, TOKENS[-8:], list(range(-1, 7)), len(TOKENS) - 8)
    np.testing.assert_allclose(found, reference(tmp_path, TOKENS)[-8:], atol=2e-3, rtol=1e-3)
    assert engine.info.context == (128 if kind == "mistral-windowed" else 256)
    graphs = load(tmp_path, tmp_path / "cache", "cpu-graphs")
    assert generated(graphs) == generated(engine)


@pytest.mark.parametrize(
    ("kind", "dtype"), [*((kind, torch.float32) for kind in OURS), *((kind, torch.bfloat16) for kind in OURS[:2])]
)
def test_int8_is_near_fp32(kind: str, dtype: torch.dtype, tmp_path: Path, weights_cache: Path) -> None:
    engine = load(make_model(tmp_path, kind, dtype), weights_cache, "cpu-int8")
    assert engine.info.name == "cpu-int8"
    prefill(engine.backend, TOKENS[:-8], [30])
    found = run(engine.backend, TOKENS[-8:], list(range(-1, 7)), len(TOKENS) - 8)
    expected = reference(tmp_path, TOKENS)[-8:]
    assert np.abs(found - expected).max() < 0.15 * expected.std() * 2
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.995


@pytest.mark.parametrize(
    ("kind", "word"),
    [("gpt_neox", "transformers"), ("granitemoehybrid-mamba", "transformers"), ("qwen3_moe", "mixture of experts")],
)
def test_other_architectures_generate_as_transformers_does(kind: str, word: str, tmp_path: Path) -> None:
    engine = load(make_model(tmp_path, kind), tmp_path / "cache", "auto")
    assert any(word in note for note in engine.info.notes)
    assert generated(engine) == generated_by_transformers(tmp_path)


@pytest.mark.parametrize(
    ("kind", "changed", "word"),
    [
        ("granite", {"residual_multiplier": 1e30}, "multipliers"),
        ("granite", {"logits_scaling": 1e300}, "multipliers"),
        ("granite", {"num_hidden_layers": None}, "wrong kind"),
        ("granite", {"max_position_embeddings": 10**400}, "max_position_embeddings"),
        ("granitemoehybrid", {"layer_types": 5}, "layer_types"),
        ("granitemoehybrid", {"layer_types": [["mamba"]]}, "layer_types"),
        ("granitemoehybrid-mamba", {"layer_types": ["mamba", "mamba"]}, "lack model.layers.1"),
        ("gpt_neox", {"hidden_act": 7}, "transformers cannot load"),
    ],
)
def test_strange_configurations_are_refused(kind: str, changed: dict[str, object], word: str, tmp_path: Path) -> None:
    path = make_model(tmp_path, kind) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changed), encoding="utf-8")
    with pytest.raises(ModelInvalidError, match=word) as refused:
        load(tmp_path, tmp_path / "cache", "auto")
    assert len(refused.value.message) < 800


def generated(engine: TreeEngine) -> list[int]:
    engine.prefill(TOKENS[:29], lambda: False)
    pending, found = [TOKENS[29]], list[int]()
    for _ in range(12):
        pending = list(engine.step(DraftTree.chain(pending)).emitted)
        found += pending
    return found


def generated_by_transformers(folder: Path) -> list[int]:
    prompt = torch.tensor([TOKENS[:30]])
    ids = transformers_model(folder).generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    found: list[int] = ids[0, 30:].tolist()
    return found


@pytest.mark.ci
@pytest.mark.model
def test_a_real_llama(llama_model: ModelFiles, weights_cache: Path) -> None:
    text = Path(str(json.decoder.__file__)).read_text(encoding="utf-8")
    ids = list(Tokenizer.load(llama_model.folder).encode(text)[:240])
    chosen = []
    for kind in ("cpu-int8", "cpu-fp32"):
        engine = load(llama_model.folder, weights_cache, kind)
        prefill(engine.backend, ids[:-120], [128])
        chosen.append(run(engine.backend, ids[-120:], list(range(-1, 119)), 120).argmax(axis=1))
        engine.close()
    assert (chosen[0] == chosen[1]).mean() >= 0.8


def test_a_start_from_the_cache_needs_no_weights(tmp_path: Path, weights_cache: Path) -> None:
    folder = make_model(tmp_path / "model", "qwen2")
    found = []
    for turn in range(3):
        engine = load(folder, weights_cache, "cpu-int8")
        engine.prefill(TOKENS[:20], lambda: False)
        found.append(run(engine.backend, [1, 2], [-1, 0], 20).tobytes())
        engine.close()
        packed = max((weights_cache / "int8").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        if turn == 0:
            (folder / "model.safetensors").rename(folder / "away")
        if turn == 1:
            (folder / "away").rename(folder / "model.safetensors")
            packed.write_bytes(packed.read_bytes()[:-100])
    assert found[0] == found[1] == found[2]


def test_damaged_models_are_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", "qwen2")
    weights, config = folder / "model.safetensors", folder / "config.json"
    whole, text = weights.read_bytes(), config.read_text(encoding="utf-8")

    def refused() -> str:
        with pytest.raises(ModelInvalidError) as caught:
            load(folder, tmp_path / "cache", "cpu-int8")
        assert caught.value.hint
        return caught.value.message

    for damaged in (whole[:5000], b"", whole[:100] + b"\xff" * 300 + whole[400:]):
        weights.write_bytes(damaged)
        refused()
    weights.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    assert "pickles" in refused()
    weights.write_bytes(whole)
    config.write_text(json.dumps(json.loads(text) | {"hidden_size": 128}), encoding="utf-8")
    refused()
    config.write_text("{", encoding="utf-8")
    refused()
    config.write_text(json.dumps(json.loads(text) | {"model_type": "unheard-of"}), encoding="utf-8")
    assert "unheard-of" in refused()
    config.unlink()
    refused()


def test_without_a_writable_cache_each_start_converts_weights(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", "qwen2")
    cache = tmp_path / "cache"
    cache.write_text("a file where the folder should be", encoding="utf-8")
    kept, unkept = load(folder, tmp_path / "good", "cpu-int8"), load(folder, cache, "cpu-int8")
    assert not kept.info.notes
    assert any("every start converts them again" in note for note in unkept.info.notes)
    for engine in (kept, unkept):
        engine.prefill([1, 2, 3], lambda: False)
    tree = DraftTree.chain((4,))
    assert kept.step(tree).emitted == unkept.step(tree).emitted
    assert cache.read_text(encoding="utf-8") == "a file where the folder should be"


def test_options_that_cannot_be(tmp_path: Path) -> None:
    for options in (
        engines.EngineOptions(kind="tpu"),  # type: ignore[arg-type]  # that is the point
        engines.EngineOptions(threads=0),
        engines.EngineOptions(context=3),
    ):
        files = ModelFiles("", tmp_path, "", "", "")
        with pytest.raises(UsageError):
            engines.load(files, options, cache=tmp_path, progress=lambda _a, _b: None)
