"""Compiles a pass before its model is present: machine code depends only on `forward.KernelShape` and the CPU."""

from pathlib import Path

import numpy as np

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int4.packing import round_matrix
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import GROUP
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import layout
from fastcoder_lsp.engine.int8.selftest import exact_kind

_TYPES: dict[str, type[np.generic]] = {"I8": np.int8, "I32": np.int32, "F32": np.float32, "F16": np.float16}


def compile_ahead(group: int, dim: int, bits: int, kernels: Path, kind: str = "qwen2") -> None:
    """Compile a pass into `kernels` for models of a kind with so many query heads of this size to a key/value one."""
    shape = Shape(
        kind=kind,
        layers=1,
        width=group * dim,
        heads=group,
        kv_heads=1,
        head_dim=dim,
        inner=64,
        vocabulary=64,
        eps=1e-6,
        positions=64,
        angles_H=np.ones(dim // 2),
    )
    product = exact_kind(shape, kernels, bits)
    if product is None:
        return
    if bits == 4:
        round_matrix(np.zeros((1, GROUP), np.float32))  # also compiles the conversion's kernel
    arrays = {name: aligned(sizes, _TYPES[what]) for name, (what, sizes) in layout(shape, product, "F16").items()}
    backend = Int8Backend(shape, arrays, product, capacity=64, threads=1, kernels=kernels)
    backend.warm_up(lambda _share, _what: None)
    backend.close()
