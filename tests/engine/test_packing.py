"""Packing: weights pass through in a stream, in rows that end where blocks end, and come out as all at once."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.int8 import packing
from fastcoder_lsp.engine.int8.dot import PLAIN, VNNI_512, DotKind
from fastcoder_lsp.engine.int8.packed_file import packed_in_memory
from fastcoder_lsp.engine.weights import open_weights

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


def shape_of(folder: Path) -> Shape:
    shape = fast_shape(read_config(folder))
    assert shape is not None
    return shape


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
    """One block at a time, a few, or all rows of a matrix; parts that join in the middle of a block among them."""
    monkeypatch.setattr(packing, "AT_ONCE", 1 << 40)
    whole = packed(folder, kind)
    monkeypatch.setattr(packing, "AT_ONCE", at_once)
    found = packed(folder, kind)
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_hardly_any_memory_is_taken(folder: Path) -> None:
    """A share of the largest matrix, which alone has ten million bytes."""
    shape = shape_of(folder)
    with open_weights(folder) as weights:
        tracemalloc.start()
        sizes = [piece.nbytes for _, piece in packing.pack(weights, shape, PLAIN)]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert sum(sizes) > VOCABULARY * WIDTH * 3
    assert most < 24 * packing.AT_ONCE
    assert most < VOCABULARY * WIDTH * 4
