"""Logits that every kind of CPU must give, to the bit: of x86 and of ARM, by whichever byte products."""

import pytest

from fastcoder_lsp.engine.int8.dot import kinds_here
from tests.engine.recorded import REAL, SEEDED, recorded_sums, weights_of

RECORDED = {
    (SEEDED, 10): "ee52cba815f1c45706c4020a72afca55",
    (SEEDED, 100): "749beb38d9be46d388a4afcb141eeb7c",
    (REAL, 10): "bd4dd87cfb8b254c65fedbced0fe739c",
    (REAL, 100): "03965c26de488de9295367b0ada0e4fd",
}
"""Of the first two layers, with so many rows in a chain and in a tree; the real ones are the default model's."""


@pytest.mark.ci
@pytest.mark.parametrize("rows", [10, 100])
@pytest.mark.parametrize("name", [SEEDED, REAL])
def test_logits_are_those_recorded(name: str, rows: int) -> None:
    """Rows alone, in chains and in trees are the same, and what x86 and ARM both gave."""
    weights = weights_of(name)
    if weights is None:
        pytest.skip("the default model's first layers are not here: scripts/test-arm cuts them out")
    kind = kinds_here()[0]
    if kind.name == "plain" and rows > 10:
        pytest.skip("a CPU without byte products takes minutes for it")
    found = recorded_sums(weights, kind, rows)
    assert found.equal == rows + rows // 2
    assert found.whole == RECORDED[name, rows]
