"""The first layers of a model, small enough for an emulated CPU, and what they say: logits as one number, and tokens.

    .venv/bin/python -m tests.engine.recorded FOLDER     # cut them out of the default model, where it is here

The folder is FASTCODER_TEST_MODELS; `scripts/test-arm` has it made on the machine that emulates.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from fastcoder_lsp import model
from fastcoder_lsp.config import cache_folder, kernels_folder
from fastcoder_lsp.core import EngineInfo
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.int4.rounding import MOST, Rounded, lay_out
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.packed_file import packed_in_memory
from fastcoder_lsp.engine.int8.packing import Matrix, Piece, Products, kind_of, layout, pack
from fastcoder_lsp.engine.int8.packing import lay_out as lay_out_bytes
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.engine.weights import EMBEDDING, NORM, open_weights
from fastcoder_lsp.errors import FastcoderError
from tests.engine.rows import Logits, alone, hide_in_tree, run, same_bits

LAYERS, VOCABULARY = 2, 512
CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
}
"""The default model's sizes, but for layers and vocabulary."""
SEEDED, REAL = "seeded", "real"


class FirstLayers:
    """Weights as `packing.pack` reads them: of whole numbers from a seed, which are the same on every machine."""

    def rows(self, name: str, start: int, stop: int, *shape: int) -> npt.NDArray[np.float32]:
        return self.array(name, *shape)[start:stop]

    def array(self, name: str, *shape: int) -> npt.NDArray[np.float32]:
        numbers = np.random.default_rng(crc32(name.encode())).integers(-127, 128, shape, dtype=np.int8)
        step = np.float32(2.0**-7 if len(shape) == 1 else 2.0**-11)
        return numbers.astype(np.float32) * step + np.float32("norm" in name)

    def optional_array(self, name: str, *shape: int) -> npt.NDArray[np.float32] | None:
        return self.array(name, *shape)

    def kind(self, name: str, *shape: int) -> str:
        return "F32"

    def head_name(self) -> str:
        return EMBEDDING


