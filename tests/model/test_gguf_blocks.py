"""Every kind of block turns into the very bits that the reference turns it into."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Number

from fastcoder_lsp.model.gguf_blocks import kind_of, unfold

OWN = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
BY_LIBRARY = ["Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS"]


@pytest.mark.parametrize("name", OWN + BY_LIBRARY)
def test_random_blocks_give_the_references_bits(name: str) -> None:
    number = Number[name]
    numbers, size = gguf.GGML_QUANT_SIZES[number]
    kind = kind_of(number)
    assert kind is not None
    assert (kind.name, kind.numbers, kind.size) == (name, numbers, size)
    blocks = np.random.default_rng(number).integers(0, 256, (4096, size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(blocks, number)
    found = unfold(blocks, number)
    assert found.dtype == np.float32
    same = found.view(np.uint32) == np.ascontiguousarray(expected).reshape(found.shape).view(np.uint32)
    assert (same | (np.isnan(found) & np.isnan(expected.reshape(found.shape)))).all()
    assert np.isfinite(found).mean() > 0.9


@pytest.mark.parametrize("number", [77, 9, 24])
def test_a_kind_that_cannot_be_read_is_none(number: int) -> None:
    assert kind_of(number) is None
