"""Every way of a product with rounded weights, timed on one of a model's own matrices: which would `tuning` take?"""

from collections.abc import Mapping

import torch

from fastcoder_lsp.bench.gpu.machine import Bench
from fastcoder_lsp.bench.gpu.shapes import Named
from fastcoder_lsp.engine.static.products import PRODUCTS
from fastcoder_lsp.engine.static.tuning import WIDTHS, choose_product


def measure(bench: Bench, model: Named) -> Mapping[str, Mapping[str, float]]:
    """Precision → way → milliseconds summed over `tuning.WIDTHS`; ways that fail or disagree are absent."""
    shape, found = model.shape, {}
    assert len(WIDTHS) > 1
    weight = torch.randn(shape.inner, shape.width, device=bench.device.place).to(bench.dtype)
    for precision in PRODUCTS:
        found[precision] = choose_product(weight, precision, bench.device).ms
    del weight
    bench.tidy()
    return found