class RealLayers(FirstLayers):
    """The same, cut out of a real model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def array(self, name: str, *shape: int) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = np.load(self._folder / f"{name}.npy")
        assert found.shape == shape
        return found

    def optional_array(self, name: str, *shape: int) -> npt.NDArray[np.float32] | None:
        return self.array(name, *shape) if (self._folder / f"{name}.npy").exists() else None


@dataclass(frozen=True, slots=True)
class Sums:
    """`whole`: the rows of a chain and of a tree, all bits of their logits. `equal`: rows that were the same alone."""

    whole: str
    equal: int


def first_shape() -> Shape:
    shape = fast_shape(CONFIG)
    assert shape is not None
    return shape


def weights_of(name: str) -> FirstLayers | None:
    """None where the real ones are not to be had."""
    if name == SEEDED:
        return FirstLayers()
    folder = Path(os.environ.get("FASTCODER_TEST_MODELS", "")) / "first-layers"
    return RealLayers(folder) if (folder / ".ready").exists() else None


def products_in_four_bits(kind: DotKind) -> Products:
    """Four-bit weights from a seed, with every code and factor; how weights are rounded is no part of this."""

    def products(matrix: Matrix, layer: int) -> Iterator[Piece]:
        chance = np.random.default_rng(crc32(f"{matrix.name} {layer}".encode()))
        rows, groups = matrix.rows, matrix.columns // GROUP
        steps = chance.integers(-8, 8, (rows, groups, GROUP), dtype=np.int8)
        factors = chance.integers(-MOST, MOST + 1, (rows, groups), dtype=np.int8)
        sums = (steps.sum(axis=2, dtype=np.int32) * factors).sum(axis=1, dtype=np.int32)
        scales = np.full(rows, 2.0**-11, np.float32)
        its = kind_of(kind, matrix.name)
        if its.bits == 8:
            yield lay_out_bytes((steps * factors[:, :, None]).reshape(rows, -1), scales, its)
            return
        yield lay_out(Rounded(steps.reshape(rows, -1), factors, sums, scales), kind)

    return products


def backend_of(weights: FirstLayers, kind: DotKind, threads: int = 2) -> Int8Backend:
    shape = first_shape()
    products = products_in_four_bits(kind) if kind.bits == 4 else None
    places, pieces = layout(shape, kind, "F16"), pack(weights, shape, kind, products)  # type: ignore[arg-type]  # all that it asks for
    arrays = packed_in_memory(places, pieces, lambda _share, _what: None)
    return Int8Backend(shape, arrays, kind, capacity=256, threads=threads, kernels=kernels_folder())


def recorded_sums(backend: Int8Backend, rows: int) -> Sums:
    """Run `rows` rows as a chain, one by one, and hidden in a tree of as many."""
    chance = np.random.default_rng(rows)
    tokens = chance.integers(0, VOCABULARY, rows).tolist()
    chain = run(backend, tokens, range(-1, rows - 1), 0)
    single = alone(backend, tokens, 0)
    tree_tokens, parents, nodes = hide_in_tree(tokens[: rows // 2], VOCABULARY, rows, chance)
    tree = run(backend, tree_tokens, parents, 0)
    equal = int(same_bits(chain, single).sum() + same_bits(chain[: rows // 2], tree[nodes]).sum())
    return Sums(_sum_of(chain, tree), equal)


def engine_of(backend: Int8Backend) -> TreeEngine:
    """The whole engine, for texts of up to 128 tokens."""
    info = EngineInfo("first layers", "", "", "cpu", VOCABULARY, context=128, max_nodes=64)
    return TreeEngine(backend, info)


def _sum_of(*logits: Logits) -> str:
    digest = hashlib.sha256()
    for some in logits:
        assert np.isfinite(some).all()
        digest.update(np.ascontiguousarray(some).tobytes())
    return digest.hexdigest()[:32]


def cut(folder: Path, target: Path) -> None:
    """Write the first layers of the model in `folder`, and its first tokens' embeddings, to `target`."""
    shape = fast_shape(read_config(folder))
    assert shape is not None
    assert replace(first_shape(), vocabulary=shape.vocabulary, layers=shape.layers).width == shape.width
    width, q, kv = shape.width, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    target.mkdir(parents=True, exist_ok=True)
    with open_weights(folder) as weights:
        np.save(target / f"{NORM}.npy", weights.array(NORM, width))
        np.save(target / f"{EMBEDDING}.npy", weights.rows(EMBEDDING, 0, VOCABULARY, shape.vocabulary, width))
        for layer in range(LAYERS):
            stem = f"model.layers.{layer}"
            parts: dict[str, tuple[int, ...]] = {
                "input_layernorm.weight": (width,),
                "post_attention_layernorm.weight": (width,),
                "self_attn.o_proj.weight": (width, q),
                "mlp.gate_proj.weight": (shape.inner, width),
                "mlp.up_proj.weight": (shape.inner, width),
                "mlp.down_proj.weight": (width, shape.inner),
            }
            for name, size in (("q", q), ("k", kv), ("v", kv)):
                parts |= {f"self_attn.{name}_proj.weight": (size, width), f"self_attn.{name}_proj.bias": (size,)}
            for part, sizes in parts.items():
                np.save(target / f"{stem}.{part}.npy", weights.array(f"{stem}.{part}", *sizes))
            for part, sizes in (("self_attn.o_proj", (width,)), ("mlp.gate_proj", (shape.inner,))):
                assert weights.optional_array(f"{stem}.{part}.bias", *sizes) is None
    (target / ".ready").touch()


if __name__ == "__main__":
    place = Path(sys.argv[1]) / "first-layers"
    if not (place / ".ready").exists():
        try:
            cut(model.find("auto", cache_folder()).folder, place)
        except FastcoderError as error:
            sys.stderr.write(f"The default model is not here, so its layers are not tried: {error.message}\n")
