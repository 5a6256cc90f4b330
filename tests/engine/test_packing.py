"""Packing: weights pass through in a stream, in rows that end where blocks end, and come out as all at once."""

import json
import mmap
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from fastcoder_lsp.config import Settings
from fastcoder_lsp.engine.int8 import packing
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import PLAIN, VNNI_512, DotKind, in_four_bits
from fastcoder_lsp.engine.int8.memory import CAN_GIVE_BACK, LazyMemory
from fastcoder_lsp.engine.int8.packed_file import packed_in_memory
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.model.catalogue import BESIDE_BYTES, FAMILY
from fastcoder_lsp.model.inventory import engine_conversions
from tests.engine.shapes import MODELS, named
from tests.engine.tiny_models import shape_of

WIDTH, INNER, VOCABULARY = 64, 208, 40_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of one layer whose embedding is large beside all else."""
    place, random = tmp_path_factory.mktemp("model"), np.random.default_rng(3)
    sizes: dict[str, tuple[int, ...]] = {f"self_attn.{part}_proj": (WIDTH, WIDTH) for part in "qkvo"}
    sizes |= {"mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER)}
    sizes |= {"input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,)}
    shapes = {f"model.layers.0.{name}.weight": shape for name, shape in sizes.items()}
    shapes |= {"model.norm.weight": (WIDTH,), "model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    save_file(
        {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()},
        place / "model.safetensors",
    )
    config = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER, "vocab_size": VOCABULARY}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 4, "tie_word_embeddings": True}
    (place / "config.json").write_text(json.dumps(config))
    return place


def packed(folder: Path, kind: DotKind) -> dict[str, npt.NDArray[np.generic]]:
    shape = shape_of(folder)
    with open_weights(folder) as weights:
        pieces = packing.pack(weights, shape, kind)
        return packed_in_memory(packing.layout(shape, kind, "F16"), pieces, lambda _share, _what: None)


@pytest.mark.parametrize("kind", [PLAIN, VNNI_512], ids=["a vector a block", "three vectors a block"])
@pytest.mark.parametrize("at_once", [1, 5_000])
def test_the_bytes_do_not_depend_on_how_many_rows_go_together(
    folder: Path, kind: DotKind, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "AT_ONCE", 1 << 40)
    whole = packed(folder, kind)
    monkeypatch.setattr(packing, "AT_ONCE", at_once)
    found = packed(folder, kind)
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_hardly_any_memory_is_taken(folder: Path) -> None:
    shape = shape_of(folder)
    with open_weights(folder) as weights:
        tracemalloc.start()
        sizes = [piece.nbytes for _, piece in packing.pack(weights, shape, PLAIN)]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert sum(sizes) > VOCABULARY * WIDTH * 3
    assert most < 24 * packing.AT_ONCE
    assert most < VOCABULARY * WIDTH * 4


def test_what_was_packed_of_a_model_is_found_by_its_hash(folder: Path, tmp_path: Path) -> None:
    made = set[Path]()
    for digest in ("a model", "another"):
        for kind in (PLAIN, in_four_bits(PLAIN)):
            wanted = WeightsRequest(folder, shape_of(folder), kind, digest, tmp_path)
            paths = [wanted.path("F16"), wanted.path("F16").with_suffix(".lock")]
            for path in paths:
                path.parent.mkdir(exist_ok=True)
                path.touch()
            made |= set(paths) if digest == "a model" else set()
    assert set(engine_conversions("a model", tmp_path)) == made
    assert engine_conversions("", tmp_path) == []


def test_attention_stays_in_bytes(folder: Path) -> None:
    shape, kind = replace(shape_of(folder), inner=192), in_four_bits(VNNI_512)
    eight, four = (packing.layout(shape, one, "F16") for one in (VNNI_512, kind))
    for name in ("qkv", "out"):
        assert eight[f"{name}.weights"] == four[f"{name}.weights"]
    assert packing.memory_bytes(shape, kind) < packing.memory_bytes(shape, VNNI_512) * 0.7


@pytest.mark.parametrize(
    ("differ", "rows", "kept"),
    [(None, VOCABULARY, False), (0.03, VOCABULARY, False), (0.2, VOCABULARY, True), (1.0, 1, True)],
)
def test_embeddings_are_kept_apart_where_the_head_has_others(
    folder: Path, tmp_path: Path, *, differ: float | None, rows: int, kept: bool
) -> None:
    chance, shape = np.random.default_rng(1), replace(shape_of(folder), inner=192)
    tensors = {
        name: tensor[:192] if "gate" in name or "up" in name else tensor[:, :192] if "down" in name else tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    embedding_VE = tensors["model.embed_tokens.weight"]
    if differ is not None:
        noise_VE = chance.standard_normal(embedding_VE.shape).astype(np.float32)
        noise_VE[rows:] = 0
        tensors["lm_head.weight"] = embedding_VE + np.float32(differ) * noise_VE
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    kind = in_four_bits(PLAIN)
    with open_weights(tmp_path) as weights:
        assert (packing.embedding_kind(weights, shape, kind) != packing.IN_HEAD) == kept
        assert packing.embedding_kind(weights, shape, PLAIN) == "F16"
    arrays = load_arrays(WeightsRequest(tmp_path, shape, kind, "a model", tmp_path), lambda _share, _what: None)
    backend = Int8Backend(shape, arrays, kind, capacity=64, threads=1, kernels=tmp_path)
    tokens = np.array([0, 5, VOCABULARY - 1])
    off_TE = backend.embed(tokens) - embedding_VE[tokens]
    backend.close()
    assert 0 < np.square(off_TE).mean() < (1e-6 if kept else 0.02)


def test_the_largest_model_fits_beside_an_editor() -> None:
    shape, kind, settings = named(MODELS)[1].shape, in_four_bits(VNNI_512), Settings()
    kept = settings.memory_kv_mb * 1_000_000
    assert packing.memory_bytes(shape, kind) + kept + BESIDE_BYTES < 4.9e9
    assert 2 * shape.slot_numbers * settings.context_tokens < kept
    assert FAMILY[-1].memory_bytes(4) == pytest.approx(packing.memory_bytes(shape, kind) + BESIDE_BYTES, rel=0.03)


def test_it_is_zeros_of_its_shape() -> None:
    memory = LazyMemory((3, 5, 7), np.float32)
    assert memory.array.shape == (3, 5, 7)
    assert memory.array.flags.writeable
    assert memory.array.flags.c_contiguous
    assert not memory.array.any()


@pytest.mark.skipif(not CAN_GIVE_BACK, reason="this system keeps what a process was given")
def test_whole_pages_alone_are_given_back() -> None:
    page = mmap.PAGESIZE
    memory = LazyMemory((4 * page,), np.uint8)
    memory.array[:] = 1
    memory.give_back(100, 3 * page - 1)
    assert memory.array[:page].all()
    assert not memory.array[page : 2 * page].any()
    assert memory.array[2 * page :].all()
