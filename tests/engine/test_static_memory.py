"""Memory is reckoned before a model is loaded: what fits on which card, and what is said where it does not."""

import pytest
import torch

from benchmarks.gpu.shapes import MODELS, named
from fastcoder_lsp.engine.static import products
from fastcoder_lsp.engine.static.memory import least_bytes, require, weight_bytes
from fastcoder_lsp.engine.static.products import GROUP, Int4Product, Int8Product, round_groups, round_rows
from fastcoder_lsp.errors import ResourceError

SHAPES = {model.name: model.shape for model in named(MODELS)}


@pytest.mark.parametrize(
    ("model", "precision", "gigabytes"),
    [
        ("Qwen2.5-Coder 7B", "plain", 24),
        ("Qwen2.5-Coder 7B", "int8", 12),
        ("Qwen2.5-Coder 7B", "int4", 8),
        ("CodeLlama 13B", "int8", 16),
        ("CodeLlama 13B", "int4", 12),
    ],
)
def test_the_larger_models_fit_the_smaller_cards(model: str, precision: str, gigabytes: int) -> None:
    """With a tenth of the card left to others, weights and the least KV cache fit; on half the card they do not."""
    needed = least_bytes(SHAPES[model], precision, 2, own_head=True)
    assert gigabytes * 0.45e9 < needed < gigabytes * 0.9e9


def test_what_does_not_fit_is_said_with_what_would() -> None:
    """The message has both sizes, the hint the engines that would do; where none would, a smaller model."""
    shape = SHAPES["Qwen2.5-Coder 7B"]

    def ask(free: float, precision: str = "plain") -> ResourceError:
        with pytest.raises(ResourceError) as caught:
            require(int(free), "7B", "card", shape, precision, 2, own_head=True)
        return caught.value

    refused = ask(7.2e9)
    assert "15.3 GB" in refused.message
    assert "7.2 GB" in refused.message
    assert "cuda-int4" in refused.hint
    assert "cuda-int8" not in refused.hint
    assert "cuda-int8" in ask(10e9).hint
    assert "cuda" not in ask(4e9).hint
    assert "smaller model" in ask(4e9, "int4").hint
    require(int(16e9), "7B", "card", shape, "plain", 2, own_head=True)


def test_what_is_reckoned_is_what_the_products_hold() -> None:
    """Bytes of the packed forms are those that were promised, by the weight."""
    weight = torch.randn(64, 8 * GROUP).bfloat16()
    shape = SHAPES["Qwen2.5-Coder 7B"]
    table = shape.vocabulary * shape.width
    layers = shape.weight_count - table
    for precision, make in (("int8", Int8Product), ("int4", Int4Product)):
        each = make(weight, None).bytes / weight.numel()
        reckoned = (weight_bytes(shape, precision, 2, own_head=False) - 2 * table) / layers
        # The reference keeps int4's scales in 32 bits; what runs on a GPU has them in 16.
        assert reckoned <= each * 1.01
        assert each <= reckoned * (1.01 if precision == "int8" else 1.25)


@pytest.mark.parametrize("round_", [round_rows, round_groups])
def test_rounding_in_slices_is_rounding(round_: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are rounded at a time, codes and scales are the same, and codes take a byte."""
    weight = torch.randn(70, 2 * GROUP).bfloat16()
    assert callable(round_)
    whole = round_(weight)
    monkeypatch.setattr(products, "SLICE", 16)
    parts = round_(weight)
    assert all(torch.equal(left, right) for left, right in zip(whole, parts, strict=True))
    assert whole[0].itemsize == 1
