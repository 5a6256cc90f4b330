"""Every way of a product with rounded weights, timed on one of a model's own matrices."""

from collections.abc import Mapping

import torch

from benchmarks.gpu.machine import Bench
from benchmarks.gpu.shapes import Named
from fastcoder_lsp.engine.static.products import CHECKED_ROWS, PRODUCTS, Make, agree


def measure(bench: Bench, model: Named) -> Mapping[str, Mapping[str, float]]:
    """Precision → way → milliseconds summed over `CHECKED_ROWS`; ways that fail or disagree are absent."""
    shape, found = model.shape, dict[str, dict[str, float]]()
    weight = torch.randn(shape.inner, shape.width, device=bench.device.place).to(bench.dtype)
    for precision, ways in PRODUCTS.items():
        plain, found[precision] = list(ways.values())[-1], {}
        for name, make in ways.items():
            try:
                ms = _ms(bench, make, plain, weight)
            except (RuntimeError, NotImplementedError) as why:
                bench.skip(f"{precision} products by {name}", str(why)[:200])
                continue
            found[precision][name] = ms
    del weight
    bench.tidy()
    return found


def _ms(bench: Bench, make: Make, plain: Make, weight_NE: torch.Tensor) -> float:
    """Milliseconds of one way; raises where it says something else."""
    product, right, total = make(weight_NE.clone(), None), plain(weight_NE, None), 0.0
    for rows in CHECKED_ROWS:
        x_TE = torch.randn(rows, weight_NE.shape[1], device=weight_NE.device).to(weight_NE.dtype)
        if not agree(product(x_TE), right(x_TE)):
            raise RuntimeError(f"its results differ at {rows} rows")
        total += bench.ms(bench.device.capture(lambda x_TE=x_TE: product(x_TE)))  # type: ignore[misc, arg-type]
    return total
