"""What is held back while somebody types, by what the model itself made of it."""

import pytest

from fastcoder_lsp.core.certainty import Certainty, Row
from fastcoder_lsp.postprocess import TextAround
from fastcoder_lsp.postprocess.doubt import unsure_at


@pytest.mark.parametrize(
    ("above", "held"),
    [("orders = 1\n", True), ("orders = orderset = 1\n", False), ("", False)],
    ids=["a word of the document", "both are", "neither is"],
)
def test_a_word_that_the_model_did_not_expect(above: str, held: bool) -> None:
    """It goes on with what was typed because it has to: a word of the document is not made one that is none."""
    certainty = Certainty([Row(b"orderset", ((b"total", 1.0),))], b"orders")
    assert (0 in unsure_at("et", certainty, TextAround(f"{above}return orders", "\n", "python"))) is held
