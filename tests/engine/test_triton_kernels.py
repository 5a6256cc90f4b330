"""The Triton kernels say what the torch ones say, run by Triton's interpreter on the CPU; skipped where it is absent.

Interpreted, a kernel's indices, masks and sums are checked; that it compiles and is quick is for a GPU to show
(`scripts/bench_gpu.py` compares the same kernels there before it times them).
"""

import importlib.util
import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np, torch
from fastcoder_lsp.core import GREEDY
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.attention import TreeAttention
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.fused import FusedKernels, int8_product
from fastcoder_lsp.engine.static.kernels import TorchKernels
from fastcoder_lsp.engine.static.products import Int8Product
from fastcoder_lsp.engine.static.step_io import StepInput
from fastcoder_lsp.engine.static.weights import Norm

def same(left, right):
    assert torch.allclose(left, right, atol=2e-5, rtol=1e-5), float((left - right).abs().max())

torch.manual_seed(0)
rng, device = np.random.default_rng(0), CpuDevice()
for kind in ("qwen2", "starcoder2"):
    shape = Shape(kind, 2, 48, 6, 2, 16, 80, 200, 1e-6, 512, 10000.0 ** (-np.arange(0, 16, 2) / 16))
    attention = TreeAttention(shape, torch.float32)
    plain = TorchKernels(shape, 256, attention, torch.float32, device.place)
    fused = FusedKernels(plain, units=8)
    norm = Norm(torch.randn(48), torch.randn(48) if kind == "starcoder2" else None)
    x, change = torch.randn(5, 48), torch.randn(5, 48)
    sums = x.clone(), x.clone()
    same(plain.norm(x, norm), fused.norm(x, norm))
    same(plain.add_norm(sums[0], change, norm), fused.add_norm(sums[1], change, norm))
    same(*sums)
    inner = torch.randn(5, 80 if kind == "starcoder2" else 160) * 4
    same(plain.activate(inner), fused.activate(inner))
    for cached, width, count in ((0, 1, 1), (0, 16, 11), (37, 16, 16), (100, 16, 5), (63, 64, 50)):
        caches = [StaticCache(shape, 256, torch.float32, device) for _ in range(2)]
        filled = torch.randn_like(caches[0].save(256))
        for cache in caches:
            cache.restore(filled, 256)
        rows = StepInput(device, 64)
        parents = [-1, *(int(rng.integers(node)) for node in range(1, count))]
        rows.write(range(count), parents, cached=cached, pending=1, room=9, sampler=GREEDY)
        view = attention.view(rows.view(width), 192)
        qkv = torch.randn(width, 10 * 16)
        same(plain.attend(1, qkv, caches[0], view), fused.attend(1, qkv, caches[1], view))
        same(caches[0].save(256), caches[1].save(256))
for width, rows, columns in ((1, 70, 300), (5, 96, 896), (33, 40, 64)):
    weight, bias, x = torch.randn(rows, columns), torch.randn(rows), torch.randn(width, columns)
    for given in (bias, None):
        product = Int8Product(weight, given)
        found = int8_product(x, product.weight_NE, product.scale_N, given, units=8)
        assert torch.allclose(product(x), found, atol=1e-3, rtol=1e-4)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_kernels_agree_with_torch() -> None:
    """Norms, rotation with storing, tree attention over several splits, activations, int8 products."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}  # must be set before Triton is imported
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("this Triton's interpreter does not know this numpy")
    assert done.returncode == 0, done.stderr[-3000:]
