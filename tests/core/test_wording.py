"""Numbers in messages."""

import pytest

from fastcoder_lsp.core.controls import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("step",), "1 step"),
        (0, ("step",), "0 steps"),
        (1200, ("step",), "1,200 steps"),
        (1, ("index", "indexes"), "1 index"),
        (2, ("index", "indexes"), "2 indexes"),
    ],
)
def test_one_is_singular(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
