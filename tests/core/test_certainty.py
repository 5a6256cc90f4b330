"""How sure the model was, byte by byte, whatever the tokens were."""

import pytest

from fastcoder_lsp.core.certainty import Certainty, Row


def _row(said: bytes, **likely: float) -> Row:
    return Row(said, tuple((piece.encode(), share) for piece, share in likely.items()))


def test_a_byte_inside_a_token() -> None:
    """Of the likely tokens those count that say what was said before it."""
    rows = [_row(b"a", a=1.0), Row(b'")', ((b'")', 0.3), (b'",', 0.1), (b"x", 0.6)))]
    certainty = Certainty(rows, b"")
    assert certainty.at(0) == 1.0
    assert certainty.at(1) == pytest.approx(0.4)
    assert certainty.at(2) == pytest.approx(0.75)
    assert certainty.at(3) is None


def test_a_token_that_was_not_likely() -> None:
    """A healed one, for instance: no likely one agrees with what the user typed."""
    certainty = Certainty([_row(b"word", other=1.0), _row(b"s", s=0.9, t=0.1)], b"wor")
    assert certainty.at(0) is None
    assert certainty.at(1) == pytest.approx(0.9)
    assert certainty.of_first(1) == 0.0


@pytest.mark.parametrize(
    ("rows", "healing", "longer"),
    [
        ([_row(b"orderset", orders=0.4, orderset=0.1, other=0.5)], b"orders", 0.2),
        ([_row(b"order", order=0.6, orders=0.4), _row(b"set", s=0.5, set=0.5)], b"orders", 0.3 / (0.3 + 0.4 + 0.3)),
        ([_row(b"orders", orders=1.0), _row(b"et", et=0.25, **{"(": 0.75})], b"orders", 0.25),
        ([_row(b"et", et=0.25, **{"(": 0.75})], b"", 0.25),
        ([_row(b"xl", other=1.0)], b"x", None),
        ([], b"x", None),
    ],
)
def test_whether_a_word_goes_on(rows: list[Row], healing: bytes, longer: float | None) -> None:
    """Compared with its end, over all tokens that spell what is typed of it."""
    found = Certainty(rows, healing).of_longer_word()
    assert found == (longer if longer is None else pytest.approx(longer))
